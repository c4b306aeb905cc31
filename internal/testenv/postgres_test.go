//go:build unix

package testenv

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/abidehq/abide/internal/check"
)

// value asks a database for one value.
func value[T any](ctx context.Context, url, query string) (T, error) {
	var v T
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return v, err
	}
	defer conn.Close(context.WithoutCancel(ctx)) //nolint:errcheck // what it said is known
	err = conn.QueryRow(ctx, query).Scan(&v)
	return v, err
}

// execute has a database do something.
func execute(t *testing.T, url, statement string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	check.OK(t, err)
	defer conn.Close(t.Context()) //nolint:errcheck // what it said is known
	if _, err := conn.Exec(t.Context(), statement); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

// wantValue fails the test unless a database answers as it should.
func wantValue[T comparable](t *testing.T, url, query string, want T) {
	t.Helper()
	if got, err := value[T](t.Context(), url, query); err != nil || got != want {
		t.Fatalf("%s: %v, %v, want %v", query, got, err, want)
	}
}

func TestPostgresIsDurable(t *testing.T) {
	t.Parallel()
	server := SharedPostgres(t)
	for setting, want := range map[string]string{
		"fsync": "on", "full_page_writes": "on", "synchronous_commit": "on",
		"max_connections": "200", "shared_buffers": "64MB", "listen_addresses": "127.0.0.1", "unix_socket_directories": "",
		"server_encoding": "UTF8",
	} {
		wantValue(t, server.URL(), "SHOW "+setting, want)
	}
	wantValue(t, server.URL(), "SELECT string_agg(concat_ws(' ', type, address, auth_method), ',') FROM pg_hba_file_rules", "host 127.0.0.1 trust")
}

func TestPostgresKeepsItsDataThroughStopAndKill(t *testing.T) {
	t.Parallel()
	server := Postgres(t)
	url := server.Database(t)
	execute(t, url, "CREATE TABLE starts (n serial)")
	for _, end := range []func(){server.Stop, server.Kill} {
		before, err := value[int](t.Context(), url, "INSERT INTO starts DEFAULT VALUES RETURNING n")
		check.OK(t, err)
		end()
		if conn, err := net.DialTimeout("tcp", server.Addr, time.Second); err == nil {
			t.Cleanup(func() { _ = conn.Close() }) // nothing was written
			t.Fatal("a server that was ended takes connections")
		}
		server.Start()
		wantValue(t, url, "SELECT count(*)::int FROM starts", before)
	}
	if !strings.Contains(server.postgres.process.output.String(), "automatic recovery in progress") {
		t.Error("after a crash it has nothing to recover, so it was none")
	}
}

func TestPostgresHangsUntilItIsResumed(t *testing.T) {
	t.Parallel()
	server := Postgres(t)
	conn, err := pgx.Connect(t.Context(), server.URL())
	check.OK(t, err)
	defer conn.Close(t.Context()) //nolint:errcheck // the server goes too
	check.OK(t, conn.Ping(t.Context()))
	resume := server.Hang()
	// One that is connected gets no answer, and neither does one that comes.
	answers := make(chan error, 2)
	go func() { answers <- conn.Ping(t.Context()) }()
	go func() {
		_, err := value[int](t.Context(), server.URL(), "SELECT 1")
		answers <- err
	}()
	waiting := 2
	select {
	case err := <-answers:
		waiting--
		t.Errorf("a server that hangs answers: %v", err)
	case <-time.After(100 * time.Millisecond):
	}
	resume()
	for range waiting {
		if err := <-answers; err != nil {
			t.Errorf("a server that was resumed: %v", err)
		}
	}
}

func TestPostgresThatHangsCanBeKilled(t *testing.T) {
	t.Parallel()
	server := Postgres(t)
	wantValue(t, server.URL(), "SELECT 1", 1)
	server.Hang()
	server.Kill()
	server.Start()
	wantValue(t, server.URL(), "SELECT 1", 1)
}

// isPostgres reports whether a process is there and is one of a server.
func isPostgres(pid int) bool {
	program, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
	return err == nil && filepath.Base(program) == "postgres"
}

func TestPostgresLeavesNothing(t *testing.T) {
	t.Parallel()
	var server *PostgresServer
	var pids []int
	t.Run("while it is there", func(t *testing.T) {
		server = Postgres(t)
		pids = append(childrenOf(server.postgres.process.cmd.Process.Pid), server.postgres.process.cmd.Process.Pid)
		if len(pids) < 2 || !isPostgres(pids[0]) {
			t.Errorf("processes %v are there, want one and its children", pids)
		}
		server.Hang() // and it is not resumed
	})
	if _, err := os.Stat(server.postgres.folder.path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("its folder is there: %v", err)
	}
	for _, pid := range pids {
		if isPostgres(pid) {
			t.Errorf("process %d is there", pid)
		}
	}
}

func TestDatabasesAreOnesOwn(t *testing.T) {
	t.Parallel()
	server := SharedPostgres(t)
	if other := SharedPostgres(t); other.Addr != server.Addr {
		t.Errorf("the shared server is on %s and on %s", server.Addr, other.Addr)
	}
	var url string
	t.Run("made", func(t *testing.T) {
		url = server.Database(t)
		if another := server.Database(t); another == url {
			t.Errorf("two databases are %s", url)
		}
		const tables = "SELECT count(*)::int FROM pg_tables WHERE tablename = 'here'"
		execute(t, url, "CREATE TABLE here (n int)")
		wantValue(t, url, tables, 1)
		wantValue(t, server.Database(t), tables, 0)
	})
	if _, err := value[int](t.Context(), url, "SELECT 1"); err == nil {
		t.Error("it is there after the test that had it")
	}
}

// TestSharedServersAreNobodysToStop runs what must fail in a test of its own that is not
// reported.
func TestSharedServersAreNobodysToStop(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(testing.TB){
		"postgres": func(t testing.TB) { SharedPostgres(t).Stop() },
		"redis":    func(t testing.TB) { SharedRedis(t).Kill() },
	} {
		if said := refused(t, end); !strings.Contains(said, "shared") {
			t.Errorf("%s: it was refused with %q, want that it is shared", name, said)
		}
	}
	wantValue(t, SharedPostgres(t).URL(), "SELECT 1", 1)
	if got, err := ask(t, SharedRedis(t).Addr, "PING"); err != nil || got != "+PONG\r\n" {
		t.Errorf("the shared redis-server: %q, %v", got, err)
	}
}
