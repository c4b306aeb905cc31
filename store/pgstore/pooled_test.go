package pgstore

import (
	"bytes"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/abidehq/abide/internal/testenv"
	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/store/storetest"
)

// newPooler starts a PgBouncer before the shared server, and returns a function that makes URLs
// lead through it.
func newPooler(t *testing.T) (through func(rawURL string) string) {
	t.Helper()
	server := testenv.SharedPostgres(t)
	addr := testenv.PgBouncer(t, server, "default_pool_size = 40")
	return func(rawURL string) string {
		return withOptions(t, server.Through(t, rawURL, addr), "pooler", "transaction")
	}
}

// pooledBackend is backend behind a pooler.
func pooledBackend(t *testing.T, o Options) storetest.Factory {
	t.Helper()
	through := newPooler(t)
	factory := backendAt(o, func(t testing.TB) string {
		t.Helper()
		return through(newURL(t, "connections", "3"))
	})
	return func(t testing.TB) *storetest.Backend {
		t.Helper()
		b := factory(t)
		b.Unhinted = true
		return b
	}
}

// TestPooledContract runs the suite through PgBouncer in transaction mode.
func TestPooledContract(t *testing.T) {
	t.Parallel()
	storetest.Run(t, pooledBackend(t, Options{}))
}

// TestPooledModel compares the store with the model through PgBouncer in transaction mode.
func TestPooledModel(t *testing.T) {
	t.Parallel()
	storetest.RunModel(t, pooledBackend(t, Options{firstPassed: 1}))
}

// isCall matches a statement whose plan the server keeps, or that has none.
var isCall = regexp.MustCompile(`^(BEGIN|COMMIT|SET LOCAL lock_timeout = \d+|SELECT \* FROM "[^"]+"\.[a-z]+_[0-9a-f]{16}\([$0-9, ]*\))$`)

// work does what an engine does with a store: it commits, claims, reads, renews and finishes.
func work(t *testing.T, s *Store) {
	t.Helper()
	ctx := t.Context()
	key := store.Key{Queue: "turns", Tenant: "acme", Name: "order-1"}
	record := store.RecordKey{Kind: "instance", Tenant: "acme", ID: "order-1"}
	tx := put("turns", "order-1", "a", "order")
	tx.PutRecords = []store.PutRecord{{Record: store.Record{Key: record, Status: "running"}}}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(s.Commit(ctx, tx))
	claims, err := s.Claim(ctx, request(1, 0))
	if err != nil || len(claims) != 1 {
		t.Fatalf("claim: %v, %v", claims, err)
	}
	lease := claims[0].Lease()
	_, err = s.Renew(ctx, time.Minute, []store.Lease{lease})
	must(err)
	must(s.Commit(ctx, &store.Tx{
		Append: []store.Append{{Key: key, Entries: [][]byte{[]byte("one")}}}, Finish: []store.Finish{{Lease: lease}},
		PutRecords: []store.PutRecord{{Record: store.Record{Key: record, Status: "completed"}, Expect: 1}},
	}))
	_, err = s.ReadLog(ctx, key, 0)
	must(err)
	_, err = s.Pending(ctx, key, 1)
	must(err)
	if r, err := s.Get(ctx, record); err != nil || r.Version != 2 {
		t.Fatalf("get: %+v, %v", r, err)
	}
}

// TestPooledStatementsAreCalls: through a pooler without prepared statements, what commits, claims
// and turns send are calls of functions, whose plans the server keeps.
func TestPooledStatementsAreCalls(t *testing.T) {
	t.Parallel()
	r := &statementLog{}
	s := open(t, withOptions(t, newURL(t), "pooler", "transaction"), Options{Tracer: r})
	r.take()
	work(t, s)
	sent := r.take()
	for _, sql := range sent {
		if !isCall.MatchString(sql) {
			t.Errorf("sent as it is: %s", sql)
		}
	}
	if len(sent) < 10 {
		t.Errorf("only %d statements were sent: %q", len(sent), sent)
	}
}

// TestPooledWithoutFunctions: behind a pooler without prepared statements, a program that may not make functions works without them, and says
// so once; and it uses those that an operator has made.
func TestPooledWithoutFunctions(t *testing.T) {
	t.Parallel()
	const role = "without_rights"
	u := withOptions(t, testenv.SharedPostgres(t).Database(t), "schema", "shop")
	if _, err := Migrate(t.Context(), u); err != nil {
		t.Fatal(err)
	}
	execute(t, u, `DO $$ BEGIN CREATE ROLE `+role+` LOGIN; EXCEPTION WHEN duplicate_object THEN END $$;
GRANT USAGE ON SCHEMA shop TO `+role+`;
GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA shop TO `+role+`;
GRANT USAGE ON ALL SEQUENCES IN SCHEMA shop TO `+role)
	t.Cleanup(func() { execute(t, u, "DROP OWNED BY "+role) })
	pooled := withOptions(t, strings.Replace(u, "://abide@", "://"+role+"@", 1), "pooler", "transaction")
	warnings := func(rawURL string) int {
		t.Helper()
		var text bytes.Buffer
		s := open(t, rawURL, Options{Logger: slog.New(slog.NewTextHandler(&text, nil))})
		work(t, s)
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		execute(t, u, "DELETE FROM shop.records; DELETE FROM shop.keys; DELETE FROM shop.entries; DELETE FROM shop.tally")
		return strings.Count(text.String(), "statements are planned for each use")
	}
	if n := warnings(pooled); n != 1 {
		t.Errorf("%d warnings without the right to make functions, want 1", n)
	}
	off := withOptions(t, pooled, "migrate", "off")
	if n := warnings(off); n != 1 {
		t.Errorf("%d warnings with migrate=off, want 1", n)
	}
	if _, err := Migrate(t.Context(), withOptions(t, u, "pooler", "transaction")); err != nil {
		t.Fatal(err)
	}
	if n := warnings(off); n != 0 {
		t.Errorf("%d warnings with functions that an operator has made", n)
	}
}

// TestPooledTransactionOfTheCaller: statements in a transaction of the caller's, whose settings are
// its own, make no plans that transactions of the store would use.
func TestPooledTransactionOfTheCaller(t *testing.T) {
	t.Parallel()
	through := newPooler(t)
	u := through(newURL(t))
	s := open(t, u, Options{})
	r := &statementLog{}
	cfg, err := pgxpool.ParseConfig(plain(t, u))
	if err != nil {
		t.Fatal(err)
	}
	cfg.ConnConfig.Tracer = r
	cfg.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx := WithTx(t.Context(), tx)
	if err := s.Commit(ctx, put("turns", "order-1", "a", "order")); err != nil {
		t.Fatal(err)
	}
	if found, err := s.Pending(ctx, store.Key{Queue: "turns", Tenant: "acme", Name: "order-1"}, 1); err != nil || len(found) != 1 {
		t.Errorf("pending in the transaction: %v, %v", found, err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	sent := slices.DeleteFunc(r.take(), func(sql string) bool { return !strings.Contains(sql, s.db.config.quoted()) })
	if len(sent) < 3 {
		t.Errorf("only %d statements were sent: %q", len(sent), sent)
	}
	for _, sql := range sent {
		if isCall.MatchString(sql) || !strings.HasSuffix(sql, apart) {
			t.Errorf("sent as in a transaction of the store: %s", sql)
		}
	}
	if claims, err := s.Claim(t.Context(), request(1, 0)); err != nil || len(claims) != 1 {
		t.Errorf("claim after the commit: %v, %v", claims, err)
	}
}
