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

	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/internal/admission"
	"github.com/abidehq/abide/internal/replay"
	"github.com/abidehq/abide/store"
)

// narrow is a store that makes one commit at a time, and takes a while for each.
type narrow struct {
	store.Store
	each  time.Duration
	turn  chan struct{}
	hangs chan struct{} // commits wait until it is closed, if it is not nil

	pressure atomic.Int64 // in percent
}

var _ store.Pressured = (*narrow)(nil)

func newNarrow(s store.Store, each time.Duration) *narrow {
	return &narrow{Store: s, each: each, turn: make(chan struct{}, 1)}
}

func (n *narrow) Commit(ctx context.Context, tx *store.Tx) error {
	n.turn <- struct{}{}
	defer func() { <-n.turn }()
	if n.hangs != nil {
		<-n.hangs
	}
	if n.each > 0 {
		<-time.After(n.each)
	}
	return n.Store.Commit(ctx, tx)
}

func (n *narrow) Pressure() float64 { return float64(n.pressure.Load()) / 100 }

// load starts instances at a rate, whether or not others have returned, and keeps the outcome of each.
type load struct {
	r    *rig
	name string

	mu       sync.Mutex
	accepted []string
	refused  int
	slowest  time.Duration // of those that were accepted
	wg       sync.WaitGroup
}

func (l *load) start(id, input string) {
	began := time.Now()
	_, err := l.r.Start(l.r.Context(), Start{Ref: Ref{ID: id}, Name: l.name, Input: []byte(input)})
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case err == nil:
		l.accepted = append(l.accepted, id)
		l.slowest = max(l.slowest, time.Since(began))
	case errors.Is(err, ErrBusy):
		l.refused++
	default:
		l.r.Errorf("start %s: %v", id, err)
	}
}

func (l *load) run(input string, n int, every time.Duration) {
	for i := range n {
		id := fmt.Sprintf("%s-%d-%d", l.name, time.Now().UnixNano(), i)
		l.wg.Go(func() { l.start(id, input) })
		<-time.After(every)
	}
	l.wg.Wait()
}

// allEnd waits until all that was accepted has completed, and returns how long that took.
func (l *load) allEnd() time.Duration {
	began := time.Now()
	for _, id := range l.accepted {
		l.r.until(id, Completed)
	}
	return time.Since(began)
}

// TestOverload: at twice the rate that the store can bear, accepted starts are quick and complete, the
// others are refused, and soon after the load nothing is.
func TestOverload(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("call", caller)
		r.act("quick", func(context.Context, *Task) ([]byte, *history.Failure) { return nil, nil })
		slow := newNarrow(r.tape, time.Millisecond) // two commits each: 500 a second
		r.serve(func(c *Config) { c.Store = slow })
		l := &load{r: r, name: "call"}
		l.run("quick", 8_000, time.Millisecond) // 8 seconds at 1,000 a second
		if l.slowest > time.Second || l.refused == 0 {
			t.Errorf("%d accepted in %v at most, %d refused", len(l.accepted), l.slowest, l.refused)
		}
		if got := len(l.accepted); got < 2_500 || got > 5_000 {
			t.Errorf("%d accepted, want nearly 4,000", got)
		}
		if took := l.allEnd(); took > 5*time.Second {
			t.Errorf("the last of what was accepted ended %v after the load", took)
		}
		if got := r.Count().Refused.Load(); got != int64(l.refused) {
			t.Errorf("%d refused starts were counted, want %d", got, l.refused)
		}
		refused := l.refused
		l.run("quick", 1_500, 4*time.Millisecond) // at half of the capacity
		if l.refused != refused || r.Admission().Limit != admission.MaxLimit {
			t.Errorf("after the overload %d were refused, the limit is %d", l.refused-refused, r.Admission().Limit)
		}
		l.allEnd()
	})
}

// TestALongQueueOfActivitiesRefusesNothing: instances whose activities wait for slots are no overload.
func TestALongQueueOfActivitiesRefusesNothing(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("call", caller)
		r.act("long", func(context.Context, *Task) ([]byte, *history.Failure) {
			<-time.After(time.Second)
			return nil, nil
		})
		slow := newNarrow(r.tape, time.Millisecond)
		r.serve(func(c *Config) { c.Store, c.MaxActivities = slow, 16 })
		l := &load{r: r, name: "call"}
		l.run("long", 1_000, 3*time.Millisecond) // 333 a second, of which 16 run
		if l.refused > 0 || r.Admission().Limit != admission.MaxLimit {
			t.Errorf("%d refused, the limit is %d", l.refused, r.Admission().Limit)
		}
		l.allEnd()
	})
}

// TestLongStepsRefuseNothing: the same for turns that wait for slots because others run steps.
func TestLongStepsRefuseNothing(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("steps", func(c *replay.Context, _ []byte) replay.Outcome {
			c.Step("long", func(context.Context) ([]byte, *history.Failure) {
				<-time.After(time.Second)
				return nil, nil
			})
			return done("")
		})
		r.serve(func(c *Config) { c.MaxTurns = 16 })
		l := &load{r: r, name: "steps"}
		l.run("", 500, 3*time.Millisecond)
		r.pass(5 * time.Second)
		l.run("", 500, 3*time.Millisecond)
		if l.refused > 0 || r.Admission().Limit != admission.MaxLimit {
			t.Errorf("%d refused, the limit is %d", l.refused, r.Admission().Limit)
		}
		l.allEnd()
	})
}

