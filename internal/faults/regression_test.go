package faults_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/store/pebblestore"
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
		w.serve = []abide.Definition{child}
		e = w.engine(w.store)
		w.ended("c")
		w.drain(e)
		w.serve = []abide.Definition{parent, child}
		w.engine(w.store)
		if got := result(w.ended("p")); got != `"true"` {
			t.Errorf("parent: %s", got)
		}
		w.check()
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

		w.serve = []abide.Definition{parent, child}
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
		w.serve = []abide.Definition{child}
		b = w.engine(w.store)
		pass(20 * time.Hour) // the old child answers
		w.drain(b)
		gate.open()
		synctest.Wait()
		w.serve = []abide.Definition{parent, child}
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
		w.serve = []abide.Definition{parent, child}
		w.engine(w.store)
		w.ended("c")
		pass(time.Second) // the child may end before it hears of its parent's end
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
		if info, err := w.client.WaitEnd(ctx, abide.Ref{ID: "i"}); err != nil {
			t.Errorf("it is %s: %v", info.Status, err)
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
		w.serve = []abide.Definition{flow}
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

var anOrder = abide.NewOrchestration("order", func(abide.Context, int) (int, error) { return 0, nil })

// Many starts of the same few instances at once, on a store that says that there is a
// conflict before it shows what with, end: one of each starts it, and the others find it.
func TestManyStartsOfTheSame(t *testing.T) {
	t.Parallel()
	s, err := pebblestore.Open(t.Context(), t.TempDir(), pebblestore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	c := abide.NewClient(s, nil)
	var crew sync.WaitGroup
	var begun atomic.Int64
	for i := range 200 {
		crew.Go(func() {
			started, err := anOrder.Start(t.Context(), c, 0, abide.ID(fmt.Sprint("order-", i%4)), abide.Unchecked())
			if err != nil {
				t.Error(err)
			} else if !started.Existed() {
				begun.Add(1)
			}
		})
	}
	crew.Wait()
	if n := begun.Load(); n != 4 {
		t.Errorf("%d instances were started, want 4", n)
	}
}
