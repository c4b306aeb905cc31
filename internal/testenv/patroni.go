//go:build unix

package testenv

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/abidehq/abide/internal/base"
)

// PatroniCluster is two PostgreSQL servers, one the synchronous standby of the other, that Patroni
// manages, and the etcd by which it does.
type PatroniCluster struct {
	t        testing.TB
	etcd     *process
	etcdAddr string
	nodes    []*patroniNode
}

// patroniPatience is how long Patroni may take to make, replace or clone a server: it waits for 20
// seconds before it takes a primary for lost.
const patroniPatience = 2 * time.Minute

// patroniNode is a Patroni with its server.
type patroniNode struct {
	name      string
	server    *postgres // only its programs, folder and address are used
	api       string    // address of Patroni's own interface
	process   *process
	configure string // file
}

// Patroni starts the cluster, and returns when it has a primary and a synchronous standby. It ends
// with the test.
func Patroni(t testing.TB) *PatroniCluster {
	t.Helper()
	c := &PatroniCluster{t: t}
	t.Cleanup(func() {
		if err := c.close(); err != nil {
			t.Error(err)
		}
	})
	if err := c.open(); err != nil {
		t.Fatal(err)
	}
	return c
}

func (c *PatroniCluster) open() error {
	for _, program := range []string{"patroni", "etcd"} {
		if _, err := exec.LookPath(program); err != nil {
			return fmt.Errorf("%s is missing: apt-get install patroni etcd-server, or make patroni", program)
		}
	}
	if err := c.startEtcd(); err != nil {
		return err
	}
	for i := range 2 {
		n := &patroniNode{name: fmt.Sprintf("node%d", i+1), server: &postgres{}}
		c.nodes = append(c.nodes, n)
		if err := n.make(c.etcdAddr); err != nil {
			return err
		}
		if err := n.start(); err != nil {
			return err
		}
		if !waitWithin(patroniPatience, func() bool { return c.Primary() != "" }) {
			return fmt.Errorf("patroni makes no primary:\n%s", n.process.output.String())
		}
	}
	return c.awaitStandby()
}

// awaitStandby waits until one of the servers is a synchronous standby.
func (c *PatroniCluster) awaitStandby() error {
	if waitWithin(patroniPatience, func() bool { return slices.ContainsFunc(c.nodes, func(n *patroniNode) bool { return n.is("sync") }) }) {
		return nil
	}
	return fmt.Errorf("patroni makes no synchronous standby:\n%s\n%s", c.nodes[0].process.output.String(), c.nodes[1].process.output.String())
}

