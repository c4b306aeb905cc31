//go:build unix

package testenv

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/abidehq/abide/internal/base"
)

// RedisCluster is a Redis Cluster for tests: three masters with equal parts of the slots, and a
// replica of each. All of them sync every write.
type RedisCluster struct {
	// Nodes are the masters, and then their replicas in the same order, as they were in the
	// beginning.
	Nodes []*RedisServer
}

const (
	clusterMasters = 3
	clusterNodes   = 2 * clusterMasters
	clusterSlots   = 16384

	// PatientNodeTimeout is after how long a node of a cluster is taken for dead if no test waits
	// for that: longer than a node hangs on a machine that is busy.
	PatientNodeTimeout = 20 * time.Second
)

// NewRedisCluster starts a cluster in which a node that does not answer for so long is taken for
// dead, and stops it at the end of the test.
func NewRedisCluster(t testing.TB, nodeTimeout time.Duration) *RedisCluster {
	t.Helper()
	c := &redisCluster{nodeTimeout: nodeTimeout}
	t.Cleanup(func() {
		if err := c.kill(); err != nil {
			t.Error(err)
		}
	})
	if err := c.open(t.TempDir()); err != nil {
		t.Fatal(err)
	}
	return c.of(t, false)
}

// SharedRedisCluster returns the cluster that all tests of the process share: see [SharedRedis].
func SharedRedisCluster(t testing.TB) *RedisCluster {
	t.Helper()
	c, err := sharedRedisCluster.get()
	if err != nil {
		t.Fatal(err)
	}
	return c.of(t, true)
}

// Addrs returns the addresses of all nodes.
func (c *RedisCluster) Addrs() (addrs []string) {
	for _, node := range c.Nodes {
		addrs = append(addrs, node.Addr)
	}
	return addrs
}

// redisCluster is a cluster that several tests may share.
type redisCluster struct {
	nodes       []*redis
	nodeTimeout time.Duration
}

func (c *redisCluster) of(t testing.TB, shared bool) *RedisCluster {
	cluster := &RedisCluster{}
	for _, r := range c.nodes {
		cluster.Nodes = append(cluster.Nodes, &RedisServer{Addr: r.addr, t: t, shared: shared, redis: r})
	}
	return cluster
}

