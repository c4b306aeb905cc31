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
	"github.com/abidehq/abide/internal/teststore"
	"github.com/abidehq/abide/store"
)

func TestCancelPending(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := newFixture(t)
		r.add(action.Request{ID: "a", Delay: time.Minute})
		r.run()
		rig.Pass(time.Second)
		got := r.cancel("a", "not needed")
		wantAction(t, "what Cancel returns", got, r.wantStatus("a", action.Cancelled, "not needed"))
		check.Equal(t, "its end", got.EndedAt, r.At(time.Second))
		check.Equal(t, "messages", r.Pending(), 0)
		rig.Pass(time.Hour)
		r.wantIDs()
	})
}

// TestCancelRunning: the run's context ends at once, with the cause, and what comes of it
// is discarded.
func TestCancelRunning(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := newFixture(t)
		r.will(func(ctx context.Context, _ action.Run) (action.Outcome, error) {
			<-ctx.Done()
			<-time.After(time.Second) // to tidy up
			return action.Outcome{ExitCode: 9, Output: "too late"}, nil
		})
		r.add(action.Request{ID: "a"})
		r.run()
		rig.Pass(3 * time.Second)
		got := r.cancel("a", "")
		check.Equal(t, "its end", got.EndedAt, r.At(3*time.Second))
		rig.Pass(time.Hour)
		wantAction(t, "an hour later", r.wantStatus("a", action.Cancelled, "cancelled"), got)
		check.Equal(t, "the end of the run", r.last().ended, r.At(4*time.Second))
		check.Error(t, r.last().cause, action.ErrCancelled)
		check.Equal(t, "runs", len(r.all()), 1)
	})
}

// TestCancelFromAnotherService: the service that runs it learns that from the lost lease.
func TestCancelFromAnotherService(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := newFixture(t)
		r.will(takes(time.Hour))
		r.add(action.Request{ID: "a"})
		r.run()
		other := newFixtureOn(t, r.Store, r.journal)
		rig.Pass(time.Second)
		got := other.cancel("a", "elsewhere")
		rig.Pass(10 * time.Second) // a third of the lease
		run := r.last()
		if run.ended.IsZero() || !errors.Is(run.cause, action.ErrCancelled) {
			t.Errorf("the run ended at %v, cause %v", run.ended, run.cause)
		}
		wantAction(t, "it", r.get("a"), got)
		check.Equal(t, "runs", len(r.all()), 1)
	})
}

// TestCancelJustBeforeItBegins: it was claimed, and is not run.
func TestCancelJustBeforeItBegins(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := newFixture(t)
		r.add(action.Request{ID: "a"})
		r.add(action.Request{ID: "b"})
		once := false
		hook := &rig.Hooked{Store: r.Store, Hook: func(method string, after bool) {
			if method == "Commit" && !after && !once {
				once = true
				r.cancel("a", "")
			}
		}}
		other := newFixtureOn(t, hook, r.journal)
		other.tick()
		r.wantIDs("b")
		r.wantStatus("a", action.Cancelled, "cancelled")
		r.wantStatus("b", action.Completed, "")
		check.Equal(t, "messages", r.Pending(), 0)
	})
}

func TestCancelEnded(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := newFixture(t)
		r.add(action.Request{ID: "a"})
		r.tick()
		rig.Pass(time.Minute)
		_, err := r.Cancel(t.Context(), "acme", "a", "")
		check.ErrorOf(t, "action", err, action.ErrState, "acme/a: it is completed since 2000-01-01T00:00:00Z")
		r.add(action.Request{ID: "b"})
		first := r.cancel("b", "first")
		rig.Pass(time.Minute)
		wantAction(t, "cancelled again", r.cancel("b", "second"), first)
		_, err = r.Cancel(t.Context(), "acme", "c", "")
		check.ErrorOf(t, "action", err, action.ErrNotFound, "action: cancel acme/c")
	})
}

