package action_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/abidehq/abide/action"
	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/internal/rig"
	"github.com/abidehq/abide/store"
)

// TestTwoActionsFireOnceEach is the first test that was ever asked for: two actions are due
// 100 ms apart, a tick comes each 500 ms.
func TestTwoActionsFireOnceEach(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := newFixture(t, func(c *action.Config) { c.Rate = 500 * time.Millisecond })
		a := r.add(action.Request{At: r.At(1100 * time.Millisecond)})
		b := r.add(action.Request{At: r.At(1200 * time.Millisecond)})
		r.run()
		r.until(1499 * time.Millisecond)
		r.wantIDs()
		r.until(1500 * time.Millisecond)
		for _, id := range []string{a.ID, b.ID} {
			got := r.wantStatus(id, action.Completed, "")
			check.Equal(t, "its beginning", got.StartedAt, r.At(1500*time.Millisecond))
		}
		r.until(time.Hour)
		check.Equal(t, "runs", len(r.all()), 2)
		check.Equal(t, "messages", r.Pending(), 0)
	})
}

// TestDueAtATickRunsAtThatTick and not at the one before it, however close.
func TestDueAtATickRunsAtThatTick(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := newFixture(t)
		exact := r.add(action.Request{ID: "exact", At: r.At(rate)})
		later := r.add(action.Request{ID: "later", At: r.At(rate + 1)}) // rounded up to a millisecond
		check.Equal(t, "the due time", later.Trigger.At, r.At(rate+time.Millisecond))
		r.run()
		r.until(rate)
		r.wantIDs(exact.ID)
		r.until(2 * rate)
		r.wantIDs(exact.ID, later.ID)
	})
}

func TestRunsInTheOrderOfDueTimes(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := newFixture(t, slots(1)) // so that one comes after another
		var want []string
		for i := range 50 {
			id := fmt.Sprint(i)
			r.add(action.Request{ID: id, At: r.At(time.Duration(i*37%50) * time.Millisecond)})
		}
		for i := range 50 {
			for j := range 50 {
				if j*37%50 == i {
					want = append(want, fmt.Sprint(j))
				}
			}
		}
		r.until(time.Second)
		r.run()
		r.until(time.Second)
		r.wantIDs(want...)
	})
}

// TestStatusesAndTimes follows an action from when it is added to its end.
func TestStatusesAndTimes(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := newFixture(t)
		r.will(func(ctx context.Context, run action.Run) (action.Outcome, error) {
			_, err := takes(3*time.Second)(ctx, run)
			return action.Outcome{ExitCode: 7, Output: "done"}, err
		})
		a := r.add(action.Request{ID: "a", Slug: "shop", At: r.At(time.Minute), Payload: []byte(`{"n": 1}`)})
		want := action.Action{
			ID: "a", Tenant: "acme", Slug: "shop", Target: "do", Status: action.Pending, Payload: []byte(`{"n": 1}`),
			Trigger:   action.Trigger{Kind: action.Scheduled, At: r.At(time.Minute)},
			CreatedAt: r.At(0), UpdatedAt: r.At(0), Version: 1,
		}
		wantAction(t, "the one that Add returns", a, want)
		wantAction(t, "pending", r.get("a"), want)
		r.run()

		r.until(time.Minute + time.Second)
		want.Status, want.Attempt, want.Version = action.Running, 1, 2
		want.StartedAt, want.UpdatedAt = r.At(time.Minute), r.At(time.Minute)
		wantAction(t, "running", r.get("a"), want)
		wantAction(t, "what the target got", r.last().Action, want)

		r.until(2 * time.Minute)
		want.Status, want.Version = action.Completed, 3
		want.EndedAt, want.UpdatedAt = r.At(time.Minute+3*time.Second), r.At(time.Minute+3*time.Second)
		want.Outcome = action.Outcome{ExitCode: 7, Output: "done", Duration: 3 * time.Second}
		wantAction(t, "completed", r.get("a"), want)
	})
}

