package pebblestore

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/cockroachdb/pebble/v2"

	"github.com/abidehq/abide/store"
)

// TestPressureOfWhatIsBehind: each of what is behind is a pressure of 1 before commits wait.
func TestPressureOfWhatIsBehind(t *testing.T) {
	t.Parallel()
	sublevels := busySublevels(runtime.GOMAXPROCS(0))
	for _, tt := range []struct {
		name string
		set  func(m *pebble.Metrics)
		busy bool
	}{
		{"many small memtables", func(m *pebble.Metrics) { m.MemTable.Count, m.MemTable.Size = memTables+1, memTable }, false},
		{"one that is flushed", func(m *pebble.Metrics) { m.MemTable.Size = (busyMemTables - 1) * memTable }, false},
		{"one that waits to be flushed", func(m *pebble.Metrics) { m.MemTable.Size = busyMemTables * memTable }, true},
		{"few sublevels", func(m *pebble.Metrics) { m.Levels[0].Sublevels = int32(sublevels) - 1 }, false},
		{"many sublevels", func(m *pebble.Metrics) { m.Levels[0].Sublevels = int32(sublevels) }, true},
		{"little debt", func(m *pebble.Metrics) { m.Compact.EstimatedDebt = busyDebt - 1 }, false},
		{"much debt", func(m *pebble.Metrics) { m.Compact.EstimatedDebt = busyDebt }, true},
	} {
		m := &pebble.Metrics{}
		tt.set(m)
		if got := pressureOf(m); got >= 1 != tt.busy || got < 0 {
			t.Errorf("%s: pressure %v", tt.name, got)
		}
	}
	if busyMemTables >= memTables {
		t.Errorf("commits wait at %d memtables, and the pressure is 1 at %d", memTables, busyMemTables)
	}
	for _, cores := range []int{1, 2, 4, 8, 64} {
		if n := busySublevels(cores); n > maxSublevels/2 || n <= sublevelsPerCompaction*maxCompactions(cores)/2 {
			t.Errorf("%d cores: the pressure is 1 at %d sublevels, and commits wait at %d", cores, n, maxSublevels)
		}
	}
}

// TestPressureGrowsWithoutCompactions: sublevels that nobody compacts are pressure, compactions take it
// away, and a closed store has none.
func TestPressureGrowsWithoutCompactions(t *testing.T) {
	t.Parallel()
	s, err := Open(t.Context(), t.TempDir(), Options{tune: func(o *pebble.Options) { o.DisableAutomaticCompactions = true }})
	if err != nil {
		t.Fatal(err)
	}
	if got := s.Pressure(); got > 0.5 {
		t.Errorf("pressure %v of an empty store", got)
	}
	for i := range busySublevels(runtime.GOMAXPROCS(0)) {
		put := store.PutRecord{Record: store.Record{Key: store.RecordKey{Kind: "k", ID: "1"}, Body: fmt.Append(nil, i)}, Expect: store.AnyVersion}
		if err := s.Commit(t.Context(), &store.Tx{PutRecords: []store.PutRecord{put}}); err != nil {
			t.Fatal(err)
		}
		if err := s.db.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	if got := s.Pressure(); got < 1 {
		t.Errorf("pressure %v without compactions", got)
	}
	if err := s.db.Compact(t.Context(), []byte{0}, []byte{0xff}, false); err != nil {
		t.Fatal(err)
	}
	if got := s.Pressure(); got >= 0.5 {
		t.Errorf("pressure %v after a compaction", got)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if got := s.Pressure(); got != 0 {
		t.Errorf("pressure %v of a closed store", got)
	}
}

func BenchmarkPressure(b *testing.B) {
	s, err := Open(b.Context(), b.TempDir(), Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	for b.Loop() {
		s.Pressure()
	}
}
