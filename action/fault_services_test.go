package action_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/abidehq/abide/action"
	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/internal/rig"
	"github.com/abidehq/abide/internal/testenv"
	"github.com/abidehq/abide/store/storetest"
)

// workTogether has two processes run the same actions, and a schedule, and checks that each
// runs once.
func workTogether(t *testing.T, w *faultWorld, actions int, over time.Duration) {
	t.Helper()
	seed := testenv.Seed(t)
	client := w.service("client", w.Store)
	_, err := client.AddSchedule(t.Context(), action.Plan{
		Tenant: "acme", Slug: "app", Target: "do", ID: "s", Every: time.Second, CatchUp: action.CatchUpAll, Overlap: action.OverlapAllow, Until: w.At(over),
	})
	check.OK(t, err)
	rnd := rand.New(rand.NewPCG(seed, 2))
	for i := range actions {
		check.OK(t, w.add(client, action.Request{ID: strconv.Itoa(i), At: w.At(time.Duration(rnd.Int64N(int64(over))))}))
	}
	var commits [2]atomic.Int64
	for i := range commits {
		w.process(strconv.Itoa(i), &rig.Hooked{Store: w.Store, Hook: rig.Delays(seed+uint64(i), 5*time.Millisecond, &commits[i])})
	}
	w.WaitUntil(over)
	for range 1000 {
		if stats, err := w.Store.Stats(t.Context()); err != nil || len(stats.Routes) == 0 {
			break
		}
		<-time.After(100 * time.Millisecond)
	}
	w.check()
	byProcess := map[string]int{}
	scheduled := 0
	for _, a := range w.all() {
		runs := w.runsOf(a.ID)
		if a.Status != action.Completed || len(runs) != 1 || a.Attempt != 1 {
			t.Errorf("action %s is %s after %d runs", a.ID, a.Status, len(runs))
			continue
		}
		byProcess[runs[0].process.name]++
		if a.Schedule != "" {
			scheduled++
		}
	}
	t.Logf("runs by process: %v, of the schedule: %d", byProcess, scheduled)
	if want := int(over / time.Second); scheduled < want || scheduled > want+1 {
		t.Errorf("the schedule has made %d runs in %v", scheduled, over)
	}
	for i := range commits {
		if commits[i].Load() < 5 || byProcess[strconv.Itoa(i)] < 5 {
			t.Errorf("process %d has made %d commits and %d runs: that is no test of two", i, commits[i].Load(), byProcess[strconv.Itoa(i)])
		}
	}
}

func TestTwoProcessesRunEachActionOnce(t *testing.T) {
	t.Parallel()
	t.Run("in memory", func(t *testing.T) {
		rig.Bubble(t, func(t *testing.T) { workTogether(t, newFaultWorld(t), 300, 20*time.Second) })
	})
	t.Run("on disk", func(t *testing.T) {
		t.Parallel()
		workTogether(t, newFaultWorldOn(t, rig.Disk(t, t.TempDir())), 200, 5*time.Second)
	})
}

// TestActionsSurviveAProcessThatFreezesAtEveryCall freezes a process at each of its calls to
// the store, before it happens and after, until its leases have ended and another one has
// done its work. Then it wakes up and continues: it may finish what it had begun, until it
// learns of the lost lease, but it begins nothing under that lease any more.
func TestActionsSurviveAProcessThatFreezesAtEveryCall(t *testing.T) {
	t.Parallel()
	rig.AtEveryCall(t, func(t *testing.T, k int, after bool) (reached bool) {
		synctest.Test(t, func(t *testing.T) {
			f := rig.FreezeAt(k, func(_ string, isAfter bool) bool { return isAfter == after })
			d := newDriver(t)
			d.troubled = true
			frozen := d.process("frozen", &rig.Hooked{Store: d.Store, Hook: f.Hook})
			d.caller.Use(d.process("other", d.Store))
			reached = f.Survive(d.scenario, func() {
				frozen.freeze(true)
				<-time.After(3 * faultLease)
				frozen.freeze(false)
			})
			<-time.After(time.Minute)
			d.check()
		})
		return reached
	})
}

