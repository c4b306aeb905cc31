package timer_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/internal/rig"
	"github.com/abidehq/abide/internal/testenv"
	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/timer"
)

// fireTogether has two processes fire the same timers, and checks that each fires once.
func fireTogether(t *testing.T, w *faultWorld, timers int, wait func()) {
	t.Helper()
	seed := testenv.Seed(t)
	var commits [2]atomic.Int64
	for i := range commits {
		w.process(&rig.Hooked{Store: w.Store, Hook: rig.Delays(seed+uint64(i), 5*time.Millisecond, &commits[i])},
			func(c *timer.Config) { c.Batch = 16 })
	}
	rnd := rand.New(rand.NewPCG(seed, 2))
	client := w.service(w.Store)
	for i := range timers {
		due := w.At(500*time.Millisecond + time.Duration(rnd.IntN(1000))*time.Millisecond)
		check.OK(t, w.schedule(client, "tenant"+strconv.Itoa(i%3), strconv.Itoa(i), due))
	}
	wait()
	w.check()
	for _, sink := range w.sinks {
		arrived := sink.arrived()
		for timer, times := range arrived {
			if times != 1 {
				t.Errorf("sink %s got the envelope of %s %d times, although nothing went wrong", sink.name, timer, times)
			}
		}
		want := 0
		for i := range timers {
			if sink.takes("tenant" + strconv.Itoa(i%3)) {
				want++
			}
		}
		if len(arrived) != want {
			t.Errorf("sink %s got envelopes of %d timers, want %d", sink.name, len(arrived), want)
		}
	}
	for i := range commits {
		n := commits[i].Load()
		if n < 5 {
			t.Errorf("process %d has made %d commits: that is no test of two", i, n)
		}
	}
}

func TestTwoProcessesFireEachTimerOnce(t *testing.T) {
	t.Parallel()
	t.Run("in memory", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			w := newFaultWorld(t)
			fireTogether(t, w, 500, func() { <-time.After(time.Minute) })
		})
	})
	t.Run("on disk", func(t *testing.T) {
		t.Parallel()
		w := newFaultWorldOn(t, rig.Disk(t, t.TempDir()))
		fireTogether(t, w, 500, func() {
			w.WaitUntil(1500 * time.Millisecond)
			w.WaitIdle()
		})
	})
}

// TestTimersSurviveAProcessThatFreezesAtEveryCall freezes a process at each of its calls to
// the store, before it happens and after, until its leases have ended and another one has
// done its work. Then it wakes up and continues.
func TestTimersSurviveAProcessThatFreezesAtEveryCall(t *testing.T) {
	t.Parallel()
	rig.AtEveryCall(t, func(t *testing.T, k int, after bool) (reached bool) {
		synctest.Test(t, func(t *testing.T) {
			f := rig.FreezeAt(k, func(_ string, isAfter bool) bool { return isAfter == after })
			d := newDriver(t)
			d.caller.Use(d.faultWorld.service(d.Store))
			d.process(&rig.Hooked{Store: d.Store, Hook: f.Hook})
			d.process(d.Store)
			reached = f.Survive(d.scenario, func() { <-time.After(3 * lease) })
			<-time.After(time.Minute)
			d.check()
		})
		return reached
	})
}

// TestFrozenProcessOnDisk freezes a process when it is about to fire timers, and when it is
// about to finish what it has published, until another one has done its work.
func TestFrozenProcessOnDisk(t *testing.T) {
	t.Parallel()
	for n, about := range map[int]string{1: "to fire", 2: "to finish"} {
		t.Run("about "+about, func(t *testing.T) {
			t.Parallel()
			w := newFaultWorldOn(t, rig.Disk(t, t.TempDir()))
			f := rig.FreezeAt(n, func(method string, after bool) bool { return method == "Commit" && !after })
			w.process(&rig.Hooked{Store: w.Store, Hook: f.Hook}, func(c *timer.Config) { c.LeaseDuration = time.Second })
			client := w.service(w.Store)
			keys := []string{"a", "b", "c", "d", "e"}
			check.OK(t, w.scheduleAll(client, "acme", keys, w.At(0)))
			<-f.Frozen
			w.process(w.Store)
			w.WaitIdle() // another process does the work of one that is frozen
			close(f.Thaw)
			<-time.After(50 * time.Millisecond) // for what it does when it wakes up
			w.check()
		})
	}
}

