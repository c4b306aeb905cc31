package engine

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/internal/replay"
	"github.com/abidehq/abide/store"
)

func TestPendingThenRunningThenCompleted(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("flow", waiter)
		r.begin("i", "flow", "in")
		info := r.info("i")
		want(r, "status", info.Status, Pending)
		want(r, "begun", info.BegunAt.IsZero(), true)
		r.pass(time.Hour)
		r.serve()
		r.pass(0)
		info = r.info("i")
		want(r, "status", info.Status, Running)
		want(r, "begun after it was started", info.BegunAt.Sub(info.CreatedAt), time.Hour)
		r.pass(time.Hour)
		r.raise("i", "go", "x")
		info = r.until("i", Completed)
		want(r, "result", string(info.Result), "x")
		want(r, "ended after it began", info.EndedAt.Sub(info.BegunAt), time.Hour)
	})
}

func TestFailed(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("flow", func(*replay.Context, []byte) replay.Outcome {
			return failed(&history.Failure{Type: "declined", Message: "no money", Cause: failure("empty")})
		})
		r.serve()
		r.begin("i", "flow", "")
		info := r.until("i", Failed)
		want(r, "type", info.Failure.Type, "declined")
		want(r, "message", info.Failure.Message, "no money")
		want(r, "cause", info.Failure.Cause.Message, "empty")
	})
}

func TestSuspendedKeepsReceivingAndGoesOnInOrder(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("flow", func(c *replay.Context, _ []byte) replay.Outcome {
			act := c.Activity("echo", []byte("a"), history.Activity{})
			timer := c.Timer("", c.Now().Add(time.Hour))
			var got []string
			for range 3 {
				got = append(got, receive(c, "go"))
			}
			c.Wait(act, timer)
			return done(strings.Join(got, " "))
		})
		r.act("echo", func(ctx context.Context, t *Task) ([]byte, *history.Failure) {
			<-time.After(time.Minute)
			return echo(ctx, t)
		})
		r.serve()
		r.begin("i", "flow", "")
		r.pass(0)
		r.must(r.Suspend(r.Context(), Ref{ID: "i"}, "lunch"))
		info := r.until("i", Suspended)
		want(r, "reason", info.Reason, "lunch")
		want(r, "before", info.Before, Running)
		before := r.kinds("i")
		r.raise("i", "go", "1")
		r.pass(2 * time.Hour)
		r.raise("i", "go", "2")
		r.must(r.Suspend(r.Context(), Ref{ID: "i"}, "again"))
		r.pass(0)
		r.raise("i", "go", "3")
		r.pass(0)
		want(r, "history while suspended", r.kinds("i"), before)
		want(r, "the first reason stays", r.info("i").Reason, "lunch")
		// All of it is there: three events, a completion, a timer, and what parks it.
		want(r, "pending", len(r.pending(Ref{ID: "i"}.key())), 6)
		r.must(r.Resume(r.Context(), Ref{ID: "i"}))
		want(r, "result", r.result("i"), "1 2 3")
		want(r, "reason", r.info("i").Reason, "")
	})
}

func TestSuspendBeforeBegun(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("flow", waiter)
		r.serve()
		r.begin("i", "flow", "", func(s *Start) { s.After = time.Hour })
		r.raise("i", "go", "x")
		r.must(r.Suspend(r.Context(), Ref{ID: "i"}, ""))
		r.pass(2 * time.Hour)
		info := r.until("i", Suspended)
		want(r, "before", info.Before, Pending)
		r.must(r.Resume(r.Context(), Ref{ID: "i"}))
		want(r, "result", r.result("i"), "x")
	})
}

func TestSuspendedCanBeCancelledAfterResume(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("flow", func(c *replay.Context, _ []byte) replay.Outcome { return failed(sleep(c, time.Hour)) })
		r.serve()
		r.begin("i", "flow", "")
		r.pass(0)
		r.must(r.Suspend(r.Context(), Ref{ID: "i"}, ""))
		r.must(r.Cancel(r.Context(), Ref{ID: "i"}, "enough"))
		r.pass(time.Minute)
		want(r, "status", r.info("i").Status, Suspended)
		r.must(r.Resume(r.Context(), Ref{ID: "i"}))
		want(r, "message", r.until("i", Cancelled).Failure.Message, "cancelled: enough")
	})
}

