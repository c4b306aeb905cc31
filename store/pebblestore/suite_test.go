package pebblestore

import (
	"log/slog"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/store/storetest"
)

// small keeps the many stores of a test from taking all memory.
func small(o *pebble.Options) {
	o.MemTableSize = 1 << 20
	o.CacheSize = 1 << 20
}

// start is when the clocks of tests begin.
var start = time.UnixMilli(1_800_000_000_000)

// newBackend returns a store on a file system in memory. Reopening it loses what
// was not synced, but not what the operating system had: as a killed process would.
func newBackend(t testing.TB) *storetest.Backend {
	t.Helper()
	clock := base.NewManual(start)
	fs := vfs.NewMem()
	try := func() (store.Store, error) {
		s, err := Open(t.Context(), "data", Options{Clock: clock, Logger: quiet(), fs: fs, tune: small})
		if err != nil {
			return nil, err
		}
		return s, nil
	}
	open := func() store.Store {
		s, err := try()
		if err != nil {
			t.Fatalf("open: %v", err)
		}
		return s
	}
	b := &storetest.Backend{Store: open(), Advance: clock.Advance, Open: try}
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
}

// quiet returns a logger for what a test provokes.
func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func TestSuite(t *testing.T) {
	t.Parallel()
	storetest.Run(t, newBackend)
}
