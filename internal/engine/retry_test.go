package engine

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/internal/replay"
)

func TestRetryBackoff(t *testing.T) {
	tests := []struct {
		name string
		how  history.Activity
		want []int // the seconds between attempts, less a fifth at most
	}{
		{"doubling", history.Activity{MaxAttempts: 5, Backoff: time.Second, Factor: 2}, []int{1, 2, 4, 8}},
		{"up to a limit", history.Activity{MaxAttempts: 6, Backoff: time.Second, Factor: 3, BackoffMax: 5 * time.Second}, []int{1, 3, 5, 5, 5}},
		{"constant", history.Activity{MaxAttempts: 3, Backoff: 10 * time.Second}, []int{10, 10}},
		{"at once", history.Activity{MaxAttempts: 3}, []int{0, 0}},
		{"once", history.Activity{MaxAttempts: 1, Backoff: time.Second}, nil},
		{"until there is no time left", history.Activity{Backoff: time.Second, Factor: 2, ScheduleToClose: 5 * time.Second}, []int{1, 2}},
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
				for i, seconds := range tt.want {
					longest := time.Duration(seconds) * time.Second
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
