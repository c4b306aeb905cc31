package action_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/abidehq/abide/action"
	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/internal/rig"
	"github.com/abidehq/abide/store/storetest"
)

// driver makes the calls of a scenario.
type driver struct {
	*faultWorld
	caller *rig.Caller[*process]
}

func newDriver(t *testing.T) *driver {
	w := newFaultWorld(t)
	return &driver{w, rig.NewCaller[*process](t, nil)}
}

// try makes a call until its outcome is known, which is in the ledger.
func (d *driver) try(call func(*process) error) {
	d.T.Helper()
	_ = d.caller.Do(call)
}

func (d *driver) tryAdd(req action.Request) {
	d.T.Helper()
	d.try(func(p *process) error { return d.add(p, req) })
}

// tryReceive receives a webhook, as a sender that sends it again until it is accepted.
func (d *driver) tryReceive(delivery, target string) (id string) {
	d.T.Helper()
	d.try(func(p *process) (err error) { id, err = d.receive(p, delivery, target); return err })
	return id
}

// scenario does everything once that can be done with actions. It takes half a minute.
func (d *driver) scenario() {
	d.T.Helper()
	d.behave = someBehaviour
	d.tryAdd(action.Request{ID: "plain", At: d.At(3 * time.Second)})
	d.tryAdd(action.Request{ID: "plain too", At: d.At(3 * time.Second)})
	d.tryAdd(action.Request{ID: "plain idempotent", At: d.At(3 * time.Second), Idempotent: true})
	d.tryAdd(action.Request{ID: "slow", At: d.At(5 * time.Second)})
	d.tryAdd(action.Request{ID: "slow idempotent", At: d.At(5 * time.Second), Idempotent: true})
	d.tryAdd(action.Request{ID: "slow cancelled", At: d.At(time.Second)})
	d.tryAdd(action.Request{ID: "cancelled", At: d.At(6 * time.Second)})
	d.tryAdd(action.Request{ID: "failing", At: d.At(time.Second)})
	d.tryAdd(action.Request{ID: "once", At: d.At(time.Second), Target: "again"})
	d.tryReceive("d1", "do")
	d.tryReceive("d1", "do")
	d.try(func(p *process) error {
		_, err := p.AddSchedule(context.Background(), action.Plan{
			Tenant: "acme", Slug: "app", Target: "do", ID: "s", Every: 7 * time.Second, From: d.At(4 * time.Second), Count: 3, Overlap: action.OverlapAllow, CatchUp: action.CatchUpAll,
		})
		if errors.Is(err, action.ErrExists) {
			err = nil
		}
		return d.unexpected("add schedule", err)
	})
	d.WaitUntil(3500 * time.Millisecond)
	d.try(func(p *process) error { return d.cancel(p, "slow cancelled") })
	d.try(func(p *process) error { return d.cancel(p, "cancelled") })
	d.WaitUntil(12 * time.Second)
	d.try(func(p *process) error { return d.retry(p, "failing") })
	d.try(func(p *process) error { return d.retry(p, "slow cancelled") })
	d.WaitUntil(30 * time.Second)
}

// wantUndisturbed checks what comes of the scenario if nobody dies: all of it, once. A
// fault may make things late, so that what is to be cancelled may have begun or not, and
// have what is to be retried be retried twice.
func (d *driver) wantUndisturbed() {
	d.T.Helper()
	want := map[string]string{
		"plain": "completed 1", "plain too": "completed 1", "plain idempotent": "completed 1", "slow": "completed 1",
		"slow idempotent": "completed 1", "cancelled": "cancelled 0", "once": "completed 2",
	}
	late := map[string]action.Status{"slow cancelled": action.Completed, "failing": action.Failed}
	for _, a := range d.all() {
		got := fmt.Sprintf("%s %d", a.Status, len(d.runsOf(a.ID)))
		switch status, late := late[a.ID]; {
		case late && a.Status != status:
			d.T.Errorf("action %s is %s %q, want %s", a.ID, got, a.Reason, status)
			continue
		case late:
			continue
		}
		if w, known := want[a.ID]; known && got != w {
			d.T.Errorf("action %s is %s %q, want %s", a.ID, got, a.Reason, w)
		} else if !known && got != "completed 1" {
			d.T.Errorf("action %s of %q is %s %q, want completed 1", a.ID, a.Schedule, got, a.Reason)
		}
		delete(want, a.ID)
	}
	if len(want) > 0 {
		d.T.Errorf("missing: %v", want)
	}
}

// runScenario runs the scenario in a process whose calls to the store fail as the plan
// says. Then a second process takes over. It returns how many calls there were.
func runScenario(t *testing.T, plan func(storetest.Call) storetest.Fault) (calls int) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver(t)
		faulty := storetest.NewFaulty(d.Store, plan)
		first := d.process("first", faulty)
		d.caller.Use(first)
		d.scenario()
		calls = faulty.Calls()
		first.running.Stop()
		d.process("second", d.Store)
		<-time.After(time.Minute)
		d.check()
		d.wantUndisturbed()
		check.Equal(t, "actions", len(d.all()), 13)
	})
	return calls
}

// TestActionsSurviveAFaultAtEveryCall has each call to the store fail, one at a time: what
// it should do happens, or does not happen, and the service does not know which. Nothing
// comes of it: all runs once.
func TestActionsSurviveAFaultAtEveryCall(t *testing.T) {
	t.Parallel()
	rig.FaultAtEveryCall(t, runScenario)
}

// TestActionsSurviveAProcessThatDiesAtEveryCall kills the process at each of its calls to
// the store, before it happens and after. Another one takes over.
func TestActionsSurviveAProcessThatDiesAtEveryCall(t *testing.T) {
	t.Parallel()
	rig.AtEveryCall(t, runKilled)
}

// runKilled runs the scenario in a process that is killed at its kth call. It reports
// whether it came to that.
func runKilled(t *testing.T, k int, after bool) (killed bool) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver(t)
		d.troubled = true
		var first *process
		faulty := rig.NewMortal(d.Store, func() { first.die() }, func(kill func()) rig.Hook { return rig.NthCall(k, after, kill) })
		first = d.service("first", faulty)
		d.caller.Use(first)
		running := rig.Run(t, first)
		killed = faulty.Survive(d.scenario, func() {
			running.Kill()
			d.caller.Use(d.process("second", d.Store))
		})
		<-time.After(time.Minute)
		d.check()
	})
	return killed
}
