package redisstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/abidehq/abide/internal/testenv"
	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/store/storetest"
)

// TestClusterContract runs the suite that every backend passes on a cluster.
func TestClusterContract(t *testing.T) {
	t.Parallel()
	storetest.Run(t, clusterBackends(testenv.SharedRedisCluster(t)))
}

// TestClusterModel compares a store on a cluster with the model.
func TestClusterModel(t *testing.T) {
	t.Parallel()
	storetest.RunModel(t, clusterBackends(testenv.SharedRedisCluster(t)))
}

func TestClusterKilledProcesses(t *testing.T) {
	t.Parallel()
	storetest.RunKilled(t, func() string {
		return "redis://" + strings.Join(testenv.SharedRedisCluster(t).Addrs(), ",") + "?replicas=1&prefix=" + newPrefix()
	}, store.Open)
}

// rounds is how often a cluster is disturbed.
func rounds() int {
	if testenv.Long() {
		return 20
	}
	return 2
}

// TestAMasterOfAClusterIsKilledUnderLoad: its replica takes over by Redis's own means, and
// nothing that was acknowledged is lost.
func TestAMasterOfAClusterIsKilledUnderLoad(t *testing.T) {
	t.Parallel()
	cluster := testenv.NewRedisCluster(t, 2*time.Second)
	s := clusterStore(t, cluster, Options{Replicas: 1, waitReplicas: time.Second, poll: 100 * time.Millisecond})
	l, tr := startLedger(s, 24, true), startTraffic(s, 6, 2)
	for round := range rounds() {
		l.goesOn(t, 20)
		slot := round % 3 * clusterSlots / 3
		var master *clusterNode
		eventually(t, "the slot has a master", func() bool {
			master = masterOf(t, cluster, cluster.Nodes[0], slot)
			return master != nil
		})
		asked := cluster.Nodes[0]
		if master.server == asked {
			asked = cluster.Nodes[1]
		}
		master.server.Kill()
		eventually(t, "a replica takes over", func() bool {
			promoted := masterOf(t, cluster, asked, slot)
			return promoted != nil && promoted.id != master.id
		})
		master.server.Start()
		l.goesOn(t, 20)
		followed(t, cluster)
	}
	tr.settle(t)
	l.end(t, s)
}

// followed waits until each node of a cluster is a master with a replica, or a replica that
// follows.
func followed(t testing.TB, cluster *testenv.RedisCluster) {
	t.Helper()
	eventually(t, "all replicas follow", func() bool {
		for _, node := range cluster.Nodes {
			m := must(t, node, "INFO", "replication")
			text, err := m.ToString()
			if err != nil || !strings.Contains(text, "master_link_status:up") && !strings.Contains(text, "state=online") {
				return false
			}
		}
		return true
	})
}

// TestSlotsOfAClusterAreMoved moves slots as an operator does who reshards.
func TestSlotsOfAClusterAreMoved(t *testing.T) {
	t.Parallel()
	cluster := testenv.NewRedisCluster(t, testenv.PatientNodeTimeout)
	t.Run("no script runs on part of a slot", func(t *testing.T) { testNoScriptRunsOnPartOfASlot(t, cluster) })
	t.Run("under load", func(t *testing.T) { testSlotsAreMovedUnderLoad(t, cluster) })
}

// testSlotsAreMovedUnderLoad: commits to the slot wait until it has been moved, and
// nothing that was acknowledged is lost or done in part.
func testSlotsAreMovedUnderLoad(t *testing.T, cluster *testenv.RedisCluster) {
	t.Helper()
	s := clusterStore(t, cluster, Options{Replicas: 1, poll: 100 * time.Millisecond})
	l, tr := startLedger(s, 24, true), startTraffic(s, 6, 2)
	for round := range rounds() {
		l.goesOn(t, 10)
		seg := s.segmentOf(l.tenant(fmt.Sprintf("account-%d", round%24)))
		moveSlot(t, cluster, slotOf(strings.Trim(seg.prefix, "{}")), func() {
			if seg.index == s.segmentOf(l.tenant("account-0")).index {
				return
			}
			before := l.of("account-0")
			eventually(t, "other tenants go on while a slot is moved", func() bool { return l.of("account-0") > before })
		})
	}
	l.goesOn(t, 10)
	tr.settle(t)
	l.end(t, s)
	if l.lost > 0 {
		t.Errorf("%d commits have failed, the latest with: %v", l.lost, l.last)
	}
}

