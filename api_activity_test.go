package abide_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/abidehq/abide"
)

var errDeclined = abide.NewError("card-declined", "the card was declined")

// TestErrorsKeepTheirType on their way through activities, children and results.
func TestErrorsKeepTheirType(t *testing.T) {
	act := abide.NewActivity("charge", func(context.Context, abide.None) (abide.None, error) {
		return abide.None{}, fmt.Errorf("order 7: %w", abide.Final(errDeclined))
	})
	leaf := abide.NewOrchestration("leaf", func(ctx abide.Context, _ abide.None) (abide.None, error) {
		_, err := act.Call(ctx, abide.None{})
		var failed *abide.ActivityError
		if !errors.As(err, &failed) || failed.Name != "charge" || failed.Attempt != 1 {
			return abide.None{}, fmt.Errorf("not an ActivityError: %w", err)
		}
		return abide.None{}, err
	})
	top := abide.NewOrchestration("top", func(ctx abide.Context, _ abide.None) (abide.None, error) {
		_, err := leaf.Call(ctx, abide.None{}, abide.ID("leaf"))
		var failed *abide.ChildError
		if !errors.As(err, &failed) || failed.Name != "leaf" || failed.ID != "leaf" {
			return abide.None{}, fmt.Errorf("not a ChildError: %w", err)
		}
		return abide.None{}, err
	})
	onStage(t, []abide.Definition{act, leaf, top}, func(s *stage) {
		_, err := play(s, top, abide.None{})
		refuses(s.T, err, errDeclined, "order 7", `activity "charge"`, `child "leaf"`)
		var ended *abide.InstanceError
		same(s, "an InstanceError", errors.As(err, &ended) && ended.Status == abide.Failed, true)
		same(s, "another type", errors.Is(err, abide.ErrTimeout), false)
	})
}

// TestTheErrorOfAPanicIsItsValue: the stack is in the history, as a detail, and not in the error.
func TestTheErrorOfAPanicIsItsValue(t *testing.T) {
	act := abide.NewActivity("act", func(context.Context, abide.None) (abide.None, error) { panic("oh dear") })
	flow := abide.NewOrchestration("flow", func(ctx abide.Context, inStep bool) (abide.None, error) {
		if inStep {
			return abide.Step(ctx, "step", func(context.Context) (abide.None, error) { panic("oh dear") }, abide.Retry(1))
		}
		return act.Call(ctx, abide.None{}, abide.Retry(1))
	})
	onStage(t, []abide.Definition{act, flow}, func(s *stage) {
		for inStep, want := range map[bool]string{
			false: `activity "act", attempt 1: panic: oh dear`, true: `step "step", attempt 1: panic: oh dear`,
		} {
			id := fmt.Sprint("flow-", inStep)
			_, err := play(s, flow, inStep, abide.ID(id))
			var ended *abide.InstanceError
			if !errors.As(err, &ended) || ended.Err.Error() != want {
				s.T.Errorf("the error is %v, want %s", err, want)
			}
			stacks := 0
			h, err := s.History(s.Context(), abide.Ref{ID: id}, 1)
			s.check(err)
			for _, e := range h.Events {
				if e.Failure != nil && strings.Contains(string(e.Failure.Details), "api_activity_test.go:") {
					stacks++
				}
			}
			same(s, "stacks in the history", stacks, 1)
		}
	})
}

func TestRetryOptions(t *testing.T) {
	runs := map[string]int{}
	act := abide.NewActivity("act", func(ctx context.Context, how string) (int, error) {
		runs[how]++
		info, _ := abide.ActivityOf(ctx)
		switch how {
		case "declined":
			return 0, errDeclined
		case "final":
			return 0, abide.Final(errors.New("no"))
		case "third":
			if info.Attempt == 3 {
				return info.Attempt, nil
			}
		default:
		}
		return 0, errors.New("no")
	}, abide.Retry(4).Backoff(time.Minute, 2, time.Hour).Except("card-declined"))
	flow := abide.NewOrchestration("flow", func(ctx abide.Context, how string) (attempts, error) {
		start := abide.Now(ctx)
		var opts []abide.ActivityOption
		if how == "once" {
			opts = append(opts, abide.Retry(1))
		}
		n, err := act.Call(ctx, how, opts...)
		return attempts{n, err != nil, abide.Now(ctx).Sub(start)}, nil
	})
	onStage(t, []abide.Definition{act, flow}, func(s *stage) {
		expectAttempts(s, flow, "always", attempts{0, true, 7 * time.Minute})
		expectAttempts(s, flow, "third", attempts{3, false, 3 * time.Minute})
		expectAttempts(s, flow, "declined", attempts{0, true, 0})
		expectAttempts(s, flow, "final", attempts{0, true, 0})
		expectAttempts(s, flow, "once", attempts{0, true, 0})
		for how, want := range map[string]int{"always": 4, "third": 3, "declined": 1, "final": 1, "once": 1} {
			same(s, how, runs[how], want)
		}
	})
}

