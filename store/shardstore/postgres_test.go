//go:build unix

package shardstore_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/internal/testenv"
	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/store/pgstore"
	"github.com/abidehq/abide/store/shardstore"
	"github.com/abidehq/abide/store/storetest"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// databases are two databases of the shared server, made once.
var databases = struct {
	sync.Mutex
	urls []string
	made int
	free []string // schemas that are empty again
}{}

// pair returns the URLs of two empty stores, in two databases.
func pair(t testing.TB) []string {
	t.Helper()
	databases.Lock()
	defer databases.Unlock()
	if databases.urls == nil {
		server := testenv.SharedPostgres(t)
		for _, name := range []string{"shard_a", "shard_b"} {
			execute(t, server.URL(), "CREATE DATABASE "+name)
			databases.urls = append(databases.urls, withPath(t, server.URL(), name))
		}
	}
	var schema string
	if n := len(databases.free); n > 0 {
		schema, databases.free = databases.free[n-1], databases.free[:n-1]
	} else {
		databases.made++
		schema = fmt.Sprint("test_", databases.made)
	}
	urls := make([]string, 0, 2)
	for _, u := range databases.urls {
		urls = append(urls, withOption(t, withOption(t, u, "schema", schema), "connections", "3"))
	}
	t.Cleanup(func() {
		for _, u := range databases.urls {
			execute(t, u, `DO $$ DECLARE t text; BEGIN
			FOR t IN SELECT tablename FROM pg_tables WHERE schemaname = '`+schema+`' AND tablename <> 'migrations' LOOP
				EXECUTE format('DELETE FROM %I.%I', '`+schema+`', t);
			END LOOP; END $$`)
		}
		databases.Lock()
		defer databases.Unlock()
		databases.free = append(databases.free, schema)
	})
	return urls
}

func withPath(t testing.TB, rawURL, path string) string {
	t.Helper()
	u, err := url.Parse(rawURL)
	ok(t, err)
	u.Path = "/" + path
	return u.String()
}

func withOption(t testing.TB, rawURL, name, value string) string {
	t.Helper()
	u, err := url.Parse(rawURL)
	ok(t, err)
	q := u.Query()
	q.Set(name, value)
	u.RawQuery = q.Encode()
	return u.String()
}

// execute runs SQL on a connection of its own.
func execute(t testing.TB, database, sql string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	conn, err := pgx.Connect(ctx, database)
	ok(t, err)
	_, err = conn.Exec(ctx, sql, pgx.QueryExecModeSimpleProtocol)
	if err := errors.Join(err, conn.Close(ctx)); err != nil {
		t.Errorf("%s: %v", sql, err)
	}
}

// openPair opens two stores in PostgreSQL as one.
func openPair(ctx context.Context, urls []string, clock base.Clock) (*shardstore.Store, error) {
	var shards []shardstore.Shard
	for i, u := range urls {
		s, err := pgstore.Open(ctx, u, pgstore.Options{Clock: clock})
		if err != nil {
			for _, sh := range shards {
				err = errors.Join(err, sh.Store.Close())
			}
			return nil, err
		}
		shards = append(shards, shardstore.Shard{Name: string(rune('a' + i)), Store: s})
	}
	return shardstore.New(ctx, shards, shardstore.Options{Clock: clock})
}

// overPostgres returns a store over two databases.
func overPostgres(t testing.TB) *storetest.Backend {
	t.Helper()
	clock := base.NewManual(noon)
	urls := pair(t)
	b := &storetest.Backend{SetClock: clock.Jump}
	b.Advance = func(d time.Duration) {
		// The shards are watched all the time, and a watch looks every few seconds: a week would
		// be many thousand looks. A jump passes over timers, so that less than a lease is not jumped over.
		if most := 2 * time.Minute; d > most {
			clock.Jump(d - most)
			d = most
		}
		clock.Advance(d)
	}
	again := func() {
		s, err := openPair(context.Background(), urls, clock)
		ok(t, err)
		t.Cleanup(func() {
			if err := s.Close(); err != nil {
				t.Errorf("close: %v", err)
			}
		})
		b.Store, b.Apart = s, apart(s)
	}
	again()
	b.Reopen = func() {
		ok(t, b.Store.Close())
		again()
	}
	b.Open = func() (store.Store, error) {
		s, err := openPair(context.Background(), urls, clock)
		if err != nil {
			return nil, err
		}
		return s, nil
	}
	return b
}

