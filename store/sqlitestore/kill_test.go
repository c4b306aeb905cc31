package sqlitestore

import (
	"context"
	"testing"

	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/store/storetest"
)

func TestKilledProcesses(t *testing.T) {
	t.Parallel()
	storetest.RunKilled(t, func() string { return newPath(t) }, func(ctx context.Context, path string) (store.Store, error) {
		return Open(ctx, path, Options{Logger: quiet()})
	})
}

// TestKilledInATransaction kills a process that is in the middle of a transaction so
// large that much of it is on disk already.
func TestKilledInATransaction(t *testing.T) {
	t.Parallel()
	path := newPath(t)
	s := openAt(t, path)
	put := func(id string) {
		t.Helper()
		if err := s.Commit(t.Context(), &store.Tx{PutRecords: []store.PutRecord{{Record: store.Record{Key: store.RecordKey{Kind: "half", ID: id}}}}}); err != nil {
			t.Fatal(err)
		}
	}
	put("before")
	c := startChild(t, "halfway", path)
	c.expect(t, "halfway")
	if n, err := s.Count(t.Context(), store.Query{Kind: "half"}, 10); n != 1 || err != nil {
		t.Errorf("%d records while the other process is halfway, want 1: %v", n, err)
	}
	c.kill(t)
	put("after")
	if n, err := s.Count(t.Context(), store.Query{Kind: "half"}, 10); n != 2 || err != nil {
		t.Errorf("%d records after the other process was killed, want 2: %v", n, err)
	}
	verifies(t, s)
}
