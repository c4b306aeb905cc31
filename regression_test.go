package abide_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/store/storetest"
)

// Each test here was written when the rule in its name was broken.

var (
	goEvent  = abide.NewEvent[int]("go")
	numbered = abide.NewEvent[int]("number")
)

// hookedStore is a store before whose claims and commits something is done.
type hookedStore struct {
	store.Store
	before func(method string)
}

func (s *hookedStore) Claim(ctx context.Context, req store.ClaimRequest) ([]store.Claim, error) {
	s.before("Claim")
	return s.Store.Claim(ctx, req)
}

func (s *hookedStore) Commit(ctx context.Context, tx *store.Tx) error {
	s.before("Commit")
	return s.Store.Commit(ctx, tx)
}

// gate keeps an engine from claiming, once it is shut.
type gate struct {
	shut atomic.Bool
	way  chan struct{}
}

func newGate() *gate { return &gate{way: make(chan struct{})} }

func (g *gate) open() { close(g.way) }

func (g *gate) pass(method string) {
	if method == "Claim" && g.shut.Load() {
		<-g.way
	}
}

// TestChildThatEndsWhileItIsCancelled: the answer of a child, and what makes its parent
// cancel it, reach the parent in one turn.
func TestChildThatEndsWhileItIsCancelled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		child := abide.NewOrchestration("child", func(ctx abide.Context, _ abide.None) (string, error) {
			return "done", abide.Sleep(ctx, time.Hour)
		})
		parent := abide.NewOrchestration("parent", func(ctx abide.Context, _ abide.None) (string, error) {
			f := child.Go(ctx, abide.None{}, abide.ID("c"))
			if _, err := goEvent.Wait(ctx); err != nil {
				return "", err
			}
			f.Cancel(ctx)
			_, err := f.Get(ctx)
			return fmt.Sprint(errors.Is(err, abide.ErrCancelled)), nil
		})
		w := newWorld(t, parent)
		_, err := parent.Start(t.Context(), w.client, abide.None{}, abide.ID("p"))
		w.do(err)
		e := w.engine(w.store)
		w.soon("c", "there", func(abide.Info) bool { return true })
		w.drain(e)
		w.do(goEvent.Raise(t.Context(), w.client, "p", 1))
		// Only the child is served, so that its answer waits beside the event.
		w.serve = abide.Serve(child)
		e = w.engine(w.store)
		w.ended("c")
		w.drain(e)
		w.serve = abide.Serve(parent, child)
		w.engine(w.store)
		if got := result(w.ended("p")); got != `"true"` {
			t.Errorf("parent: %s", got)
		}
		w.check()
	})
}

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

// collect receives as many events as it is told to, and returns them.
func collect(ctx abide.Context, n int) (string, error) {
	var got []string
	for range n {
		v, err := numbered.Wait(ctx)
		if err != nil {
			return "", err
		}
		got = append(got, fmt.Sprint(v))
	}
	return strings.Join(got, " "), nil
}

