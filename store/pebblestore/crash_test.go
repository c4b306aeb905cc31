package pebblestore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/internal/testenv"
	"github.com/abidehq/abide/store"
)

// busy makes Pebble write to disk, merge and rotate what it can as often as it can.
func busy(o *pebble.Options) {
	o.MemTableSize = 64 << 10
	o.CacheSize = 1 << 20
	o.L0CompactionThreshold = 1
	o.LBaseMaxBytes = 128 << 10
	o.MaxManifestFileSize = 4 << 10
}

// tight are limits that a small workload reaches.
var tight = limits{window: 16, load: 2, refs: 4, body: 64, keys: 4, records: 4, journal: 2 << 10}

// crash is a file system as it is after the machine has lost its power, and what is
// known of the workload at that moment.
type crash struct {
	fs     *vfs.MemFS
	dir    string // of the store; empty means "data"
	moment *moment
	where  string
}

// crasher takes power losses at syncs of files, before and after them.
type crasher struct {
	fs      *vfs.MemFS
	load    *workload
	crashes chan crash
	left    atomic.Int64 // how many more to take
	rare    atomic.Int64 // one of so many syncs of the write-ahead log

	mu   sync.Mutex
	rnd  *rand.Rand
	sync *syncFS // through which the store uses fs
}

// at decides whether the power is lost here, and if so, what is left.
func (c *crasher) at(when, path string) {
	c.mu.Lock()
	in := 3
	if strings.HasSuffix(path, ".log") { // there are many more of these
		in = int(c.rare.Load())
	}
	take := c.rnd.IntN(in) == 0 && c.left.Add(-1) >= 0
	cfg := vfs.CrashCloneCfg{
		UnsyncedDataPercent: []int{0, 0, 25, 50, 75, 100}[c.rnd.IntN(6)],
		RNG:                 rand.New(rand.NewPCG(c.rnd.Uint64(), 0)),
	}
	c.mu.Unlock()
	if !take {
		return
	}
	m := c.load.before()
	fs := c.sync.crashClone(c.fs, cfg)
	if fs == nil {
		return // a rename that was half done
	}
	c.crashes <- crash{fs, "", c.load.after(m), fmt.Sprintf("%s a sync of %s, with %d %% of what was not synced", when, path, cfg.UnsyncedDataPercent)}
}

// TestPowerLoss loses the power before and after syncs of files, under load, and
// checks what is left each time. It continues from the last power loss.
func TestPowerLoss(t *testing.T) {
	t.Parallel()
	generations, workers, steps, losses := 3, 6, 50, 20
	if testenv.Long() {
		generations, workers, steps, losses = 10, 12, 150, 150
	}
	seed := testenv.Seed(t)
	fs := vfs.NewCrashableMem()
	clock := base.NewManual(start)
	load := newWorkload(clock, workers, seed)
	for g := range generations {
		c := &crasher{fs: fs, load: load, crashes: make(chan crash), rnd: rand.New(rand.NewPCG(seed, uint64(1000+g)))}
		c.left.Store(int64(losses))
		c.rare.Store(int64(max(1, workers*steps/losses/2)))
		last := powerLosses(t, c, steps)
		if t.Failed() {
			return
		}
		fs = last.fs
		found, err := recoverFrom(t.Context(), load, last, false)
		if err != nil {
			t.Fatalf("generation %d: %v", g, err)
		}
		load.resume(last.moment, found)
	}
}

// powerLosses runs the workload once, from opening the store to closing it, and
// checks what is left of each power loss. It returns one more, under full load.
func powerLosses(t *testing.T, c *crasher, steps int) crash {
	t.Helper()
	var checkers sync.WaitGroup
	for range 2 {
		checkers.Go(func() {
			for x := range c.crashes {
				if _, err := recoverFrom(t.Context(), c.load, x, true); err != nil {
					t.Errorf("power lost %s: %v", x.where, err)
					c.left.Store(0)
				}
			}
		})
	}
	fs := &syncFS{FS: c.fs, before: func(path string) { c.at("before", path) }, after: func(path string) { c.at("after", path) }}
	c.sync = fs
	s, err := Open(t.Context(), "data", Options{Clock: c.load.clock, Logger: quiet(), fs: fs, tune: busy, limits: &tight})
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	failOn(t, c.load.runAll(t.Context(), s, steps))
	m := c.load.before()
	var left *vfs.MemFS
	for n := uint64(2); left == nil; n++ {
		left = fs.crashClone(c.fs, vfs.CrashCloneCfg{UnsyncedDataPercent: 50, RNG: rand.New(rand.NewPCG(1, n))})
	}
	last := crash{left, "", c.load.after(m), "at the end"}
	if err := s.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	close(c.crashes)
	checkers.Wait()
	return last
}

func failOn(t *testing.T, errs []error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Errorf("%v", err)
		}
	}
}

// recoverFrom opens what a crash has left, and checks it. With drain, everything
// that is pending is claimed too, of which nothing is left then.
func recoverFrom(ctx context.Context, load *workload, c crash, drain bool) (found []int, err error) {
	clock := base.NewManual(c.moment.now)
	if !drain { // the crash is needed again
		c.fs = c.fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 0})
	}
	s, err := Open(ctx, cmp.Or(c.dir, "data"), Options{Clock: clock, Logger: quiet(), fs: c.fs, tune: busy, limits: &tight})
	if err != nil {
		return nil, fmt.Errorf("open: %w", err)
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if found, err = load.verify(ctx, s, c.moment); err != nil {
		return nil, err
	}
	if drain {
		if err := load.drain(ctx, s, clock, c.moment, found); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// TestNewDirectoryOutlivesPowerLoss is about directories that opening a store makes
// on the way to its own.
func TestNewDirectoryOutlivesPowerLoss(t *testing.T) {
	t.Parallel()
	const dir = "var/lib/abide/data"
	fs := vfs.NewCrashableMem()
	s, err := Open(t.Context(), dir, Options{Clock: base.NewManual(start), Logger: quiet(), fs: fs, tune: small})
	if err != nil {
		t.Fatal(err)
	}
	record := store.Record{Key: store.RecordKey{Kind: kind, ID: "a"}, Time: time.Time{}, Body: []byte("kept")}
	if err := s.Commit(t.Context(), &store.Tx{PutRecords: []store.PutRecord{{Record: record}}}); err != nil {
		t.Fatal(err)
	}
	left := fs.CrashClone(vfs.CrashCloneCfg{})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s, err = Open(t.Context(), dir, Options{Clock: base.NewManual(start), Logger: quiet(), fs: left, tune: small})
	if err != nil {
		t.Fatal(err)
	}
	got, err := s.Get(t.Context(), record.Key)
	if err != nil || string(got.Body) != "kept" {
		t.Errorf("after a power loss: %v, %v", got, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}
