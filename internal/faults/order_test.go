package faults_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/store/storetest"
)

// TestTimerMovedInTheTurnInWhichItIsDue: what makes the code move a timer, and the timer,
// reach the instance in one turn. The move comes first, so the timer must not fire early.
func TestTimerMovedInTheTurnInWhichItIsDue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		flow := abide.NewOrchestration("flow", func(ctx abide.Context, _ abide.None) (string, error) {
			timer := abide.NewTimer(ctx, time.Hour)
			if _, err := goEvent.Wait(ctx); err != nil {
				return "", err
			}
			at := abide.Now(ctx).Add(10 * time.Hour)
			moved := timer.Move(ctx, at)
			err := timer.Wait(ctx)
			return fmt.Sprintf("moved %v, early %v, %v", moved, abide.Now(ctx).Before(at), err), nil
		})
		w := newWorld(t, flow)
		_, err := flow.Start(t.Context(), w.client, abide.None{}, abide.ID("i"))
		w.do(err)
		e := w.engine(w.store)
		w.status("i", abide.Running)
		w.drain(e)
		w.do(goEvent.Raise(t.Context(), w.client, "i", 1))
		pass(2 * time.Hour)
		w.engine(w.store)
		if got := result(w.ended("i")); got != `"moved true, early false, \u003cnil\u003e"` {
			t.Errorf("it ended with %s", got)
		}
		w.check()
		w.checkQuiet()
	})
}

// TestTimerMovedFromOutsideBeforeItIsDue: a timer is moved before it is due, and nobody
// sees either until later.
func TestTimerMovedFromOutsideBeforeItIsDue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		flow := abide.NewOrchestration("flow", func(ctx abide.Context, _ abide.None) (string, error) {
			at := abide.Now(ctx).Add(10 * time.Hour)
			err := abide.Sleep(ctx, time.Hour, abide.Named("nap"))
			return fmt.Sprintf("early %v, %v", abide.Now(ctx).Before(at), err), nil
		})
		w := newWorld(t, flow)
		start(w, flow, abide.None{}, "i")
		e := w.engine(w.store)
		w.status("i", abide.Running)
		w.drain(e)
		w.do(w.client.MoveTimer(t.Context(), abide.Ref{ID: "i"}, "nap", w.begun.Add(10*time.Hour)))
		pass(2 * time.Hour)
		w.engine(w.store)
		if got := result(w.ended("i")); got != `"early false, \u003cnil\u003e"` {
			t.Errorf("it ended with %s", got)
		}
		w.check()
		w.checkQuiet()
	})
}

// TestEventsStayInOrderAfterAFailedCommit: a turn that cannot be committed gives its
// events back, and more of them arrive before it is tried again.
func TestEventsStayInOrderAfterAFailedCommit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		flow := abide.NewOrchestration("flow", collect)
		w := newWorld(t, flow)
		faulty := storetest.NewFaulty(w.store, failNth("Commit", 2, storetest.FailBefore))
		w.engine(faulty)
		_, err := flow.Start(t.Context(), w.client, 4, abide.ID("i"))
		w.do(err)
		w.status("i", abide.Running)
		for i := range 4 {
			w.do(numbered.Raise(t.Context(), w.client, "i", i))
			synctest.Wait()
		}
		if got := result(w.ended("i")); got != numbers(4) {
			t.Errorf("events came in the order %s", got)
		}
	})
}

// TestEventsStayInOrderWhenAnInstanceIsResumed: events arrive while the turn that
// resumes the instance is under way.
func TestEventsStayInOrderWhenAnInstanceIsResumed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		flow := abide.NewOrchestration("flow", collect)
		w := newWorld(t, flow)
		raise := func(i int) { w.do(numbered.Raise(t.Context(), w.client, "i", i)) }
		var resuming atomic.Bool
		hooked := &hookedStore{Store: w.store, before: func(method string) {
			// The claim is made, and the turn is not committed yet.
			if method == "Commit" && resuming.CompareAndSwap(true, false) {
				raise(2)
				pass(time.Millisecond)
			}
		}}
		e := w.engine(hooked)
		_, err := flow.Start(t.Context(), w.client, 4, abide.ID("i"))
		w.do(err)
		w.status("i", abide.Running)
		w.do(w.client.Suspend(t.Context(), abide.Ref{ID: "i"}, ""))
		w.status("i", abide.Suspended)
		w.drain(e)
		raise(0)
		raise(1)
		w.do(w.client.Resume(t.Context(), abide.Ref{ID: "i"}))
		resuming.Store(true)
		w.engine(hooked)
		w.status("i", abide.Running)
		raise(3)
		if got := result(w.ended("i")); got != numbers(4) {
			t.Errorf("events came in the order %s", got)
		}
	})
}

