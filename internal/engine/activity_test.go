package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/abidehq/abide/internal/history"
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

func TestRetryBackoff(t *testing.T) {
	tests := []struct {
		name string
		how  history.Activity
		want []time.Duration // the seconds between attempts, less a fifth at most
	}{
		{"doubling", history.Activity{MaxAttempts: 5, Backoff: time.Second, Factor: 2}, []time.Duration{1, 2, 4, 8}},
		{"up to a limit", history.Activity{MaxAttempts: 6, Backoff: time.Second, Factor: 3, BackoffMax: 5 * time.Second}, []time.Duration{1, 3, 5, 5, 5}},
		{"constant", history.Activity{MaxAttempts: 3, Backoff: 10 * time.Second}, []time.Duration{10, 10}},
		{"at once", history.Activity{MaxAttempts: 3}, []time.Duration{0, 0}},
		{"once", history.Activity{MaxAttempts: 1, Backoff: time.Second}, nil},
		{"until there is no time left", history.Activity{Backoff: time.Second, Factor: 2, ScheduleToClose: 5 * time.Second}, []time.Duration{1, 2}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				var times []time.Time
				attempts := 0
				r.flow("flow", calling(tt.how))
				r.act("act", func(_ context.Context, task *Task) ([]byte, *history.Failure) {
					attempts++
					want(r, "attempt", task.Attempt, attempts)
					want(r, "there is a last failure", task.Last != nil, attempts > 1)
					times = append(times, time.Now())
					return nil, failure("failure %d", attempts)
				})
				r.serve()
				r.begin("i", "flow", "")
				info := r.until("i", Failed)
				want(r, "attempts", len(times), len(tt.want)+1)
				for i, longest := range tt.want {
					longest *= time.Second
					if wait := times[i+1].Sub(times[i]); wait > longest || wait < longest*4/5 {
						r.Errorf("after attempt %d it waited for %v, want %v less a fifth at most", i+1, wait, longest)
					}
				}
				want(r, "attempts that the failure tells", int(info.Failure.Attempt), attempts)
				want(r, "message", info.Failure.Message, fmt.Sprintf("failure %d", attempts))
				want(r, "failed attempts", r.Count().ActivityFails.Load(), int64(attempts))
				want(r, "failures in history", r.countKind("i", history.ActivityFailed), 1)
			})
		})
	}
}

// TestRetriesAreSpread: a thousand activities that fail at the same instant are not tried
// again at the same instant, but over the fifth of the delay that is jitter.
func TestRetriesAreSpread(t *testing.T) {
	const activities = 1_000
	inBubble(t, func(r *rig) {
		r.flow("flow", func(c *replay.Context, in []byte) replay.Outcome {
			var calls []*replay.Future
			for range activities {
				calls = append(calls, c.Activity("act", in, history.Activity{MaxAttempts: 2, Backoff: time.Second, Factor: 1}))
			}
			for _, f := range calls {
				c.Wait(f)
			}
			return replay.Outcome{}
		})
		together := make(chan struct{})
		var mu sync.Mutex
		first, failed := 0, time.Time{}
		var retries []time.Duration
		r.act("act", func(_ context.Context, task *Task) ([]byte, *history.Failure) {
			mu.Lock()
			if task.Attempt > 1 {
				retries = append(retries, time.Since(failed))
			} else if first++; first == activities {
				failed = time.Now()
				close(together)
			}
			mu.Unlock()
			<-together
			return nil, failure("down")
		})
		r.serve(func(c *Config) { c.MaxActivities = activities })
		r.begin("i", "flow", "")
		r.until("i", Completed)
		want(r, "retries", len(retries), activities)
		instants := map[time.Duration]int{}
		for _, d := range retries {
			if d < 800*time.Millisecond || d > time.Second {
				r.Fatalf("an activity was tried again after %v, want a second less a fifth at most", d)
			}
			instants[d]++
		}
		most := 0
		for _, n := range instants {
			most = max(most, n)
		}
		if len(instants) < 150 || most > 30 { // of 200 milliseconds
			r.Errorf("the retries came at %d instants, %d of them at one", len(instants), most)
		}
	})
}