func TestCancelledByItsCode(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("flow", func(c *replay.Context, _ []byte) replay.Outcome {
			act := c.Activity("nobody", nil, history.Activity{})
			bad := sleep(c, time.Hour)
			if !act.Done() {
				panic("the activity was not cancelled")
			}
			c.Wait(c.Shield().Activity("echo", nil, history.Activity{})) // it may tidy up
			return failed(bad)
		})
		r.act("echo", echo)
		r.serve()
		r.begin("i", "flow", "")
		r.pass(0)
		r.must(r.Cancel(r.Context(), Ref{ID: "i"}, "enough"))
		info := r.until("i", Cancelled)
		want(r, "message", info.Failure.Message, "cancelled: enough")
		want(r, "type", info.Failure.Type, replay.CancelledType)
		stats, err := r.tape.Stats(r.Context())
		r.must(err)
		for _, route := range stats.Routes {
			if route.Queue == QueueActivities {
				r.Errorf("a task is left: %+v", route)
			}
		}
		r.wantErr(r.Cancel(r.Context(), Ref{ID: "i"}, "again"), ErrState, "cancelled")
	})
}

// TestCancelIsUpToTheCode: it may have something better to do.
func TestCancelIsUpToTheCode(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("stubborn", func(c *replay.Context, _ []byte) replay.Outcome {
			sleep(c, time.Hour)
			return done("never mind")
		})
		r.flow("angry", func(c *replay.Context, _ []byte) replay.Outcome {
			sleep(c, time.Hour)
			return failed(failure("how dare you"))
		})
		r.serve()
		for _, name := range []string{"stubborn", "angry"} {
			r.begin(name, name, "")
			r.pass(0)
			r.must(r.Cancel(r.Context(), Ref{ID: name}, ""))
		}
		want(r, "result", r.result("stubborn"), "never mind")
		want(r, "failure", r.until("angry", Failed).Failure.Message, "how dare you")
	})
}

func TestCancelledBeforeBegun(t *testing.T) {
	inBubble(t, func(r *rig) {
		runs := 0
		r.flow("flow", func(*replay.Context, []byte) replay.Outcome {
			runs++
			return done("")
		})
		r.serve()
		r.begin("i", "flow", "", func(s *Start) { s.After = time.Hour })
		r.raise("i", "go", "x")
		r.must(r.Cancel(r.Context(), Ref{ID: "i"}, "enough"))
		info := r.until("i", Cancelled)
		want(r, "message", info.Failure.Message, "cancelled: enough")
		r.pass(2 * time.Hour)
		want(r, "runs", runs, 0)
		want(r, "status", r.info("i").Status, Cancelled)
		want(r, "pending: its expiry", len(r.pending(Ref{ID: "i"}.key())), 1)
	})
}

func TestTerminated(t *testing.T) {
	inBubble(t, func(r *rig) {
		defers := 0
		r.flow("flow", func(c *replay.Context, _ []byte) replay.Outcome {
			defer func() { defers++ }()
			c.Activity("nobody", nil, history.Activity{})
			return failed(sleep(c, time.Hour))
		})
		r.serve()
		r.begin("i", "flow", "")
		r.pass(0)
		r.must(r.Terminate(r.Context(), Ref{ID: "i"}, "now"))
		info := r.until("i", Terminated)
		want(r, "reason", info.Reason, "now")
		want(r, "type", info.Failure.Type, TypeTerminated)
		want(r, "history", r.kinds("i"), "TurnStarted ExecutionStarted ActivityScheduled TimerCreated TurnStarted ExecutionTerminated")
		r.pass(2 * time.Hour)
		want(r, "deferred functions that ran", defers, 1)
		want(r, "pending: its expiry", len(r.pending(Ref{ID: "i"}.key())), 1)
		r.wantErr(r.Terminate(r.Context(), Ref{ID: "i"}, "again"), ErrState)
		r.wantErr(r.Suspend(r.Context(), Ref{ID: "i"}, "again"), ErrState)
		r.wantErr(r.Resume(r.Context(), Ref{ID: "i"}), ErrState)
	})
}

