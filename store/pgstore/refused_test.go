package pgstore

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/abidehq/abide/internal/rows"
	"github.com/abidehq/abide/store"
)

// connects is a tracer that notes statements and counts new connections.
type connects struct {
	statementLog
	n atomic.Int64
}

func (c *connects) TraceConnectStart(ctx context.Context, _ pgx.TraceConnectStartData) context.Context {
	return ctx
}

func (c *connects) TraceConnectEnd(context.Context, pgx.TraceConnectEndData) { c.n.Add(1) }

// version returns a Tx that puts a record whose version is n.
func version(key store.RecordKey, n int64) *store.Tx {
	return &store.Tx{PutRecords: []store.PutRecord{{Record: store.Record{Key: key}, Expect: n}}}
}

// TestRefusedCommitsKeepTheirConnection: a commit that is refused for a row that this
// process has written itself loads that row, and neither closes its connection nor begins
// another transaction.
func TestRefusedCommitsKeepTheirConnection(t *testing.T) {
	t.Parallel()
	seen := &connects{}
	s := open(t, newURL(t, "connections", "5"), Options{Tracer: seen})
	key := store.RecordKey{Kind: "instance", Tenant: "acme", ID: "order-1"}
	for i := range 3 { // the first one finds out that no other process is there
		if err := s.Commit(t.Context(), version(key, int64(i))); err != nil {
			t.Fatal(err)
		}
	}
	seen.take()
	before := seen.n.Load()
	const refused = 20
	for range refused {
		if err := s.Commit(t.Context(), version(key, 0)); !errors.Is(err, store.ErrConflict) {
			t.Fatalf("commit: %v, want ErrConflict", err)
		}
	}
	// One more than before is the second writer's, at most.
	if n := seen.n.Load() - before; n > 1 {
		t.Errorf("%d refused commits opened %d connections", refused, n)
	}
	begins, loads := 0, 0
	for _, sql := range seen.take() {
		switch sql {
		case "BEGIN":
			begins++
		case s.db.text.sql(loadRecords):
			loads++
		}
	}
	if begins != refused || loads != refused {
		t.Errorf("%d refused commits began %d transactions and loaded %d times, want %d of each", refused, begins, loads, refused)
	}
}

// TestOnlyUncheckedRowsAreLoaded: of what is cached, rows that are written are checked by
// that, and only the others are loaded.
func TestOnlyUncheckedRowsAreLoaded(t *testing.T) {
	t.Parallel()
	s := open(t, newURL(t, "connections", "5"), Options{})
	written := store.RecordKey{Kind: "instance", Tenant: "acme", ID: "written"}
	refused := store.RecordKey{Kind: "instance", Tenant: "acme", ID: "refused"}
	for i := range 2 {
		for _, key := range []store.RecordKey{written, refused} {
			if err := s.Commit(t.Context(), version(key, int64(i))); err != nil {
				t.Fatal(err)
			}
		}
	}
	elsewhere(t, s, version(refused, 2))
	var seen []int64
	need := &rows.ReadSet{Records: []store.RecordKey{refused, written}}
	err := s.db.Update(t.Context(), need, func(_ int64, state *rows.State) *rows.Changes {
		seen = append(seen, state.Records[refused])
		return &rows.Changes{UpdateRecords: []store.Record{{Key: written, Version: state.Records[written] + 1}}}
	})
	if err != nil || !slices.Equal(seen, []int64{2, 3}) {
		t.Errorf("update: %v; the version of the other record was %v, want the recalled 2 and then 3", err, seen)
	}
	if r, err := s.Get(t.Context(), written); err != nil || r.Version != 3 {
		t.Errorf("get: version %d, %v, want 3", r.Version, err)
	}
}