// TestAFrozenProcessRunsNothingThatItHasLost: it has claimed an action, freezes before it
// marks it running, and another process runs it, which takes long. When the first one wakes
// up, it leaves it alone, although it might repeat it.
func TestAFrozenProcessRunsNothingThatItHasLost(t *testing.T) {
	t.Parallel()
	for _, after := range []bool{false, true} {
		t.Run(fmt.Sprintf("after the claim %v", after), func(t *testing.T) {
			rig.Bubble(t, func(t *testing.T) {
				w := newFaultWorld(t)
				w.behave = takes(4 * faultLease)
				w.troubled = true
				method := "Commit"
				if after {
					method = "Claim"
				}
				n := 1
				if after {
					n = 2 // the first is that of schedules
				}
				f := rig.FreezeAt(n, func(m string, isAfter bool) bool { return m == method && isAfter == after })
				client := w.service("client", w.Store)
				check.OK(t, w.add(client, action.Request{ID: "a", Idempotent: true}))
				w.process("frozen", &rig.Hooked{Store: w.Store, Hook: f.Hook})
				<-f.Frozen
				<-time.After(faultLease + faultRate)
				w.process("other", w.Store)
				<-time.After(faultLease)
				close(f.Thaw)
				<-time.After(5 * faultLease)
				w.check()
				runs := w.runsOf("a")
				if len(runs) != 1 || runs[0].process.name != "other" {
					t.Errorf("%d runs, the first in %s", len(runs), runs[0].process.name)
				}
			})
		})
	}
}

// TestCrashesAreRepeatedUpToALimit: an idempotent action whose process dies each time is run
// three times, and no more.
func TestCrashesAreRepeatedUpToALimit(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		w := newFaultWorld(t)
		w.troubled = true
		w.behave = takes(time.Hour)
		check.OK(t, w.add(w.service("client", w.Store), action.Request{ID: "a", Idempotent: true}))
		for i := range 5 {
			p := w.crash(fmt.Sprint(i))
			<-time.After(time.Second)
			p()
			<-time.After(2 * faultLease)
		}
		w.process("last", w.Store)
		<-time.After(2 * faultLease)
		w.check()
		check.Equal(t, "runs", len(w.runsOf("a")), 3)
		<-time.After(2 * time.Hour)
	})
}

// TestRecoveredFromRestart says so, with its times, and can be retried.
func TestRecoveredFromRestart(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		w := newFaultWorld(t)
		w.behave = takes(time.Hour)
		client := w.service("client", w.Store)
		check.OK(t, w.add(client, action.Request{ID: "a"}))
		die := w.crash("first")
		<-time.After(time.Second)
		die()
		w.process("second", w.Store)
		<-time.After(faultLease + faultRate)
		synctest.Wait()
		a, err := client.Get(t.Context(), "acme", "a")
		if err != nil || a.Status != action.Failed || a.Reason != "recovered from restart" || a.Attempt != 1 || !a.StartedAt.Equal(w.Began) || a.EndedAt.IsZero() {
			t.Errorf("it is %+v, %v", a, err)
		}
		w.behave = nil
		check.OK(t, w.retry(client, "a"))
		<-time.After(faultRate)
		synctest.Wait()
		if a, err = client.Get(t.Context(), "acme", "a"); err != nil || a.Status != action.Completed {
			t.Errorf("it is %+v, %v", a, err)
		}
		<-time.After(2 * time.Hour)
	})
}

// crash starts a process, and returns what kills it.
func (w *faultWorld) crash(name string) (kill func()) {
	faulty := storetest.NewFaulty(w.Store, nil)
	p := w.service(name, faulty)
	running := rig.Run(w.T, p)
	return func() {
		p.die()
		faulty.Kill()
		running.Kill()
	}
}