func TestRetryUntilItSucceeds(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("flow", calling(history.Activity{Backoff: time.Minute, Factor: 2, BackoffMax: time.Hour}))
		r.act("act", func(_ context.Context, task *Task) ([]byte, *history.Failure) {
			if task.Attempt < 50 {
				return nil, failure("no")
			}
			return []byte("yes"), nil
		})
		r.serve()
		r.begin("i", "flow", "")
		want(r, "result", r.result("i"), "yes")
		want(r, "heartbeat records that are left", r.records(kindHeartbeat), 0)
	})
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

func TestFinalFailureIsNotRetried(t *testing.T) {
	tests := map[string]*history.Failure{
		"final":          {Message: "no", Final: true},
		"excepted type":  {Message: "no", Type: "declined"},
		"excepted type2": {Message: "no", Type: "stolen"},
	}
	for name, bad := range tests {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				runs := 0
				r.flow("flow", calling(history.Activity{MaxAttempts: 5, Final: []string{"declined", "stolen"}}))
				r.act("act", func(context.Context, *Task) ([]byte, *history.Failure) {
					runs++
					f := *bad
					return nil, &f
				})
				r.serve()
				r.begin("i", "flow", "")
				want(r, "message", r.until("i", Failed).Failure.Message, "no")
				want(r, "runs", runs, 1)
			})
		})
	}
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

func TestHeartbeatTimeout(t *testing.T) {
	inBubble(t, func(r *rig) {
		start := time.Now()
		r.flow("flow", calling(history.Activity{MaxAttempts: 1, Heartbeat: time.Minute}))
		r.act("act", func(ctx context.Context, task *Task) ([]byte, *history.Failure) {
			for range 10 { // it is alive for a while
				if err := task.Heartbeat(nil); err != nil {
					return nil, failure("heartbeat: %v", err)
				}
				<-time.After(50 * time.Second)
			}
			return hang(ctx, task)
		})
		r.serve()
		r.begin("i", "flow", "")
		info := r.until("i", Failed)
		want(r, "type", info.Failure.Type, TypeTimeout)
		want(r, "took", time.Since(start), 9*50*time.Second+time.Minute)
	})
}

func TestHeartbeatDetailsSurvive(t *testing.T) {
	inBubble(t, func(r *rig) {
		var seen []string
		r.flow("flow", calling(history.Activity{MaxAttempts: 4, Heartbeat: time.Minute}))
		r.act("act", func(ctx context.Context, task *Task) ([]byte, *history.Failure) {
			details, err := task.Details()
			r.must(err)
			seen = append(seen, string(details))
			if task.Attempt == 4 {
				return details, nil
			}
			for i := range 5 {
				r.must(task.Heartbeat(fmt.Appendf(nil, "%d/%d", task.Attempt, i)))
			}
			r.must(task.Heartbeat(nil)) // keeps what there is
			if task.Attempt == 2 {
				return hang(ctx, task) // until it is not heard of
			}
			return nil, failure("no")
		})
		r.serve()
		r.begin("i", "flow", "")
		want(r, "result", r.result("i"), "3/4")
		want(r, "details", strings.Join(seen, " "), " 1/4 2/4 3/4")
		want(r, "records that are left", r.records(kindHeartbeat), 0)
	})
}

