package pebblestore

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/internal/testenv"
	"github.com/abidehq/abide/store"
)

// faulty is a file system on which one operation fails, or all from one on.
type faulty struct {
	fs    *vfs.MemFS
	first int64 // the operation that fails
	last  int64 // the last one that does
	count atomic.Int64
	what  atomic.Pointer[errorfs.Op] // that failed first
}

// String says what this is; errorfs asks for it.
func (f *faulty) String() string { return "faulty" }

// MaybeError counts an operation, and returns the error of one that fails.
func (f *faulty) MaybeError(op errorfs.Op) error {
	n := f.count.Add(1)
	if n < f.first || n > f.last {
		return nil
	}
	f.what.CompareAndSwap(nil, &op)
	return errorfs.ErrInjected
}

// failed says which operation has failed.
func (f *faulty) failed() string {
	op := f.what.Load()
	if op == nil {
		return "nothing has failed"
	}
	return fmt.Sprintf("operation %d has failed, kind %d of %s", f.first, op.Kind, op.Path)
}

// TestFaults makes every file operation fail, once and from then on: nothing panics
// or hangs, calls fail or work, and what was acknowledged is there in the end.
func TestFaults(t *testing.T) {
	t.Parallel()
	seed := testenv.Seed(t)
	all := &faulty{first: -1}
	runFaulty(t, all, seed)
	if t.Failed() {
		return
	}
	operations := all.count.Load()
	t.Logf("there are %d operations", operations)
	step := max(1, operations/15)
	if testenv.Long() {
		step = 1
	}
	faults := make(chan *faulty)
	var wg sync.WaitGroup
	for range 4 { // most of the time they wait
		wg.Go(func() {
			for f := range faults {
				runFaulty(t, f, seed)
			}
		})
	}
	rnd := rand.New(rand.NewPCG(seed, 0))
	for n := int64(1); n <= operations && !t.Failed(); n += step {
		at := n + rnd.Int64N(step)
		faults <- &faulty{first: at, last: at}
		faults <- &faulty{first: at, last: math.MaxInt64}
	}
	close(faults)
	wg.Wait()
}

// runFaulty runs a small workload on a faulty file system, twice, and checks what is
// left after a restart of the process and after a power loss.
func runFaulty(t *testing.T, f *faulty, seed uint64) {
	t.Helper()
	f.fs = vfs.NewCrashableMem()
	clock := base.NewManual(start)
	load := newWorkload(clock, 2, seed)
	within(t, f.failed, func() {
		for range 2 {
			if err := faultyRun(t.Context(), load, f); err != nil {
				t.Errorf("%s: %v", f.failed(), err)
				return
			}
		}
		m := load.after(load.before())
		for _, percent := range []int{100, 0} {
			left := f.fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: rand.New(rand.NewPCG(seed, 1))})
			if _, err := recoverFrom(t.Context(), load, crash{fs: left, moment: m}, true); err != nil {
				t.Errorf("%s: what is left of %d %% of what was not synced: %v", f.failed(), percent, err)
			}
		}
	})
}

// faultyRun opens a store, works with it, and closes it. It returns what the store
// must not do.
func faultyRun(ctx context.Context, load *workload, f *faulty) error {
	s, err := Open(ctx, "data", Options{Clock: load.clock, Logger: quiet(), fs: errorfs.Wrap(f.fs, f), tune: busy, limits: &tight})
	if err == nil {
		waiters := startWaiting(ctx, s)
		if err := f.worked(load.rounds(ctx, s)); err != nil {
			return err
		}
		readEverything(ctx, s)
		err = s.Close()
		for _, err := range waiters() {
			if !errors.Is(err, store.ErrClosed) && !injected(err) {
				return violates("a call that waited ended with %w", err)
			}
		}
		if err := s.Close(); err != nil {
			return violates("closing it again: %w", err)
		}
	}
	if errors.Is(err, store.ErrFailed) { // it keeps the directory until the process ends
		f.fs = f.fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rand.New(rand.NewPCG(0, 0))})
	}
	return f.worked(err)
}

// injected reports whether an error has an operation that failed as its cause. Of
// some, Pebble gives only the text.
func injected(err error) bool {
	return errors.Is(err, errorfs.ErrInjected) ||
		errors.Is(err, store.ErrFailed) && strings.Contains(err.Error(), errorfs.ErrInjected.Error())
}

// worked returns an error that has another cause than an operation that failed.
func (f *faulty) worked(err error) error {
	if _, ok := errors.AsType[violation](err); ok || f.what.Load() == nil || !injected(err) {
		return err
	}
	return nil
}

// rounds lets the workers work. One whose step has failed determines the outcome
// and continues.
func (l *workload) rounds(ctx context.Context, s *Store) error {
	l.sharedLen.Store(-1)
	for range 3 {
		for _, w := range l.workers {
			if err := w.resync(ctx, s); err != nil {
				return err
			}
		}
		for _, err := range l.runAll(ctx, s, 12) {
			_, violated := errors.AsType[violation](err)
			if violated || errors.Is(err, store.ErrFailed) || (err != nil && !injected(err)) {
				return err
			}
		}
	}
	return nil
}

// startWaiting starts calls that wait, and returns a function that returns their
// errors when they have ended.
func startWaiting(ctx context.Context, s *Store) (ended func() []error) {
	errs := make([]error, 2)
	var wg sync.WaitGroup
	wg.Go(func() {
		_, errs[0] = s.Claim(ctx, store.ClaimRequest{Queue: turns, Routes: []string{"nobody"}, Max: 1, Lease: time.Hour, Wait: 1000 * time.Hour})
	})
	wg.Go(func() {
		_, errs[1] = s.Await(ctx, store.RecordKey{Kind: "nothing", ID: "a"}, 0)
	})
	return func() []error {
		wg.Wait()
		return errs
	}
}

// readEverything calls all that reads. Whether it fails does not matter here, only
// that it ends.
func readEverything(ctx context.Context, s *Store) {
	_, _ = s.Stats(ctx)
	_, _ = s.List(ctx, store.Query{Kind: kind})
	_, _ = s.Count(ctx, store.Query{Kind: kind, Tags: map[string]string{"a": "b"}}, store.MaxCount)
	_, _ = s.Get(ctx, store.RecordKey{Kind: kind, ID: "a"})
	_, _ = s.ReadLog(ctx, sharedKey, 0)
	_, _ = s.Pending(ctx, sharedKey, 0)
	_, _ = s.Claim(ctx, store.ClaimRequest{Queue: turns, Routes: []string{"nobody"}, Max: 1, Lease: time.Hour})
}

// within runs f, and fails with what all goroutines do if it does not end.
func within(t *testing.T, what func() string, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
	case <-time.After(2 * time.Minute):
		stacks := make([]byte, 1<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		t.Errorf("%s: it hangs:\n%s", what(), slices.Clip(stacks))
	}
}
