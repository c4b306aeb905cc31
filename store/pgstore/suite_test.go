package pgstore

import (
	"context"
	"fmt"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/internal/testenv"
	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/store/storetest"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// Schemas of the shared server that tests have made, and those that nobody uses at the
// moment: a schema that is emptied is ready much sooner than a new one.
var schemas struct {
	sync.Mutex
	made int
	free []string
}

func takeSchema(used bool) string {
	schemas.Lock()
	defer schemas.Unlock()
	if n := len(schemas.free); n > 0 && used {
		schema := schemas.free[n-1]
		schemas.free = schemas.free[:n-1]
		return schema
	}
	schemas.made++
	return fmt.Sprintf("test %d", schemas.made) // a name that must be quoted
}

// newURL returns the URL of an empty store on the shared server.
func newURL(t testing.TB, options ...string) string {
	t.Helper()
	return urlOf(t, takeSchema(true), options...)
}

// unusedURL returns the URL of a store that no test has used: nothing that was deleted is
// still in its tables.
func unusedURL(t testing.TB) string {
	t.Helper()
	return urlOf(t, takeSchema(false))
}

func urlOf(t testing.TB, schema string, options ...string) string {
	t.Helper()
	database := testenv.SharedPostgres(t).URL()
	t.Cleanup(func() {
		execute(t, database, `DO $$ DECLARE t text; BEGIN
			FOR t IN SELECT tablename FROM pg_tables WHERE schemaname = '`+schema+`' AND tablename <> 'migrations' LOOP
				EXECUTE format('DELETE FROM %I.%I', '`+schema+`', t);
			END LOOP; END $$`)
		schemas.Lock()
		defer schemas.Unlock()
		schemas.free = append(schemas.free, schema)
	})
	return withOptions(t, database, append([]string{"schema", schema}, options...)...)
}

// withOptions returns a URL with options, given as names and values.
func withOptions(t testing.TB, rawURL string, options ...string) string {
	t.Helper()
	u, err := url.Parse(rawURL)
	if err != nil {
		t.Fatal(err)
	}
	query := u.Query()
	for i := 0; i < len(options); i += 2 {
		query.Set(options[i], options[i+1])
	}
	u.RawQuery = query.Encode()
	return u.String()
}

// plain returns a URL without the options that are ours.
func plain(t testing.TB, rawURL string) string {
	t.Helper()
	u, err := url.Parse(rawURL)
	if err != nil {
		t.Fatal(err)
	}
	query := u.Query()
	for _, name := range ownOptions {
		query.Del(name)
	}
	u.RawQuery = query.Encode()
	return u.String()
}

// execute runs SQL on a connection of its own.
func execute(t testing.TB, database, sql string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	conn, err := pgx.Connect(ctx, plain(t, database))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(ctx, sql, pgx.QueryExecModeSimpleProtocol); err != nil {
		t.Errorf("%s: %v", sql, err)
	}
	if err := conn.Close(ctx); err != nil {
		t.Error(err)
	}
}

// open opens a store, and closes it at the end.
func open(t testing.TB, rawURL string, o Options) *Store {
	t.Helper()
	s, err := Open(t.Context(), rawURL, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// backend returns an empty store whose clock stands still until it is advanced.
func backend(options ...string) storetest.Factory { return backendWith(Options{}, options...) }

func backendWith(o Options, options ...string) storetest.Factory {
	return backendAt(o, func(t testing.TB) string {
		t.Helper()
		return newURL(t, append([]string{"connections", "3"}, options...)...)
	})
}

// backendAt is backend with URLs from elsewhere.
func backendAt(o Options, newURL func(testing.TB) string) storetest.Factory {
	return func(t testing.TB) *storetest.Backend {
		t.Helper()
		clock := base.NewManual(noon)
		u := newURL(t)
		b := &storetest.Backend{Advance: clock.Advance, SetClock: clock.Jump}
		o := o
		o.Clock = clock
		again := func() *Store { return open(t, u, o) }
		b.Store = again()
		b.Reopen = func() {
			dead := b.Store.(*Store)
			kill(dead)
			b.Store = again()
			noticed(t, b.Store.(*Store), dead)
		}
		b.Open = func() (store.Store, error) {
			s, err := Open(context.Background(), u, o)
			if err != nil {
				return nil, err
			}
			return s, nil
		}
		return b
	}
}

// kill ends a store as if its process had been killed: nobody is told.
func kill(s *Store) {
	if s.CloseCore() {
		s.cancel()
		s.tasks.Wait()
		s.db.close()
	}
}

// noticed waits until the server has noticed that the process of a store was killed: until then keys
// that it held are reserved for it.
func noticed(t testing.TB, s, dead *Store) {
	t.Helper()
	eventually(t, "the server knows that a process is gone", func() bool {
		if err := s.db.readPeers(t.Context()); err != nil {
			t.Fatal(err)
		}
		return !s.db.Present(dead.db.number)
	})
}

// TestContract runs the suite that every backend passes.
func TestContract(t *testing.T) {
	t.Parallel()
	storetest.Run(t, backend())
}

// TestModel compares the store with the model. Its lists gather after one record.
func TestModel(t *testing.T) {
	t.Parallel()
	storetest.RunModel(t, backendWith(Options{firstPassed: 1}))
}

// TestKilledProcesses waits until the server has noticed that a process is gone: what it was
// asked for before may be done after that.
func TestKilledProcesses(t *testing.T) {
	t.Parallel()
	const name = "killed"
	place := func() string { return newURL(t, "application_name", name) }
	storetest.RunKilled(t, place, func(ctx context.Context, rawURL string) (store.Store, error) {
		conn, err := pgx.Connect(ctx, withOptions(t, plain(t, rawURL), "application_name", ""))
		if err != nil {
			return nil, err
		}
		defer conn.Close(ctx) //nolint:errcheck // it only looks
		eventually(t, "the server notices that a process is gone", func() bool {
			n := 1
			if err := conn.QueryRow(ctx, "SELECT count(*) FROM pg_stat_activity WHERE application_name = $1", name).Scan(&n); err != nil {
				t.Error(err)
			}
			return n == 0
		})
		return store.Open(ctx, rawURL)
	})
}