func numbers(n int) string {
	var want []string
	for i := range n {
		want = append(want, fmt.Sprint(i))
	}
	return `"` + strings.Join(want, " ") + `"`
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

// TestCacheDoesNotKeepAnInstanceThatWasReplaced: an engine has the code of an instance
// in its cache that was terminated, deleted and started again elsewhere, and gets a
// message that was meant for the old one.
func TestCacheDoesNotKeepAnInstanceThatWasReplaced(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		child := abide.NewOrchestration("child", func(ctx abide.Context, in string) (string, error) {
			if in == "old" {
				_ = abide.Sleep(ctx, 100*time.Hour)              // until it is cancelled
				_ = abide.Sleep(abide.Shield(ctx), 10*time.Hour) // it takes its time
			}
			return in, abide.Sleep(ctx, 50*time.Hour)
		})
		parent := abide.NewOrchestration("parent", func(ctx abide.Context, in string) (string, error) {
			abide.SetStatus(ctx, in)
			out, err := child.Call(ctx, in)
			return fmt.Sprintf("%s got %s, %v", in, out, err != nil), nil
		})
		w := newWorld(t, parent)
		// Engine a gets the parent into its cache, and then claims nothing until the gate
		// is opened.
		gate := newGate()
		w.engine(&hookedStore{Store: w.store, before: gate.pass})
		_, err := parent.Start(t.Context(), w.client, "old", abide.ID("p"))
		w.do(err)
		w.said("p", "old")
		synctest.Wait()
		gate.shut.Store(true)
		w.do(goEvent.Raise(t.Context(), w.client, "p", 1)) // ends the claim that waits
		synctest.Wait()

		w.serve = abide.Serve(parent, child)
		b := w.engine(w.store)
		w.do(w.client.Terminate(t.Context(), abide.Ref{ID: "p"}, ""))
		w.ended("p")
		pass(time.Hour) // the old child is cancelled, and takes its time
		_, err = parent.Start(t.Context(), w.client, "new", abide.ID("p"), abide.ReplaceEnded())
		w.do(err)
		w.said("p", "new")
		// Once more what the old one got, so that the logs have the same length.
		w.do(goEvent.Raise(t.Context(), w.client, "p", 1))
		synctest.Wait()
		w.drain(b)
		w.serve = abide.Serve(child)
		b = w.engine(w.store)
		pass(20 * time.Hour) // the old child answers
		w.drain(b)
		gate.open()
		synctest.Wait()
		w.serve = abide.Serve(parent, child)
		w.engine(w.store)
		if got := result(w.ended("p")); got != `"new got new, false"` {
			t.Errorf("it ended with %s\n%s", got, w.dump("p"))
		}
		w.check()
	})
}

// TestAnswersOfFormerChildrenDoNotHideNewOnes: the answer to a former run of a parent
// waits when that to the present run arrives.
func TestAnswersOfFormerChildrenDoNotHideNewOnes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		child := abide.NewOrchestration("child", func(ctx abide.Context, in string) (string, error) {
			return in, abide.Sleep(abide.Shield(ctx), 10*time.Hour)
		})
		parent := abide.NewOrchestration("parent", func(ctx abide.Context, in string) (string, error) {
			abide.SetStatus(ctx, in)
			return child.Call(ctx, in)
		})
		w := newWorld(t, parent, child)
		w.engine(w.store)
		_, err := parent.Start(t.Context(), w.client, "old", abide.ID("p"))
		w.do(err)
		w.said("p", "old")
		pass(time.Hour)
		w.do(w.client.Terminate(t.Context(), abide.Ref{ID: "p"}, ""))
		w.ended("p")
		_, err = parent.Start(t.Context(), w.client, "new", abide.ID("p"), abide.ReplaceEnded())
		w.do(err)
		w.said("p", "new")
		w.do(w.client.Suspend(t.Context(), abide.Ref{ID: "p"}, ""))
		w.status("p", abide.Suspended)
		pass(20 * time.Hour) // both answers are there
		w.do(w.client.Resume(t.Context(), abide.Ref{ID: "p"}))
		if got := result(w.ended("p")); got != `"new"` {
			t.Errorf("it ended with %s", got)
		}
	})
}

// TestParentLeavesOthersAlone: a child was not started because its ID belongs to
// another instance, which must not be cancelled or terminated with the parent.
func TestParentLeavesOthersAlone(t *testing.T) {
	t.Parallel()
	for name, policy := range map[string]abide.ClosePolicy{"cancel": abide.CancelChild, "terminate": abide.TerminateChild, "abandon": abide.AbandonChild} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				other := abide.NewOrchestration("other", func(ctx abide.Context, _ abide.None) (string, error) {
					abide.SetStatus(ctx, "sleeps")
					return "slept well", abide.Sleep(ctx, 10*time.Hour)
				})
				parent := abide.NewOrchestration("parent", func(ctx abide.Context, _ abide.None) (string, error) {
					other.Go(ctx, abide.None{}, abide.ID("o"), abide.OnParentClose(policy))
					return "gone", nil
				})
				w := newWorld(t, parent, other)
				w.engine(w.store)
				_, err := other.Start(t.Context(), w.client, abide.None{}, abide.ID("o"))
				w.do(err)
				w.said("o", "sleeps")
				_, err = parent.Start(t.Context(), w.client, abide.None{}, abide.ID("p"))
				w.do(err)
				w.ended("p")
				if got := result(w.ended("o")); got != `"slept well"` {
					t.Errorf("the other instance is %s", got)
				}
			})
		})
	}
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

