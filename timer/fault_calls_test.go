package timer_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/abidehq/abide/store/storetest"
	"github.com/abidehq/abide/timer"
)

// driver makes the calls of a scenario, as callers do that try again when they do not know
// what became of a call: in a process that lives.
type driver struct {
	*faultWorld
	mu      sync.Mutex
	current *timer.Service
}

// use has the next calls made in another process.
func (d *driver) use(s *timer.Service) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.current = s
}

func (d *driver) service() *timer.Service {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.current
}

// try makes a call until somebody knows what became of it.
func (d *driver) try(call func(*timer.Service) error) {
	d.t.Helper()
	for range 100 {
		if err := call(d.service()); !errors.Is(err, storetest.ErrFault) {
			return
		}
		d.pass(10 * time.Millisecond)
	}
	d.t.Error("a call does not succeed")
}

// scenario does everything once that can be done with timers. It takes a minute.
func (d *driver) scenario() {
	d.t.Helper()
	schedule := func(key string, due time.Duration) {
		d.try(func(s *timer.Service) error { return d.schedule(s, "acme", key, d.at(due)) })
	}
	schedule("plain", 10*time.Second)
	schedule("past", -time.Hour)
	schedule("moved", 10*time.Second)
	schedule("moved", 20*time.Second)
	schedule("earlier", 20*time.Second)
	schedule("earlier", 8*time.Second)
	schedule("snoozed", 10*time.Second)
	d.try(func(s *timer.Service) error { return d.snooze(s, "acme", "snoozed", 5*time.Second) })
	schedule("cancelled", 10*time.Second)
	d.try(func(s *timer.Service) error { return d.cancel(s, "acme", "cancelled") })
	d.try(func(s *timer.Service) error {
		return d.scheduleAll(s, "other", []string{"a", "b", "c"}, d.at(10*time.Second))
	})
	d.try(func(s *timer.Service) error { return d.cancelAll(s, "other") })
	d.try(func(s *timer.Service) error {
		return d.scheduleAll(s, "other", []string{"b", "d"}, d.at(12*time.Second))
	})
	d.try(func(s *timer.Service) error { return d.scheduleIn(s, "acme", "again", 4*time.Second) })

	// Just when they are due.
	for _, key := range []string{"late move", "late snooze", "late cancel"} {
		schedule(key, 9*time.Second)
	}
	d.passUntil(9 * time.Second)
	schedule("late move", 14*time.Second)
	d.try(func(s *timer.Service) error { return d.snooze(s, "acme", "late snooze", 5*time.Second) })
	d.try(func(s *timer.Service) error { return d.cancel(s, "acme", "late cancel") })

	// After they have fired, or should have.
	d.passUntil(16 * time.Second)
	schedule("again", 18*time.Second)
	d.try(func(s *timer.Service) error { return d.snooze(s, "acme", "earlier", 3*time.Second) })
	d.try(func(s *timer.Service) error { return d.cancel(s, "acme", "plain") })
	d.passUntil(time.Minute)
}

// runScenario runs the scenario in a process whose calls to the store fail as the plan
// says. Then a second process takes over. It returns how many calls there were.
func runScenario(t *testing.T, plan func(storetest.Call) storetest.Fault) (calls int) {
	synctest.Test(t, func(t *testing.T) {
		d := &driver{faultWorld: newFaultWorld(t)}
		faulty := storetest.NewFaulty(d.store, plan)
		first := d.process(faulty)
		d.use(first.Service)
		d.scenario()
		calls = faulty.Calls()
		first.stop()
		d.process(d.store)
		d.pass(time.Minute)
		d.check()
	})
	return calls
}

// TestTimersSurviveAFaultAtEveryCall has each call to the store fail, one at a time: what
// it should do happens, or does not happen, and the service does not know which.
func TestTimersSurviveAFaultAtEveryCall(t *testing.T) {
	t.Parallel()
	calls := runScenario(t, nil)
	for name, how := range map[string]storetest.Fault{"before": storetest.FailBefore, "after": storetest.FailAfter} {
		for k := 1; k <= calls; k++ {
			t.Run(fmt.Sprintf("%s %d", name, k), func(t *testing.T) {
				runScenario(t, func(c storetest.Call) storetest.Fault {
					if c.N == k {
						return how
					}
					return storetest.NoFault
				})
			})
		}
	}
}

// TestTimersSurviveAProcessThatDiesAtEveryCall kills the process at each of its calls to
// the store, before it happens and after. Another one takes over.
func TestTimersSurviveAProcessThatDiesAtEveryCall(t *testing.T) {
	t.Parallel()
	for _, after := range []bool{false, true} {
		for k, more := 1, true; more; k++ {
			more = false // also if it fails
			t.Run(fmt.Sprintf("after %v %d", after, k), func(t *testing.T) {
				more = runKilled(t, func(kill func()) (func(method string, after bool), func(n int, accepted bool) error) {
					var mu sync.Mutex
					n := 0
					return func(_ string, isAfter bool) {
						mu.Lock()
						defer mu.Unlock()
						if isAfter == after {
							if n++; n == k {
								kill()
							}
						}
					}, nil
				})
			})
		}
	}
}

// TestTimersSurviveAProcessThatDiesWhilePublishing kills the process at each envelope that
// a sink gets, before the sink has accepted it, and after that and before it is finished.
func TestTimersSurviveAProcessThatDiesWhilePublishing(t *testing.T) {
	t.Parallel()
	for _, after := range []bool{false, true} {
		for k, more := 1, true; more; k++ {
			more = false // also if it fails
			t.Run(fmt.Sprintf("after %v %d", after, k), func(t *testing.T) {
				more = runKilled(t, func(kill func()) (func(method string, after bool), func(n int, accepted bool) error) {
					return nil, func(n int, accepted bool) error {
						if n != k || accepted != after {
							return nil
						}
						kill()
						if accepted {
							return nil
						}
						return errors.New("the process is gone")
					}
				})
			})
		}
	}
}

// runKilled runs the scenario in a process that is killed by a hook of its store, or by
// what meddles with the first sink. It reports whether it came to that.
func runKilled(t *testing.T, when func(kill func()) (hook func(method string, after bool), meddle func(n int, accepted bool) error)) (killed bool) {
	synctest.Test(t, func(t *testing.T) {
		d := &driver{faultWorld: newFaultWorld(t)}
		dead := make(chan struct{})
		var faulty *storetest.Faulty
		hook, meddle := when(sync.OnceFunc(func() {
			faulty.Kill()
			close(dead)
		}))
		d.sinks[0].plan(meddle)
		// The hook is below what is killed, so that a call can have happened and nobody hears
		// of it.
		inner := d.store
		if hook != nil {
			inner = &hooked{Store: inner, hook: hook}
		}
		faulty = storetest.NewFaulty(inner, nil)
		first := d.process(faulty)
		d.use(first.Service)
		over := make(chan struct{})
		go func() {
			select {
			case <-dead:
				killed = true
				first.cancel()
				second := d.process(d.store)
				d.use(second.Service)
			case <-over:
			}
		}()
		d.scenario()
		close(over)
		d.pass(time.Minute)
		d.check()
	})
	return killed
}
