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
	"github.com/abidehq/abide/internal/teststore"
	"github.com/abidehq/abide/store"
)

func TestCancelPending(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		r.add(action.Request{ID: "a", Delay: time.Minute})
		r.run()
		pass(time.Second)
		got := r.cancel("a", "not needed")
		wantAction(t, "what Cancel returns", got, r.wantStatus("a", action.Cancelled, "not needed"))
		wantTime(t, "its end", got.EndedAt, r.at(time.Second))
		wantEqual(t, "messages", r.messages(), 0)
		pass(time.Hour)
		r.wantIDs()
	})
}

// TestCancelRunning: the run's context ends at once, with the cause, and what comes of it
// is discarded.
func TestCancelRunning(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		r.will(func(ctx context.Context, _ action.Run) (action.Outcome, error) {
			<-ctx.Done()
			<-time.After(time.Second) // to tidy up
			return action.Outcome{ExitCode: 9, Output: "too late"}, nil
		})
		r.add(action.Request{ID: "a"})
		r.run()
		pass(3 * time.Second)
		got := r.cancel("a", "")
		wantTime(t, "its end", got.EndedAt, r.at(3*time.Second))
		pass(time.Hour)
		wantAction(t, "an hour later", r.wantStatus("a", action.Cancelled, "cancelled"), got)
		wantTime(t, "the end of the run", r.last().ended, r.at(4*time.Second))
		check.Error(t, r.last().cause, action.ErrCancelled)
		wantEqual(t, "runs", len(r.all()), 1)
	})
}

// TestCancelFromAnotherService: whoever runs it learns that from the lost lease.
func TestCancelFromAnotherService(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		r.will(takes(time.Hour))
		r.add(action.Request{ID: "a"})
		r.run()
		other := newRigOn(t, r.store, r.journal)
		pass(time.Second)
		got := other.cancel("a", "elsewhere")
		pass(10 * time.Second) // a third of the lease
		run := r.last()
		if run.ended.IsZero() || !errors.Is(run.cause, action.ErrCancelled) {
			t.Errorf("the run ended at %v, cause %v", run.ended, run.cause)
		}
		wantAction(t, "it", r.get("a"), got)
		wantEqual(t, "runs", len(r.all()), 1)
	})
}

// TestCancelJustBeforeItBegins: it was claimed, and is not run.
func TestCancelJustBeforeItBegins(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		r.add(action.Request{ID: "a"})
		r.add(action.Request{ID: "b"})
		once := false
		hook := &hooked{Store: r.store, hook: func(method string, after bool) {
			if method == "Commit" && !after && !once {
				once = true
				r.cancel("a", "")
			}
		}}
		other := newRigOn(t, hook, r.journal)
		other.tick()
		r.wantIDs("b")
		r.wantStatus("a", action.Cancelled, "cancelled")
		r.wantStatus("b", action.Completed, "")
		wantEqual(t, "messages", r.messages(), 0)
	})
}

func TestCancelEnded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		r.add(action.Request{ID: "a"})
		r.tick()
		pass(time.Minute)
		_, err := r.Cancel(t.Context(), "acme", "a", "")
		wantError(t, err, action.ErrState, "acme/a: it is completed since 2000-01-01T00:00:00Z")
		r.add(action.Request{ID: "b"})
		first := r.cancel("b", "first")
		pass(time.Minute)
		wantAction(t, "cancelled again", r.cancel("b", "second"), first)
		_, err = r.Cancel(t.Context(), "acme", "c", "")
		wantError(t, err, action.ErrNotFound, "action: cancel acme/c")
	})
}

// TestRetry: from the beginning, as often as the target allows.
func TestRetry(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, target(func(d *action.Definition) { d.Attempts = 2 }))
		r.will(fails("no"))
		r.add(action.Request{ID: "a"})
		r.run()
		pass(time.Minute)
		r.wantStatus("a", action.Failed, "no")
		wantEqual(t, "runs", len(r.all()), 2)
		got := r.retry("a")
		wantAction(t, "what Retry returns", got, r.wantStatus("a", action.Pending, ""))
		wantEqual(t, "attempt", got.Attempt, 0)
		wantTime(t, "when it is due", got.Due(), r.at(time.Minute))
		pass(time.Minute)
		wantEqual(t, "runs", len(r.all()), 4)
		r.will(nil)
		r.retry("a")
		pass(rate)
		r.wantStatus("a", action.Completed, "")
		_, err := r.Retry(t.Context(), "acme", "a")
		wantError(t, err, action.ErrState, "it is completed, and neither failed nor cancelled")
		_, err = r.Retry(t.Context(), "acme", "b")
		wantError(t, err, action.ErrNotFound)
	})
}

// TestRetryDoesNotInterruptTheNewRun, which may begin before Retry returns.
func TestRetryDoesNotInterruptTheNewRun(t *testing.T) {
	bubble(t, func(t *testing.T) {
		inner := newRig(t)
		var r *rig
		hook := &hooked{Store: inner.store, hook: func(string, bool) {}}
		r = newRigOn(t, hook, inner.journal)
		r.add(action.Request{ID: "a"})
		r.cancel("a", "")
		r.will(takes(time.Minute))
		hook.hook = func(method string, after bool) {
			if method == "Commit" && after {
				hook.hook = func(string, bool) {}
				r.tick()
			}
		}
		r.retry("a")
		pass(time.Hour)
		r.wantStatus("a", action.Completed, "")
	})
}

// TestAHangingActionDoesNotBlockTheLoop, and keeps its lease.
func TestAHangingActionDoesNotBlockTheLoop(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, target(func(d *action.Definition) { d.Timeout = 24 * time.Hour }))
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
		newRigOn(t, r.store, r.journal).run()
		pass(2 * time.Hour)
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
			bubble(t, func(t *testing.T) {
				s := teststore.New(t)
				t.Cleanup(func() { _ = s.Close() })
				j := newJournal(t)
				j.will(takes(time.Hour))
				r := newRigOn(t, renewalsFail{s}, j)
				r.add(action.Request{ID: "a", Idempotent: idempotent})
				stop := r.run()
				pass(29 * time.Second) // of a lease of 30
				if cause := r.last().cause; !errors.Is(cause, action.ErrCancelled) {
					t.Fatalf("the cause is %v, want that the run was interrupted", cause)
				}
				r.wantStatus("a", action.Running, "")
				stop()
				j.will(takes(time.Second))
				newRigOn(t, s, j).run()
				pass(2 * time.Minute)
				if idempotent {
					r.wantStatus("a", action.Completed, "")
				} else {
					r.wantStatus("a", action.Failed, "recovered from restart")
				}
			})
		})
	}
}