// TestOrphanIsNotForgotten: a child that was abandoned does not tell its parent how it
// ended, whichever engine has it in its cache.
func TestOrphanIsNotForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		child := abide.NewOrchestration("child", func(ctx abide.Context, _ abide.None) (string, error) {
			abide.SetStatus(ctx, "sleeps")
			return "done", abide.Sleep(ctx, 10*time.Hour)
		})
		parent := abide.NewOrchestration("parent", func(ctx abide.Context, _ abide.None) (string, error) {
			child.Go(ctx, abide.None{}, abide.ID("c"), abide.OnParentClose(abide.AbandonChild))
			return "gone", abide.Sleep(ctx, time.Hour)
		})
		w := newWorld(t, parent, child)
		_, err := parent.Start(t.Context(), w.client, abide.None{}, abide.ID("p"))
		w.do(err)
		// Engine a has the child in its cache. It is b that tells the child.
		gate := newGate()
		w.engine(&hookedStore{Store: w.store, before: gate.pass})
		w.said("c", "sleeps")
		synctest.Wait()
		gate.shut.Store(true)
		w.do(goEvent.Raise(t.Context(), w.client, "c", 1)) // ends the claim that waits
		synctest.Wait()
		b := w.engine(w.store)
		w.ended("p")
		pass(time.Minute)
		w.drain(b)
		gate.open()
		w.do(w.client.Delete(t.Context(), abide.Ref{ID: "p"}))
		w.ended("c")
		info, err := w.client.Get(t.Context(), abide.Ref{ID: "c"})
		w.do(err)
		if info.Parent != "" {
			t.Errorf("it still has the parent %q", info.Parent)
		}
		pending, err := w.store.Pending(t.Context(), store.Key{Queue: "turns", Name: "p"}, 0)
		w.do(err)
		if len(pending) > 0 {
			t.Errorf("%d messages wait for a parent that is no more: %s", len(pending), pending[0].ID)
		}
	})
}

// TestPendingOrphanIsNotForgotten: the same for a child that had not begun when its
// parent ended.
func TestPendingOrphanIsNotForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		child := abide.NewOrchestration("child", func(abide.Context, abide.None) (string, error) {
			return "done", nil
		})
		parent := abide.NewOrchestration("parent", func(ctx abide.Context, _ abide.None) (string, error) {
			child.Go(ctx, abide.None{}, abide.ID("c"), abide.OnParentClose(abide.AbandonChild))
			return "gone", abide.Sleep(ctx, time.Hour)
		})
		w := newWorld(t, parent)
		_, err := parent.Start(t.Context(), w.client, abide.None{}, abide.ID("p"))
		w.do(err)
		e := w.engine(w.store)
		w.ended("p")
		w.drain(e)
		w.do(w.client.Delete(t.Context(), abide.Ref{ID: "p"}))
		w.serve = abide.Serve(parent, child)
		w.engine(w.store)
		if info := w.ended("c"); info.Parent != "" {
			t.Errorf("it still has the parent %q", info.Parent)
		}
		pending, err := w.store.Pending(t.Context(), store.Key{Queue: "turns", Name: "p"}, 0)
		w.do(err)
		if len(pending) > 0 {
			t.Errorf("%d messages wait for a parent that is no more: %s", len(pending), pending[0].ID)
		}
	})
}