// attempts is how the attempts of an activity went.
type attempts struct {
	N      int
	Failed bool
	Took   time.Duration
}

// expectAttempts plays something and compares its result: what it took is shorter by a fifth
// at most.
func expectAttempts[In any](s *stage, o *abide.Orchestration[In, attempts], in In, want attempts) {
	s.Helper()
	got, err := play(s, o, in)
	s.check(err)
	if got.N != want.N || got.Failed != want.Failed || got.Took > want.Took || got.Took < want.Took*4/5 {
		s.Errorf("%v: got %+v, want %+v less a fifth at most", in, got, want)
	}
}

// TestDefaultRetry: an activity that says nothing is tried five times.
func TestDefaultRetry(t *testing.T) {
	runs := 0
	act := abide.NewActivity("act", func(context.Context, abide.None) (abide.None, error) {
		runs++
		return abide.None{}, errors.New("no")
	})
	flow := abide.NewOrchestration("flow", func(ctx abide.Context, _ abide.None) (attempts, error) {
		start := abide.Now(ctx)
		_, err := act.Call(ctx, abide.None{})
		return attempts{0, err != nil, abide.Now(ctx).Sub(start)}, nil
	})
	onStage(t, []abide.Definition{act, flow}, func(s *stage) {
		expectAttempts(s, flow, abide.None{}, attempts{0, true, 15 * time.Second})
		same(s, "runs", runs, 5)
	})
}

func TestTimeoutsOfTheAPI(t *testing.T) {
	act := abide.NewActivity("act", func(ctx context.Context, how string) (int, error) {
		if how == "beats" {
			for range 10 {
				if err := abide.Heartbeat(ctx, nil); err != nil {
					return 0, err
				}
				<-time.After(50 * time.Second)
			}
			return 1, nil
		}
		<-ctx.Done()
		return 0, context.Cause(ctx)
	}, abide.Retry(1))
	flow := abide.NewOrchestration("flow", func(ctx abide.Context, how string) (string, error) {
		opts := map[string]abide.ActivityOption{
			"start": abide.StartToClose(time.Minute), "schedule": abide.ScheduleToClose(time.Hour),
			"silent": abide.HeartbeatTimeout(time.Minute), "beats": abide.HeartbeatTimeout(time.Minute),
		}
		start := abide.Now(ctx)
		_, err := act.Call(ctx, how, opts[how])
		return fmt.Sprint(errors.Is(err, abide.ErrTimeout), abide.Now(ctx).Sub(start)), nil
	})
	onStage(t, []abide.Definition{act, flow}, func(s *stage) {
		expect(s, flow, "start", "true 1m0s")
		expect(s, flow, "schedule", "true 1h0m0s")
		expect(s, flow, "silent", "true 1m0s")
		expect(s, flow, "beats", "false 8m20s")
	})
}

func TestActivityInfoAndHeartbeats(t *testing.T) {
	keys := map[string]bool{}
	act := abide.NewActivity("act", func(ctx context.Context, _ abide.None) (string, error) {
		info, ok := abide.ActivityOf(ctx)
		if !ok || info.Name != "act" || info.Instance.ID != "i" || info.ScheduledAt.IsZero() {
			return "", abide.Final(fmt.Errorf("info: %+v", info))
		}
		keys[info.Key] = true
		last, had, err := abide.LastHeartbeat[[]int](ctx)
		if err != nil {
			return "", abide.Final(err)
		}
		if info.Attempt < 3 {
			if err := abide.Heartbeat(ctx, []int{info.Attempt, 1}); err != nil {
				return "", abide.Final(err)
			}
			return "", errors.New("not yet")
		}
		return fmt.Sprint(had, last), nil
	})
	flow := abide.NewOrchestration("flow", func(ctx abide.Context, _ abide.None) (string, error) {
		one, err := act.Call(ctx, abide.None{})
		if err != nil {
			return "", err
		}
		two, err := act.Call(ctx, abide.None{})
		return one + " " + two, err
	})
	onStage(t, []abide.Definition{act, flow}, func(s *stage) {
		got, err := play(s, flow, abide.None{}, abide.ID("i"))
		s.check(err)
		same(s, "result", got, "true [2 1] true [2 1]")
		same(s, "keys: one for each call", len(keys), 2)
		_, ok := abide.ActivityOf(s.Context())
		same(s, "outside of an activity", ok, false)
		refuses(s.T, abide.Heartbeat(s.Context(), nil), abide.ErrInvalid)
		_, _, err = abide.LastHeartbeat[int](s.Context())
		refuses(s.T, err, abide.ErrInvalid)
	})
}