// TestHeartbeatDetailsSurviveACrash: they are durable, a second later at most.
func TestHeartbeatDetailsSurviveACrash(t *testing.T) {
	inBubble(t, func(r *rig) {
		release := make(chan struct{})
		r.flow("flow", calling(history.Activity{}))
		r.act("act", func(_ context.Context, task *Task) ([]byte, *history.Failure) {
			if task.Attempt > 1 {
				details, err := task.Details()
				r.must(err)
				return details, nil
			}
			r.must(task.Heartbeat([]byte("first")))
			r.must(task.Heartbeat([]byte("too soon to be kept")))
			<-time.After(heartbeatEvery)
			r.must(task.Heartbeat([]byte("second")))
			<-release
			return nil, nil
		})
		lost := r.serve()
		r.begin("i", "flow", "")
		r.pass(10 * time.Second)
		lost.keeper.Stop() // as a process that is lost
		lost.stopClaiming()
		r.serve()
		want(r, "result", r.result("i"), "second")
		close(release)
		r.must(lost.Close(r.Context()))
	})
}

func TestHeartbeatDetailsHaveALimit(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("flow", calling(history.Activity{}))
		r.act("act", func(_ context.Context, task *Task) ([]byte, *history.Failure) {
			r.must(task.Heartbeat(make([]byte, MaxPayload)))
			r.wantErr(task.Heartbeat(make([]byte, MaxPayload+1)), ErrInvalid, "heartbeat", fmt.Sprint(MaxPayload+1), fmt.Sprint(MaxPayload))
			return nil, nil
		})
		r.serve()
		r.begin("i", "flow", "")
		r.result("i")
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
		for _, words := range []string{"panic: oh dear 2", "activity_test.go:"} {
			want(r, "message says "+words, strings.Contains(info.Failure.Message, words), true)
		}
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

// TestCrashCountsAsAnAttempt: of those that the policy allows.
func TestCrashCountsAsAnAttempt(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("flow", calling(history.Activity{MaxAttempts: 3}))
		r.serve()
		r.begin("two", "flow", "")
		r.pass(0)
		r.crash(QueueActivities, "act", 2)
		r.act("act", func(_ context.Context, task *Task) ([]byte, *history.Failure) {
			return fmt.Append(nil, task.Attempt), nil
		})
		r.again()
		want(r, "attempt", r.result("two"), "3")

		delete(r.acts, "act")
		r.again()
		r.begin("three", "flow", "")
		r.pass(0)
		r.crash(QueueActivities, "act", 3)
		r.act("act", echo)
		r.again()
		info := r.until("three", Failed)
		want(r, "type", info.Failure.Type, TypeCrashed)
		want(r, "attempts", info.Failure.Attempt, 3)
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

// hooked is a store that calls a function before it reads a record of a heartbeat, once.
type hooked struct {
	store.Store
	before func()
}

func (s *hooked) Get(ctx context.Context, key store.RecordKey) (store.Record, error) {
	if before := s.before; key.Kind == kindHeartbeat && before != nil {
		s.before = nil
		before()
	}
	return s.Store.Get(ctx, key)
}

// TestHeartbeatSavedAfterItsTaskIsDeleted: another process takes the task back, with the
// record of its heartbeats, while one is being saved. The record does not stay.
func TestHeartbeatSavedAfterItsTaskIsDeleted(t *testing.T) {
	inBubble(t, func(r *rig) {
		saved := 0
		r.flow("flow", calling(history.Activity{}))
		hook := &hooked{Store: r.tape}
		r.act("act", func(ctx context.Context, task *Task) ([]byte, *history.Failure) {
			hook.before = func() {
				r.must(r.tape.Commit(ctx, &store.Tx{
					Delete:        []store.MessageRef{{Key: task.claim.Key, ID: idTask}},
					DeleteRecords: []store.DeleteRecord{{Key: heartbeatKey(task.claim.Key), Expect: store.AnyVersion}},
				}))
			}
			r.must(task.Heartbeat([]byte("details")))
			saved = r.records(kindHeartbeat)
			<-ctx.Done()
			return nil, failure("stopped")
		})
		r.serve(func(c *Config) { c.Store = hook })
		r.begin("i", "flow", "")
		r.pass(time.Hour)
		want(r, "records that were saved", saved, 1)
		want(r, "records that are left", r.records(kindHeartbeat), 0)
	})
}
