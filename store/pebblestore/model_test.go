package pebblestore

import (
	"testing"

	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/store/storetest"
)

// TestModel compares the store with the model where all is in memory.
func TestModel(t *testing.T) {
	t.Parallel()
	storetest.RunModel(t, newBackend)
}

// TestModelWithTinyLimits compares the store with the model where next to nothing
// stays in memory, except that all messages of a key may.
func TestModelWithTinyLimits(t *testing.T) {
	t.Parallel()
	storetest.RunModel(t, backendWith(limits{
		window: 2, load: 1, refs: store.DefaultMessages, body: 6, keys: 2, records: 1, total: 4, idleRefs: 1, journal: 100,
	}))
}

// TestModelWithTinyKeys compares the store with the model where a key with three
// messages has too many to know them all.
func TestModelWithTinyKeys(t *testing.T) {
	t.Parallel()
	storetest.RunModelOneByOne(t, backendWith(limits{
		window: 3, load: 1, refs: 2, body: 6, keys: 1, records: 1, total: 8, journal: 100,
	}))
}

// backendWith returns a factory like newBackend, of stores with other limits.
func backendWith(lim limits) storetest.Factory {
	return func(t testing.TB) *storetest.Backend {
		t.Helper()
		h := newHouse(t, lim)
		b := &storetest.Backend{Store: h.Store, Advance: h.clock.Advance}
		b.Reopen = func() {
			h.reopen()
			b.Store = h.Store
		}
		return b
	}
}
