package pgstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/abidehq/abide/internal/testenv"
	"github.com/abidehq/abide/store"
)

// quiet is for stores whose troubles are made on purpose.
var quiet = slog.New(slog.DiscardHandler)

// counter counts, in a log and in a record at once, and remembers which steps were
// acknowledged. If the outcome of a step is unknown it tries that step again: what
// is under way on the server may still come to an end, so that looking alone says nothing.
type counter struct {
	store  *Store
	key    store.Key
	n      int // as far as is known
	acked  int
	open   int // outcomes that were unknown
	unsure bool
}

func newCounter(s *Store, i int) *counter {
	return &counter{store: s, key: store.Key{Queue: "turns", Tenant: "acme", Name: fmt.Sprintf("counter %d", i)}}
}

func (c *counter) record() store.RecordKey {
	return store.RecordKey{Kind: "counter", Tenant: c.key.Tenant, ID: c.key.Name}
}

// step counts one further. What it was not told it looks up.
func (c *counter) step(ctx context.Context) error {
	tx := &store.Tx{
		Append: []store.Append{{Key: c.key, At: c.n, Entries: [][]byte{fmt.Appendf(nil, "entry %d", c.n)}}},
		Put:    []store.Message{{Key: store.Key{Queue: "tasks", Tenant: "acme", Name: fmt.Sprintf("%s of %s", fmt.Sprint(c.n), c.key.Name)}, ID: "a", Route: "order"}},
		PutRecords: []store.PutRecord{{
			Record: store.Record{Key: c.record(), Status: "running"}, Expect: int64(c.n),
		}},
	}
	err := c.store.Commit(ctx, tx)
	switch {
	case err == nil:
		c.n++
		c.acked++
		c.unsure = false
	case errors.Is(err, store.ErrConflict) && c.unsure:
		c.n++ // the last time has gone through after all
		c.unsure = false
		return c.look(ctx)
	case errors.Is(err, store.ErrConflict):
		return fmt.Errorf("%v: another writer has counted: %w", c.key, err)
	default:
		c.open++
		c.unsure = true
	}
	return nil
}

// look compares what it knows with what the log and the record say.
func (c *counter) look(ctx context.Context) error {
	var page store.LogPage
	var record store.Record
	err := errors.New("not looked yet")
	for err != nil && ctx.Err() == nil { // the next connection is a better one
		if page, err = c.store.ReadLog(ctx, c.key, 0); err == nil {
			record, err = c.store.Get(ctx, c.record())
		}
		if errors.Is(err, store.ErrNotFound) {
			err = nil
		}
	}
	if err == nil && (int(record.Version) != c.n || page.Length != c.n || len(page.Entries) != c.n) {
		err = fmt.Errorf("%v: it has counted to %d, the log has %d entries, the record version %d", c.key, c.n, page.Length, record.Version)
	}
	return err
}

// countThrough runs counters while faults are injected, and checks the result. The function
// that injects faults can wait until so many more commits have succeeded. Some commits must fail.
func countThrough(t *testing.T, s *Store, counters int, trouble func(goesOn func(n int64))) {
	t.Helper()
	if failed := countUntil(t, s, counters, trouble); failed == 0 {
		t.Error("the test shows nothing: all commits went through")
	}
}

// countUntil is countThrough for faults that may meet no commit. It returns how many have failed.
func countUntil(t *testing.T, s *Store, counters int, trouble func(goesOn func(n int64))) (failed int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	var over atomic.Bool
	var through atomic.Int64
	var wg sync.WaitGroup
	all := make([]*counter, counters)
	for i := range all {
		all[i] = newCounter(s, i)
		wg.Go(func() {
			for !over.Load() && ctx.Err() == nil {
				before := all[i].acked
				if err := all[i].step(ctx); err != nil {
					t.Error(err)
					return
				}
				through.Add(int64(all[i].acked - before))
			}
		})
	}
	trouble(func(n int64) {
		t.Helper()
		before := through.Load()
		eventually(t, "commits go through", func() bool { return through.Load() >= before+n })
	})
	over.Store(true)
	wg.Wait()
	acked, open, tasks := 0, 0, 0
	for _, c := range all {
		for c.unsure && ctx.Err() == nil {
			if err := c.step(ctx); err != nil {
				t.Error(err)
			}
		}
		if err := c.look(ctx); err != nil {
			t.Error(err)
		}
		acked, open, tasks = acked+c.acked, open+c.open, tasks+c.n
		if c.n < c.acked || c.n > c.acked+c.open {
			t.Errorf("%v: counted %d, acknowledged %d, and %d outcomes unknown", c.key, c.n, c.acked, c.open)
		}
	}
	t.Logf("%d commits acknowledged, %d failed, %d there", acked, open, tasks)
	if acked == 0 {
		t.Error("the test shows nothing: no commit went through")
	}
	claimAll(t, s, tasks)
	verifies(t, s)
	return open
}

