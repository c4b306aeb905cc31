package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/internal/replay"
	"github.com/abidehq/abide/store"
)

// calling returns an orchestration that calls an activity in a way.
func calling(how history.Activity) replay.Code {
	return func(c *replay.Context, in []byte) replay.Outcome { return outcome(c, c.Activity("act", in, how)) }
}

// hang is an activity that ends when its context does, and says why.
func hang(ctx context.Context, _ *Task) ([]byte, *history.Failure) {
	<-ctx.Done()
	return nil, failure("%v", context.Cause(ctx))
}

// taskKey is the key of the activity that the third event of instance i asked for.
func (r *rig) taskKey() store.Key {
	r.Helper()
	return taskKey(Ref{ID: "i"}, r.info("i").run, 3)
}

// records says how many records of a kind there are.
func (r *rig) records(kind string) int {
	r.Helper()
	page, err := r.tape.List(r.Context(), store.Query{Kind: kind})
	r.must(err)
	return len(page.Records)
}

func TestStartToClose(t *testing.T) {
	inBubble(t, func(r *rig) {
		var causes []error
		release := make(chan struct{})
		start := time.Now()
		r.flow("flow", calling(history.Activity{MaxAttempts: 2, Backoff: time.Second, StartToClose: time.Minute}))
		r.act("act", func(ctx context.Context, task *Task) ([]byte, *history.Failure) {
			<-ctx.Done()
			causes = append(causes, context.Cause(ctx))
			if task.Attempt == 2 {
				<-release // it does not care
				return []byte("too late"), nil
			}
			return nil, failure("other")
		})
		r.serve()
		r.begin("i", "flow", "")
		info := r.until("i", Failed)
		if took := time.Since(start); took > 2*time.Minute+time.Second || took < 2*time.Minute+800*time.Millisecond {
			r.Errorf("it took %v, want two attempts of a minute and a back-off of a second less a fifth at most", took)
		}
		want(r, "type", info.Failure.Type, TypeTimeout)
		want(r, "attempts", info.Failure.Attempt, 2)
		if !strings.Contains(info.Failure.Message, "1m0s") {
			r.Errorf("message: %s", info.Failure.Message)
		}
		for _, cause := range causes {
			want(r, "cause", errors.Is(cause, ErrTimeout), true)
		}
		want(r, "contexts that ended", len(causes), 2)
		close(release)
		r.pass(time.Minute)
		want(r, "failures in history", r.countKind("i", history.ActivityFailed), 1)
		want(r, "completions in history", r.countKind("i", history.ActivityCompleted), 0)
	})
}

func TestScheduleToCloseWithoutAnyWorker(t *testing.T) {
	inBubble(t, func(r *rig) {
		start := time.Now()
		r.flow("flow", calling(history.Activity{ScheduleToClose: time.Hour}))
		r.serve()
		r.begin("i", "flow", "")
		info := r.until("i", Failed)
		want(r, "took", time.Since(start), time.Hour)
		want(r, "type", info.Failure.Type, TypeTimeout)
		want(r, "task", len(r.pending(r.taskKey())), 0)
	})
}

func TestScheduleToCloseOfAHangingActivity(t *testing.T) {
	for _, deaf := range []bool{false, true} {
		t.Run(fmt.Sprintf("deaf %v", deaf), func(t *testing.T) {
			inBubble(t, func(r *rig) {
				release := make(chan struct{})
				start := time.Now()
				r.flow("flow", calling(history.Activity{ScheduleToClose: time.Hour}))
				r.act("act", func(ctx context.Context, task *Task) ([]byte, *history.Failure) {
					if deaf {
						<-release
						return []byte("late"), nil
					}
					return hang(ctx, task)
				})
				r.serve()
				r.begin("i", "flow", "")
				info := r.until("i", Failed)
				want(r, "took", time.Since(start), time.Hour)
				want(r, "type", info.Failure.Type, TypeTimeout)
				close(release)
				r.pass(time.Hour)
				want(r, "events after the end", strings.HasSuffix(r.kinds("i"), "ActivityFailed ExecutionFailed"), true)
				want(r, "task", len(r.pending(r.taskKey())), 0)
			})
		})
	}
}

// TestScheduleToCloseIsTakenBack when the activity ends in time.
func TestScheduleToCloseIsTakenBack(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("flow", func(c *replay.Context, in []byte) replay.Outcome {
			c.Wait(c.Activity("act", in, history.Activity{ScheduleToClose: time.Hour}))
			return done(receive(c, "go"))
		})
		r.act("act", echo)
		r.serve()
		r.begin("i", "flow", "")
		r.pass(time.Minute)
		want(r, "pending", len(r.pending(Ref{ID: "i"}.key())), 0)
	})
}

