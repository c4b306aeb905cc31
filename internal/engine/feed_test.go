package engine

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/internal/replay"
	"github.com/abidehq/abide/internal/teststore"
	"github.com/abidehq/abide/store"
)

// reading is a reader of a feed, and what it was told.
type reading struct {
	mu     sync.Mutex
	told   []Change
	err    error
	ended  bool
	cancel context.CancelFunc
}

// readFrom reads in a goroutine until it is stopped.
func readFrom(t *testing.T, f *feed, after string) *reading {
	ctx, cancel := context.WithCancel(t.Context())
	r := &reading{cancel: cancel}
	changes := f.read(ctx, after)
	go func() {
		for c, err := range changes {
			r.mu.Lock()
			if err != nil {
				r.err = err
			} else {
				r.told = append(r.told, c)
			}
			r.mu.Unlock()
		}
		r.mu.Lock()
		r.ended = true
		r.mu.Unlock()
	}()
	return r
}

// all returns what was told when all is at rest.
func (r *reading) all() []Change {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.told)
}

// end returns how it ended, if it has.
func (r *reading) end() (bool, error) {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ended, r.err
}

// words says what was told, a word for each change.
func words(changes []Change) string {
	list := make([]string, len(changes))
	for i, c := range changes {
		list[i] = fmt.Sprintf("%s:%s:%d", c.Ref.ID, c.Status, c.Revision)
		if c.Deleted {
			list[i] = c.Ref.ID + ":gone"
		}
	}
	return strings.Join(list, " ")
}

// pasture is a feed on a store in memory, in virtual time.
type pasture struct {
	*testing.T
	store store.Store
	*feed
}

func onFeed(t *testing.T, f func(p *pasture)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := teststore.New(t)
		p := &pasture{T: t, store: s, feed: newFeed(s, base.System{})}
		defer func() {
			synctest.Wait()
			p.feed.end(ErrStopping)
			_ = s.Close()
			synctest.Wait()
		}()
		f(p)
	})
}

// put commits the record of an instance.
func (p *pasture) put(id string, run uint64, status Status) {
	p.Helper()
	info := Info{Ref: Ref{ID: id}, Name: "flow", Version: "1", Status: status, Execution: 1, run: run}
	if err := p.Commit(p.Context(), &store.Tx{PutRecords: []store.PutRecord{info.putRecord(store.AnyVersion)}}); err != nil {
		p.Fatal(err)
	}
}

// drop deletes the record of an instance.
func (p *pasture) drop(id string) {
	p.Helper()
	if err := p.Commit(p.Context(), &store.Tx{DeleteRecords: []store.DeleteRecord{{Key: Ref{ID: id}.record(), Expect: store.AnyVersion}}}); err != nil {
		p.Fatal(err)
	}
}

func (p *pasture) wants(r *reading, want string) {
	p.Helper()
	if got := words(r.all()); got != want {
		p.Errorf("told %q, want %q", got, want)
	}
}

func (p *pasture) wantEnd(r *reading, want error) {
	p.Helper()
	if ended, err := r.end(); !ended || !errors.Is(err, want) || (want == nil && err != nil) {
		p.Errorf("it ended: %v, with %v; want %v", ended, err, want)
	}
}

