package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/store/memstore"
)

var errBroken = errors.New("the line is broken")

// moody is a store whose calls do what they are told to.
type moody struct {
	store.Store
	gets atomic.Int64

	mu     sync.Mutex
	commit func(ctx context.Context, tx *store.Tx) error // instead, if not nil
	get    func() error                                  // before, if not nil
}

func (m *moody) Commit(ctx context.Context, tx *store.Tx) error {
	m.mu.Lock()
	commit := m.commit
	m.mu.Unlock()
	if commit != nil {
		return commit(ctx, tx)
	}
	return m.Store.Commit(ctx, tx)
}

func (m *moody) Get(ctx context.Context, key store.RecordKey) (store.Record, error) {
	m.gets.Add(1)
	m.mu.Lock()
	get := m.get
	m.mu.Unlock()
	if get != nil {
		if err := get(); err != nil {
			return store.Record{}, err
		}
	}
	return m.Store.Get(ctx, key)
}

func (m *moody) set(commit func(ctx context.Context, tx *store.Tx) error, get func() error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.commit, m.get = commit, get
}

func onMoody(t *testing.T, f func(p *pasture, m *moody)) {
	t.Helper()
	onFeed(t, func(p *pasture) {
		m := &moody{Store: p.store}
		p.feed.Store = m
		f(p, m)
	})
}

func putTx(id string) *store.Tx {
	info := Info{Ref: Ref{ID: id}, Name: "flow", Status: Running, Execution: 1, run: 1}
	return &store.Tx{PutRecords: []store.PutRecord{info.putRecord(0)}}
}

// TestCommitOfUnknownOutcome is told when it was done, also if it is done after the error,
// and only then.
func TestCommitOfUnknownOutcome(t *testing.T) {
	for _, tt := range []struct {
		name   string
		commit func(ctx context.Context, m *moody, tx *store.Tx) error
		soon   string
		later  string
	}{
		{"done", func(ctx context.Context, m *moody, tx *store.Tx) error {
			return errors.Join(errBroken, m.Store.Commit(ctx, tx))
		}, "a:running:1", "a:running:1"},
		{"done later", func(ctx context.Context, m *moody, tx *store.Tx) error {
			time.AfterFunc(feedAgain-time.Second, func() { _ = m.Store.Commit(ctx, tx) })
			return context.DeadlineExceeded
		}, "", "a:running:1"},
		{"not done", func(context.Context, *moody, *store.Tx) error { return errBroken }, "", ""},
		{"refused", func(context.Context, *moody, *store.Tx) error { return fmt.Errorf("no: %w", store.ErrConflict) }, "", ""},
		{"lost", func(context.Context, *moody, *store.Tx) error { return store.ErrClaimLost }, "", ""},
		{"invalid", func(context.Context, *moody, *store.Tx) error { return store.ErrTooLarge }, "", ""},
		{"full", func(context.Context, *moody, *store.Tx) error { return store.ErrFull }, "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			onMoody(t, func(p *pasture, m *moody) {
				r := readFrom(p.T, p.feed, "")
				m.set(func(ctx context.Context, tx *store.Tx) error { return tt.commit(ctx, m, tx) }, nil)
				if err := p.Commit(p.Context(), putTx("a")); err == nil {
					p.Error("the error is hidden")
				}
				p.wants(r, tt.soon)
				if p.marks > 0 && unchanged(tt.commit(p.Context(), m, putTx("other"))) {
					p.Error("what is known not to be done is looked at")
				}
				<-time.After(feedAgain - time.Millisecond)
				p.wants(r, tt.soon)
				<-time.After(feedAgain + time.Second)
				p.wants(r, tt.later)
				p.mu.Lock()
				if p.again != nil || !p.doubts[0].none() || !p.doubts[1].none() {
					p.Error("there is still doubt")
				}
				p.mu.Unlock()
				r.cancel()
			})
		})
	}
}

