package engine

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/internal/teststore"
	"github.com/abidehq/abide/store"
)

// state is what an instance was at some time.
type state struct {
	run      uint64
	revision int64
	deleted  bool
}

// ledgered is a store that knows all that its instances have ever been, in order, and
// whose calls fail now and then.
type ledgered struct {
	store.Store

	mu     sync.Mutex
	rand   *rand.Rand
	calm   bool // nothing fails any more
	runs   uint64
	truth  map[Ref][]state
	issues int // commits of unknown outcome
}

// apply commits, and notes what that has made of the instances.
func (l *ledgered) apply(ctx context.Context, tx *store.Tx) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.Store.Commit(ctx, tx); err != nil {
		return err
	}
	for _, p := range tx.PutRecords {
		r, err := l.Store.Get(ctx, p.Record.Key)
		if err != nil {
			return err
		}
		info, err := infoOf(r)
		if err != nil {
			return err
		}
		l.truth[info.Ref] = append(l.truth[info.Ref], state{run: info.run, revision: r.Version})
	}
	for _, d := range tx.DeleteRecords {
		ref := Ref{ID: d.Key.ID}
		l.truth[ref] = append(l.truth[ref], state{deleted: true})
	}
	return nil
}

// roll returns a number below n, and whether calls may fail.
func (l *ledgered) roll(n int) (int, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.rand.IntN(n), !l.calm
}

func (l *ledgered) Commit(ctx context.Context, tx *store.Tx) error {
	n, fails := l.roll(40)
	if !fails || n > 3 {
		err := l.apply(ctx, tx)
		if n%4 == 0 {
			<-time.After(time.Duration(n) * time.Millisecond) // others are back first
		}
		return err
	}
	l.mu.Lock()
	l.issues++
	l.mu.Unlock()
	switch n {
	case 0:
		return errors.Join(errBroken, l.apply(ctx, tx))
	case 1:
		time.AfterFunc(time.Duration(n+1)*4*time.Second, func() { _ = l.apply(context.Background(), tx) })
		return context.DeadlineExceeded
	default:
		return errBroken
	}
}

func (l *ledgered) Get(ctx context.Context, key store.RecordKey) (store.Record, error) {
	n, fails := l.roll(100)
	if fails && n == 0 {
		return store.Record{}, errBroken
	}
	if n%10 == 1 {
		<-time.After(time.Duration(n) * time.Millisecond / 2)
	}
	return l.Store.Get(ctx, key)
}

// write changes instances at random.
func (l *ledgered) write(ctx context.Context, f *feed, n int) {
	for range n {
		id, _ := l.roll(12)
		ref := Ref{ID: fmt.Sprint(id)}
		r, err := l.Store.Get(ctx, ref.record())
		what, _ := l.roll(10)
		var tx store.Tx
		switch {
		case err != nil: // it is started
			l.mu.Lock()
			l.runs++
			info := Info{Ref: ref, Name: "flow", Status: Running, Execution: 1, run: l.runs}
			l.mu.Unlock()
			tx.PutRecords = []store.PutRecord{info.putRecord(0)}
		case what == 0:
			tx.DeleteRecords = []store.DeleteRecord{{Key: r.Key, Expect: r.Version}}
		default:
			info, err := infoOf(r)
			if err != nil {
				panic(err)
			}
			tx.PutRecords = []store.PutRecord{info.putRecord(r.Version)}
		}
		_ = f.Commit(ctx, &tx)
		pause, _ := l.roll(60)
		<-time.After(time.Duration(pause) * time.Millisecond)
	}
}

// follower reads a feed at random: at times slowly, at times with a break.
type follower struct {
	l        *ledgered
	begun    map[Ref]int     // how much of the truth there was when it began anew
	seen     map[Ref][]state // since then
	cursor   string
	back     bool // it has gone on after a cursor
	missed   int
	resumed  int
	problems []string
}

func (o *follower) follow(ctx context.Context, f *feed) {
	for ctx.Err() == nil {
		if o.cursor == "" {
			o.begin()
		}
		err := o.read(ctx, f)
		switch {
		case errors.Is(err, ErrMissed):
			o.cursor = ""
			o.missed++
		case err != nil:
			o.problems = append(o.problems, err.Error())
			return
		case ctx.Err() == nil && o.cursor != "":
			o.back = true
			o.resumed++
		}
	}
}

func (o *follower) begin() {
	o.l.mu.Lock()
	defer o.l.mu.Unlock()
	o.begun, o.seen, o.back = map[Ref]int{}, map[Ref][]state{}, false
	for ref, states := range o.l.truth {
		o.begun[ref] = len(states)
	}
}