// TestChangesOfEngine: whatever changes an instance is told, with what is true of it.
func TestChangesOfEngine(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("flow@1", waiter)
		r.flow("parent", func(c *replay.Context, _ []byte) replay.Outcome {
			return outcome(c, c.Child("flow", "child", nil, history.Child{Version: "1"}))
		})
		r.serve(func(c *Config) { c.Retention = time.Hour })
		all := readFrom(r.T, r.feed, "")
		last := func(id string) Change {
			told := all.all()
			i := slices.IndexFunc(told, func(c Change) bool { return c.Ref.ID == id })
			if i < 0 {
				return Change{}
			}
			for _, c := range told {
				if c.Ref.ID == id {
					i = slices.Index(told, c)
				}
			}
			return told[i]
		}
		check := func(id string, status Status) {
			r.Helper()
			r.pass(time.Second)
			info := r.info(id)
			got := last(id)
			if got.Status != status || got.Revision != info.Revision || got.Name != info.Name || got.Version != info.Version {
				r.Errorf("told of %s: %+v, want it %s as %+v", id, got, status, info)
			}
		}
		r.begin("a", "flow", "", func(s *Start) { s.Version, s.Tenant = "1", "" })
		check("a", Running)
		r.must(r.Suspend(r.Context(), Ref{ID: "a"}, "why"))
		check("a", Suspended)
		r.must(r.Resume(r.Context(), Ref{ID: "a"}))
		check("a", Running)
		r.must(r.Fork(r.Context(), Ref{ID: "a"}, 2, "b"))
		check("b", Running)
		r.raise("a", "go", "x")
		check("a", Completed)
		r.must(r.Terminate(r.Context(), Ref{ID: "b"}, "why"))
		check("b", Terminated)
		r.begin("p", "parent", "")
		check("child", Running)
		r.raise("child", "go", "x")
		check("child", Completed)
		check("p", Completed)
		r.must(r.Restart(r.Context(), Ref{ID: "a"}))
		check("a", Running)
		r.must(r.Delete(r.Context(), Ref{ID: "child"}))
		r.pass(0)
		want(r, "deleted", last("child").Deleted, true)
		r.pass(2 * time.Hour)
		want(r, "expired", last("p").Deleted, true)
		if last("p").At.IsZero() || last("p").Status != "" {
			r.Errorf("told of what expired: %+v", last("p"))
		}
		all.cancel()
		if ended, err := all.end(); !ended || err != nil {
			r.Errorf("it ended: %v, with %v; want no error", ended, err)
		}
	})
}

// TestChangesOfOthersAreNotTold, as they are not known here.
func TestChangesOfOthersAreNotTold(t *testing.T) {
	onFeed(t, func(p *pasture) {
		here := readFrom(p.T, p.feed, "")
		other := newFeed(p.store, base.System{})
		info := Info{Ref: Ref{ID: "a"}, Name: "flow", Status: Running, Execution: 1}
		if err := other.Commit(p.Context(), &store.Tx{PutRecords: []store.PutRecord{info.putRecord(0)}}); err != nil {
			p.Fatal(err)
		}
		p.wants(here, "")
		heartbeat := store.PutRecord{Record: store.Record{Key: heartbeatKey(Ref{ID: "a"}.key())}, Expect: store.AnyVersion}
		if err := p.Commit(p.Context(), &store.Tx{PutRecords: []store.PutRecord{heartbeat}}); err != nil {
			p.Fatal(err)
		}
		p.wants(here, "")
		if p.marks != 0 {
			p.Errorf("%d marks of what is not an instance", p.marks)
		}
	})
}

// TestChangesBeginWithTheCall, not with what was before it, and not only when they are
// read.
func TestChangesBeginWithTheCall(t *testing.T) {
	onFeed(t, func(p *pasture) {
		p.put("a", 1, Running)
		first := readFrom(p.T, p.feed, "")
		p.put("b", 1, Running)
		p.wants(first, "b:running:1")
		first.cancel()
		p.wantEnd(first, nil)

		p.put("c", 1, Running) // nobody reads
		ctx, cancel := context.WithTimeout(p.Context(), time.Second)
		defer cancel()
		late := p.read(ctx, "")
		p.put("d", 1, Running)
		p.put("a", 1, Completed)
		var told []Change
		for c, err := range late {
			if err != nil {
				p.Fatal(err)
			}
			told = append(told, c)
		}
		if got := words(told); got != "d:running:1 a:completed:2" {
			p.Errorf("told %q", got)
		}
		resumed := readFrom(p.T, p.feed, first.told[0].Cursor)
		p.wants(resumed, "c:running:1 d:running:1 a:completed:2")
		resumed.cancel()
	})
}