// TestDeletionOfUnknownOutcome is told although nobody here knows what was deleted.
func TestDeletionOfUnknownOutcome(t *testing.T) {
	onMoody(t, func(p *pasture, m *moody) {
		p.put("a", 1, Running)
		p.put("b", 1, Running)
		r := readFrom(p.T, p.feed, "")
		m.set(func(ctx context.Context, tx *store.Tx) error { return errors.Join(errBroken, m.Store.Commit(ctx, tx)) }, nil)
		_ = p.Commit(p.Context(), &store.Tx{DeleteRecords: []store.DeleteRecord{{Key: Ref{ID: "a"}.record(), Expect: 1}}})
		p.wants(r, "a:gone")
		m.set(func(context.Context, *store.Tx) error { return errBroken }, nil)
		_ = p.Commit(p.Context(), putTx("c")) // was not started
		_ = p.Commit(p.Context(), &store.Tx{DeleteRecords: []store.DeleteRecord{{Key: Ref{ID: "b"}.record(), Expect: 1}}})
		<-time.After(3 * feedAgain)
		p.wants(r, "a:gone b:running:1") // was not deleted: then it is told how it is
		r.cancel()
	})
}

// TestTooManyDoubts have readers list again when all is settled.
func TestTooManyDoubts(t *testing.T) {
	onMoody(t, func(p *pasture, m *moody) {
		p.changes = 10
		r := readFrom(p.T, p.feed, "")
		m.set(func(context.Context, *store.Tx) error { return errBroken }, nil)
		for i := range 11 {
			_ = p.Commit(p.Context(), putTx(fmt.Sprint(i)))
			synctest.Wait()
		}
		<-time.After(feedAgain)
		if ended, err := r.end(); ended {
			p.Errorf("it ended at once, with %v", err)
		}
		<-time.After(feedAgain)
		p.wantEnd(r, ErrMissed)
	})
}

// TestLookThatFailsIsDoneAgain, after a while, by one reader, and nothing is lost.
func TestLookThatFailsIsDoneAgain(t *testing.T) {
	onMoody(t, func(p *pasture, m *moody) {
		var readers []*reading
		for range 100 {
			readers = append(readers, readFrom(p.T, p.feed, ""))
		}
		synctest.Wait()
		m.set(nil, func() error { return errBroken })
		for i := range 10 {
			p.put(fmt.Sprint(i), 1, Running)
		}
		<-time.After(10*feedPause - time.Millisecond)
		if n := m.gets.Load(); n != 10 {
			p.Errorf("%d looks in 10 pauses, want one each", n)
		}
		m.set(nil, nil)
		<-time.After(feedPause)
		for i, r := range readers {
			if got := len(r.all()); got != 10 {
				p.Errorf("reader %d was told of %d, want 10", i, got)
			}
			r.cancel()
		}
	})
}

// TestLookIsTakenOver from a reader that leaves while it looks.
func TestLookIsTakenOver(t *testing.T) {
	onMoody(t, func(p *pasture, m *moody) {
		one := readFrom(p.T, p.feed, "")
		synctest.Wait()
		looks, goOn := m.gate()
		p.put("a", 1, Running)
		<-looks
		one.cancel()
		m.set(nil, nil)
		goOn <- context.Canceled
		p.wants(one, "")
		p.wantEnd(one, nil)

		ctx, cancel := context.WithCancel(p.Context())
		defer cancel()
		changes := p.read(ctx, "")
		leaves := readFrom(p.T, p.feed, "")
		synctest.Wait()
		looks, goOn = m.gate()
		p.put("b", 1, Running)
		p.put("c", 1, Running)
		<-looks
		m.set(nil, nil)
		leaves.cancel()
		goOn <- context.Canceled
		var told []Change
		for c, err := range changes {
			if err != nil {
				p.Fatal(err)
			}
			if told = append(told, c); len(told) == 2 {
				break
			}
		}
		if got := words(told); got != "b:running:1 c:running:1" && got != "c:running:1 b:running:1" {
			p.Errorf("told %q", got)
		}
		p.wants(leaves, "")
	})
}