// TestContractOverPostgres runs the suite over two databases.
func TestContractOverPostgres(t *testing.T) {
	t.Parallel()
	storetest.Run(t, overPostgres)
}

// TestModelOverPostgres compares a store over two databases with the model.
func TestModelOverPostgres(t *testing.T) {
	t.Parallel()
	storetest.RunModel(t, overPostgres)
}

// TestKilledProcesses kills processes that work on a store over two databases.
func TestKilledProcesses(t *testing.T) {
	t.Parallel()
	const name = "killed"
	var urls []string
	place := func() string {
		path := filepath.Join(t.TempDir(), "shards")
		urls = pair(t)
		text := ""
		for i, u := range urls {
			text += fmt.Sprintf("%c %s\n", 'a'+i, withOption(t, u, "application_name", name))
		}
		ok(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	storetest.RunKilled(t, place, func(ctx context.Context, path string) (store.Store, error) {
		for _, u := range databases.urls { // of the first process: the server has noticed that the other one is gone
			conn, err := pgx.Connect(ctx, u)
			if err != nil {
				return nil, err
			}
			for n := 1; n > 0; {
				if err := conn.QueryRow(ctx, "SELECT count(*) FROM pg_stat_activity WHERE application_name = $1", name).Scan(&n); err != nil {
					return nil, errors.Join(err, conn.Close(ctx))
				}
			}
			if err := conn.Close(ctx); err != nil {
				return nil, err
			}
		}
		return store.Open(ctx, "shards://"+path)
	})
}

// system opens a store over two databases, by the clocks of the server and the machine.
func system(t testing.TB, urls []string, o shardstore.Options) *shardstore.Store {
	t.Helper()
	var shards []shardstore.Shard
	for i, u := range urls {
		s, err := pgstore.Open(t.Context(), u, pgstore.Options{})
		ok(t, err)
		shards = append(shards, shardstore.Shard{Name: string(rune('a' + i)), Store: s})
	}
	s, err := shardstore.New(t.Context(), shards, o)
	ok(t, err)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

// part opens one of the stores by itself, to look into it.
func part(t testing.TB, rawURL string) *pgstore.Store {
	t.Helper()
	s, err := pgstore.Open(t.Context(), rawURL, pgstore.Options{})
	ok(t, err)
	return s
}

// TestMoveBetweenDatabases brings everything, leases included, and leaves nothing behind; the tallies of
// both databases are right.
func TestMoveBetweenDatabases(t *testing.T) {
	t.Parallel()
	urls := pair(t)
	p, mover := system(t, urls, shardstore.Options{}), system(t, urls, shardstore.Options{Mover: true})
	const tenant = "acme"
	claim := fill(t, p, tenant, 50)
	fill(t, p, "beta", 3)
	from, to := p.Directory().Of(tenant), other(p, tenant)
	look := func(shard string) store.Cargo {
		s := part(t, urls[shard[0]-'a'])
		defer s.Close()
		return contents(t, s, tenant)
	}
	before := look(from)
	for _, unit := range []shardstore.Unit{shardstore.OneTenant(tenant), shardstore.OneSlot(shardstore.SlotOf(tenant))} {
		ok(t, mover.Move(t.Context(), unit, to, nil))
		after := look(to)
		if before.Sum() != after.Sum() || len(after.Leases) != 1 || len(after.Messages) != 150 {
			t.Errorf("%v: moved %d keys, %d messages, %d records and %d leases; there were %d, %d, %d and %d", unit,
				len(after.Keys), len(after.Messages), len(after.Records), len(after.Leases), len(before.Keys), len(before.Messages), len(before.Records), len(before.Leases))
		}
		if left := look(from); len(left.Keys)+len(left.Records) > 0 {
			t.Errorf("%v: %d keys and %d records are left behind", unit, len(left.Keys), len(left.Records))
		}
		ok(t, p.Verify(t.Context(), func(problem string) { t.Error(problem) }))
		from, to = to, from
		if unit.Slot < 0 { // and back, for the slot to have it
			ok(t, mover.Move(t.Context(), unit, to, nil))
			from, to = to, from
		}
	}
	ok(t, p.Commit(t.Context(), &store.Tx{Finish: []store.Finish{{Lease: claim.Lease()}}}))
	n, err := p.Count(t.Context(), store.Query{Kind: "k"}, 1000)
	if err != nil || n != 53 {
		t.Errorf("counted %d records, %v; want 53", n, err)
	}
}

// TestAFencedProcessCommitsNothing: its row was removed, since it was suspended, and a transaction that it
// had begun is refused when it goes on; then the process acknowledges the directory, and works again.
func TestAFencedProcessCommitsNothing(t *testing.T) {
	t.Parallel()
	urls := pair(t)
	s, err := pgstore.Open(t.Context(), urls[0], pgstore.Options{})
	ok(t, err)
	t.Cleanup(func() { ok(t, s.Close()) })
	ok(t, s.Acknowledge(t.Context(), 7))
	ok(t, s.Commit(t.Context(), record("acme", "before")))
	u, err := url.Parse(urls[0])
	ok(t, err)
	schema := u.Query().Get("schema")
	plain := withPath(t, testenv.SharedPostgres(t).URL(), u.Path[1:])
	execute(t, plain, "DELETE FROM "+schema+".processes")
	is(t, s.Commit(t.Context(), record("acme", "after")), store.ErrFenced)
	_, err = s.Get(t.Context(), store.RecordKey{Kind: "k", Tenant: "acme", ID: "after"})
	is(t, err, store.ErrNotFound)
	is(t, s.Commit(t.Context(), put("acme", "k")), store.ErrFenced)
	ok(t, s.Acknowledge(t.Context(), 8))
	ok(t, s.Commit(t.Context(), record("acme", "after")))
}

// TestSettleWaitsForTransactions that have written before all had acknowledged: they may commit after it.
func TestSettleWaitsForTransactions(t *testing.T) {
	t.Parallel()
	urls := pair(t)
	s, err := pgstore.Open(t.Context(), urls[0], pgstore.Options{})
	ok(t, err)
	t.Cleanup(func() { ok(t, s.Close()) })
	ok(t, s.Acknowledge(t.Context(), 7))
	conn, err := pgx.Connect(t.Context(), withPath(t, testenv.SharedPostgres(t).URL(), "shard_a"))
	ok(t, err)
	defer func() { _ = conn.Close(t.Context()) }()
	tx, err := conn.Begin(t.Context())
	ok(t, err)
	ok(t, s.Commit(pgstore.WithTx(t.Context(), tx), record("acme", "r")))
	settled := make(chan error, 1)
	go func() { settled <- s.Settle(t.Context(), 7) }()
	select {
	case err := <-settled:
		t.Fatalf("it settled while a transaction was under way: %v", err)
	case <-soon(300 * time.Millisecond):
	}
	ok(t, tx.Commit(t.Context()))
	ok(t, <-settled)
	short, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	is(t, s.Settle(short, 9), context.DeadlineExceeded) // this process has not acknowledged it
}

// TestTransactionsOfAShard: what is put with a transaction of the shard's database is part of it, and one
// of another database is refused.
func TestTransactionsOfAShard(t *testing.T) {
	t.Parallel()
	urls := pair(t)
	s := system(t, urls, shardstore.Options{})
	for i, shard := range []string{"a", "b"} {
		conn, err := pgx.Connect(t.Context(), withPath(t, testenv.SharedPostgres(t).URL(), "shard_"+shard))
		ok(t, err)
		t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
		tx, err := conn.Begin(t.Context())
		ok(t, err)
		in := pgstore.WithTx(t.Context(), tx)
		tenant, elsewhere := tenantOn(s, shard, 0), tenantOn(s, []string{"b", "a"}[i], 0)
		ok(t, s.Commit(in, record(tenant, "in "+shard)))
		is(t, s.Commit(in, record(elsewhere, "in "+shard)), store.ErrInvalid)
		_, err = s.Get(t.Context(), store.RecordKey{Kind: "k", Tenant: tenant, ID: "in " + shard})
		is(t, err, store.ErrNotFound)
		ok(t, tx.Commit(t.Context()))
		_, err = s.Get(t.Context(), store.RecordKey{Kind: "k", Tenant: tenant, ID: "in " + shard})
		ok(t, err)
		_, err = s.Get(t.Context(), store.RecordKey{Kind: "k", Tenant: elsewhere, ID: "in " + shard})
		is(t, err, store.ErrNotFound)
	}
}
