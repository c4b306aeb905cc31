package memstore_test

import (
	"testing"
	"time"

	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/store/memstore"
	"github.com/abidehq/abide/store/storetest"
)

func newBackend(t testing.TB) *storetest.Backend {
	t.Helper()
	return newLimited(t, store.Limits{})
}

func newLimited(t testing.TB, l store.Limits) *storetest.Backend {
	t.Helper()
	clock := base.NewManual(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	s := memstore.New(memstore.Options{Clock: clock, Limits: l})
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return &storetest.Backend{Store: s, Advance: clock.Advance, SetClock: clock.Jump}
}

// TestContract runs the suite that every backend passes.
func TestContract(t *testing.T) {
	t.Parallel()
	storetest.Run(t, newBackend)
}

// TestContractWithTheLeastLimits runs it on a store that takes no more than programs need.
func TestContractWithTheLeastLimits(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t testing.TB) *storetest.Backend {
		t.Helper()
		return newLimited(t, store.LeastLimits())
	})
}
