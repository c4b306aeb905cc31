package pebblestore

import (
	"context"
	"errors"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/store"
)

// gate is a file system whose syncs of some files wait while it is shut.
type gate struct {
	syncFS
	mu     sync.Mutex
	shut   func(path string) bool
	opened chan struct{}
	waits  atomic.Int32 // how many syncs wait
}

func newGate() *gate {
	g := &gate{syncFS: syncFS{FS: vfs.NewMem()}}
	g.before, g.after = g.pass, func(string) {}
	return g
}

func (g *gate) pass(path string) {
	g.mu.Lock()
	wait := g.shut != nil && g.shut(path)
	opened := g.opened
	g.mu.Unlock()
	if wait {
		g.waits.Add(1)
		<-opened
	}
}

// close makes syncs of files wait, until open is called.
func (g *gate) close(shut func(path string) bool) (open func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut, g.opened = shut, make(chan struct{})
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.shut = nil
		close(g.opened)
	}
}

// eventually waits for something to happen.
func eventually(t *testing.T, what string, happened func() bool) {
	t.Helper()
	deadline := time.After(time.Minute)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !happened() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("%s: it does not happen", what)
		}
	}
}

// TestReadersDoNotWaitForSyncs holds up the syncs of commits, and those of Pebble's
// list of files, while everything is read.
func TestReadersDoNotWaitForSyncs(t *testing.T) {
	t.Parallel()
	for name, shut := range map[string]func(path string) bool{
		"of commits":           func(path string) bool { return strings.HasSuffix(path, ".log") },
		"of the list of files": func(path string) bool { return strings.Contains(path, "MANIFEST") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newGate()
			s, err := Open(t.Context(), "data", Options{Clock: base.NewManual(start), Logger: quiet(), fs: g, tune: small})
			if err != nil {
				t.Fatal(err)
			}
			put := func(n int) error {
				m := message(n, n, time.Time{})
				return s.Commit(t.Context(), &store.Tx{
					Put: []store.Message{m}, Append: []store.Append{{Key: m.Key, Entries: [][]byte{{1}}}},
					PutRecords: []store.PutRecord{{Record: store.Record{Key: store.RecordKey{Kind: kind, ID: m.ID}}}},
				})
			}
			if err := put(0); err != nil {
				t.Fatal(err)
			}
			open := g.close(shut)
			var wg sync.WaitGroup
			wg.Go(func() {
				if err := put(1); err != nil {
					t.Errorf("commit: %v", err)
				}
				if err := s.db.Flush(); err != nil {
					t.Errorf("flush: %v", err)
				}
			})
			eventually(t, "a sync waits", func() bool { return g.waits.Load() > 0 })
			within(t, func() string { return "readers" }, func() { readAll(t, s) })
			open()
			wg.Wait()
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// readAll calls everything that reads, for what message 0 has brought.
func readAll(t *testing.T, s *Store) {
	t.Helper()
	m := message(0, 0, time.Time{})
	_, getErr := s.Get(t.Context(), store.RecordKey{Kind: kind, ID: m.ID})
	_, logErr := s.ReadLog(t.Context(), m.Key, 0)
	_, listErr := s.List(t.Context(), store.Query{Kind: kind})
	_, countErr := s.Count(t.Context(), store.Query{Kind: kind, Names: []string{""}}, store.MaxCount)
	_, pendingErr := s.Pending(t.Context(), m.Key, 0)
	_, statsErr := s.Stats(t.Context())
	_, claimErr := s.Claim(t.Context(), store.ClaimRequest{Queue: "turns", Routes: []string{"serve"}, Max: 1, Lease: time.Hour})
	if err := errors.Join(getErr, logErr, listErr, countErr, pendingErr, statsErr, claimErr); err != nil {
		t.Error(err)
	}
}

// TestExpiredBeforeItIsDurable puts a message for a key without a route whose time is
// over before the commit is on disk: it goes to quarantine then, and not before.
func TestExpiredBeforeItIsDurable(t *testing.T) {
	t.Parallel()
	g := newGate()
	clock := base.NewManual(start)
	s, err := Open(t.Context(), "data", Options{Clock: clock, Logger: quiet(), fs: g, tune: small})
	if err != nil {
		t.Fatal(err)
	}
	open := g.close(func(path string) bool { return strings.HasSuffix(path, ".log") })
	committed := make(chan error, 1)
	go func() {
		m := message(0, 0, time.Time{})
		m.Route, m.TTL = "", time.Millisecond
		committed <- s.Commit(t.Context(), &store.Tx{Put: []store.Message{m}})
	}()
	eventually(t, "the sync waits", func() bool { return g.waits.Load() > 0 })
	sweep := func() int {
		t.Helper()
		if _, err := s.Claim(t.Context(), store.ClaimRequest{Queue: "turns", Routes: []string{"serve"}, Max: 1, Lease: time.Hour}); err != nil {
			t.Fatal(err)
		}
		page, err := s.List(t.Context(), store.Query{Kind: store.KindQuarantine})
		if err != nil {
			t.Fatal(err)
		}
		return len(page.Records)
	}
	clock.Advance(time.Second)
	if n := sweep(); n != 0 {
		t.Errorf("%d messages are in quarantine before they are durable", n)
	}
	open()
	if err := <-committed; err != nil {
		t.Fatal(err)
	}
	if n := sweep(); n != 1 {
		t.Errorf("%d messages are in quarantine, want 1", n)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// failing is a file system on which some operations fail when it is told so.
func failing(fs vfs.FS, fails func(op errorfs.Op) bool) (vfs.FS, *errorfs.Toggle) {
	toggle := &errorfs.Toggle{Injector: errorfs.InjectorFunc(func(op errorfs.Op) error {
		if fails(op) {
			return errorfs.ErrInjected
		}
		return nil
	})}
	return errorfs.Wrap(fs, toggle), toggle
}

// TestErrorWhileServing makes the disk fail while calls that wait are served, at a
// moment when no other call is under way: an attempt too many sends a message to
// quarantine, and it cannot be read.
func TestErrorWhileServing(t *testing.T) {
	t.Parallel()
	fs, toggle := failing(vfs.NewMem(), func(op errorfs.Op) bool { return op.Kind == errorfs.OpFileReadAt })
	clock := base.NewManual(start)
	s, err := Open(t.Context(), "data", Options{Clock: clock, Logger: quiet(), fs: fs, tune: small})
	if err != nil {
		t.Fatal(err)
	}
	m := message(0, 0, time.Time{})
	m.Body = make([]byte, 2*defaultLimits.body)
	if err := s.Commit(t.Context(), &store.Tx{Put: []store.Message{m}}); err != nil {
		t.Fatal(err)
	}
	req := store.ClaimRequest{Queue: "turns", Routes: []string{"serve"}, Max: 1, Lease: time.Second, MaxAttempts: 1}
	if claims, err := s.Claim(t.Context(), req); err != nil || len(claims) != 1 {
		t.Fatalf("claimed %v, %v", claims, err)
	}
	if err := s.db.Flush(); err != nil {
		t.Fatal(err)
	}
	toggle.On()
	req.Wait = time.Hour
	errs := make(chan error)
	for range 3 {
		go func() {
			_, err := s.Claim(t.Context(), req)
			errs <- err
		}()
	}
	eventually(t, "three calls wait", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.waits.Waiting() == 3
	})
	clock.Advance(time.Minute)
	within(t, func() string { return "calls that wait" }, func() {
		for range 3 {
			if err := <-errs; !errors.Is(err, errorfs.ErrInjected) {
				t.Errorf("a call that waited ended with %v", err)
			}
		}
		if err := s.Close(); err != nil && !errors.Is(err, store.ErrFailed) {
			t.Errorf("close: %v", err)
		}
	})
}

// closeFailed closes a store that has failed, twice.
func closeFailed(t *testing.T, s *Store) {
	t.Helper()
	within(t, func() string { return "closing" }, func() {
		if err := s.Commit(t.Context(), &store.Tx{Put: []store.Message{message(0, 0, time.Time{})}}); !errors.Is(err, store.ErrFailed) {
			t.Errorf("commit: %v, want %v", err, store.ErrFailed)
		}
		if err := s.Close(); !errors.Is(err, store.ErrFailed) {
			t.Errorf("close: %v, want %v", err, store.ErrFailed)
		}
		if err := s.Close(); err != nil {
			t.Errorf("close again: %v", err)
		}
	})
}

// TestTablesThatCannotBeWritten lets all tables fail, but not the log: commits continue
// as long as there is room in memory, and then fail, and do not wait without end.
func TestTablesThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	mem := vfs.NewCrashableMem()
	fs, toggle := failing(mem, func(op errorfs.Op) bool { return op.Kind == errorfs.OpCreate && isTable(op.Path) })
	s, err := Open(t.Context(), "data", Options{Clock: base.NewManual(start), Logger: quiet(), fs: fs, tune: busy})
	if err != nil {
		t.Fatal(err)
	}
	toggle.On()
	acked := 0
	within(t, func() string { return "commits" }, func() {
		for {
			m := message(acked, acked, time.Time{})
			m.Body = make([]byte, 4<<10)
			if err := s.Commit(t.Context(), &store.Tx{Put: []store.Message{m}}); err != nil {
				if !errors.Is(err, store.ErrFailed) {
					t.Errorf("commit: %v, want %v", err, store.ErrFailed)
				}
				return
			}
			acked++
		}
	})
	closeFailed(t, s)
	left := mem.CrashClone(vfs.CrashCloneCfg{})
	s, err = Open(t.Context(), "data", Options{Clock: base.NewManual(start), Logger: quiet(), fs: left, tune: busy})
	if err != nil {
		t.Fatal(err)
	}
	if n, err := countPending(t.Context(), s); err != nil || n < acked || n > acked+1 {
		t.Errorf("%d messages are there, and %d were acknowledged: %v", n, acked, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestCloseLeavesNothingRunning is not parallel, because it counts goroutines.
func TestCloseLeavesNothingRunning(t *testing.T) {
	before := runtime.NumGoroutine()
	for i := range 5 {
		clock := base.NewManual(start)
		s, err := Open(t.Context(), "data"+strconv.Itoa(i), Options{Clock: clock, Logger: quiet(), fs: vfs.NewMem(), tune: busy})
		if err != nil {
			t.Fatal(err)
		}
		waiters := startWaiting(context.WithoutCancel(t.Context()), s)
		failOn(t, newWorkload(clock, 4, uint64(i)).runAll(t.Context(), s, 20))
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		for _, err := range waiters() {
			if !errors.Is(err, store.ErrClosed) {
				t.Errorf("a call that waited ended with %v", err)
			}
		}
	}
	eventually(t, "all goroutines end", func() bool { return runtime.NumGoroutine() <= before })
}
