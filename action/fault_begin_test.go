package action_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/abidehq/abide/action"
	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/internal/rig"
	"github.com/abidehq/abide/internal/teststore"
	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/store/storetest"
)

// TestAFrozenProcessAsksBeforeItRuns: it freezes when it is about to mark an action running,
// until its lease is over. Nobody else has come, so that it succeeds; but the action is not
// its own any more, and it must claim it again.
func TestAFrozenProcessAsksBeforeItRuns(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		w := newFaultWorld(t)
		w.behave, w.troubled = takes(faultLease), true
		f := rig.FreezeAt(1, func(method string, after bool) bool { return method == "Commit" && !after })
		for _, id := range []string{"a", "b"} {
			check.OK(t, w.add(w.service("client", w.Store), action.Request{ID: id, Idempotent: id == "a"}))
		}
		w.process("frozen", &rig.Hooked{Store: w.Store, Hook: f.Hook})
		<-f.Frozen
		<-time.After(2 * faultLease)
		close(f.Thaw)
		<-time.After(10 * faultLease)
		w.check()
		check.Equal(t, "what may be repeated has runs", len(w.runsOf("a")), 1)
		if n := len(w.runsOf("b")); n != 0 { // it was marked running, and nobody can know that it was not
			t.Errorf("what may not be repeated has %d runs, want 0", n)
		}
	})
}

// TestASuspendedProcess has no idea that time has passed: its clock stood still. It claims
// an action, and another process runs it by the time it wakes up. It leaves it alone, since
// the record tells that it was claimed after that.
func TestASuspendedProcess(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		clock := base.NewManual(time.Now()) // of the store; all others stand still
		s := teststore.NewWithClock(t, clock)
		t.Cleanup(func() { _ = s.Close() })
		j := newJournal(t)
		j.late = true
		release := make(chan struct{})
		j.will(blocks(release))
		f := rig.FreezeAt(1, func(method string, after bool) bool { return method == "Commit" && !after })
		suspended := newFixtureOn(t, &rig.Hooked{Store: s, Hook: f.Hook}, j)
		other := newFixtureOn(t, s, j)
		other.add(action.Request{ID: "a", Idempotent: true})
		done := make(chan struct{})
		go func() {
			defer close(done)
			suspended.tick()
		}()
		<-f.Frozen
		clock.Advance(time.Hour)
		other.tick()
		before := other.wantStatus("a", action.Running, "")
		close(f.Thaw)
		<-done
		wantAction(t, "it", other.get("a"), before)
		close(release)
		synctest.Wait()
		other.wantStatus("a", action.Completed, "")
		j.wantIDs("a")
	})
}

// TestSecondBeginningIsNoted, although nobody learns of it: an action that was claimed
// before, and not begun, is begun in a commit that seems to fail.
func TestSecondBeginningIsNoted(t *testing.T) {
	t.Parallel()
	for name, how := range map[string]storetest.Fault{"before": storetest.FailBefore, "after": storetest.FailAfter} {
		t.Run(name, func(t *testing.T) {
			rig.Bubble(t, func(t *testing.T) {
				r := newFixture(t)
				r.add(action.Request{ID: "a"})
				claims, err := r.Store.Claim(t.Context(), store.ClaimRequest{Queue: "actions", Routes: []string{"do"}, Max: 1, Lease: time.Second})
				if err != nil || len(claims) != 1 {
					t.Fatalf("%d claims, %v", len(claims), err)
				}
				rig.Pass(time.Second)
				once := false
				faulty := storetest.NewFaulty(r.Store, func(c storetest.Call) storetest.Fault {
					if c.Method == "Commit" && !once {
						once = true
						return how
					}
					return storetest.NoFault
				})
				newFixtureOn(t, faulty, r.journal).run()
				rig.Pass(time.Minute)
				r.wantStatus("a", action.Completed, "")
				check.Equal(t, "attempt", r.get("a").Attempt, 1)
				r.wantIDs("a")
			})
		})
	}
}
