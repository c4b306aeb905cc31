package pgstore

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/abidehq/abide/internal/rows"
	"github.com/abidehq/abide/store"
)

// TestReplaceAfterADeadlock: another transaction has locked the record that Replace wants, and wants the
// key that Replace has deleted. The server rolls back Replace, which waited first, and it is done again.
func TestReplaceAfterADeadlock(t *testing.T) {
	t.Parallel()
	u, _ := freshURL(t, "deadlock_timeout", "3s")
	s := open(t, u, Options{})
	key, record := store.Key{Queue: "q", Tenant: "acme", Name: "k"}, store.RecordKey{Kind: "k", Tenant: "acme", ID: "r"}
	tx := put("q", "k", "m", "order")
	tx.PutRecords = version(record, 0).PutRecords
	if err := s.Commit(t.Context(), tx); err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.ConnectConfig(t.Context(), s.db.config.conn)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	other, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	lock := func(sql string, id rows.ID) {
		t.Helper()
		if _, err := other.Exec(t.Context(), s.db.text.translate.Replace(sql), uuid(id)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := other.Exec(t.Context(), "SET deadlock_timeout = '1min'"); err != nil { // the other one finds the deadlock
		t.Fatal(err)
	}
	lock(`SELECT FROM {schema}.records r WHERE r.key = $1 FOR UPDATE`, rows.RecordIDOf(record))
	replaced := make(chan error, 1)
	go func() {
		_, err := s.Replace(t.Context(), store.Guard{Record: store.RecordKey{Kind: "none", ID: "none"}}, []store.Thing{{Key: key}, {Record: record}}, store.Cargo{})
		replaced <- err
	}()
	eventually(t, "it waits for the record", func() bool {
		n := 0
		err := s.db.readOne(t.Context(), `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`, nil, &n)
		return err == nil && n > 0
	})
	lock(`SELECT FROM {schema}.keys k WHERE k.id = $1 FOR UPDATE`, rows.IDOf(key))
	if err := other.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-replaced; err != nil {
		t.Error(err)
	}
	left := 0
	if err := s.Outline(t.Context(), []string{"acme"}, func(store.Mark) error { left++; return nil }); err != nil || left > 0 {
		t.Errorf("%d things are left, %v", left, err)
	}
}