// TestMoreEventsThanAClaimDeliversStayInOrder: an instance continues as new while so many
// events wait that the start of the next execution is not among the first of them.
func TestMoreEventsThanAClaimDeliversStayInOrder(t *testing.T) {
	t.Parallel()
	type state struct {
		Next int
		Bad  string
	}
	const n = 3 * store.DefaultMessages
	synctest.Test(t, func(t *testing.T) {
		flow := abide.NewOrchestration("flow", func(ctx abide.Context, in state) (string, error) {
			for range 500 {
				v, err := numbered.Wait(ctx)
				if err != nil {
					return "", err
				}
				if v != in.Next && in.Bad == "" {
					in.Bad = fmt.Sprintf("%d came where %d should", v, in.Next)
				}
				in.Next++
			}
			if in.Next == n {
				return in.Bad, nil
			}
			return "", abide.ContinueAsNew(ctx, in)
		})
		w := newWorld(t, flow)
		_, err := flow.Start(t.Context(), w.client, state{}, abide.ID("i"))
		w.do(err)
		for i := range n {
			w.do(numbered.Raise(t.Context(), w.client, "i", i))
		}
		w.engine(w.store)
		if got := result(w.ended("i")); got != `""` {
			t.Errorf("it ended with %s", got)
		}
		w.check()
	})
}

// TestCancelIsNotLostWhenAnInstanceContinuesAsNew: what makes an instance continue as
// new, and a request to cancel it, reach it in one turn.
func TestCancelIsNotLostWhenAnInstanceContinuesAsNew(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		flow := abide.NewOrchestration("flow", func(ctx abide.Context, n int) (string, error) {
			abide.SetStatus(ctx, fmt.Sprintf("waits %d", n))
			if _, err := goEvent.Wait(ctx, abide.Timeout(100*time.Hour)); err != nil {
				return "", err
			}
			return "", abide.ContinueAsNew(ctx, n+1)
		})
		w := newWorld(t, flow)
		_, err := flow.Start(t.Context(), w.client, 0, abide.ID("i"))
		w.do(err)
		e := w.engine(w.store)
		w.said("i", "waits 0")
		w.drain(e)
		w.do(goEvent.Raise(t.Context(), w.client, "i", 1))
		w.do(w.client.Cancel(t.Context(), abide.Ref{ID: "i"}, "enough"))
		w.engine(w.store)
		if info := w.ended("i"); info.Status != abide.Cancelled {
			t.Errorf("it is %s: %v\n%s", info.Status, info.Err, w.dump("i"))
		}
	})
}

// TestManyAwaitedEventsAreNotPoison: an instance continues as new with each event, and
// many that are only for who waits for them are there at once.
func TestManyAwaitedEventsAreNotPoison(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		flow := abide.NewOrchestration("flow", func(ctx abide.Context, n int) (string, error) {
			abide.SetStatus(ctx, "waits")
			_, err := numbered.Wait(ctx, abide.Timeout(time.Hour))
			if errors.Is(err, abide.ErrTimeout) {
				return "no more", nil
			}
			return "", errors.Join(err, abide.ContinueAsNew(ctx, n+1))
		})
		w := newWorld(t, flow)
		_, err := flow.Start(t.Context(), w.client, 0, abide.ID("i"))
		w.do(err)
		e := w.engine(w.store)
		w.said("i", "waits")
		w.drain(e)
		for i := range 40 {
			w.do(numbered.Raise(t.Context(), w.client, "i", i, abide.IfAwaited()))
		}
		w.engine(w.store)
		info := w.soon("i", "ended or stalled", func(i abide.Info) bool { return i.Status.Ended() || i.Status == abide.Stalled })
		if got := result(info); got != `"no more"` {
			t.Errorf("it is %s: %s", info.Status, info.Reason)
		}
	})
}

// TestStepsAreDurableBeforeTheNextOne: also if more than one thing reaches the instance
// at once, of which one is only for who waits for it.
func TestStepsAreDurableBeforeTheNextOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var w *world
		lengths := map[string]int{}
		step := func(ctx abide.Context, name string) {
			_, _ = abide.Step(ctx, name, func(ctx context.Context) (int, error) {
				page, err := w.store.ReadLog(ctx, store.Key{Queue: "turns", Name: "i"}, 0)
				lengths[name] = page.Length
				return 0, err
			})
		}
		flow := abide.NewOrchestration("flow", func(ctx abide.Context, _ abide.None) (string, error) {
			if _, err := goEvent.Wait(ctx); err != nil {
				return "", err
			}
			step(ctx, "one")
			step(ctx, "two")
			return "", nil
		})
		w = newWorld(t, flow)
		each := func(c *abide.Config) { c.StepCommitInterval = -1 }
		_, err := flow.Start(t.Context(), w.client, abide.None{}, abide.ID("i"))
		w.do(err)
		e := w.engine(w.store, each)
		w.status("i", abide.Running)
		w.drain(e)
		w.do(goEvent.Raise(t.Context(), w.client, "i", 1))
		w.do(numbered.Raise(t.Context(), w.client, "i", 1, abide.IfAwaited()))
		w.do(numbered.Raise(t.Context(), w.client, "i", 2))
		w.engine(w.store, each)
		w.ended("i")
		if lengths["one"] == lengths["two"] {
			t.Errorf("the second step began when the history had %d events, as the first did", lengths["two"])
		}
	})
}