// wantAction compares what can be seen of two actions.
func wantAction(t *testing.T, what string, got, want action.Action) {
	t.Helper()
	if g, w := seen(got), seen(want); g != w {
		t.Errorf("%s:\ngot  %s\nwant %s", what, g, w)
	}
}

// seen is what can be seen of an action, as text.
func seen(a action.Action) string {
	data, err := json.Marshal(a)
	if err != nil {
		return err.Error()
	}
	return string(data)
}

// TestFailureIsRepeatedWithBackoff up to Attempts, each time twice as long after it, and in
// the end it has failed. In between it is pending, and says why it failed.
func TestFailureIsRepeatedWithBackoff(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := newFixture(t, target(func(d *action.Definition) { d.Attempts, d.Backoff = 4, 30*time.Second }))
		r.will(fails("no luck"))
		due := r.At(time.Minute)
		r.add(action.Request{ID: "a", At: due})
		r.run()
		next := due
		for attempt := 1; attempt < 4; attempt++ {
			rig.Pass(time.Until(next) + rate)
			if late := r.last().began.Sub(next); late < 0 || late >= rate {
				t.Errorf("run %d is %v late, want the first tick at or after its time", attempt, late)
			}
			check.Equal(t, "its attempt", r.last().Action.Attempt, attempt)
			got := r.wantStatus("a", action.Pending, "no luck")
			longest := 30 * time.Second << (attempt - 1)
			if wait := got.RetryAt.Sub(r.last().began); wait > longest || wait < longest*4/5 {
				t.Errorf("after attempt %d it waits for %v, want %v less a fifth at most", attempt, wait, longest)
			}
			next = got.RetryAt
			check.Equal(t, "the time of the trigger", got.Trigger.At, due)
			check.Equal(t, "its end", got.EndedAt, time.Time{})
			check.Equal(t, "exit code", got.Outcome.ExitCode, 3)
		}
		rig.Pass(time.Until(next) + rate)
		r.wantStatus("a", action.Failed, "no luck")
		rig.Pass(time.Hour)
		check.Equal(t, "runs", len(r.all()), 4)
		check.Equal(t, "messages", r.Pending(), 0)
	})
}

// TestSuccessAfterFailures leaves no reason.
func TestSuccessAfterFailures(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := newFixture(t, target(func(d *action.Definition) { d.Attempts = 3 }))
		r.will(func(_ context.Context, run action.Run) (action.Outcome, error) {
			if run.Action.Attempt == 1 {
				return action.Outcome{}, errors.New("not yet")
			}
			return action.Outcome{Output: "now"}, nil
		})
		r.add(action.Request{ID: "a"})
		r.run()
		rig.Pass(time.Minute)
		check.Equal(t, "output", r.wantStatus("a", action.Completed, "").Outcome.Output, "now")
	})
}

func TestBackoffEndsAtAnHour(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := newFixture(t, target(func(d *action.Definition) { d.Attempts, d.Backoff = 5, 20*time.Minute }))
		r.will(fails("no luck"))
		r.add(action.Request{ID: "a"})
		r.run()
		rig.Pass(24 * time.Hour)
		all := r.all()
		check.Equal(t, "runs", len(all), 5)
		for i, longest := range []time.Duration{20 * time.Minute, 40 * time.Minute, time.Hour, time.Hour} {
			if gap := all[i+1].began.Sub(all[i].began); gap > longest+rate || gap < longest*4/5 {
				t.Errorf("gap %d is %v, want %v less a fifth at most", i+1, gap, longest)
			}
		}
	})
}

// TestRetriesAreSpread: actions that fail together are not all run again together.
func TestRetriesAreSpread(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := newFixture(t, target(func(d *action.Definition) { d.Attempts, d.Backoff = 2, time.Hour }))
		r.will(fails("no luck"))
		const actions = 200
		for i := range actions {
			r.add(action.Request{ID: fmt.Sprint(i)})
		}
		r.run()
		rig.Pass(time.Minute)
		times := map[time.Time]bool{}
		for i := range actions {
			got := r.wantStatus(fmt.Sprint(i), action.Pending, "no luck")
			if wait := got.RetryAt.Sub(got.UpdatedAt); wait > time.Hour || wait < 48*time.Minute {
				t.Fatalf("action %d waits for %v, want an hour less a fifth at most", i, wait)
			}
			times[got.RetryAt.Truncate(time.Second)] = true
		}
		if len(times) < actions/2 { // of 720 seconds
			t.Errorf("%d actions come back within %d different seconds", actions, len(times))
		}
	})
}