// gate has looks wait: each says that it is there, and goes on when it is told how.
func (m *moody) gate() (looks chan struct{}, goOn chan error) {
	looks, goOn = make(chan struct{}), make(chan error)
	m.set(nil, func() error {
		looks <- struct{}{}
		return <-goOn
	})
	return looks, goOn
}

// TestCommitMarkedTwiceIsToldOnce to each: also to one who comes between the marks.
func TestCommitMarkedTwiceIsToldOnce(t *testing.T) {
	onMoody(t, func(p *pasture, m *moody) {
		first := readFrom(p.T, p.feed, "")
		synctest.Wait()
		looks, goOn := m.gate()
		p.put("a", 1, Running) // marked, and about to be looked at
		<-looks
		second := readFrom(p.T, p.feed, "")
		applied, back := make(chan error), make(chan struct{})
		m.set(func(ctx context.Context, tx *store.Tx) error {
			applied <- m.Store.Commit(ctx, tx)
			<-back
			return nil
		}, nil)
		tx := putTx("a")
		tx.PutRecords[0].Expect = 1
		go func() { _ = p.Commit(p.Context(), tx) }() // done, and not marked yet
		if err := <-applied; err != nil {
			p.Fatal(err)
		}
		goOn <- nil
		p.wants(first, "a:running:2")
		p.wants(second, "")
		looks, goOn = m.gate()
		close(back)
		<-looks
		third := readFrom(p.T, p.feed, "") // after the second mark
		goOn <- nil
		p.wants(first, "a:running:2")
		p.wants(second, "a:running:2")
		p.wants(third, "")
		first.cancel()
		second.cancel()
		third.cancel()
	})
}

// TestReadersEndWithTheStore when a look finds that it is closed.
func TestReadersEndWithTheStore(t *testing.T) {
	onMoody(t, func(p *pasture, m *moody) {
		one, other := readFrom(p.T, p.feed, ""), readFrom(p.T, p.feed, "")
		synctest.Wait()
		looks, goOn := m.gate()
		p.put("a", 1, Running)
		<-looks
		_ = p.store.Close()
		goOn <- nil
		p.wantEnd(one, store.ErrClosed)
		p.wantEnd(other, store.ErrClosed)
	})
}

// TestThousandReaders cost one look for each change, and are all told.
func TestThousandReaders(t *testing.T) {
	onMoody(t, func(p *pasture, m *moody) {
		var readers []*reading
		for range 1000 {
			readers = append(readers, readFrom(p.T, p.feed, ""))
		}
		synctest.Wait()
		const n = 200
		for i := range n {
			p.put(fmt.Sprint(i), 1, Running)
			if i%20 == 0 {
				synctest.Wait()
			}
		}
		want := words(readers[0].all())
		for i, r := range readers {
			told := r.all()
			if words(told) != want || len(told) != n {
				p.Fatalf("reader %d was told %q, want %q", i, words(told), want)
			}
			r.cancel()
		}
		if gets := m.gets.Load(); gets != n {
			p.Errorf("%d looks for %d changes", gets, n)
		}
	})
}

// BenchmarkCommitWatched is what a commit costs on top when nobody has ever read, when
// nobody reads, and when somebody does.
func BenchmarkCommitWatched(b *testing.B) {
	for _, readers := range []int{-1, 0, 1} {
		b.Run(fmt.Sprintf("readers=%d", readers), func(b *testing.B) {
			f := newFeed(nothing{memstore.New(memstore.Options{})}, base.System{})
			ctx, cancel := context.WithCancel(b.Context())
			defer cancel()
			if readers >= 0 {
				changes := f.read(ctx, "")
				for range readers {
					go func() {
						for range changes {
						}
					}()
				}
			}
			tx := putTx("a")
			b.ReportAllocs()
			for b.Loop() {
				_ = f.Commit(ctx, tx)
			}
		})
	}
}

// nothing is a store that commits nothing.
type nothing struct{ store.Store }

func (nothing) Commit(context.Context, *store.Tx) error { return nil }
