package sqlitestore

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/store"
)

// TestClockMark is the latest time in the file; a reset writes what the clock shows, and a store
// that is opened then begins with that.
func TestClockMark(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	path := filepath.Join(t.TempDir(), "db")
	at := func(now time.Time, f func(s *Store)) {
		t.Helper()
		s, err := Open(t.Context(), path, Options{Clock: base.NewManual(now)})
		if err != nil {
			t.Fatal(err)
		}
		f(s)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	at(noon.Add(8*time.Second), func(s *Store) {
		key := store.RecordKey{Kind: "k", ID: "r"}
		if err := s.Commit(t.Context(), &store.Tx{PutRecords: []store.PutRecord{{Record: store.Record{Key: key}}}}); err != nil {
			t.Fatal(err)
		}
	})
	at(noon, func(s *Store) {
		m, err := s.ClockMark(t.Context())
		if err != nil || m.Lead() != 8*time.Second || !m.Counts() {
			t.Errorf("the mark is %+v, %v", m, err)
		}
		if m, err = s.ResetClockMark(t.Context()); err != nil || m.Lead() != 8*time.Second {
			t.Errorf("before the reset it was %+v, %v", m, err)
		}
	})
	at(noon, func(s *Store) {
		if m, err := s.ClockMark(t.Context()); err != nil || m.Lead() != 0 || m.Counts() {
			t.Errorf("after the reset it is %+v, %v", m, err)
		}
		if stats, err := s.Stats(t.Context()); err != nil || !stats.Now.Equal(noon) {
			t.Errorf("the time is %v, %v", stats.Now, err)
		}
	})
}
