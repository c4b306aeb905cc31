package pebblestore

import (
	"testing"

	"github.com/abidehq/abide/store"
)

// TestInternals: what was committed is in a memtable, and a flush moves it to a table.
func TestInternals(t *testing.T) {
	t.Parallel()
	s := openUnwritten(t)
	put := store.PutRecord{Record: store.Record{Key: store.RecordKey{Kind: "k", Tenant: "t", ID: "1"}, Body: []byte("data")}, Expect: store.AnyVersion}
	if err := s.Commit(t.Context(), &store.Tx{PutRecords: []store.PutRecord{put}}); err != nil {
		t.Fatal(err)
	}
	before, err := s.Internals(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := s.db.Flush(); err != nil {
		t.Fatal(err)
	}
	after, err := s.Internals(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if before["memtable_bytes"] == 0 || before["table_bytes"] != 0 || after["table_bytes"] == 0 || after["log_bytes"] == 0 {
		t.Errorf("before a flush %v, after it %v", before, after)
	}
}
