package action_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/abidehq/abide/action"
	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/internal/testenv"
	"github.com/abidehq/abide/store/storetest"
)

// delays returns a hook that holds calls up for a while, each for another one, and counts
// the commits.
func delays(seed uint64, most time.Duration, commits *atomic.Int64) func(method string, after bool) {
	var mu sync.Mutex
	rnd := rand.New(rand.NewPCG(seed, 0))
	return func(method string, after bool) {
		mu.Lock()
		wait := time.Duration(rnd.Int64N(int64(most)))
		if method == "Commit" && after {
			commits.Add(1)
		}
		mu.Unlock()
		<-time.After(wait)
	}
}

// workTogether has two processes run the same actions, and a schedule, and checks that each
// runs once.
func workTogether(t *testing.T, w *faultWorld, actions int, over time.Duration) {
	t.Helper()
	seed := testenv.Seed(t)
	client := w.service("client", w.store)
	_, err := client.AddSchedule(t.Context(), action.Plan{
		Tenant: "acme", Slug: "app", Target: "do", ID: "s", Every: time.Second, CatchUp: action.CatchUpAll, Overlap: action.OverlapAllow, Until: w.at(over),
	})
	check.OK(t, err)
	rnd := rand.New(rand.NewPCG(seed, 2))
	for i := range actions {
		check.OK(t, w.add(client, action.Request{ID: strconv.Itoa(i), At: w.at(time.Duration(rnd.Int64N(int64(over))))}))
	}
	var commits [2]atomic.Int64
	for i := range commits {
		w.process(strconv.Itoa(i), &hooked{Store: w.store, hook: delays(seed+uint64(i), 5*time.Millisecond, &commits[i])})
	}
	w.passUntil(over)
	for range 1000 {
		if stats, err := w.store.Stats(t.Context()); err != nil || len(stats.Routes) == 0 {
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
		bubble(t, func(t *testing.T) { workTogether(t, newFaultWorld(t), 300, 20*time.Second) })
	})
	t.Run("on disk", func(t *testing.T) {
		t.Parallel()
		workTogether(t, newFaultWorldOn(t, openPebble(t, t.TempDir())), 200, 5*time.Second)
	})
}

// freezer is a hook that freezes a process: from one call on, none gets through until it
// thaws.
type freezer struct {
	mu     sync.Mutex
	left   int // how many calls are to come until then
	is     func(method string, after bool) bool
	frozen chan struct{}
	thaw   chan struct{}
}

// freezeAt freezes at the nth call that is one of those.
func freezeAt(n int, is func(method string, after bool) bool) *freezer {
	return &freezer{left: n, is: is, frozen: make(chan struct{}), thaw: make(chan struct{})}
}

func (f *freezer) hook(method string, after bool) {
	f.mu.Lock()
	if f.left > 0 && f.is(method, after) {
		if f.left--; f.left == 0 {
			close(f.frozen)
		}
	}
	stuck := f.left == 0
	f.mu.Unlock()
	if stuck {
		<-f.thaw
	}
}

// TestActionsSurviveAProcessThatFreezesAtEveryCall freezes a process at each of its calls to
// the store, before it happens and after, until its leases have ended and another one has
// done its work. Then it wakes up and goes on: what it had begun it may go on with, until it
// learns that it has lost it, but it begins nothing that is not its own any more.
func TestActionsSurviveAProcessThatFreezesAtEveryCall(t *testing.T) {
	t.Parallel()
	for _, after := range []bool{false, true} {
		for k, more := 1, true; more; k++ {
			t.Run(fmt.Sprintf("after %v %d", after, k), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					f := freezeAt(k, func(_ string, isAfter bool) bool { return isAfter == after })
					d := &driver{faultWorld: newFaultWorld(t)}
					d.troubled = true
					frozen := d.process("frozen", &hooked{Store: d.store, hook: f.hook})
					d.use(d.process("other", d.store))
					over := make(chan struct{})
					go func() {
						defer close(f.thaw)
						select {
						case <-f.frozen:
							frozen.freeze(true)
							<-time.After(3 * faultLease)
							frozen.freeze(false)
						case <-over:
							more = false
						}
					}()
					d.scenario()
					close(over)
					<-time.After(time.Minute)
					d.check()
				})
			})
		}
	}
}

// TestAFrozenProcessRunsNothingThatItHasLost: it has claimed an action, freezes before it
// marks it running, and another process runs it, which takes long. When the first one wakes
// up, it leaves it alone, although it might repeat it.
func TestAFrozenProcessRunsNothingThatItHasLost(t *testing.T) {
	t.Parallel()
	for _, after := range []bool{false, true} {
		t.Run(fmt.Sprintf("after the claim %v", after), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
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
				f := freezeAt(n, func(m string, isAfter bool) bool { return m == method && isAfter == after })
				client := w.service("client", w.store)
				check.OK(t, w.add(client, action.Request{ID: "a", Idempotent: true}))
				w.process("frozen", &hooked{Store: w.store, hook: f.hook})
				<-f.frozen
				<-time.After(faultLease + faultRate)
				w.process("other", w.store)
				<-time.After(faultLease)
				close(f.thaw)
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
	bubble(t, func(t *testing.T) {
		w := newFaultWorld(t)
		w.troubled = true
		w.behave = takes(time.Hour)
		check.OK(t, w.add(w.service("client", w.store), action.Request{ID: "a", Idempotent: true}))
		for i := range 5 {
			p := w.crash(fmt.Sprint(i))
			<-time.After(time.Second)
			p()
			<-time.After(2 * faultLease)
		}
		w.process("last", w.store)
		<-time.After(2 * faultLease)
		w.check()
		check.Equal(t, "runs", len(w.runsOf("a")), 3)
		<-time.After(2 * time.Hour)
	})
}

// TestRecoveredFromRestart says so, with its times, and can be retried.
func TestRecoveredFromRestart(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newFaultWorld(t)
		w.behave = takes(time.Hour)
		client := w.service("client", w.store)
		check.OK(t, w.add(client, action.Request{ID: "a"}))
		die := w.crash("first")
		<-time.After(time.Second)
		die()
		w.process("second", w.store)
		<-time.After(faultLease + faultRate)
		synctest.Wait()
		a, err := client.Get(t.Context(), "acme", "a")
		if err != nil || a.Status != action.Failed || a.Reason != "recovered from restart" || a.Attempt != 1 || !a.StartedAt.Equal(w.begun) || a.EndedAt.IsZero() {
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
	faulty := storetest.NewFaulty(w.store, nil)
	p := w.service(name, faulty)
	ctx, cancel := context.WithCancel(context.Background())
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		_ = p.Run(ctx)
	}()
	w.t.Cleanup(func() { <-gone })
	return func() {
		p.die()
		faulty.Kill()
		cancel()
	}
}