// of returns how many commits of an account were acknowledged.
func (l *ledger) of(name string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.acked[name]
}

// testNoScriptRunsOnPartOfASlot: while the keys of a slot are partly here and partly there, a
// script would take keys that are elsewhere for keys that do not exist.
func testNoScriptRunsOnPartOfASlot(t *testing.T, cluster *testenv.RedisCluster) {
	t.Helper()
	s := clusterStore(t, cluster, Options{poll: never})
	seg := s.segments[7]
	tenant := tenantIn(7, len(s.segments))
	for i := range 50 {
		put(t, s, messageOf(tenant, fmt.Sprintf("order-%d", i)))
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	commits := make(chan error, 1)
	begun := false
	moveSlot(t, cluster, slotOf(strings.Trim(seg.prefix, "{}")), func() {
		if !begun {
			begun = true
			go func() { commits <- s.Commit(ctx, &store.Tx{Put: []store.Message{messageOf(tenant, "order-50")}}) }()
		}
		select {
		case err := <-commits:
			t.Errorf("a commit to a slot that is being moved returned: %v", err)
		default:
		}
	})
	if err := <-commits; err != nil {
		t.Errorf("a commit that waited until the slot was moved: %v", err)
	}
	req := request("turns", 0)
	req.Max = 100
	if claims := claim(t, s, req); len(claims) != 51 {
		t.Errorf("claimed %d keys, want 51", len(claims))
	}
	verifies(t, s)
}

// TestTenantsOfOtherMastersGoOnWithoutOne: a master that is gone, with its replica, does not
// keep the tenants of others from being served.
func TestTenantsOfOtherMastersGoOnWithoutOne(t *testing.T) {
	t.Parallel()
	cluster := testenv.NewRedisCluster(t, testenv.PatientNodeTimeout)
	s := clusterStore(t, cluster, Options{poll: 50 * time.Millisecond})
	result := waitsFor(t, s, request("turns", time.Hour))
	cluster.Nodes[2].Kill() // the last third of the slots
	cluster.Nodes[5].Kill()
	tenant := tenantIn(5, len(s.segments))
	eventually(t, "commits of another master succeed", func() bool {
		return s.Commit(context.Background(), &store.Tx{Put: []store.Message{messageOf(tenant, "order-1")}}) == nil
	})
	if claims := result(); len(claims) != 1 || claims[0].Key.Tenant != tenant {
		t.Errorf("claimed %v, want the key of %s", claims, tenant)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := s.Count(ctx, store.Query{Kind: "balance"}, 10); err == nil {
		t.Error("records of all tenants are counted, although some cannot be reached")
	}
	mine, other := tenantIn(5, len(s.segments)), tenantIn(20, len(s.segments))
	if _, err := s.Count(t.Context(), store.Query{Kind: "balance", Tenant: &mine}, 10); err != nil {
		t.Errorf("count of a tenant that can be reached: %v", err)
	}
	if _, err := s.Count(ctx, store.Query{Kind: "balance", Tenant: &other}, 10); err == nil {
		t.Error("records of a tenant that cannot be reached are counted")
	}
}

// TestClaimsTakeFromSegmentsInTurn: however much one segment has, the next claims have something
// of the others.
func TestClaimsTakeFromSegmentsInTurn(t *testing.T) {
	t.Parallel()
	s := clusterStore(t, testenv.SharedRedisCluster(t), Options{poll: never})
	for _, seg := range []int{3, 10, 20} {
		var messages []store.Message
		for i := range 50 {
			messages = append(messages, messageOf(tenantIn(seg, len(s.segments)), fmt.Sprintf("order-%d", i)))
		}
		put(t, s, messages...)
	}
	req := request("turns", 0)
	req.Max = 1
	seen := map[int]int{}
	for range 9 {
		for _, c := range claim(t, s, req) {
			seen[s.segmentOf(c.Key.Tenant).index]++
		}
	}
	if len(seen) != 3 || seen[3] != 3 || seen[10] != 3 || seen[20] != 3 {
		t.Errorf("nine claims took from segments as follows: %v", seen)
	}
	req.Max = 1000
	if claims := claim(t, s, req); len(claims) != 141 {
		t.Errorf("claimed %d keys, want the other 141", len(claims))
	}
}

// TestHintsOfOtherProcessesNameTheSegment: a waiting call is woken by a commit of another process,
// whichever master has the tenant.
func TestHintsOfOtherProcessesNameTheSegment(t *testing.T) {
	t.Parallel()
	cluster := testenv.SharedRedisCluster(t)
	o := Options{Prefix: newPrefix(), poll: never}
	s, other := clusterStore(t, cluster, o), clusterStore(t, cluster, o)
	for _, seg := range []int{0, 7, 15, 23} {
		result := waitsFor(t, s, request("turns", time.Hour))
		eventually(t, "hints are heard", s.listening.Load)
		tenant := tenantIn(seg, len(s.segments))
		put(t, other, messageOf(tenant, "order-1"))
		if claims := result(); len(claims) != 1 || claims[0].Key.Tenant != tenant {
			t.Errorf("claimed %v, want the key of %s", claims, tenant)
		}
	}
	record := store.RecordKey{Kind: "balance", Tenant: tenantIn(18, len(s.segments)), ID: "r"}
	changed := make(chan error, 1)
	go func() {
		_, err := s.Await(context.Background(), record, 0)
		changed <- err
	}()
	eventually(t, "the call waits", func() bool { return len(s.awaited()) == 1 })
	if err := other.Commit(t.Context(), &store.Tx{PutRecords: []store.PutRecord{{Record: store.Record{Key: record}}}}); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-changed:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(limit):
		t.Error("a call that waits for a record is not told by another process")
	}
}

// TestAClaimAsksOnlySegmentsThatMayHaveSomething: what is known of the segments spares a call that waits all scripts.
func TestAClaimAsksOnlySegmentsThatMayHaveSomething(t *testing.T) {
	t.Parallel()
	server := testenv.Redis(t)
	s := open(t, Options{Addresses: []string{server.Addr}, Segments: 64, poll: never})
	result := waitsFor(t, s, request("turns", time.Hour)) // it stays in the end
	eventually(t, "hints are heard, and all segments were asked", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, o := range s.outlooks.byName {
			if slices.ContainsFunc(o.prospects, func(p prospect) bool { return !p.known }) {
				return false
			}
		}
		return s.listening.Load()
	})
	for i, tenant := range []string{"acme", "beta", "gamma"} {
		before := calls(t, server, "evalsha")
		put(t, s, messageOf(tenant, "order-1"))
		if claims := result(); len(claims) != 1 {
			t.Fatalf("claimed %d keys, want one", len(claims))
		}
		result = waitsFor(t, s, request("turns", time.Hour))
		if n := calls(t, server, "evalsha") - before; i > 0 && n != 1 { // the server has to learn the script first
			t.Errorf("a commit and two claims, of which one waits, took %d scripts, want one", n)
		}
	}
}