// TestChangesGoOnAfterEachCursor, right after it.
func TestChangesGoOnAfterEachCursor(t *testing.T) {
	onFeed(t, func(p *pasture) {
		first := readFrom(p.T, p.feed, "")
		const n = 3 * feedBatch
		for i := range n {
			p.put(fmt.Sprint(i), 1, Running)
		}
		told := first.all()
		if len(told) != n {
			p.Fatalf("told of %d, want %d", len(told), n)
		}
		for i, c := range told {
			again := readFrom(p.T, p.feed, c.Cursor)
			if got := words(again.all()); got != words(told[i+1:]) {
				p.Errorf("after %d: %q", i, got)
			}
			again.cancel()
		}
		first.cancel()
	})
}

// TestChangesThatFollowQuicklyComeAsOne: the last one.
func TestChangesThatFollowQuicklyComeAsOne(t *testing.T) {
	onFeed(t, func(p *pasture) {
		ctx, cancel := context.WithCancel(p.Context())
		defer cancel()
		changes := p.read(ctx, "")
		for i := range 10 {
			p.put("a", 1, Running)
			p.put("b", uint64(i+1), Running)
			p.drop("b")
		}
		p.put("a", 1, Completed)
		var told []Change
		for c, err := range changes {
			if err != nil {
				p.Fatal(err)
			}
			if told = append(told, c); len(told) == 2 {
				break
			}
		}
		if got := words(told); got != "a:completed:11 b:gone" {
			p.Errorf("told %q", got)
		}
	})
}

// TestChangesOfOneThatIsStartedAgain are told although its revision is the same: nobody
// reads between its end and its new beginning, and is told of both as one.
func TestChangesOfOneThatIsStartedAgain(t *testing.T) {
	onFeed(t, func(p *pasture) {
		ctx, cancel := context.WithCancel(p.Context())
		defer cancel()
		next, stop := iter.Pull2(p.read(ctx, ""))
		defer stop()
		p.put("a", 1, Running)
		first, _, _ := next()
		p.drop("a")
		p.put("a", 2, Running)
		second, err, _ := next()
		if got := words([]Change{first, second}); got != "a:running:1 a:running:1" {
			p.Errorf("told %q, %v", got, err)
		}
		r := readFrom(p.T, p.feed, second.Cursor)
		p.wants(r, "")
		p.drop("a")
		p.wants(r, "a:gone")
		p.drop("a")
		p.wants(r, "a:gone")
		r.cancel()
	})
}

// TestChangesMissed: a cursor that is not good for anything is known as that.
func TestChangesMissed(t *testing.T) {
	onFeed(t, func(p *pasture) {
		p.changes = 10
		r := readFrom(p.T, p.feed, "")
		for i := range 30 {
			p.put(fmt.Sprint(i), 1, Running)
			synctest.Wait()
		}
		told := r.all()
		if len(told) != 30 {
			p.Fatalf("told of %d", len(told))
		}
		other := newFeed(p.store, base.System{})
		for name, after := range map[string]string{
			"too old":             told[18].Cursor,
			"of another process":  other.cursor(29),
			"not one":             "x",
			"without a number":    p.epoch,
			"an empty number":     p.epoch + "-",
			"not a number":        p.epoch + "-%",
			"a negative number":   p.epoch + "--1",
			"a number to come":    p.cursor(31),
			"the largest number":  p.cursor(1<<64 - 1),
			"a number beyond all": p.epoch + "-zzzzzzzzzzzzzzzz",
		} {
			missed := readFrom(p.T, p.feed, after)
			if ended, err := missed.end(); !ended || !errors.Is(err, ErrMissed) || len(missed.told) > 0 {
				p.Errorf("%s: ended %v, with %v, told %s", name, ended, err, words(missed.told))
			}
		}
		kept := readFrom(p.T, p.feed, told[19].Cursor)
		if got := kept.all(); len(got) != 10 {
			p.Errorf("told of %d that are kept, want 10", len(got))
		}
		kept.cancel()
		r.cancel()
	})
}