func TestTimeout(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := newFixture(t, target(func(d *action.Definition) { d.Timeout = 5 * time.Second }))
		r.will(takes(time.Hour))
		r.add(action.Request{ID: "a"})
		r.run()
		rig.Pass(5 * time.Second)
		got := r.wantStatus("a", action.Failed, "timed out after 5s: context canceled")
		check.Equal(t, "duration", got.Outcome.Duration, 5*time.Second)
		check.Equal(t, "output", got.Outcome.Output, "interrupted")
		check.Error(t, r.last().cause, action.ErrTimeout)
	})
}

// TestSuccessInSpiteOfATimeout: a target that has done it all the same has done it.
func TestSuccessInSpiteOfATimeout(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := newFixture(t, target(func(d *action.Definition) { d.Timeout = 5 * time.Second }))
		r.will(func(ctx context.Context, _ action.Run) (action.Outcome, error) {
			<-ctx.Done()
			return action.Outcome{}, nil
		})
		r.add(action.Request{ID: "a"})
		r.run()
		rig.Pass(5 * time.Second)
		r.wantStatus("a", action.Completed, "")
	})
}

func TestPanicIsAFailure(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := newFixture(t)
		r.will(func(context.Context, action.Run) (action.Outcome, error) { panic("oh dear") })
		r.add(action.Request{ID: "a"})
		r.run()
		rig.Pass(0)
		got := r.wantStatus("a", action.Failed, "panic: oh dear")
		if !strings.Contains(got.Outcome.Output, "run_test.go") {
			t.Errorf("the output does not say where: %s", got.Outcome.Output)
		}
	})
}

func TestReasonIsShortened(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := newFixture(t)
		r.will(fails("x" + strings.Repeat("ü", action.MaxReason)))
		r.add(action.Request{ID: "a"})
		r.run()
		rig.Pass(0)
		// A character of two bytes that does not fit is not cut in half.
		r.wantStatus("a", action.Failed, "x"+strings.Repeat("ü", (action.MaxReason-1)/2))
	})
}

// TestOutputIsCutInTheMiddle: its beginning and its end tell most.
func TestOutputIsCutInTheMiddle(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		keep   int
		output string
		cut    int64 // by the target
		want   string
		left   int64
	}{
		{"it fits", 10, "0123456789", 0, "0123456789", 0},
		{"one too many", 10, "0123456789a", 0, "012346789a", 1},
		{"odd", 5, "0123456789", 0, "01789", 5},
		{"the target has cut too", 4, "0123456789", 100, "0189", 106},
		{"characters stay whole", 6, "aüüüüüb", 0, "aüüb", 6},
		{"half a character goes", 7, "aüüüüüb", 0, "aüüb", 6},
		{"not UTF-8", 20, "a\xffb", 0, "a\ufffdb", 0},
		{"nothing is kept", -1, "0123", 0, "", 4},
		{"the default", 0, strings.Repeat("x", action.DefaultOutput+1), 0, strings.Repeat("x", action.DefaultOutput), 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			rig.Bubble(t, func(t *testing.T) {
				r := newFixture(t, func(c *action.Config) { c.Output = tt.keep })
				r.will(func(context.Context, action.Run) (action.Outcome, error) {
					return action.Outcome{Output: tt.output, Cut: tt.cut}, nil
				})
				r.add(action.Request{ID: "a"})
				r.run()
				rig.Pass(0)
				got := r.get("a").Outcome
				check.Equal(t, "output", got.Output, tt.want)
				check.Equal(t, "what was cut", got.Cut, tt.left)
			})
		})
	}
}