// startEtcd starts an etcd.
func (c *PatroniCluster) startEtcd() error {
	peer, err := freeAddr()
	if err != nil {
		return err
	}
	return onFreeAddr(func(addr string) error {
		c.etcdAddr = addr
		dir := c.t.TempDir()
		client, peers := "http://"+addr, "http://"+peer
		cmd := exec.Command("etcd", "--data-dir", dir, "--listen-client-urls", client, "--advertise-client-urls", client,
			"--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers, "--initial-cluster", "default="+peers)
		var err error
		if c.etcd, err = startProcess("etcd on "+addr, cmd, syscall.SIGKILL); err != nil {
			return err
		}
		return c.etcd.comesUp(func() bool { return httpOK("http://" + addr + "/health") })
	})
}

// make makes the configuration of a Patroni.
func (n *patroniNode) make(etcd string) error {
	if err := n.server.find(); err != nil {
		return err
	}
	var err error
	if n.server.folder, err = newFolder("patroni", n.server.owner); err != nil {
		return err
	}
	if n.server.addr, err = freeAddr(); err != nil {
		return err
	}
	if n.api, err = freeAddr(); err != nil {
		return err
	}
	n.configure = filepath.Join(n.server.folder.path, "patroni.yml")
	text := strings.NewReplacer(
		"{name}", n.name, "{api}", n.api, "{etcd}", etcd, "{addr}", n.server.addr, "{data}", n.server.data(),
		"{programs}", n.server.programs, "{folder}", n.server.folder.path, "{superuser}", superuser,
	).Replace(patroniConfig)
	return os.WriteFile(n.configure, []byte(text), 0o644)
}

// start starts Patroni, which makes its server, or a standby of it if there is another primary. Patroni ends
// the server when it is asked to end, as it is if we die.
func (n *patroniNode) start() (err error) {
	n.process, err = startProcess("patroni "+n.name, n.server.command("patroni", n.configure), syscall.SIGTERM)
	return err
}

// patroniConfig has the shortest times that Patroni allows.
const patroniConfig = `scope: abide
name: {name}
restapi: {listen: "{api}", connect_address: "{api}"}
etcd3: {host: "{etcd}"}
bootstrap:
  dcs:
    ttl: 20
    loop_wait: 1
    retry_timeout: 3
    master_start_timeout: 0
    synchronous_mode: true
    postgresql:
      parameters: {max_connections: 100, shared_buffers: 64MB, dynamic_shared_memory_type: mmap}
  initdb: [{encoding: UTF8}, {locale: C}]
postgresql:
  listen: "{addr}"
  connect_address: "{addr}"
  data_dir: {data}
  bin_dir: {programs}
  pgpass: {folder}/pgpass
  authentication: {superuser: {username: {superuser}}, replication: {username: {superuser}}}
  parameters: {unix_socket_directories: "{folder}"}
  use_pg_rewind: true
  remove_data_directory_on_rewind_failure: true
  remove_data_directory_on_diverged_timelines: true
  pg_hba: ["local all all trust", "host all,replication all 127.0.0.1/32 trust"]
`

// is reports whether Patroni says that its server has a role: primary, or sync, that of the
// synchronous standby.
func (n *patroniNode) is(role string) bool { return httpOK("http://" + n.api + "/" + role) }

// httpOK reports whether a URL answers with status 200.
func httpOK(url string) bool {
	client := http.Client{Timeout: 2 * time.Second}
	r, err := client.Get(url)
	if err != nil {
		return false
	}
	_ = r.Body.Close() // nothing of it is read
	return r.StatusCode == http.StatusOK
}

// Primary returns the address of the primary, or nothing if there is none at the moment.
func (c *PatroniCluster) Primary() string {
	for _, n := range c.nodes {
		if n.is("primary") {
			return n.server.addr
		}
	}
	return ""
}

// Addrs returns the addresses of the servers.
func (c *PatroniCluster) Addrs() (addrs []string) {
	for _, n := range c.nodes {
		addrs = append(addrs, n.server.addr)
	}
	return addrs
}

// Failover ends the primary as a crash does, and with machine also its Patroni, as that of its machine does. It
// waits until Patroni has made the standby the primary, and returns how long that took.
func (c *PatroniCluster) Failover(machine bool) time.Duration {
	c.t.Helper()
	i := slices.IndexFunc(c.nodes, func(n *patroniNode) bool { return n.is("primary") })
	if i < 0 {
		c.t.Fatal("there is no primary")
	}
	begun := base.System{}.Now()
	if machine {
		c.nodes[i].kill()
	} else {
		c.nodes[i].killServer()
	}
	if !waitWithin(patroniPatience, func() bool { return c.nodes[1-i].is("primary") }) {
		c.t.Fatalf("patroni does not promote the standby:\n%s", c.nodes[1-i].process.output.String())
	}
	return base.System{}.Now().Sub(begun)
}

// Repair starts Patroni again where it was killed, and returns when the server there is the synchronous standby.
func (c *PatroniCluster) Repair() {
	c.t.Helper()
	for _, n := range c.nodes {
		if !n.process.isGone() {
			continue
		}
		if err := n.start(); err != nil {
			c.t.Fatal(err)
		}
	}
	if err := c.awaitStandby(); err != nil {
		c.t.Fatal(err)
	}
}

// kill ends a Patroni and its server. Patroni counts as ended when its server has, which has its output.
func (n *patroniNode) kill() {
	n.process.signal(syscall.SIGKILL)
	n.killServer()
	n.process.goes()
}

// killServer ends a server with all its processes.
func (n *patroniNode) killServer() {
	text, err := os.ReadFile(filepath.Join(n.server.data(), "postmaster.pid"))
	if err != nil {
		return // it has ended
	}
	line, _, _ := strings.Cut(string(text), "\n")
	pid, err := strconv.Atoi(line)
	if err != nil {
		return
	}
	children := childrenOf(pid)
	_ = syscall.Kill(pid, syscall.SIGKILL) // one that has just ended needs no signal
	for _, child := range children {
		_ = syscall.Kill(child, syscall.SIGKILL)
	}
}

func (c *PatroniCluster) close() error {
	var errs []error
	for _, n := range c.nodes {
		if n.server.folder != nil {
			n.kill()
		}
		errs = append(errs, n.server.folder.remove())
	}
	c.etcd.signal(syscall.SIGKILL)
	c.etcd.goes()
	return errors.Join(errs...)
}