// TestCancellationReachesARunningActivity that never says a word.
func TestCancellationReachesARunningActivity(t *testing.T) {
	for _, elsewhere := range []bool{false, true} {
		t.Run(fmt.Sprintf("elsewhere %v", elsewhere), func(t *testing.T) {
			inBubble(t, func(r *rig) {
				r.flow("flow", func(c *replay.Context, _ []byte) replay.Outcome {
					act := c.Activity("act", nil, history.Activity{})
					receive(c, "go")
					c.Cancel(act)
					return outcome(c, c.Timer("", c.Now().Add(time.Hour)))
				})
				var cause error
				var at time.Time
				var beat error
				act := func(ctx context.Context, task *Task) ([]byte, *history.Failure) {
					<-ctx.Done()
					cause, at = context.Cause(ctx), time.Now()
					beat = task.Heartbeat(nil)
					return []byte("too late"), nil
				}
				if elsewhere {
					r.act("act", act)
					worker := r.serve(func(c *Config) { c.Routes = nil })
					defer func() { r.must(worker.Close(context.Background())) }()
					delete(r.acts, "act")
				} else {
					r.act("act", act)
				}
				r.serve()
				r.begin("i", "flow", "")
				r.pass(time.Minute)
				cancelled := time.Now()
				r.raise("i", "go", "")
				r.pass(2 * time.Second)
				want(r, "cause", errors.Is(cause, ErrLost), true)
				want(r, "heartbeat says so", errors.Is(beat, ErrLost), true)
				if took := at.Sub(cancelled); took > maxTick+time.Millisecond {
					r.Errorf("it took %v", took)
				}
				r.until("i", Completed)
				want(r, "completions in history", r.countKind("i", history.ActivityCompleted), 0)
			})
		})
	}
}

func TestPanicInAnActivityIsAFailure(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("flow", calling(history.Activity{MaxAttempts: 2}))
		r.act("act", func(_ context.Context, task *Task) ([]byte, *history.Failure) {
			panic(fmt.Sprint("oh dear ", task.Attempt))
		})
		r.serve()
		r.begin("i", "flow", "")
		info := r.until("i", Failed)
		want(r, "type", info.Failure.Type, TypePanic)
		want(r, "message", info.Failure.Message, "panic: oh dear 2")
		want(r, "details have the stack", strings.Contains(string(info.Failure.Details), "activity_test.go:"), true)
	})
}

func TestResultOfAnActivityHasALimit(t *testing.T) {
	inBubble(t, func(r *rig) {
		runs := 0
		r.flow("flow", calling(history.Activity{MaxAttempts: 5}))
		r.act("act", func(_ context.Context, task *Task) ([]byte, *history.Failure) {
			runs++
			if string(task.Input) == "fits" {
				return bytes.Repeat([]byte("x"), MaxPayload), nil
			}
			return bytes.Repeat([]byte("x"), MaxPayload+1), nil
		})
		r.serve()
		r.begin("good", "flow", "fits")
		want(r, "length", len(r.result("good")), MaxPayload)
		r.begin("bad", "flow", "does not")
		info := r.until("bad", Failed)
		want(r, "runs", runs, 2)
		want(r, "final", info.Failure.Final, true)
		for _, words := range []string{fmt.Sprint(MaxPayload + 1), fmt.Sprint(MaxPayload)} {
			want(r, "message says "+words, strings.Contains(info.Failure.Message, words), true)
		}
	})
}

// TestCloseWaitsForActivities: what is under way comes to its end.
func TestCloseWaitsForActivities(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("flow", calling(history.Activity{MaxAttempts: 1}))
		r.act("act", func(ctx context.Context, _ *Task) ([]byte, *history.Failure) {
			select {
			case <-time.After(10 * time.Minute): // many leases
				return []byte("done"), nil
			case <-ctx.Done():
				return nil, failure("%v", context.Cause(ctx))
			}
		})
		r.serve()
		r.begin("i", "flow", "")
		r.pass(time.Second)
		start := time.Now()
		ctx, cancel := context.WithTimeout(r.Context(), time.Hour)
		defer cancel()
		r.must(r.Close(ctx))
		want(r, "waited", time.Since(start), 10*time.Minute-time.Second)
		r.must(r.Close(ctx))
		r.serve()
		want(r, "result", r.result("i"), "done")
	})
}