// TestRetry: from the beginning, as often as the target allows.
func TestRetry(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := newFixture(t, target(func(d *action.Definition) { d.Attempts = 2 }))
		r.will(fails("no"))
		r.add(action.Request{ID: "a"})
		r.run()
		rig.Pass(time.Minute)
		r.wantStatus("a", action.Failed, "no")
		check.Equal(t, "runs", len(r.all()), 2)
		got := r.retry("a")
		wantAction(t, "what Retry returns", got, r.wantStatus("a", action.Pending, ""))
		check.Equal(t, "attempt", got.Attempt, 0)
		check.Equal(t, "when it is due", got.Due(), r.At(time.Minute))
		rig.Pass(time.Minute)
		check.Equal(t, "runs", len(r.all()), 4)
		r.will(nil)
		r.retry("a")
		rig.Pass(rate)
		r.wantStatus("a", action.Completed, "")
		_, err := r.Retry(t.Context(), "acme", "a")
		check.ErrorOf(t, "action", err, action.ErrState, "it is completed, and neither failed nor cancelled")
		_, err = r.Retry(t.Context(), "acme", "b")
		check.ErrorOf(t, "action", err, action.ErrNotFound)
	})
}

// TestRetryDoesNotInterruptTheNewRun, which may begin before Retry returns.
func TestRetryDoesNotInterruptTheNewRun(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		inner := newFixture(t)
		var r *fixture
		hook := &rig.Hooked{Store: inner.Store, Hook: func(string, bool) {}}
		r = newFixtureOn(t, hook, inner.journal)
		r.add(action.Request{ID: "a"})
		r.cancel("a", "")
		r.will(takes(time.Minute))
		hook.Hook = func(method string, after bool) {
			if method == "Commit" && after {
				hook.Hook = func(string, bool) {}
				r.tick()
			}
		}
		r.retry("a")
		rig.Pass(time.Hour)
		r.wantStatus("a", action.Completed, "")
	})
}

// TestAHangingActionDoesNotBlockTheLoop, and keeps its lease.
func TestAHangingActionDoesNotBlockTheLoop(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := newFixture(t, target(func(d *action.Definition) { d.Timeout = 24 * time.Hour }))
		release := make(chan struct{})
		r.will(func(_ context.Context, run action.Run) (action.Outcome, error) {
			if run.Action.ID == "hangs" {
				<-release
			}
			return action.Outcome{}, nil
		})
		r.add(action.Request{ID: "hangs"})
		r.add(action.Request{ID: "a", Delay: time.Hour})
		r.run()
		newFixtureOn(t, r.Store, r.journal).run()
		rig.Pass(2 * time.Hour)
		r.wantStatus("a", action.Completed, "")
		r.wantStatus("hangs", action.Running, "")
		close(release)
		synctest.Wait()
		r.wantStatus("hangs", action.Completed, "")
		r.wantIDs("hangs", "a")
	})
}

// renewalsFail is a store that renews nothing.
type renewalsFail struct{ store.Store }

func (renewalsFail) Renew(context.Context, time.Duration, []store.Lease) ([]store.Lease, error) {
	return nil, errors.New("no route to host")
}

// TestARunWhoseLeaseIsGivenUpHasNotFailed: the keeper interrupts a run shortly before its lease
// ends. The store would accept its failure, but nobody has cancelled it: an idempotent action
// runs again, and another one is recovered, as after a crash.
func TestARunWhoseLeaseIsGivenUpHasNotFailed(t *testing.T) {
	for _, idempotent := range []bool{true, false} {
		t.Run(fmt.Sprintf("idempotent %v", idempotent), func(t *testing.T) {
			rig.Bubble(t, func(t *testing.T) {
				s := teststore.New(t)
				t.Cleanup(func() { _ = s.Close() })
				j := newJournal(t)
				j.will(takes(time.Hour))
				r := newFixtureOn(t, renewalsFail{s}, j)
				r.add(action.Request{ID: "a", Idempotent: idempotent})
				stop := r.run()
				rig.Pass(29 * time.Second) // of a lease of 30
				if cause := r.last().cause; !errors.Is(cause, action.ErrCancelled) {
					t.Fatalf("the cause is %v, want that the run was interrupted", cause)
				}
				r.wantStatus("a", action.Running, "")
				stop()
				j.will(takes(time.Second))
				newFixtureOn(t, s, j).run()
				rig.Pass(2 * time.Minute)
				if idempotent {
					r.wantStatus("a", action.Completed, "")
				} else {
					r.wantStatus("a", action.Failed, "recovered from restart")
				}
			})
		})
	}
}