// TestAHungStore: while no commit returns, calls beyond the limit are refused after half a second, and
// those within it are not lost.
func TestAHungStore(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("call", caller)
		r.act("quick", func(context.Context, *Task) ([]byte, *history.Failure) { return nil, nil })
		slow := newNarrow(r.tape, 0)
		r.serve(func(c *Config) { c.Store = slow })
		r.pass(time.Second)
		slow.hangs = make(chan struct{})
		l := &load{r: r, name: "call"}
		for i := range admission.MaxLimit {
			l.wg.Go(func() { l.start(fmt.Sprintf("in-%d", i), "quick") })
		}
		synctest.Wait()
		began := time.Now()
		_, err := r.Start(r.Context(), Start{Ref: Ref{ID: "start"}, Name: "call"})
		r.wantErr(err, ErrBusy, "abide: start:")
		if took := time.Since(began); took != admission.MaxWait {
			t.Errorf("refused after %v", took)
		}
		_, err = r.Raise(r.Context(), Raise{Ref: Ref{ID: "in-1"}, Name: "go"})
		r.wantErr(err, ErrBusy, "abide: raise:")
		close(slow.hangs)
		l.wg.Wait()
		if l.allEnd(); len(l.accepted) != admission.MaxLimit || l.refused != 0 {
			t.Errorf("%d accepted, %d refused", len(l.accepted), l.refused)
		}
		r.begin("after", "call", "quick")
		r.until("after", Completed)
	})
}

// TestControlIsNotRefused: what ends work is accepted by a process that accepts no more of it.
func TestControlIsNotRefused(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("wait", waiter)
		r.serve()
		r.begin("waits", "wait", "")
		r.pass(time.Second)
		for range admission.MaxLimit {
			if _, err := r.limiter.Acquire(t.Context(), 1); err != nil {
				t.Fatal(err)
			}
		}
		_, err := r.Raise(r.Context(), Raise{Ref: Ref{ID: "waits"}, Name: "other"})
		r.wantErr(err, ErrBusy)
		r.must(r.Suspend(r.Context(), Ref{ID: "waits"}, ""))
		r.must(r.Resume(r.Context(), Ref{ID: "waits"}))
		r.must(r.Terminate(r.Context(), Ref{ID: "waits"}, "enough"))
		r.until("waits", Terminated)
	})
}

// TestBulkCallsHaveALimitOfTheirOwn: calls of 16 and more are admitted when single ones are not, and the
// other way round.
func TestBulkCallsHaveALimitOfTheirOwn(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("wait", waiter)
		r.serve()
		start := func(kind string, n int) error {
			starts := make([]Start, n)
			for i := range starts {
				starts[i] = Start{Ref: Ref{ID: fmt.Sprintf("%s-%d-%d", kind, n, i)}, Name: "wait"}
			}
			_, err := r.Start(r.Context(), starts...)
			return err
		}
		for _, full := range []*admission.Limiter{r.limiter, r.bulk} {
			var permits []admission.Permit
			for range admission.MaxLimit {
				p, err := full.Acquire(t.Context(), 1_000)
				r.must(err)
				permits = append(permits, p)
			}
			few, many := start("few", bulkCall-1), start("many", bulkCall)
			if full == r.bulk {
				few, many = many, few
			}
			r.wantErr(few, ErrBusy)
			r.must(many)
			for _, p := range permits {
				p.Release()
			}
		}
	})
}

// TestTheStoreLowersTheLimit: its pressure reaches the limiter through the engine's wrappers.
func TestTheStoreLowersTheLimit(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("wait", waiter)
		slow := newNarrow(r.tape, 0)
		r.serve(func(c *Config) { c.Store = slow })
		slow.pressure.Store(99)
		r.begin("a", "wait", "")
		r.pass(time.Second)
		if got := r.Admission().Limit; got != admission.MaxLimit {
			t.Errorf("limit %d at a pressure of 0.99", got)
		}
		slow.pressure.Store(100)
		r.begin("b", "wait", "")
		if got := r.Admission().Limit; got >= admission.MaxLimit {
			t.Errorf("limit %d at a pressure of 1", got)
		}
		client := NewClient(slow, r.clock)
		_, err := client.Start(r.Context(), Start{Ref: Ref{ID: "c"}, Name: "wait"})
		r.must(err)
		if got := client.limiter.State().Limit; got >= admission.MaxLimit {
			t.Errorf("limit %d of a client without an engine", got)
		}
	})
}

// TestABulkLoadRefusesNothing: instances that are started many at a time wait for their first turns. No bulk
// start is refused meanwhile, and single ones flow at a minimum rate.
func TestABulkLoadRefusesNothing(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("call", caller)
		r.act("quick", func(context.Context, *Task) ([]byte, *history.Failure) { return nil, nil })
		slow := newNarrow(r.tape, time.Millisecond) // 500 instances a second
		r.serve(func(c *Config) { c.Store = slow })
		r.begin("first", "call", "quick")
		r.pass(time.Second)
		l := &load{r: r, name: "call"}
		for i := range 30 {
			starts := make([]Start, 100)
			for j := range starts {
				starts[j] = Start{Ref: Ref{ID: fmt.Sprintf("bulk-%d-%d", i, j)}, Name: "call", Input: []byte("quick")}
				l.accepted = append(l.accepted, starts[j].ID)
			}
			l.wg.Go(func() { r.must2(r.Start(r.Context(), starts...)) })
			<-time.After(50 * time.Millisecond)
		}
		l.run("quick", 50, 25*time.Millisecond) // the limiter learns how long starts take now
		refused := l.refused
		l.run("quick", 100, 25*time.Millisecond)
		if got := r.Admission().Limit; got > admission.MaxLimit/2 || l.refused > refused {
			t.Errorf("%d refused, the limit is %d", l.refused-refused, got)
		}
		l.allEnd()
	})
}