// TestSlowReaderMisses what comes meanwhile, holds nobody up, and takes no memory.
func TestSlowReaderMisses(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(p *pasture)
	}{
		{"by number", func(p *pasture) { p.changes = 50 }},
		{"by bytes", func(p *pasture) { p.bytes = 50 * 600 }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			onFeed(t, func(p *pasture) {
				tt.change(p)
				next := make(chan struct{})
				changes := p.read(p.Context(), "")
				done := make(chan error, 1)
				told := 0
				go func() {
					for _, err := range changes {
						if err != nil {
							done <- err
							return
						}
						told++
						<-next
					}
				}()
				quick := readFrom(p.T, p.feed, "")
				for i := range 1000 {
					p.put(fmt.Sprint(i), 1, Running)
					if i%10 == 0 {
						synctest.Wait()
					}
				}
				if got := len(quick.all()); got != 1000 {
					p.Errorf("the quick one was told of %d, want 1000", got)
				}
				p.mu.Lock()
				if n := len(p.ring.list); n > 100 || n < 20 {
					p.Errorf("%d changes are kept", n)
				}
				if len(p.ring.last) != len(p.ring.list) {
					p.Errorf("%d instances are known of %d changes", len(p.ring.last), len(p.ring.list))
				}
				p.mu.Unlock()
				close(next)
				if err := <-done; !errors.Is(err, ErrMissed) {
					p.Errorf("the slow one ends with %v", err)
				}
				if told == 0 || told > 2*feedBatch {
					p.Errorf("the slow one was told of %d", told)
				}
				quick.cancel()
			})
		})
	}
}

// TestNobodyReads: then nothing is noted, and after a while not even for those who may
// come back.
func TestNobodyReads(t *testing.T) {
	onFeed(t, func(p *pasture) {
		p.put("a", 1, Running)
		if p.on.Load() || p.marks > 0 {
			t.Errorf("%d marks although nobody has ever read", p.marks)
		}
		p.changes = 20
		first := readFrom(p.T, p.feed, "")
		p.put("a", 1, Running)
		p.wants(first, "a:running:2")
		first.cancel()
		p.wantEnd(first, nil)
		for i := range 21 {
			if !p.on.Load() {
				t.Errorf("nothing is noted any more after %d changes", i)
			}
			p.put(fmt.Sprint(i), 1, Running)
		}
		if p.on.Load() || len(p.marked.queue) > 0 {
			t.Errorf("%d changes are noted for nobody", len(p.marked.queue))
		}
		p.put("b", 1, Running)
		back := readFrom(p.T, p.feed, first.told[0].Cursor)
		p.wantEnd(back, ErrMissed)
		again := readFrom(p.T, p.feed, "")
		p.put("c", 1, Running)
		p.wants(again, "c:running:1")
		again.cancel()
	})
}

// TestReadersEndWithTheEngine, and so do those who come later.
func TestReadersEndWithTheEngine(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("flow", waiter)
		r.serve()
		reader := readFrom(r.T, r.feed, "")
		r.begin("a", "flow", "")
		r.pass(0)
		r.shut()
		if ended, err := reader.end(); !ended || !errors.Is(err, ErrStopping) {
			r.Errorf("ended %v, with %v", ended, err)
		}
		late := readFrom(r.T, r.feed, "")
		if ended, err := late.end(); !ended || !errors.Is(err, ErrStopping) {
			r.Errorf("one that comes later: ended %v, with %v", ended, err)
		}
	})
}

// TestReaderThatBreaksOffIsForgotten, and what it was about to do is done by others.
func TestReaderThatBreaksOffIsForgotten(t *testing.T) {
	onFeed(t, func(p *pasture) {
		changes := p.read(p.Context(), "")
		p.put("a", 1, Running)
		for _, err := range changes {
			if err != nil {
				p.Fatal(err)
			}
			p.put("b", 1, Running)
			break
		}
		if p.readers != 0 {
			p.Errorf("%d readers", p.readers)
		}
		again := 0
		for c, err := range changes { // it begins where it began
			if err != nil || c.Ref.ID != []string{"a", "b"}[again] {
				p.Fatal(c, err)
			}
			if again++; again == 2 {
				break
			}
		}
	})
}