// claimAll claims and finishes all tasks, and fails if there are more or fewer.
func claimAll(t *testing.T, s *Store, want int) {
	t.Helper()
	seen := map[string]bool{}
	for {
		claims, err := s.Claim(t.Context(), store.ClaimRequest{Queue: "tasks", Routes: []string{"order"}, Max: 500, Lease: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		if len(claims) == 0 {
			break
		}
		tx := &store.Tx{}
		for _, c := range claims {
			if seen[c.Key.Name] {
				t.Errorf("%v came twice", c.Key)
			}
			seen[c.Key.Name] = true
			tx.Finish = append(tx.Finish, store.Finish{Lease: c.Lease()})
		}
		if err := s.Commit(t.Context(), tx); err != nil {
			t.Fatal(err)
		}
	}
	if len(seen) != want {
		t.Errorf("%d tasks, want %d", len(seen), want)
	}
}

// TestConnectionsKilled: connections end at any moment, also within a transaction and while
// it is committed. What was acknowledged is there, and nothing is half done.
func TestConnectionsKilled(t *testing.T) {
	t.Parallel()
	database := testenv.SharedPostgres(t).Database(t)
	s := open(t, withOptions(t, database, "application_name", "to be killed"), Options{Logger: quiet})
	conn, err := pgx.Connect(t.Context(), database)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	countThrough(t, s, 8, func(goesOn func(n int64)) {
		for killed, began := 0, time.Now(); killed < 100 && time.Since(began) < time.Minute; {
			if killed%5 == 0 {
				goesOn(5)
			}
			var n int
			// One that is at work, now and then all.
			err := conn.QueryRow(t.Context(), `SELECT count(pg_terminate_backend(pid)) FROM (
				SELECT pid FROM pg_stat_activity WHERE application_name = 'to be killed' AND (state <> 'idle' OR $1)
				ORDER BY random() LIMIT CASE WHEN $1 THEN 100 ELSE 1 END) x`, killed%20 == 19).Scan(&n)
			if err != nil {
				t.Error(err)
				return
			}
			killed += n
		}
	})
}

// TestServerRestarts: the server is stopped in good order, and crashes, under load.
func TestServerRestarts(t *testing.T) {
	t.Parallel()
	server := testenv.Postgres(t)
	s := open(t, server.URL(), Options{Logger: quiet})
	countThrough(t, s, 8, func(goesOn func(n int64)) {
		for i := range 4 {
			goesOn(20)
			if i%2 == 0 {
				server.Kill()
			} else {
				server.Stop()
			}
			server.Start()
		}
	})
	eventually(t, "it listens again", s.db.Hinted)
}

// TestNetworkCut: the network between us and the server is cut under load.
func TestNetworkCut(t *testing.T) {
	t.Parallel()
	server := testenv.SharedPostgres(t)
	relay := testenv.Proxy(t, server.Addr)
	database := server.Database(t)
	s := open(t, server.Through(t, database, relay.Addr()), Options{Logger: quiet})
	countThrough(t, s, 8, func(goesOn func(n int64)) {
		for range 10 {
			goesOn(20)
			relay.Cut()
			relay.Resume()
		}
	})
}

// TestNoRoom: a server without room says so, and nothing was changed.
func TestNoRoom(t *testing.T) {
	t.Parallel()
	s := open(t, testenv.SharedPostgres(t).Database(t), Options{})
	sql := func(text string) {
		execute(t, s.db.config.conn.ConnString(), text)
	}
	// It fails where a server without room would: when a page is to be added.
	sql(`CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = 'disk_full'; END $$;
CREATE TRIGGER full_disk BEFORE INSERT ON abide.records FOR EACH ROW EXECUTE FUNCTION full_disk()`)
	c := newCounter(s, 1)
	tx := &store.Tx{
		Append:     []store.Append{{Key: c.key, Entries: [][]byte{[]byte("x")}}},
		PutRecords: []store.PutRecord{{Record: store.Record{Key: c.record()}}},
	}
	if err := s.Commit(t.Context(), tx); !errors.Is(err, store.ErrFull) {
		t.Errorf("commit without room: %v, want ErrFull", err)
	}
	if page, err := s.ReadLog(t.Context(), c.key, 0); err != nil || page.Length != 0 {
		t.Errorf("the log has length %d, %v", page.Length, err)
	}
	sql(`DROP TRIGGER full_disk ON abide.records`)
	if err := s.Commit(t.Context(), tx); err != nil {
		t.Errorf("commit when there is room again: %v", err)
	}
}

// TestFailover: a server that has become a replica refuses writes until there is one that
// takes them, and then they go on: connections to the replica are not kept, whether it was
// found out when they were opened or by a write.
func TestFailover(t *testing.T) {
	t.Parallel()
	for name, attrs := range map[string]string{"refused when opened": "", "refused when written to": "any"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			database := testenv.SharedPostgres(t).Database(t)
			if attrs != "" {
				database = withOptions(t, database, "target_session_attrs", attrs)
			}
			s := open(t, database, Options{Logger: quiet})
			admin := testenv.SharedPostgres(t).URL()
			name := s.db.config.conn.Database
			if err := s.Commit(t.Context(), put("turns", "order-1", "a", "order")); err != nil {
				t.Fatal(err)
			}
			readOnly := func(value string) { // for connections that are made from now on
				execute(t, admin, fmt.Sprintf(`ALTER DATABASE %s SET default_transaction_read_only = %s`, name, value))
			}
			readOnly("on")
			execute(t, admin, fmt.Sprintf(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '%s'`, name))
			tx := put("turns", "order-2", "a", "order")
			if err := s.Commit(t.Context(), tx); err == nil {
				t.Error("a commit went through on a server that is read-only")
			}
			if claims, err := s.Claim(t.Context(), request(1, 0)); err == nil {
				t.Errorf("claimed %v on a server that is read-only", claims)
			}
			readOnly("off")
			if err := s.Commit(t.Context(), tx); err != nil {
				t.Errorf("commit after the failover: %v", err)
			}
			if claims, err := s.Claim(t.Context(), request(2, 0)); err != nil || len(claims) != 2 {
				t.Errorf("claim after the failover: %v, %v, want 2 keys", claims, err)
			}
		})
	}
}
