//go:build unix

package testenv

import (
	"fmt"
	"net/url"
	"syscall"
	"testing"
)

// PostgresServer is a PostgreSQL server for tests, which is as durable as one that people
// trust, and keeps its data as long as it is there.
type PostgresServer struct {
	// Addr is where it listens, also after it was started again.
	Addr string

	t        testing.TB
	shared   bool
	postgres *postgres
}

// Postgres starts a server on a free port of 127.0.0.1, and stops it at the end of the
// test. A machine without PostgreSQL fails the test: a suite that is left out quietly
// proves nothing.
func Postgres(t testing.TB) *PostgresServer {
	t.Helper()
	p := &postgres{}
	t.Cleanup(func() {
		if err := p.close(); err != nil {
			t.Error(err)
		}
	})
	if err := p.open(); err != nil {
		t.Fatal(err)
	}
	return &PostgresServer{Addr: p.addr, t: t, postgres: p}
}

// SharedPostgres returns the server that all tests of the process share: the first that
// asks starts it, and [Main] ends it. It is nobody's to stop; a test makes itself a
// database there, see [PostgresServer.Database].
func SharedPostgres(t testing.TB) *PostgresServer {
	t.Helper()
	p, err := sharedPostgres.get()
	if err != nil {
		t.Fatal(err)
	}
	return &PostgresServer{Addr: p.addr, t: t, shared: true, postgres: p}
}

// URL returns the URL of the server's first database, which is empty at the start.
func (p *PostgresServer) URL() string { return p.postgres.url("postgres") }

// Database makes an empty database, and returns its URL. It is dropped at the end of the
// test if the server outlives that.
func (p *PostgresServer) Database(t testing.TB) string {
	t.Helper()
	name := fmt.Sprintf("test_%d", p.postgres.databases.Add(1))
	if _, err := p.postgres.query(`CREATE DATABASE ` + name); err != nil {
		t.Fatal(err)
	}
	if p.shared {
		t.Cleanup(func() {
			if _, err := p.postgres.query(`DROP DATABASE ` + name + ` WITH (FORCE)`); err != nil {
				t.Error(err)
			}
		})
	}
	return p.postgres.url(name)
}

// Through returns a URL of the server with another address in it, such as that of a
// [Proxy] before it.
func (p *PostgresServer) Through(t testing.TB, serverURL, addr string) string {
	t.Helper()
	u, err := url.Parse(serverURL)
	if err != nil || u.Host != p.Addr {
		t.Fatalf("%s is not a URL of the server on %s: %v", serverURL, p.Addr, err)
	}
	u.Host = addr
	return u.String()
}

// Start starts the server again, with the data that it had, and returns when it
// answers.
func (p *PostgresServer) Start() {
	p.t.Helper()
	p.do("start", p.postgres.start)
}

// Stop ends the server as an operator does who waits for nobody: what is under way is
// rolled back, and the rest is written. It returns when the server is gone.
func (p *PostgresServer) Stop() {
	p.t.Helper()
	p.do("stop", func() error { return p.postgres.end(syscall.SIGINT) })
}

// Kill ends the server as a crash does: nothing is written any more, and what was
// committed is recovered from the log at the next start. It returns when the server is
// gone.
func (p *PostgresServer) Kill() {
	p.t.Helper()
	p.do("kill", func() error { return p.postgres.end(syscall.SIGQUIT) })
}

// Hang makes the server stand still, with its connections open, until resume is
// called.
func (p *PostgresServer) Hang() (resume func()) {
	p.t.Helper()
	p.do("hang", func() error {
		p.postgres.hang()
		return nil
	})
	return p.postgres.resume
}

func (p *PostgresServer) do(verb string, f func() error) {
	p.t.Helper()
	if p.shared {
		p.t.Fatalf("%s: the server is shared with other tests", verb)
	}
	if err := f(); err != nil {
		p.t.Fatal(err)
	}
}