// open starts the nodes and makes a cluster of them.
func (c *redisCluster) open(dir string) error {
	errs := make([]error, clusterNodes)
	var starts sync.WaitGroup
	for i := range clusterNodes {
		r := &redis{dir: filepath.Join(dir, strconv.Itoa(i))}
		c.nodes = append(c.nodes, r)
		starts.Go(func() { errs[i] = c.openNode(r) })
	}
	starts.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	for _, step := range []func() error{c.assignSlots, c.meet, c.replicate} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// openNode starts a node for the first time. Its second port is for the other nodes.
func (c *redisCluster) openNode(r *redis) error {
	if err := os.Mkdir(r.dir, 0o700); err != nil {
		return err
	}
	return onFreeAddr(func(bus string) error {
		_, port, err := net.SplitHostPort(bus)
		if err != nil {
			return err
		}
		r.settings = []string{
			"--cluster-enabled", "yes", "--cluster-port", port,
			"--cluster-node-timeout", strconv.FormatInt(c.nodeTimeout.Milliseconds(), 10),
			"--cluster-require-full-coverage", "no",
			"--cluster-replica-validity-factor", "0", // a replica of a busy machine may take over too
			"--cluster-allow-replica-migration", "no",
			"--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1",
		}
		return r.open()
	})
}

func (c *redisCluster) assignSlots() error {
	for i, r := range c.nodes {
		if _, err := r.command("CLUSTER", "SET-CONFIG-EPOCH", strconv.Itoa(i+1)); err != nil {
			return err
		}
		if i >= clusterMasters {
			continue
		}
		from, to := i*clusterSlots/clusterMasters, (i+1)*clusterSlots/clusterMasters-1
		if _, err := r.command("CLUSTER", "ADDSLOTSRANGE", strconv.Itoa(from), strconv.Itoa(to)); err != nil {
			return err
		}
	}
	return nil
}

// meet makes the nodes known to each other.
func (c *redisCluster) meet() error {
	for _, r := range c.nodes[1:] {
		host, port, err := net.SplitHostPort(r.addr)
		if err != nil {
			return err
		}
		if _, err := c.nodes[0].command("CLUSTER", "MEET", host, port, r.settings[3]); err != nil {
			return err
		}
	}
	return c.allSay("CLUSTER INFO", "cluster_state:ok", "cluster_slots_ok:16384", fmt.Sprintf("cluster_known_nodes:%d", clusterNodes))
}

// replicate gives each master its replica.
func (c *redisCluster) replicate() error {
	for i, r := range c.nodes[clusterMasters:] {
		id, err := c.nodes[i].command("CLUSTER", "MYID")
		if err != nil {
			return err
		}
		if _, err := r.command("CLUSTER", "REPLICATE", id); err != nil {
			return err
		}
	}
	for i, r := range c.nodes {
		want := "master_link_status:up"
		if i < clusterMasters {
			want = "connected_slaves:1"
		}
		if err := r.says("INFO replication", want); err != nil {
			return err
		}
	}
	for _, r := range c.nodes {
		if !waitFor(func() bool {
			nodes, err := r.command("CLUSTER", "NODES")
			return err == nil && strings.Count(nodes, "slave ") == clusterNodes-clusterMasters
		}) {
			return fmt.Errorf("redis-server on %s does not know which nodes are replicas", r.addr)
		}
	}
	return c.allSay("CLUSTER INFO", "cluster_state:ok", fmt.Sprintf("cluster_size:%d", clusterMasters))
}

// allSay waits until the answers of all nodes to a command contain texts.
func (c *redisCluster) allSay(command string, texts ...string) error {
	for _, r := range c.nodes {
		for _, text := range texts {
			if err := r.says(command, text); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *redisCluster) kill() error {
	var errs []error
	for _, r := range c.nodes {
		errs = append(errs, r.kill())
	}
	return errors.Join(errs...)
}

// says waits until the answer to a command contains a text.
func (r *redis) says(command, text string) error {
	answer := ""
	if !waitFor(func() bool {
		var err error
		answer, err = r.command(strings.Fields(command)...)
		return err == nil && strings.Contains(answer, text)
	}) {
		return fmt.Errorf("redis-server on %s: %s does not say %s:\n%s", r.addr, command, text, answer)
	}
	return nil
}

// command sends a command whose answer is one text, and returns that.
func (r *redis) command(words ...string) (string, error) {
	conn, err := net.DialTimeout("tcp", r.addr, time.Second)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if err := conn.SetDeadline(base.System{}.Now().Add(patience)); err != nil {
		return "", err
	}
	if _, err := fmt.Fprintf(conn, "*%d\r\n", len(words)); err != nil {
		return "", err
	}
	for _, word := range words {
		if _, err := fmt.Fprintf(conn, "$%d\r\n%s\r\n", len(word), word); err != nil {
			return "", err
		}
	}
	in := bufio.NewReader(conn)
	line, err := in.ReadString('\n')
	line = strings.TrimSpace(line)
	switch {
	case err != nil:
		return "", err
	case strings.HasPrefix(line, "-"):
		return "", fmt.Errorf("redis-server on %s: %s: %s", r.addr, strings.Join(words, " "), line[1:])
	case !strings.HasPrefix(line, "$"):
		return line[1:], nil
	}
	n, err := strconv.Atoi(line[1:])
	if err != nil || n < 0 {
		return "", err
	}
	text := make([]byte, n)
	_, err = io.ReadFull(in, text)
	return string(text), err
}
