package timer_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/abidehq/abide/internal/rig"
	"github.com/abidehq/abide/store/storetest"
	"github.com/abidehq/abide/timer"
)

// driver makes the calls of a scenario.
type driver struct {
	*faultWorld
	caller *rig.Caller[*timer.Service]
}

func newDriver(t *testing.T) *driver {
	w := newFaultWorld(t)
	return &driver{w, rig.NewCaller[*timer.Service](t, nil)}
}

// try makes a call until its outcome is known, which is in the ledger.
func (d *driver) try(call func(*timer.Service) error) {
	d.T.Helper()
	_ = d.caller.Do(call)
}

// scenario does everything once that can be done with timers. It takes a minute.
func (d *driver) scenario() {
	d.T.Helper()
	schedule := func(key string, due time.Duration) {
		d.try(func(s *timer.Service) error { return d.schedule(s, "acme", key, d.At(due)) })
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
		return d.scheduleAll(s, "other", []string{"a", "b", "c"}, d.At(10*time.Second))
	})
	d.try(func(s *timer.Service) error { return d.cancelAll(s, "other") })
	d.try(func(s *timer.Service) error {
		return d.scheduleAll(s, "other", []string{"b", "d"}, d.At(12*time.Second))
	})
	d.try(func(s *timer.Service) error { return d.scheduleIn(s, "acme", "again", 4*time.Second) })

	// Just when they are due.
	for _, key := range []string{"late move", "late snooze", "late cancel"} {
		schedule(key, 9*time.Second)
	}
	d.WaitUntil(9 * time.Second)
	schedule("late move", 14*time.Second)
	d.try(func(s *timer.Service) error { return d.snooze(s, "acme", "late snooze", 5*time.Second) })
	d.try(func(s *timer.Service) error { return d.cancel(s, "acme", "late cancel") })

	// After they have fired, or should have.
	d.WaitUntil(16 * time.Second)
	schedule("again", 18*time.Second)
	d.try(func(s *timer.Service) error { return d.snooze(s, "acme", "earlier", 3*time.Second) })
	d.try(func(s *timer.Service) error { return d.cancel(s, "acme", "plain") })
	d.WaitUntil(time.Minute)
}

// runScenario runs the scenario in a process whose calls to the store fail as the plan
// says. Then a second process takes over. It returns how many calls there were.
func runScenario(t *testing.T, plan func(storetest.Call) storetest.Fault) (calls int) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver(t)
		faulty := storetest.NewFaulty(d.Store, plan)
		first := d.process(faulty)
		d.caller.Use(first.Service)
		d.scenario()
		calls = faulty.Calls()
		first.running.Stop()
		d.process(d.Store)
		<-time.After(time.Minute)
		d.check()
	})
	return calls
}

// TestTimersSurviveAFaultAtEveryCall has each call to the store fail, one at a time: what
// it should do happens, or does not happen, and the service does not know which.
func TestTimersSurviveAFaultAtEveryCall(t *testing.T) {
	t.Parallel()
	rig.FaultAtEveryCall(t, runScenario)
}

// TestTimersSurviveAProcessThatDiesAtEveryCall kills the process at each of its calls to
// the store, before it happens and after. Another one takes over.
func TestTimersSurviveAProcessThatDiesAtEveryCall(t *testing.T) {
	t.Parallel()
	rig.AtEveryCall(t, func(t *testing.T, k int, after bool) bool {
		return runKilled(t, func(kill func()) (rig.Hook, func(n int, accepted bool) error) {
			return rig.NthCall(k, after, kill), nil
		})
	})
}

// TestTimersSurviveAProcessThatDiesWhilePublishing kills the process at each envelope that
// a sink gets, before the sink has accepted it, and after that and before it is finished.
func TestTimersSurviveAProcessThatDiesWhilePublishing(t *testing.T) {
	t.Parallel()
	rig.AtEveryCall(t, func(t *testing.T, k int, after bool) bool {
		return runKilled(t, func(kill func()) (rig.Hook, func(n int, accepted bool) error) {
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

// runKilled runs the scenario in a process that is killed by a hook of its store, or by
// what meddles with the first sink. It reports whether it came to that.
func runKilled(t *testing.T, when func(kill func()) (hook rig.Hook, meddle func(n int, accepted bool) error)) (killed bool) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver(t)
		faulty := rig.NewMortal(d.Store, nil, func(kill func()) rig.Hook {
			hook, meddle := when(kill)
			d.sinks[0].plan(meddle)
			return hook
		})
		first := d.process(faulty)
		d.caller.Use(first.Service)
		killed = faulty.Survive(d.scenario, func() {
			first.running.Cancel()
			second := d.process(d.Store)
			d.caller.Use(second.Service)
		})
		<-time.After(time.Minute)
		d.check()
	})
	return killed
}