// TestProcessesWithDifferentSinks: a process knows only one of the sinks that a timer's
// envelope goes to. What becomes of the envelope at the other one is known all the same.
func TestProcessesWithDifferentSinks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newFaultWorld(t)
		w.sinks[1].plan(func(int, bool) error { <-time.After(time.Second); return nil }) // the first one is faster
		w.process(w.Store, func(c *timer.Config) { c.Sinks = c.Sinks[:1]; c.SinksOf = nil })
		both := w.process(w.Store)
		for i := range 20 {
			check.OK(t, w.schedule(both.Service, "acme", strconv.Itoa(i), w.At(time.Duration(i)*time.Minute)))
		}
		<-time.After(time.Hour)
		for i := range 20 {
			got, err := both.Get(t.Context(), "acme", strconv.Itoa(i))
			check.OK(t, err)
			for _, d := range got.Deliveries {
				if d.State != "published" {
					t.Errorf("timer %d has delivery %+v", i, d)
				}
			}
			// The process that fires it decides where its envelope goes.
			arrived := 0
			for _, sink := range w.sinks {
				arrived += sink.arrived()["acme/"+strconv.Itoa(i)]
			}
			if len(got.Deliveries) != arrived {
				t.Errorf("timer %d has arrived at %d sinks, and has deliveries %+v", i, arrived, got.Deliveries)
			}
		}
	})
}

// narrow is a store that takes only small commits.
type narrow struct {
	store.Store
	most int // records in a commit
}

func (n narrow) Commit(ctx context.Context, tx *store.Tx) error {
	if len(tx.PutRecords) > n.most {
		return fmt.Errorf("%d records: %w", len(tx.PutRecords), store.ErrTooLarge)
	}
	return n.Store.Commit(ctx, tx)
}

// TestBatchesThatAreTooLargeAreTakenInParts: payloads may be so large that a batch does not
// fit in a commit, be it to fire it, to cancel it, to finish it or to try it again.
func TestBatchesThatAreTooLargeAreTakenInParts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newFaultWorld(t)
		w.sinks[0].plan(func(n int, _ bool) error {
			if n <= 100 {
				return fmt.Errorf("envelope %d is not accepted", n)
			}
			return nil
		})
		client := w.service(w.Store)
		w.process(narrow{w.Store, 7})
		for _, tenant := range []string{"acme", "other"} {
			var keys []string
			for i := range 100 {
				keys = append(keys, strconv.Itoa(i))
			}
			check.OK(t, w.scheduleAll(client, tenant, keys, w.At(time.Minute)))
		}
		check.OK(t, w.cancelAll(w.service(narrow{w.Store, 7}), "other"))
		<-time.After(time.Hour)
		w.check()
	})
}

// TestAnArmedTimerHasOneMessage: what a timer that is moved or cancelled leaves behind would
// be claimed in vain, and a timer that is moved all the time would fill the store.
func TestAnArmedTimerHasOneMessage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newFaultWorld(t)
		client := w.service(w.Store)
		for i, do := range []func() error{
			func() error { return w.schedule(client, "acme", "a", w.At(time.Hour)) },
			func() error { return w.schedule(client, "acme", "a", w.At(time.Minute)) },
			func() error { return w.scheduleAll(client, "acme", []string{"a"}, w.At(2*time.Hour)) },
			func() error { return w.snooze(client, "acme", "a", time.Hour) },
		} {
			check.OK(t, do())
			if n := w.Pending(); n != 1 {
				t.Errorf("after step %d it has %d messages, want 1", i, n)
			}
		}
		check.OK(t, w.cancel(client, "acme", "a"))
		check.Equal(t, "after it was cancelled it has messages", w.Pending(), 0)
	})
}
