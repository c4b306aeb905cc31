package action_test

import (
	"context"
	"testing"
	"time"

	"github.com/abidehq/abide/action"
	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/internal/rig"
	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/store/storetest"
)

func drain(d time.Duration) func(*action.Config) {
	return func(c *action.Config) { c.DrainTimeout = d }
}

// TestStopWaitsForRuns that end in time, and begins no others.
func TestStopWaitsForRuns(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := newFixture(t, drain(time.Minute), slots(1))
		r.will(takes(30 * time.Second))
		r.add(action.Request{ID: "a"})
		r.add(action.Request{ID: "b", At: r.At(time.Millisecond)})
		rig.Pass(time.Millisecond)
		stop := r.run()
		rig.Pass(time.Second)
		began := time.Now()
		stop()
		check.Equal(t, "time to stop", time.Since(began), 29*time.Second)
		r.wantStatus("a", action.Completed, "")
		r.wantStatus("b", action.Pending, "")
		r.wantIDs("a")
	})
}

// TestStopInterruptsRuns that do not end in time: idempotent ones are pending again, as if
// they had not been tried, and the others have failed, with a reason.
func TestStopInterruptsRuns(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := newFixture(t, drain(10*time.Second), target(func(d *action.Definition) { d.Attempts = 5 }))
		r.will(takes(time.Hour))
		r.add(action.Request{ID: "a"})
		r.add(action.Request{ID: "b", Idempotent: true})
		hook := r.receive(odd, "")
		stop := r.run()
		rig.Pass(time.Second)
		began := time.Now()
		stop()
		check.Equal(t, "time to stop", time.Since(began), 10*time.Second)
		const why = "the service is stopping: context canceled"
		r.wantStatus("a", action.Failed, why)
		r.wantStatus(hook.ID, action.Failed, why)
		r.wantBody(hook.ID, odd)
		got := r.wantStatus("b", action.Pending, why)
		check.Equal(t, "attempt", got.Attempt, 0)
		check.Equal(t, "when it is due", got.Due(), r.At(11*time.Second))
		for _, run := range r.all() {
			check.Error(t, run.cause, action.ErrStopping)
		}
		r.will(nil)
		newFixtureOn(t, r.Store, r.journal).run()
		rig.Pass(time.Minute)
		r.wantStatus("b", action.Completed, "")
		check.Equal(t, "runs", len(r.all()), 4)
	})
}

// TestStopsDoNotUseUpAttempts: an idempotent action may be interrupted by any number of
// them.
func TestStopsDoNotUseUpAttempts(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := newFixture(t)
		r.will(takes(time.Hour))
		r.add(action.Request{ID: "a", Idempotent: true})
		for range 10 {
			stop := newFixtureOn(t, r.Store, r.journal, drain(time.Second)).run()
			rig.Pass(time.Second)
			stop()
			r.wantStatus("a", action.Pending, "the service is stopping: context canceled")
		}
		// Nor do crashes before them make a difference.
		for crash := range 2 {
			dead := storetest.NewFaulty(r.Store, nil)
			newFixtureOn(t, dead, r.journal).tick()
			dead.Kill()
			rig.Pass(time.Hour)
			check.Equal(t, "attempt", r.get("a").Attempt, crash+1)
		}
		stop := newFixtureOn(t, r.Store, r.journal, drain(time.Second)).run()
		rig.Pass(time.Second)
		stop()
		r.wantStatus("a", action.Pending, "the service is stopping: context canceled")
		rig.Pass(time.Hour) // what is dead still tries
	})
}

// TestATargetThatIsIdempotent makes all of its actions so.
func TestATargetThatIsIdempotent(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := newFixture(t, drain(time.Second), target(idempotent))
		r.will(takes(time.Hour))
		r.add(action.Request{ID: "a"})
		stop := r.run()
		rig.Pass(time.Second)
		stop()
		r.wantStatus("a", action.Pending, "the service is stopping: context canceled")
	})
}

// TestStopDuringATick lets it come to its end: what it has claimed is run.
func TestStopDuringATick(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := newFixture(t)
		r.add(action.Request{ID: "a"})
		slow := newFixtureOn(t, &rig.Hooked{Store: r.Store, Hook: func(method string, after bool) {
			if method == "Claim" && after {
				<-time.After(2 * time.Second)
			}
		}}, r.journal)
		stop := slow.run()
		rig.Pass(3 * time.Second) // it claims schedules first
		stop()
		r.wantIDs("a")
		r.wantStatus("a", action.Completed, "")
	})
}

// TestStopWhileTheStoreIsInTrouble comes to an end, and nothing is lost.
func TestStopWhileTheStoreIsInTrouble(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := newFixture(t)
		r.add(action.Request{ID: "a"})
		r.add(action.Request{ID: "b", Idempotent: true})
		faulty := storetest.NewFaulty(r.Store, func(c storetest.Call) storetest.Fault {
			if c.Method == "Commit" {
				return storetest.FailBefore
			}
			return storetest.NoFault
		})
		stop := newFixtureOn(t, faulty, r.journal).run()
		rig.Pass(5 * time.Minute)
		began := time.Now()
		stop()
		if took := time.Since(began); took > 30*time.Second {
			t.Errorf("it has taken %v to stop", took)
		}
		r.wantIDs()
		r.run()
		rig.Pass(rate)
		r.wantStatus("a", action.Completed, "")
		r.wantStatus("b", action.Completed, "")
	})
}

// TestStopGivesUpOnOutcomes that it cannot note: the next process finds the actions running.
func TestStopGivesUpOnOutcomes(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := newFixture(t)
		r.add(action.Request{ID: "a"})
		faulty := storetest.NewFaulty(r.Store, nil)
		stop := newFixtureOn(t, faulty, r.journal, drain(5*time.Second), func(c *action.Config) { c.LeaseDuration = time.Hour }).run()
		r.will(takes(time.Hour))
		r.add(action.Request{ID: "b"})
		rig.Pass(rate)
		r.wantStatus("b", action.Running, "")
		faulty.Plan(func(c storetest.Call) storetest.Fault {
			if c.Method == "Commit" {
				return storetest.FailBefore
			}
			return storetest.NoFault
		})
		began := time.Now()
		stop()
		check.Equal(t, "time to stop", time.Since(began), 25*time.Second)
		r.wantStatus("b", action.Running, "")
		newFixtureOn(t, r.Store, r.journal).run()
		rig.Pass(time.Hour + rate)
		r.wantStatus("b", action.Failed, "recovered from restart")
	})
}

// TestRunEndsWithItsStore: there is nothing left to do.
func TestRunEndsWithItsStore(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := newFixture(t)
		done := make(chan error)
		go func() { done <- r.Run(context.Background()) }()
		rig.Pass(time.Second)
		check.OK(t, r.Store.Close())
		check.Error(t, <-done, store.ErrClosed)
	})
}
