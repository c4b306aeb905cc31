package teststore

import (
	"testing"
	"time"

	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/store/storetest"
)

// newBackend returns a store in memory behind the wrapper, for a caller who lives by a
// manual clock.
func newBackend(t testing.TB) *storetest.Backend {
	t.Helper()
	clock := base.NewManual(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	s := newStore(t, "memory", clock)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return &storetest.Backend{Store: s, Advance: clock.Advance}
}

// TestContract runs the suite that every backend passes: what the wrapper adds to a
// backend breaks no rule.
func TestContract(t *testing.T) {
	t.Parallel()
	storetest.Run(t, newBackend)
}

// TestModel compares the wrapper with what is inside.
func TestModel(t *testing.T) {
	t.Parallel()
	storetest.RunModel(t, newBackend)
}