func TestChildPoliciesOfTheAPI(t *testing.T) {
	leaf := abide.NewOrchestration("leaf", func(ctx abide.Context, _ abide.None) (abide.None, error) {
		return abide.None{}, abide.Sleep(ctx, time.Hour)
	})
	taken := abide.NewOrchestration("taken", func(ctx abide.Context, _ abide.None) (bool, error) {
		_, err := leaf.Call(ctx, abide.None{}, abide.ID("cancel"))
		return errors.Is(err, abide.ErrChildExists), nil
	})
	top := abide.NewOrchestration("top", func(ctx abide.Context, _ abide.None) (string, error) {
		leaf.Go(ctx, abide.None{}, abide.ID("cancel"))
		leaf.Go(ctx, abide.None{}, abide.ID("terminate"), abide.OnParentClose(abide.TerminateChild))
		leaf.Go(ctx, abide.None{}, abide.ID("abandon"), abide.OnParentClose(abide.AbandonChild))
		return leaf.Detach(ctx, abide.None{}, abide.ID("detached")), abide.Sleep(ctx, time.Minute)
	})
	onStage(t, []abide.Definition{leaf, top, taken}, func(s *stage) {
		expect(s, top, abide.None{}, "detached")
		expect(s, taken, abide.None{}, true)
		for id, want := range map[string]abide.Status{
			"cancel": abide.Cancelled, "terminate": abide.Terminated, "abandon": abide.Completed, "detached": abide.Completed,
		} {
			info, err := s.WaitEnd(s.month(), abide.Ref{ID: id})
			s.check(err)
			same(s, id, info.Status, want)
		}
		_, err := leaf.Instance(s.Engine, "terminate").Result(s.month())
		refuses(s.T, err, abide.ErrTerminated)
	})
}

// TestEventsOfTheAPI: only if awaited, with a time to live, raised once, of another tenant.
func TestEventsOfTheAPI(t *testing.T) {
	event := abide.NewEvent[int]("e")
	flow := abide.NewOrchestration("flow", func(ctx abide.Context, _ abide.None) (string, error) {
		if err := abide.Sleep(ctx, time.Hour); err != nil {
			return "", err
		}
		a, err := event.Wait(ctx)
		if err != nil {
			return "", err
		}
		b, err := event.Wait(ctx)
		return fmt.Sprint(a, b), err
	})
	onStage(t, []abide.Definition{flow}, func(s *stage) {
		i, err := flow.Start(s.Context(), s.Engine, abide.None{}, abide.ID("i"), abide.Tenant("acme"))
		s.check(err)
		s.wait(time.Minute)
		raise := func(n int, opts ...abide.RaiseOption) {
			s.Helper()
			s.check(event.Raise(s.Context(), s.Engine, "i", n, append(opts, abide.Tenant("acme"))...))
			s.wait(0)
		}
		raise(1, abide.IfAwaited())
		s.check(event.Raise(s.Context(), s.Engine, "i", 2)) // another tenant's
		s.wait(time.Hour)
		raise(3, abide.IfAwaited())
		raise(4, abide.ID("once"))
		got, err := i.Result(s.month())
		s.check(err)
		same(s, "result", got, "3 4")
		s.check(event.Raise(s.Context(), s.Engine, "nobody", 1, abide.KeepFor(time.Minute)))
		s.wait(time.Hour)
		page, err := s.Quarantine(s.Context(), abide.QuarantineFilter{})
		s.check(err)
		same(s, "in quarantine", len(page.Messages), 1)
	})
}