// TestCloseGivesBackWhatStops: an activity that is told to stop, and does, is not tried.
func TestCloseGivesBackWhatStops(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("flow", calling(history.Activity{MaxAttempts: 1}))
		var cause error
		r.act("act", func(ctx context.Context, _ *Task) ([]byte, *history.Failure) {
			<-ctx.Done()
			cause = context.Cause(ctx)
			return nil, failure("stopped")
		})
		r.serve()
		r.begin("i", "flow", "")
		r.pass(time.Second)
		ctx, cancel := context.WithTimeout(r.Context(), time.Minute)
		defer cancel()
		r.wantErr(r.Close(ctx), context.DeadlineExceeded, "still under way")
		want(r, "cause", errors.Is(cause, ErrStopping), true)
		r.act("act", func(_ context.Context, task *Task) ([]byte, *history.Failure) {
			return fmt.Append(nil, task.Attempt), nil
		})
		start := time.Now()
		r.serve()
		want(r, "attempt", r.result("i"), "1")
		want(r, "waited for a lease", time.Since(start), 0)
	})
}

// TestCloseKeepsAResultThatComesInTheEnd: an activity that is told to stop and has
// succeeded has succeeded.
func TestCloseKeepsAResultThatComesInTheEnd(t *testing.T) {
	inBubble(t, func(r *rig) {
		runs := 0
		r.flow("flow", calling(history.Activity{}))
		r.act("act", func(ctx context.Context, _ *Task) ([]byte, *history.Failure) {
			runs++
			<-ctx.Done()
			return []byte("done all the same"), nil
		})
		r.serve()
		r.begin("i", "flow", "")
		r.pass(time.Second)
		ctx, cancel := context.WithTimeout(r.Context(), time.Minute)
		defer cancel()
		r.wantErr(r.Close(ctx), context.DeadlineExceeded)
		r.serve()
		want(r, "result", r.result("i"), "done all the same")
		want(r, "runs", runs, 1)
	})
}

func TestUndecodableTaskGoesToQuarantine(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.act("act", echo)
		r.serve()
		r.must(r.tape.Commit(r.Context(), &store.Tx{Put: []store.Message{{
			Key: taskKey(Ref{ID: "i"}, 1, 3), ID: idTask, Route: "act", Body: []byte{9},
		}}}))
		r.pass(0)
		q := r.quarantined()
		if len(q) != 1 || q[0].Status != ReasonUndecodable {
			r.Fatalf("in quarantine: %+v", q)
		}
	})
}

// TestActivityIsNotLostWithItsCommit: what it did is worth some patience.
func TestActivityIsNotLostWithItsCommit(t *testing.T) {
	inBubble(t, func(r *rig) {
		runs := 0
		r.flow("flow", calling(history.Activity{MaxAttempts: 1}))
		r.act("act", func(context.Context, *Task) ([]byte, *history.Failure) {
			runs++
			return []byte("done"), nil
		})
		r.serve()
		failing := time.Now().Add(10 * time.Minute)
		r.tape.failing(func(tx *store.Tx) error {
			if len(tx.Finish) == 1 && tx.Finish[0].Lease.Key.Queue == QueueActivities && time.Now().Before(failing) {
				return errDisk
			}
			return nil
		})
		r.begin("i", "flow", "")
		want(r, "result", r.result("i"), "done")
		want(r, "runs", runs, 1)
	})
}

func TestMaxActivitiesAreUnderWayAtATime(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("flow", func(c *replay.Context, _ []byte) replay.Outcome {
			var all []*replay.Future
			for range 20 {
				all = append(all, c.Activity("act", nil, history.Activity{}))
			}
			c.Wait(all...)
			return done("")
		})
		now, most := make(chan struct{}, 100), 0
		r.act("act", func(context.Context, *Task) ([]byte, *history.Failure) {
			now <- struct{}{}
			<-time.After(time.Minute)
			<-now
			return nil, nil
		})
		r.serve(func(c *Config) { c.MaxActivities = 3 })
		r.begin("i", "flow", "")
		start := time.Now()
		for !r.info("i").Status.Ended() {
			r.pass(10 * time.Second)
			most = max(most, len(now))
		}
		want(r, "at a time", most, 3)
		if took := time.Since(start); took > 8*time.Minute {
			r.Errorf("it took %v", took)
		}
	})
}