func (o *follower) read(ctx context.Context, f *feed) error {
	changes := f.read(ctx, o.cursor)
	for c, err := range changes {
		if err != nil {
			return err
		}
		if o.cursor != "" && !isLater(f, c.Cursor, o.cursor) {
			o.problems = append(o.problems, fmt.Sprintf("cursor %s came after %s", c.Cursor, o.cursor))
		}
		o.cursor = c.Cursor
		at, _ := f.toldAs(c.Cursor)
		o.seen[c.Ref] = append(o.seen[c.Ref], state{run: at.run, revision: c.Revision, deleted: c.Deleted})
		if n, wild := o.l.roll(80); wild && n == 0 {
			return nil // and come back
		} else if wild && n < 6 {
			<-time.After(time.Duration(n) * 700 * time.Millisecond)
		}
	}
	return nil
}

// isLater reports whether a cursor is that of a later change than another.
func isLater(f *feed, a, b string) bool { return f.begin(a).next > f.begin(b).next }

// toldAs returns the change of a cursor, or one without a run if it is not kept any more.
func (f *feed) toldAs(cursor string) (published, bool) {
	n := f.begin(cursor).next
	f.mu.Lock()
	defer f.mu.Unlock()
	if n == 0 || n-1 < f.ring.first {
		return published{}, false
	}
	return f.ring.list[n-1-f.ring.first], true
}

// check compares what the follower was told with what was true. It may have heard again
// what it knew if it has gone on after a cursor, or if the feed forgets quickly what it has
// told.
func (o *follower) check(t *testing.T, name string, forgetful bool) {
	t.Helper()
	for _, p := range o.problems {
		t.Errorf("%s: %s", name, p)
	}
	for ref, truth := range o.l.truth {
		at := 0 // up to where the truth was told
		for i, s := range o.seen[ref] {
			if i > 0 && (o.back || forgetful) && (s.is(o.seen[ref][i-1]) || o.seen[ref][i-1].is(s)) {
				continue
			}
			for at < len(truth) && !truth[at].is(s) {
				at++
			}
			if at == len(truth) {
				t.Errorf("%s: was told of %v: %+v, of which %+v is not true, or not any more", name, ref, o.seen[ref], s)
				break
			}
			at++
		}
		if len(truth) == o.begun[ref] {
			continue // nothing has changed since it began
		}
		last := truth[len(truth)-1]
		if seen := o.seen[ref]; len(seen) == 0 || !last.is(seen[len(seen)-1]) {
			t.Errorf("%s: was told of %v: %+v, want %+v in the end", name, ref, seen, last)
		}
	}
}

// is reports whether what was told is the state. The run is not known of a change that is
// not kept any more.
func (s state) is(told state) bool {
	return s.deleted == told.deleted && s.revision == told.revision && (s.run == told.run || told.run == 0)
}

// TestFeedAtRandom: whatever happens, each reader is told what has become of each instance
// that has changed, in the order in which it happened, and once, or that it has missed
// something.
func TestFeedAtRandom(t *testing.T) {
	t.Parallel()
	var missed, resumed, issues int
	for seed := range uint64(12) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := &ledgered{
					Store: teststore.New(t), rand: rand.New(rand.NewPCG(seed, 0)), truth: map[Ref][]state{},
				}
				f := newFeed(l, base.System{})
				f.changes = []int{8, 40, FeedChanges}[seed%3]
				ctx, cancel := context.WithCancel(t.Context())
				var readers, writers sync.WaitGroup
				followers := make([]*follower, 6)
				for i := range followers {
					followers[i] = &follower{l: l}
					readers.Go(func() { followers[i].follow(ctx, f) })
				}
				for range 4 {
					writers.Go(func() { l.write(ctx, f, 150) })
				}
				writers.Wait()
				l.mu.Lock()
				l.calm = true
				l.mu.Unlock()
				<-time.After(time.Minute)
				cancel()
				readers.Wait()
				for i, o := range followers {
					o.check(t, fmt.Sprintf("reader %d", i), f.changes < FeedChanges)
					missed, resumed = missed+o.missed, resumed+o.resumed
				}
				issues += l.issues
				f.end(ErrStopping)
				if f.readers != 0 {
					t.Errorf("%d readers are left", f.readers)
				}
			})
		})
	}
	if missed == 0 || resumed == 0 || issues == 0 {
		t.Errorf("%d misses, %d that came back, %d commits of unknown outcome: the test is too tame", missed, resumed, issues)
	}
}