// TestExitCodes are kept as they are, also that of a command that was killed.
func TestExitCodes(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := newFixture(t)
		for i, code := range []int{0, 1, 255, 503, -1} {
			r.will(func(context.Context, action.Run) (action.Outcome, error) { return action.Outcome{ExitCode: code}, nil })
			id := fmt.Sprint(i)
			r.add(action.Request{ID: id})
			r.tick()
			check.Equal(t, "exit code", r.get(id).Outcome.ExitCode, code)
		}
	})
}

// TestUnservedTargetsWait for a process that has them.
func TestUnservedTargetsWait(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := newFixture(t)
		r.add(action.Request{ID: "a", Target: "else"})
		r.add(action.Request{ID: "b"})
		r.run()
		rig.Pass(time.Hour)
		r.wantIDs("b")
		r.wantStatus("a", action.Pending, "")
		other := newFixtureOn(t, r.Store, r.journal, func(c *action.Config) { c.Targets = map[string]action.Definition{"else": {Target: action.Func(r.act)}} })
		other.run()
		rig.Pass(0)
		r.wantIDs("b", "a")
	})
}

// TestMalformedMessagesGoToQuarantine with what is wrong with them, and others go on.
func TestMalformedMessagesGoToQuarantine(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := newFixture(t)
		name := strings.Repeat("n", store.MaxName) // which its error tells, too
		err := r.Store.Commit(t.Context(), &store.Tx{Put: []store.Message{
			{Key: store.Key{Queue: "actions", Tenant: "acme", Name: name}, ID: "1", Route: "do", Body: []byte{9, 9}},
			{Key: store.Key{Queue: "actions", Tenant: "acme", Name: "empty"}, ID: "1", Route: "do"},
		}})
		check.OK(t, err)
		r.add(action.Request{ID: "a"})
		r.tick()
		r.wantStatus("a", action.Completed, "")
		found := r.Records(store.KindQuarantine)
		check.Equal(t, "messages in quarantine", len(found), 2)
		for _, q := range found {
			if q.Status != "malformed" || q.Tags[store.TagError] == "" {
				t.Errorf("in quarantine is %s %v", q.Status, q.Tags)
			}
		}
		check.Equal(t, "messages", r.Pending(), 0)
	})
}

// TestAMessageWithoutItsActionIsDropped: the action was removed, or has another message.
func TestAMessageWithoutItsActionIsDropped(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := newFixture(t)
		r.add(action.Request{ID: "gone", Delay: time.Minute})
		err := r.Store.Commit(t.Context(), &store.Tx{DeleteRecords: []store.DeleteRecord{{Key: store.RecordKey{Kind: "action", Tenant: "acme", ID: "gone"}, Expect: 1}}})
		check.OK(t, err)
		r.add(action.Request{ID: "other", Delay: time.Minute})
		pending, err := r.Store.Pending(t.Context(), store.Key{Queue: "actions", Tenant: "acme", Name: "other"}, 1)
		check.OK(t, err)
		r.cancel("other", "")
		check.OK(t, r.Store.Commit(t.Context(), &store.Tx{Put: pending}))
		rig.Pass(time.Minute)
		r.tick()
		r.wantIDs()
		check.Equal(t, "messages", r.Pending(), 0)
	})
}

// TestTheLogSaysWhenAnActionIsRunAgain, and not when it was first due.
func TestTheLogSaysWhenAnActionIsRunAgain(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		var log bytes.Buffer
		r := newFixture(t, target(func(d *action.Definition) { d.Attempts, d.Backoff = 2, time.Hour }), func(c *action.Config) {
			c.Logger = slog.New(slog.NewTextHandler(&log, nil))
		})
		r.will(fails("no"))
		r.add(action.Request{ID: "a"})
		r.tick()
		retry := r.wantStatus("a", action.Pending, "no").RetryAt
		if wait := retry.Sub(r.At(0)); wait > time.Hour || wait < 48*time.Minute {
			t.Errorf("it is run again after %v, want an hour less a fifth at most", wait)
		}
		if want := "at=" + retry.Format("2006-01-02T15:04:05.000Z"); !strings.Contains(log.String(), want) {
			t.Errorf("the log does not say %s:\n%s", want, log.String())
		}
	})
}
