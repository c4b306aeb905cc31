package redisstore

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/abidehq/abide/internal/testenv"
	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/store/storetest"
)

// suiteSegments is how many segments the stores of the suite have, of which there are hundreds.
const suiteSegments = 16

// clusterBackends returns a factory of stores on a cluster.
func clusterBackends(cluster *testenv.RedisCluster) storetest.Factory {
	return func(t testing.TB) *storetest.Backend {
		t.Helper()
		o := Options{Addresses: cluster.Addrs(), Prefix: newPrefix(), Segments: suiteSegments}
		t.Cleanup(func() { forgetIn(t, cluster, o.Prefix) })
		b := newBackend(t, o)
		b.Apart = func(x, y string) bool {
			return segmentIndex(x, suiteSegments) != segmentIndex(y, suiteSegments)
		}
		return b
	}
}

// forgetIn removes all that a store holds in a cluster.
func forgetIn(t testing.TB, cluster *testenv.RedisCluster, prefix string) {
	t.Helper()
	for _, node := range cluster.Nodes {
		c := newClient(t, node)
		for cursor := uint64(0); ; {
			page, err := c.Do(context.Background(), c.B().Scan().Cursor(cursor).Match("{"+prefix+"[}/]*").Count(1000).Build()).AsScanEntry()
			if err != nil {
				t.Errorf("forget: %v", err)
				break
			}
			for _, name := range page.Elements {
				_ = c.Do(context.Background(), c.B().Unlink().Key(name).Build()).Error() // a replica refuses it
			}
			if cursor = page.Cursor; cursor == 0 {
				break
			}
		}
		c.Close()
	}
}

// clusterNode is a node as another one sees it.
type clusterNode struct {
	id     string
	server *testenv.RedisServer
	master bool
	failed bool
	slots  []string // as ranges
}

// nodes returns all nodes of a cluster, as one of them sees it.
func nodes(t testing.TB, cluster *testenv.RedisCluster, asked *testenv.RedisServer) (list []clusterNode) {
	t.Helper()
	m := must(t, asked, "CLUSTER", "NODES")
	text, err := m.ToString()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(strings.TrimPrefix(text, "txt:")) { // a verbatim string says what it is
		f := strings.Fields(line)
		addr, _, _ := strings.Cut(f[1], "@")
		n := clusterNode{id: f[0], master: strings.Contains(f[2], "master"), failed: strings.Contains(f[2], "fail"), slots: f[8:]}
		for _, server := range cluster.Nodes {
			if server.Addr == addr {
				n.server = server
			}
		}
		if n.server == nil {
			t.Fatalf("node %s is not one of ours", addr)
		}
		list = append(list, n)
	}
	return list
}

func (n *clusterNode) serves(slot int) bool {
	return n.master && !n.failed && slices.ContainsFunc(n.slots, func(part string) bool {
		from, to, several := strings.Cut(part, "-")
		first, err := strconv.Atoi(from)
		last := first
		if several && err == nil {
			last, err = strconv.Atoi(to)
		}
		return err == nil && first <= slot && slot <= last
	})
}

// masterOf returns the master of a slot, as one of the nodes sees it, or nil.
func masterOf(t testing.TB, cluster *testenv.RedisCluster, asked *testenv.RedisServer, slot int) *clusterNode {
	t.Helper()
	for _, n := range nodes(t, cluster, asked) {
		if n.serves(slot) {
			return &n
		}
	}
	return nil
}

// moveSlot moves a slot to another master, as redis-cli does when an operator reshards. With
// each batch of keys that has been moved, halfway is called.
func moveSlot(t testing.TB, cluster *testenv.RedisCluster, slot int, halfway func()) {
	t.Helper()
	source := masterOf(t, cluster, cluster.Nodes[0], slot)
	var target *clusterNode
	for _, n := range nodes(t, cluster, cluster.Nodes[0]) {
		if n.master && !n.failed && n.id != source.id {
			target = &n
		}
	}
	number := strconv.Itoa(slot)
	must(t, target.server, "CLUSTER", "SETSLOT", number, "IMPORTING", source.id)
	must(t, source.server, "CLUSTER", "SETSLOT", number, "MIGRATING", target.id)
	host, port, err := net.SplitHostPort(target.server.Addr)
	if err != nil {
		t.Fatal(err)
	}
	for moved := 0; ; {
		m := must(t, source.server, "CLUSTER", "GETKEYSINSLOT", number, "20")
		keys, err := m.AsStrSlice()
		if err != nil {
			t.Fatal(err)
		}
		if len(keys) == 0 {
			t.Logf("slot %d with %d keys moved", slot, moved)
			break
		}
		moved += len(keys)
		must(t, source.server, append([]string{"MIGRATE", host, port, "", "0", "10000", "KEYS"}, keys...)...)
		halfway()
	}
	for _, n := range append([]clusterNode{*target, *source}, nodes(t, cluster, cluster.Nodes[0])...) {
		if n.master && !n.failed {
			must(t, n.server, "CLUSTER", "SETSLOT", number, "NODE", target.id)
		}
	}
}

// clusterStore opens a store on a cluster.
func clusterStore(t *testing.T, cluster *testenv.RedisCluster, o Options) *Store {
	t.Helper()
	o.Addresses = cluster.Addrs()
	return open(t, o)
}

// tenantIn returns a tenant of a segment.
func tenantIn(seg, segments int) string {
	for i := 0; ; i++ {
		if tenant := fmt.Sprintf("tenant-%d", i); segmentIndex(tenant, segments) == seg {
			return tenant
		}
	}
}

// messageOf returns a message of a tenant.
func messageOf(tenant, name string) store.Message {
	m := message("turns", name, "a")
	m.Key.Tenant = tenant
	return m
}

// slotOfKey asks a server for the slot of a key.
func slotOfKey(t testing.TB, server *testenv.RedisServer, key string) int {
	t.Helper()
	m := must(t, server, "CLUSTER", "KEYSLOT", key)
	n, err := m.AsInt64()
	if err != nil {
		t.Fatal(err)
	}
	return int(n)
}
