package abide_test

import (
	"testing"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/store/pebblestore"
)

// TestOpenRefusesAnUnfinishedCopy: nothing runs on a part of the truth, and nobody has the
// store open afterwards.
func TestOpenRefusesAnUnfinishedCopy(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	commit := func(tx *store.Tx) {
		t.Helper()
		s, err := pebblestore.Open(t.Context(), dir, pebblestore.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Commit(t.Context(), tx); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	commit(&store.Tx{PutRecords: []store.PutRecord{{Record: store.Record{Key: store.CopyMark}}}})
	e, err := abide.Open(t.Context(), abide.Config{Store: "pebble://" + dir})
	if err == nil {
		_ = e.Close()
	}
	refuses(t, err, store.ErrIncomplete, "abide: open", "copy", "not finished")

	commit(&store.Tx{DeleteRecords: []store.DeleteRecord{{Key: store.CopyMark, Expect: store.AnyVersion}}})
	e, err = abide.Open(t.Context(), abide.Config{Store: "pebble://" + dir})
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
}