// TestControlWorksWithoutAnybodyWhoServes: any engine will do.
func TestControlWorksWithoutAnybodyWhoServes(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("flow", waiter)
		r.serve()
		r.begin("begun", "flow", "")
		r.pass(0)
		delete(r.code, "flow")
		r.again()
		r.begin("new", "flow", "")
		for _, id := range []string{"begun", "new"} {
			before := r.info(id).Status
			r.must(r.Suspend(r.Context(), Ref{ID: id}, "wait"))
			r.until(id, Suspended)
			r.must(r.Resume(r.Context(), Ref{ID: id}))
			r.until(id, before)
			r.must(r.Terminate(r.Context(), Ref{ID: id}, "gone"))
			want(r, "reason", r.until(id, Terminated).Reason, "gone")
		}
	})
}

func TestUnservedRoutesAreVisible(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("flow", func(c *replay.Context, _ []byte) replay.Outcome {
			return outcome(c, c.Activity("nobody", nil, history.Activity{}))
		})
		r.act("echo", echo)
		r.serve()
		r.begin("i", "flow", "")
		r.begin("j", "stranger", "", func(s *Start) { s.Version = "2" })
		r.raise("not yet", "go", "")
		r.begin("s", "flow", "")
		r.pass(0)
		r.must(r.Suspend(r.Context(), Ref{ID: "s"}, ""))
		r.pass(time.Minute)
		rows, err := r.Unserved(r.Context())
		r.must(err)
		var got []string
		for _, row := range rows {
			got = append(got, fmt.Sprintf("%s %s %d", row.Queue, row.Route, row.Pending))
		}
		want(r, "unserved", strings.Join(got, ", "), "activities nobody 2, turns stranger@2 1")
	})
}

// TestActivityThatCrashesTooOftenFails: whatever its retry policy says, the instance is told.
func TestActivityThatCrashesTooOftenFails(t *testing.T) {
	for _, attempts := range []int32{0, 20} {
		t.Run(fmt.Sprint("retry ", attempts), func(t *testing.T) {
			inBubble(t, func(r *rig) {
				r.flow("flow", calling(history.Activity{MaxAttempts: attempts}))
				runs := 0
				r.act("act", func(_ context.Context, task *Task) ([]byte, *history.Failure) {
					runs++
					return fmt.Append(nil, task.Attempt), nil
				})
				acts := r.acts
				for id, crashes := range map[string]int{"enough": DefaultTaskCrashes - 1, "too often": DefaultTaskCrashes} {
					r.acts = nil
					r.again()
					r.begin(id, "flow", "")
					r.pass(0)
					r.crash(QueueActivities, "act", crashes)
					r.acts = acts
					r.again()
					r.pass(time.Minute)
				}
				want(r, "attempt", r.result("enough"), fmt.Sprint(DefaultTaskCrashes))
				info := r.until("too often", Failed)
				want(r, "type", info.Failure.Type, TypeCrashed)
				want(r, "attempts", info.Failure.Attempt, DefaultTaskCrashes)
				want(r, "runs", runs, 1)
				want(r, "in quarantine", len(r.quarantined()), 0)
			})
		})
	}
}

// quarantineTask has a task go to quarantine as undelivered too often, which a store does for
// who claims with a limit, and returns the ID that it has there.
func (r *rig) quarantineTask(route string) string {
	r.Helper()
	r.crash(QueueActivities, route, 1)
	claims, err := r.tape.Claim(r.Context(), store.ClaimRequest{
		Queue: QueueActivities, Routes: []string{route}, Max: 1, Lease: time.Minute, MaxAttempts: 1,
	})
	r.must(err)
	list, _, err := r.Quarantine(r.Context(), nil, 0, "")
	r.must(err)
	if len(claims) != 0 || len(list) != 1 || list[0].Reason != store.ReasonAttempts || list[0].Queue != QueueActivities || list[0].Route != route {
		r.Fatalf("%d claims, in quarantine: %+v", len(claims), list)
	}
	return list[0].ID
}

