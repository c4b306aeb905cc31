package pebblestore

import (
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/store/storetest"
)

// TestModel compares the store with the model where all is in memory.
func TestModel(t *testing.T) {
	t.Parallel()
	storetest.RunModel(t, newBackend)
}

// TestModelWithTinyLimits compares the store with the model where next to nothing
// stays in memory, except that all messages of a key do.
func TestModelWithTinyLimits(t *testing.T) {
	t.Parallel()
	storetest.RunModel(t, backendWith(limits{
		window: 2, load: 1, refs: store.DefaultMessages, body: 6, keys: 1, records: 1, journal: 100,
	}))
}

// TestModelWithTinyKeys compares the store with the model where a key with three
// messages has too many to know them all.
func TestModelWithTinyKeys(t *testing.T) {
	t.Parallel()
	storetest.RunModelOneByOne(t, backendWith(limits{
		window: 3, load: 1, refs: 2, body: 6, keys: 1, records: 1, journal: 100,
	}))
}

// backendWith returns a factory like newBackend, of stores with other limits.
func backendWith(lim limits) storetest.Factory {
	return func(t testing.TB) *storetest.Backend {
		t.Helper()
		clock, fs := base.NewManual(start), vfs.NewMem()
		open := func() *Store {
			s, err := Open(t.Context(), "data", Options{Clock: clock, Logger: quiet(), fs: fs, tune: small, limits: &lim})
			if err != nil {
				t.Fatalf("open: %v", err)
			}
			return s
		}
		shut := func(s store.Store) {
			if err := s.Close(); err != nil {
				t.Fatalf("close: %v", err)
			}
		}
		b := &storetest.Backend{Store: open(), Advance: clock.Advance}
		b.Reopen = func() {
			shut(b.Store)
			b.Store = open()
		}
		t.Cleanup(func() { shut(b.Store) })
		return b
	}
}
