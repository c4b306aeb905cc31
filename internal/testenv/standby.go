//go:build unix

package testenv

import (
	"fmt"
	"net"
	"path/filepath"
	"testing"
)

// PostgresPair is a primary with a synchronous standby: the primary acknowledges a commit when the
// standby has it on disk, and not before.
type PostgresPair struct {
	Primary, Standby *PostgresServer

	// Replication is the network between the two.
	Replication *Relay
}

// standbyName is what the standby is called in the settings of the primary.
const standbyName = "standby"

// NewPostgresPair starts both on free ports of 127.0.0.1, waits until the standby streams, and
// stops them at the end of the test.
func NewPostgresPair(t testing.TB) *PostgresPair {
	t.Helper()
	primary, standby := &postgres{settings: []string{"synchronous_standby_names=" + standbyName, "wal_keep_size=1GB"}}, &postgres{}
	for _, p := range []*postgres{primary, standby} {
		t.Cleanup(func() {
			if err := p.close(); err != nil {
				t.Error(err)
			}
		})
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(primary.make())
	must(standby.copyOf(primary))
	must(primary.startFirst())
	pair := &PostgresPair{Replication: Proxy(t, primary.addr)}
	host, port, err := net.SplitHostPort(pair.Replication.Addr())
	must(err)
	standby.settings = []string{fmt.Sprintf("primary_conninfo=host=%s port=%s user=%s application_name=%s", host, port, superuser, standbyName)}
	must(standby.startFirst())
	if !waitFor(func() bool {
		n, err := primary.query("SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync' AND state = 'streaming'")
		return err == nil && n == "1"
	}) {
		t.Fatalf("the standby does not stream:\n%s", standby.process.output.String())
	}
	pair.Primary = &PostgresServer{Addr: primary.addr, t: t, postgres: primary}
	pair.Standby = &PostgresServer{Addr: standby.addr, t: t, postgres: standby}
	return pair
}

// copyOf makes the server's data a copy of that of another one, which has not been started yet, as
// its standby.
func (p *postgres) copyOf(primary *postgres) error {
	p.programs, p.owner = primary.programs, primary.owner
	var err error
	if p.folder, err = newFolder("postgres", p.owner); err != nil {
		return err
	}
	if _, err := run(p.command("cp", "-R", "-p", primary.data(), p.data())); err != nil {
		return err
	}
	_, err = run(p.command("touch", filepath.Join(p.data(), "standby.signal")))
	return err
}

// Promote makes a standby a primary, and returns when it takes writes.
func (p *PostgresServer) Promote() {
	p.t.Helper()
	p.do("promote", func() error {
		_, err := p.postgres.query("SELECT pg_promote(true, 60)")
		return err
	})
}

// HostsURL returns a URL that names several servers, of a database that all of them have. Each is
// an address: that of a server, or of a [Proxy] before it.
func HostsURL(database string, addrs ...string) string {
	hosts, ports := "", ""
	for i, addr := range addrs {
		host, port, err := net.SplitHostPort(addr)
		if err != nil {
			panic(err) // they are addresses of servers
		}
		if i > 0 {
			hosts, ports = hosts+",", ports+","
		}
		hosts, ports = hosts+host, ports+port
	}
	return fmt.Sprintf("postgres:///%s?sslmode=disable&user=%s&host=%s&port=%s", database, superuser, hosts, ports)
}
