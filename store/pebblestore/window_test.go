package pebblestore

import (
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/store/storetest"
)

// tiny makes every limit matter: what is due does not fit into the window, a key
// with three messages has too many, and hardly anything is remembered.
var tiny = limits{window: 2, load: 1, refs: 2, body: 4, keys: 1, records: 1, journal: 128}

// TestSuiteWithTinyLimits proves the whole contract again where nothing fits.
func TestSuiteWithTinyLimits(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t testing.TB) *storetest.Backend {
		t.Helper()
		clock := base.NewManual(start)
		fs := vfs.NewMem()
		open := func() *Store {
			s, err := Open(t.Context(), "data", Options{Clock: clock, Logger: quiet(), fs: fs, tune: small, limits: &tiny})
			if err != nil {
				t.Fatalf("open: %v", err)
			}
			return s
		}
		b := &storetest.Backend{Store: open(), Advance: clock.Advance}
		b.Reopen = func() {
			if err := b.Store.Close(); err != nil {
				t.Fatalf("close: %v", err)
			}
			b.Store = open()
		}
		t.Cleanup(func() {
			if err := b.Store.Close(); err != nil {
				t.Errorf("close: %v", err)
			}
		})
		return b
	})
}
