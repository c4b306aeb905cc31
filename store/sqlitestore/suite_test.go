package sqlitestore

import (
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/store/storetest"
)

// begin is when the clocks of tests begin.
var begin = time.UnixMilli(1_800_000_000_000)

// quiet returns a logger for what a test provokes.
func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// newBackend returns a store in a file of its own.
func newBackend(t testing.TB) *storetest.Backend {
	t.Helper()
	clock := base.NewManual(begin)
	path := filepath.Join(t.TempDir(), "abide.db")
	open := func() (store.Store, error) {
		return Open(t.Context(), path, Options{Clock: clock, Logger: quiet(), CacheBytes: 1 << 20})
	}
	b := &storetest.Backend{Advance: clock.Advance, SetClock: clock.Jump, Open: open}
	var err error
	if b.Store, err = open(); err != nil {
		t.Fatalf("open: %v", err)
	}
	b.Reopen = func() {
		if err := b.Store.Close(); err != nil {
			t.Fatalf("close: %v", err)
		}
		if b.Store, err = open(); err != nil {
			t.Fatalf("open again: %v", err)
		}
	}
	t.Cleanup(func() {
		if err := b.Store.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return b
}

func TestSuite(t *testing.T) {
	t.Parallel()
	storetest.Run(t, newBackend)
}

func TestModel(t *testing.T) {
	t.Parallel()
	storetest.RunModel(t, newBackend)
}