// TestTerminatedWhileSuspendedLeavesNothing: what parks a suspended instance, and what
// waits for it, goes with it.
func TestTerminatedWhileSuspendedLeavesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		flow := abide.NewOrchestration("flow", func(ctx abide.Context, _ abide.None) (string, error) {
			return "", abide.Sleep(ctx, time.Hour)
		})
		w := newWorld(t, flow)
		w.engine(w.store)
		_, err := flow.Start(t.Context(), w.client, abide.None{}, abide.ID("i"))
		w.do(err)
		w.status("i", abide.Running)
		w.do(w.client.Suspend(t.Context(), abide.Ref{ID: "i"}, ""))
		w.status("i", abide.Suspended)
		w.do(goEvent.Raise(t.Context(), w.client, "i", 1))
		w.do(w.client.Terminate(t.Context(), abide.Ref{ID: "i"}, ""))
		w.ended("i")
		synctest.Wait()
		w.checkQuiet()
	})
}

// TestTerminateAnInstanceWhoseHistoryCannotBeRead: it must be possible to get rid of it.
func TestTerminateAnInstanceWhoseHistoryCannotBeRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		flow := abide.NewOrchestration("flow", func(ctx abide.Context, _ abide.None) (string, error) {
			return "", abide.Sleep(ctx, time.Hour)
		})
		w := newWorld(t, flow)
		e := w.engine(w.store)
		_, err := flow.Start(t.Context(), w.client, abide.None{}, abide.ID("i"))
		w.do(err)
		w.status("i", abide.Running)
		synctest.Wait()
		w.drain(e)
		key := store.Key{Queue: "turns", Name: "i"}
		page, err := w.store.ReadLog(t.Context(), key, 0)
		w.do(err)
		w.do(w.store.Commit(t.Context(), &store.Tx{Append: []store.Append{{Key: key, At: page.Length, Entries: [][]byte{{0xff}}}}}))
		w.engine(w.store)
		w.status("i", abide.Stalled)
		w.do(w.client.Terminate(t.Context(), abide.Ref{ID: "i"}, ""))
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if info, err := w.client.Wait(ctx, abide.Ref{ID: "i"}); err != nil {
			t.Errorf("it is %s: %v", info.Status, err)
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
		each := func(c *abide.Config) { c.StepGroup = -1 }
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

// TestForkThatIsSuspendedInItsFirstTurn: the turn that takes up a forked history, and has
// nothing to add to it, does not undo what was asked about the instance meanwhile.
func TestForkThatIsSuspendedInItsFirstTurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		flow := abide.NewOrchestration("flow", collect)
		w := newWorld(t, flow)
		start(w, flow, 2, "i")
		e := w.engine(w.store)
		w.status("i", abide.Running)
		w.do(numbered.Raise(t.Context(), w.client, "i", 0))
		synctest.Wait()
		w.drain(e)
		h, err := w.client.History(t.Context(), abide.Ref{ID: "i"}, 0)
		w.do(err)
		_, err = w.client.Fork(t.Context(), abide.Ref{ID: "i"}, len(h.Events), "f")
		w.do(err)
		w.serve = nil // it does what is asked about instances, and takes no turns
		w.engine(w.store)
		w.serve = abide.Serve(flow)
		var once atomic.Bool
		w.engine(&hookedStore{Store: w.store, before: func(method string) {
			if method == "Commit" && once.CompareAndSwap(false, true) {
				w.do(w.client.Suspend(t.Context(), abide.Ref{ID: "f"}, ""))
				w.status("f", abide.Suspended)
			}
		}})
		synctest.Wait()
		if info, err := w.client.Get(t.Context(), abide.Ref{ID: "f"}); err != nil || info.Status != abide.Suspended {
			t.Errorf("it is %s, %v, and was suspended", info.Status, err)
		}
		w.do(w.client.Resume(t.Context(), abide.Ref{ID: "f"}))
		w.do(numbered.Raise(t.Context(), w.client, "f", 1))
		if got := result(w.ended("f")); got != numbers(2) {
			t.Errorf("it ended with %s", got)
		}
		w.check()
		w.checkQuiet()
	})
}
