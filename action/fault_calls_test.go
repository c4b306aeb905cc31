package action_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/abidehq/abide/action"
	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/store/storetest"
)

// driver makes the calls of a scenario, as callers do that try again when they do not know
// what became of a call: in a process that lives.
type driver struct {
	*faultWorld
	mu      sync.Mutex
	current *process
}

// use has the next calls made in another process.
func (d *driver) use(p *process) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.current = p
}

func (d *driver) process1() *process {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.current
}

// try makes a call until somebody knows what became of it.
func (d *driver) try(call func(*process) error) {
	d.t.Helper()
	for range 100 {
		if err := call(d.process1()); !errors.Is(err, storetest.ErrFault) {
			return
		}
		<-time.After(10 * time.Millisecond)
	}
	d.t.Error("a call does not succeed")
}

func (d *driver) tryAdd(req action.Request) {
	d.t.Helper()
	d.try(func(p *process) error { return d.add(p, req) })
}

// tryReceive receives a webhook, as a sender that sends it again until it is accepted.
func (d *driver) tryReceive(delivery, target string) (id string) {
	d.t.Helper()
	d.try(func(p *process) (err error) { id, err = d.receive(p, delivery, target); return err })
	return id
}

// scenario does everything once that can be done with actions. It takes half a minute.
func (d *driver) scenario() {
	d.t.Helper()
	d.behave = someBehaviour
	d.tryAdd(action.Request{ID: "plain", At: d.at(3 * time.Second)})
	d.tryAdd(action.Request{ID: "plain too", At: d.at(3 * time.Second)})
	d.tryAdd(action.Request{ID: "plain idempotent", At: d.at(3 * time.Second), Idempotent: true})
	d.tryAdd(action.Request{ID: "slow", At: d.at(5 * time.Second)})
	d.tryAdd(action.Request{ID: "slow idempotent", At: d.at(5 * time.Second), Idempotent: true})
	d.tryAdd(action.Request{ID: "slow cancelled", At: d.at(time.Second)})
	d.tryAdd(action.Request{ID: "cancelled", At: d.at(6 * time.Second)})
	d.tryAdd(action.Request{ID: "failing", At: d.at(time.Second)})
	d.tryAdd(action.Request{ID: "once", At: d.at(time.Second), Target: "again"})
	d.tryReceive("d1", "do")
	d.tryReceive("d1", "do")
	d.try(func(p *process) error {
		_, err := p.AddSchedule(context.Background(), action.Plan{
			Tenant: "acme", Slug: "app", Target: "do", ID: "s", Every: 7 * time.Second, From: d.at(4 * time.Second), Count: 3, Overlap: action.OverlapAllow, CatchUp: action.CatchUpAll,
		})
		if errors.Is(err, action.ErrExists) {
			err = nil
		}
		return d.unexpected("add schedule", err)
	})
	d.passUntil(3500 * time.Millisecond)
	d.try(func(p *process) error { return d.cancel(p, "slow cancelled") })
	d.try(func(p *process) error { return d.cancel(p, "cancelled") })
	d.passUntil(12 * time.Second)
	d.try(func(p *process) error { return d.retry(p, "failing") })
	d.try(func(p *process) error { return d.retry(p, "slow cancelled") })
	d.passUntil(30 * time.Second)
}

// wantUndisturbed checks what comes of the scenario if nobody dies: all of it, once. A
// fault may make things late, so that what is to be cancelled may have begun or not, and
// have what is to be retried be retried twice.
func (d *driver) wantUndisturbed() {
	d.t.Helper()
	want := map[string]string{
		"plain": "completed 1", "plain too": "completed 1", "plain idempotent": "completed 1", "slow": "completed 1",
		"slow idempotent": "completed 1", "cancelled": "cancelled 0", "once": "completed 2",
	}
	late := map[string]action.Status{"slow cancelled": action.Completed, "failing": action.Failed}
	for _, a := range d.all() {
		got := fmt.Sprintf("%s %d", a.Status, len(d.runsOf(a.ID)))
		switch status, late := late[a.ID]; {
		case late && a.Status != status:
			d.t.Errorf("action %s is %s %q, want %s", a.ID, got, a.Reason, status)
			continue
		case late:
			continue
		}
		if w, known := want[a.ID]; known && got != w {
			d.t.Errorf("action %s is %s %q, want %s", a.ID, got, a.Reason, w)
		} else if !known && got != "completed 1" {
			d.t.Errorf("action %s of %q is %s %q, want completed 1", a.ID, a.Schedule, got, a.Reason)
		}
		delete(want, a.ID)
	}
	if len(want) > 0 {
		d.t.Errorf("missing: %v", want)
	}
}

// runScenario runs the scenario in a process whose calls to the store fail as the plan
// says. Then a second process takes over. It returns how many calls there were.
func runScenario(t *testing.T, plan func(storetest.Call) storetest.Fault) (calls int) {
	synctest.Test(t, func(t *testing.T) {
		d := &driver{faultWorld: newFaultWorld(t)}
		faulty := storetest.NewFaulty(d.store, plan)
		first := d.process("first", faulty)
		d.use(first)
		d.scenario()
		calls = faulty.Calls()
		first.stop()
		d.process("second", d.store)
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

// TestActionsSurviveAProcessThatDiesAtEveryCall kills the process at each of its calls to
// the store, before it happens and after. Another one takes over.
func TestActionsSurviveAProcessThatDiesAtEveryCall(t *testing.T) {
	t.Parallel()
	for _, after := range []bool{false, true} {
		for k, more := 1, true; more; k++ {
			t.Run(fmt.Sprintf("after %v %d", after, k), func(t *testing.T) { more = runKilled(t, k, after) })
		}
	}
}

// runKilled runs the scenario in a process that is killed at its kth call. It reports
// whether it came to that.
func runKilled(t *testing.T, k int, after bool) (killed bool) {
	synctest.Test(t, func(t *testing.T) {
		d := &driver{faultWorld: newFaultWorld(t)}
		d.troubled = true
		dead, over := make(chan struct{}), make(chan struct{})
		var faulty *storetest.Faulty
		var first *process
		var mu sync.Mutex
		n := 0
		// The hook is below what is killed, so that a call can have happened and nobody hears
		// of it.
		faulty = storetest.NewFaulty(&hooked{Store: d.store, hook: func(_ string, isAfter bool) {
			mu.Lock()
			defer mu.Unlock()
			if isAfter != after {
				return
			}
			if n++; n == k {
				faulty.Kill()
				first.die()
				close(dead)
			}
		}}, nil)
		first = d.service("first", faulty)
		d.use(first)
		ctx, cancel := context.WithCancel(context.Background())
		gone := make(chan struct{})
		go func() {
			defer close(gone)
			_ = first.Run(ctx)
		}()
		t.Cleanup(func() {
			cancel()
			<-gone
		})
		go func() {
			select {
			case <-dead:
				killed = true
				cancel()
				d.use(d.process("second", d.store))
			case <-over:
			}
		}()
		d.scenario()
		close(over)
		<-time.After(time.Minute)
		d.check()
	})
	return killed
}
