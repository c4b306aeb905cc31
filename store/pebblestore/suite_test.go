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

// roomy is for tests that read much, and to whom it does not matter whether a file or the
// cache is read. With the race detector Pebble overwrites each byte of each block that
// leaves the cache, to see who still reads it: a cache that is too small then takes ten
// times as long as the test itself.
func roomy(o *pebble.Options) {
	small(o)
	o.CacheSize = 256 << 20 // of which a block gets at most one of several parts
}

// unwritten is for tests that put very much, and are not about files: all of it stays in
// memory. With the race detector Pebble notes a stack for each table that is looked into.
func unwritten(o *pebble.Options) {
	o.MemTableSize = 64 << 20
	o.CacheSize = 1 << 20
}

// openUnwritten opens a new store that is [unwritten].
func openUnwritten(t *testing.T) *Store {
	t.Helper()
	s, err := Open(t.Context(), "data", Options{Clock: base.NewManual(start), Logger: quiet(), fs: vfs.NewMem(), tune: unwritten})
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

// start is when the clocks of tests begin.
var start = time.UnixMilli(1_800_000_000_000)

// newBackend returns a store on a file system in memory. Reopening it loses what
// was not synced, but not what the operating system had: as a killed process would.
func newBackend(t testing.TB) *storetest.Backend {
	t.Helper()
	clock := base.NewManual(start)
	fs := vfs.NewMem()
	try := func() (store.Store, error) {
		s, err := Open(t.Context(), "data", Options{Clock: clock, Logger: quiet(), fs: fs, tune: roomy})
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
	b := &storetest.Backend{Store: open(), Advance: clock.Advance, SetClock: clock.Jump, Open: try}
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