// TestOpenRefusesAnotherNumberOfSegments: the header of a store says how many it has.
func TestOpenRefusesAnotherNumberOfSegments(t *testing.T) {
	t.Parallel()
	server := testenv.SharedRedis(t)
	for _, c := range []struct {
		created, opened, want int // with how many; what it has, or 0 if it is refused
	}{
		{0, 0, 1}, {0, 1, 1}, {0, 4, 0}, {1, 4, 0}, {4, 0, 4}, {4, 4, 4}, {4, 1, 0}, {4, 5, 0},
	} {
		o := Options{Addresses: []string{server.Addr}, Prefix: newPrefix(), Segments: c.created}
		open(t, o)
		o.Segments = c.opened
		s, err := Open(t.Context(), o)
		switch {
		case c.want == 0 && !errors.Is(err, store.ErrInvalid):
			t.Errorf("created with %d and opened with %d segments: got %v, want ErrInvalid", c.created, c.opened, err)
		case c.want > 0 && err != nil:
			t.Errorf("created with %d and opened with %d segments: %v", c.created, c.opened, err)
		case c.want > 0 && len(s.segments) != c.want:
			t.Errorf("created with %d and opened with %d segments: it has %d", c.created, c.opened, len(s.segments))
		}
		if err == nil {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestAStoreInOneSlotOfAClusterStaysThere: a store that was created before there were segments
// keeps its layout, and programs that do not know of segments refuse one that has several.
func TestAStoreInOneSlotOfAClusterStaysThere(t *testing.T) {
	t.Parallel()
	cluster := testenv.SharedRedisCluster(t)
	one, many := newPrefix(), newPrefix()
	clusterStore(t, cluster, Options{Prefix: one, Segments: 1})
	if s := clusterStore(t, cluster, Options{Prefix: one}); len(s.segments) != 1 || s.format() != formatVersion {
		t.Errorf("it has %d segments and format %s", len(s.segments), s.format())
	}
	if s := clusterStore(t, cluster, Options{Prefix: many}); len(s.segments) != DefaultSegments || s.format() == formatVersion {
		t.Errorf("a new one has %d segments and format %s", len(s.segments), s.format())
	}
}

// TestACommitThatTooFewReplicasOfItsMasterHaveIsNotAcknowledged: in a cluster, WAIT asks the
// master that has run the script.
func TestACommitThatTooFewReplicasOfItsMasterHaveIsNotAcknowledged(t *testing.T) {
	t.Parallel()
	s := clusterStore(t, testenv.SharedRedisCluster(t), Options{Replicas: 2, waitReplicas: 50 * time.Millisecond})
	for _, seg := range []int{1, 10, 22} {
		r := putRecord("r")
		r.Record.Key.Tenant = tenantIn(seg, len(s.segments))
		err := s.Commit(t.Context(), &store.Tx{PutRecords: []store.PutRecord{r}})
		if err == nil || matchesSentinel(err) || !strings.Contains(err.Error(), "1 of 2 replicas") {
			t.Errorf("segment %d: got %v", seg, err)
		}
		if _, err := s.Get(t.Context(), r.Record.Key); err != nil {
			t.Errorf("segment %d: it is done all the same: %v", seg, err)
		}
	}
}

// TestAHintThatIsLostCostsAPollInEachSegment: a process that is not on the list of those that
// have the store open is not told, and finds it all the same.
func TestAHintThatIsLostCostsAPollInEachSegment(t *testing.T) {
	t.Parallel()
	server := testenv.SharedRedis(t)
	o := Options{Addresses: []string{server.Addr}, Prefix: newPrefix(), Segments: 8, poll: 50 * time.Millisecond}
	s := open(t, o)
	other := open(t, o)
	for _, seg := range []int{0, 3, 7} {
		result := waitsFor(t, s, request("turns", time.Hour))
		eventually(t, "hints are heard", s.listening.Load)
		must(t, server, "ZREM", s.segments[seg].prefix+"p", s.openID)
		put(t, other, messageOf(tenantIn(seg, 8), "order-1"))
		if claims := result(); len(claims) != 1 {
			t.Errorf("segment %d: claimed %d keys, want one", seg, len(claims))
		}
	}
}

// TestEachSegmentHasAHeader: whatever part of a store is left, it says what it is part of.
func TestEachSegmentHasAHeader(t *testing.T) {
	t.Parallel()
	server := testenv.SharedRedis(t)
	s := open(t, Options{Addresses: []string{server.Addr}, Segments: 4})
	for _, seg := range s.segments {
		m := must(t, server, "HMGET", seg.prefix+"meta", "format", "segments")
		header, err := m.AsStrSlice()
		if err != nil || !slices.Equal(header, []string{segmentedVersion, "4"}) {
			t.Errorf("segment %d has the header %q, error %v", seg.index, header, err)
		}
	}
	must(t, server, "HSET", s.prefix+"meta", "format", "9")
	if _, err := Open(t.Context(), Options{Addresses: []string{server.Addr}, Prefix: s.options.Prefix}); !errors.Is(err, store.ErrFormat) {
		t.Errorf("a store of a later format: got %v, want ErrFormat", err)
	}
}

// TestVerifyFindsKeysAndRecordsInTheWrongSegment: nothing would ever find them there.
func TestVerifyFindsKeysAndRecordsInTheWrongSegment(t *testing.T) {
	t.Parallel()
	server := testenv.SharedRedis(t)
	s := open(t, Options{Addresses: []string{server.Addr}, Segments: 4})
	tenant := tenantIn(1, 4)
	r := putRecord("r")
	r.Record.Key.Tenant = tenant
	m := messageOf(tenant, "order-1")
	if err := s.Commit(t.Context(), &store.Tx{Put: []store.Message{m}, PutRecords: []store.PutRecord{r}}); err != nil {
		t.Fatal(err)
	}
	verifies(t, s)
	for _, name := range []string{"k" + keyID(m.Key), "r" + recordID(r.Record.Key)} {
		must(t, server, "COPY", s.segments[1].prefix+name, s.segments[2].prefix+name)
		found := false
		err := s.Verify(t.Context(), func(problem string) {
			found = found || strings.Contains(problem, "segment 2, which is not that of its tenant")
		})
		if err != nil || !found {
			t.Errorf("%q in the wrong segment is not found, error %v", name, err)
		}
		must(t, server, "DEL", s.segments[2].prefix+name)
	}
}
