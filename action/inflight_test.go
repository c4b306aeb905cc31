package action_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/abidehq/abide/action"
	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/internal/rig"
	"github.com/abidehq/abide/store"
)

// inFlight limits how many actions of a target run at the same time.
func inFlight(n int) func(*action.Config) {
	return target(func(d *action.Definition) { d.MaxInFlight = n })
}

// TestMaxInFlightLeavesSlots: a target that is slow and has a backlog takes no more than its share of the slots, and
// leases nothing beyond it. Actions of another one run at the first tick after they are due.
func TestMaxInFlightLeavesSlots(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		quick := newJournal(t)
		r := newFixture(t, slots(3), inFlight(2), func(c *action.Config) {
			c.Targets["quick"] = action.Definition{Target: action.Func(quick.act)}
		})
		r.will(takes(time.Minute + time.Second))
		for i := range 10 {
			r.add(action.Request{ID: fmt.Sprint(i)})
		}
		for i := range 30 {
			r.add(action.Request{ID: fmt.Sprint("quick", i), Target: "quick", At: r.At(time.Duration(i) * rate)})
		}
		began := time.Now()
		r.run()
		for range 30 {
			stats, err := r.Store.Stats(t.Context())
			check.OK(t, err)
			check.Equal(t, "leases", stats.Leases, 2)
			rig.Pass(rate)
		}
		rig.Pass(time.Minute)
		for i, run := range r.all() {
			check.Equal(t, fmt.Sprint("the beginning of run ", i), run.began, began.Add(time.Duration(i/2)*(time.Minute+time.Second)))
		}
		check.Equal(t, "runs", len(r.all()), 10)
		for _, run := range quick.all() {
			if waited := run.began.Sub(run.Action.Trigger.At); waited >= rate {
				t.Errorf("action %s began %v after it was due", run.Action.ID, waited)
			}
		}
		check.Equal(t, "quick runs", len(quick.all()), 30)
	})
}

// TestMaxInFlightIsGivenBack by all that does not come to a run, too.
func TestMaxInFlightIsGivenBack(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := newFixture(t, slots(4), inFlight(1))
		for round := range 3 {
			for i := range 3 {
				key := store.Key{Queue: "actions", Tenant: "acme", Name: fmt.Sprint("bad", round, i)}
				check.OK(t, r.Store.Commit(t.Context(), &store.Tx{Put: []store.Message{{Key: key, ID: "1", Route: "do", Body: []byte("bad")}}}))
				r.will(func(context.Context, action.Run) (action.Outcome, error) { panic("no") })
				r.add(action.Request{ID: fmt.Sprint(round, "-", i)})
			}
			r.tickAll()
		}
		check.Equal(t, "runs", len(r.all()), 9)
		check.Equal(t, "messages in quarantine", len(r.Records(store.KindQuarantine)), 9)

		// One that is cancelled while it runs, and one whose process has lost its lease.
		r.will(takes(time.Hour))
		r.add(action.Request{ID: "cancelled"})
		r.run()
		r.cancel("cancelled", "")
		r.will(nil)
		r.add(action.Request{ID: "next"})
		rig.Pass(2 * rate)
		r.wantStatus("next", action.Completed, "")
	})
}
