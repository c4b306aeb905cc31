package pgstore

import (
	"testing"

	"github.com/abidehq/abide/store"
)

// TestInternals: tables and indexes grow with what they hold, and the sums are those of all
// tables.
func TestInternals(t *testing.T) {
	t.Parallel()
	s := open(t, newURL(t), Options{})
	before, err := s.Internals(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	tx := &store.Tx{}
	for _, id := range []string{"1", "2", "3"} {
		tx.PutRecords = append(tx.PutRecords, store.PutRecord{Record: store.Record{Key: store.RecordKey{Kind: "k", Tenant: "t", ID: id}, Body: make([]byte, 20<<10)}, Expect: store.AnyVersion})
	}
	if err := s.Commit(t.Context(), tx); err != nil {
		t.Fatal(err)
	}
	after, err := s.Internals(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if before["database_bytes"] == 0 || after["table_bytes/records"] <= before["table_bytes/records"] || after["index_bytes"] <= after["index_bytes/records"] {
		t.Errorf("before a commit %v, after it %v", before, after)
	}
}