func TestQuarantinedTaskCompletesAfterRedrive(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("flow", func(c *replay.Context, _ []byte) replay.Outcome {
			return outcome(c, c.Activity("echo", []byte("x"), history.Activity{}))
		})
		r.serve()
		r.begin("i", "flow", "")
		r.pass(0)
		id := r.quarantineTask("echo")
		r.act("echo", echo)
		r.again()
		r.must(r.Redrive(r.Context(), "", id))
		want(r, "result", r.result("i"), "x")
		want(r, "in quarantine", len(r.quarantined()), 0)
		r.wantErr(r.Redrive(r.Context(), "", id), ErrNotFound)
		r.wantErr(r.Discard(r.Context(), "", id), ErrNotFound)
		r.wantErr(r.Discard(r.Context(), "", ""), ErrInvalid)
	})
}

// TestQuarantinedTaskThatNobodyWaitsForIsNotRedriven: its instance has ended, was deleted,
// started again, or has given the activity up.
func TestQuarantinedTaskThatNobodyWaitsForIsNotRedriven(t *testing.T) {
	for name, end := range map[string]func(r *rig){
		"terminated": func(r *rig) { r.must(r.Terminate(r.Context(), Ref{ID: "i"}, "")) },
		"deleted": func(r *rig) {
			r.must(r.Terminate(r.Context(), Ref{ID: "i"}, ""))
			r.until("i", Terminated)
			r.must(r.Delete(r.Context(), Ref{ID: "i"}))
		},
		"restarted": func(r *rig) {
			r.must(r.Terminate(r.Context(), Ref{ID: "i"}, ""))
			r.until("i", Terminated)
			r.must(r.Restart(r.Context(), Ref{ID: "i"}))
		},
		"given up": func(r *rig) { r.raise("i", "go", "") },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				r.flow("flow", func(c *replay.Context, _ []byte) replay.Outcome {
					f := c.Activity("echo", []byte("x"), history.Activity{})
					receive(c, "go")
					c.Cancel(f)
					return done(receive(c, "go"))
				})
				r.serve()
				r.begin("i", "flow", "")
				r.pass(0)
				id := r.quarantineTask("echo")
				end(r)
				r.pass(time.Second)
				r.wantErr(r.Redrive(r.Context(), "", id), ErrState, "echo", "discard")
				want(r, "in quarantine", len(r.quarantined()), 1)
				r.must(r.Discard(r.Context(), "", id))
			})
		})
	}
}

func TestQuarantinedMessageCanBeDiscarded(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.serve()
		r.must2(r.Raise(r.Context(), Raise{Ref: Ref{ID: "nobody"}, Name: "go", TTL: time.Hour}))
		r.pass(2 * time.Hour)
		list, _, err := r.Quarantine(r.Context(), nil, 0, "")
		r.must(err)
		if len(list) != 1 || list[0].Reason != store.ReasonExpired {
			r.Fatalf("in quarantine: %+v", list)
		}
		r.must(r.Discard(r.Context(), "", list[0].ID))
		want(r, "in quarantine", len(r.quarantined()), 0)
	})
}

// TestRedrivenEventReachesItsInstance, which has been started since.
func TestRedrivenEventReachesItsInstance(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("flow", waiter)
		r.serve()
		r.must2(r.Raise(r.Context(), Raise{Ref: Ref{ID: "i"}, Name: "go", Data: []byte("x"), TTL: time.Hour}))
		r.pass(2 * time.Hour)
		r.begin("i", "flow", "")
		r.pass(0)
		list, _, err := r.Quarantine(r.Context(), nil, 0, "")
		r.must(err)
		r.must(r.Redrive(r.Context(), "", list[0].ID))
		want(r, "result", r.result("i"), "x")
	})
}
