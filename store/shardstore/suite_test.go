package shardstore_test

import (
	"testing"
	"time"

	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/store/memstore"
	"github.com/abidehq/abide/store/shardstore"
	"github.com/abidehq/abide/store/storetest"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// overMemory returns a store over three stores in memory.
func overMemory(t testing.TB) *storetest.Backend {
	t.Helper()
	clock := base.NewManual(noon)
	var shards []shardstore.Shard
	for _, name := range []string{"a", "b", "c"} {
		shards = append(shards, shardstore.Shard{Name: name, Store: memstore.New(memstore.Options{Clock: clock})})
	}
	s := open(t, clock, shards...)
	return &storetest.Backend{Store: s, Advance: clock.Advance, SetClock: clock.Jump, Apart: apart(s)}
}

// open opens a store over shards, and closes it at the end of the test.
func open(t testing.TB, clock base.Clock, shards ...shardstore.Shard) *shardstore.Store {
	t.Helper()
	s, err := shardstore.New(t.Context(), shards, shardstore.Options{Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

// apart returns whether tenants are on different shards.
func apart(s *shardstore.Store) func(a, b string) bool {
	return func(a, b string) bool { d := s.Directory(); return d.Of(a) != d.Of(b) }
}

// TestContract runs the suite that every backend passes, over stores in memory.
func TestContract(t *testing.T) {
	t.Parallel()
	storetest.Run(t, overMemory)
}

// TestModel compares the store with the model.
func TestModel(t *testing.T) {
	t.Parallel()
	storetest.RunModel(t, overMemory)
}
