package abide_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/history"
)

// deployed has an instance begin with one definition and end with another, in a new engine.
func deployed[In, Out any](s *stage, before, after *abide.Orchestration[In, Out], in In, wait time.Duration) (Out, error) {
	s.Helper()
	s.open(before)
	i, err := before.Start(s.Context(), s.Engine, in)
	s.check(err)
	s.wait(wait)
	s.open(after)
	return i.Result(s.month())
}

// TestChangedAcrossADeploy: what began the old way ends the old way, what is new is new.
func TestChangedAcrossADeploy(t *testing.T) {
	var did []string
	do := func(ctx abide.Context, name string) {
		_, _ = abide.Step(ctx, name, func(context.Context) (abide.None, error) {
			did = append(did, name)
			return abide.None{}, nil
		})
	}
	old := abide.NewOrchestration("flow", func(ctx abide.Context, _ abide.None) (string, error) {
		do(ctx, "pay")
		err := abide.Sleep(ctx, time.Hour)
		do(ctx, "pack")
		return "old", err
	})
	changed := abide.NewOrchestration("flow", func(ctx abide.Context, _ abide.None) (string, error) {
		way := "old"
		first := abide.Changed(ctx, "check-first")
		if first {
			do(ctx, "check")
			way = "new"
		}
		do(ctx, "pay")
		if err := abide.Sleep(ctx, time.Hour); err != nil {
			return "", err
		}
		if abide.Changed(ctx, "wrap") {
			do(ctx, "wrap")
		}
		if abide.Changed(ctx, "check-first") != first {
			way = "confused"
		}
		do(ctx, "pack")
		return way, nil
	})
	onStage(t, nil, func(s *stage) {
		got, err := deployed(s, old, changed, abide.None{}, time.Minute)
		s.check(err)
		same(s, "way", got, "old")
		same(s, "did", strings.Join(did, " "), "pay wrap pack")
		did = nil
		got, err = deployed(s, changed, changed, abide.None{}, time.Minute)
		s.check(err)
		same(s, "way", got, "new")
		same(s, "did", strings.Join(did, " "), "check pay wrap pack")
	})
}

// TestReplayIsStable: IDs, random numbers, times, and what the instance knows of itself.
func TestReplayIsStable(t *testing.T) {
	var runs []string
	flow := abide.NewOrchestration("flow", func(ctx abide.Context, _ abide.None) (string, error) {
		var out []string
		for range 3 {
			r := abide.Rand(ctx)
			out = append(out, abide.NewID(ctx), fmt.Sprint(r.IntN(1000), r.Perm(5), abide.Now(ctx).UnixNano(), abide.Self(ctx), abide.Execution(ctx)))
			if err := abide.Sleep(ctx, time.Hour); err != nil {
				return "", err
			}
		}
		runs = append(runs, strings.Join(out, " "))
		return strings.Join(out, " "), nil
	})
	onStage(t, []abide.Definition{flow}, func(s *stage) {
		i, err := flow.Start(s.Context(), s.Engine, abide.None{})
		s.check(err)
		for range 4 {
			s.wait(50 * time.Minute)
			s.open(flow)
		}
		got, err := i.Result(s.month())
		s.check(err)
		other, err := play(s, flow, abide.None{})
		s.check(err)
		same(s, "another instance has other numbers", got == other, false)
		uuid := regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
		ids := map[string]bool{}
		for word := range strings.FieldsSeq(got) {
			if strings.Count(word, "-") == 4 {
				same(s, word+" is a UUID", uuid.MatchString(word), true)
				ids[word] = true
			}
		}
		same(s, "IDs", len(ids), 3)
		// What the code saw in the end, after replay, is what history has of it.
		h, err := s.History(s.Context(), i.Ref(), 0)
		s.check(err)
		replayer, err := abide.NewReplayer(nil, nil, flow)
		s.check(err)
		_, err = replayer.Replay(&h)
		s.check(err)
		same(s, "the same in replay", runs[len(runs)-1], got)
	})
}

func TestLoggerIsSilentInReplay(t *testing.T) {
	flow := abide.NewOrchestration("flow", func(ctx abide.Context, _ abide.None) (abide.None, error) {
		for i := range 3 {
			abide.Logger(ctx).Info(fmt.Sprint("line ", i), "replaying", abide.Replaying(ctx))
			abide.Logger(ctx).WithGroup("g").With("a", 1).Info(fmt.Sprint("group ", i))
			if err := abide.Sleep(ctx, time.Hour); err != nil {
				return abide.None{}, err
			}
		}
		return abide.None{}, nil
	})
	onStage(t, []abide.Definition{flow}, func(s *stage) {
		i, err := flow.Start(s.Context(), s.Engine, abide.None{}, abide.ID("me"), abide.Tenant("acme"))
		s.check(err)
		for range 4 {
			s.wait(50 * time.Minute)
			s.open(flow)
		}
		_, err = i.Result(s.month())
		s.check(err)
		for n := range 3 {
			same(s, "lines", s.log.count(fmt.Sprint("line ", n)), 1)
			same(s, "lines of a group", s.log.count(fmt.Sprint("group ", n)), 1)
		}
		same(s, "lines with the instance", s.log.count("tenant=acme instance=me"), 6)
		same(s, "lines with the orchestration", s.log.count("orchestration=flow"), 6)
		same(s, "lines of replay", s.log.count("replaying=true"), 0)
	})
}

func TestStepRunsOnce(t *testing.T) {
	runs := map[string]int{}
	flow := abide.NewOrchestration("flow", func(ctx abide.Context, _ abide.None) (string, error) {
		step := func(name string, f func() (string, error), opts ...abide.StepOption) string {
			v, err := abide.Step(ctx, name, func(context.Context) (string, error) {
				runs[name]++
				return f()
			}, opts...)
			return fmt.Sprint(v, err)
		}
		out := step("good", func() (string, error) { return "yes", nil })
		out += step("bad", func() (string, error) { return "", fmt.Errorf("no") })
		out += step("panics", func() (string, error) { panic("oh dear") })[:40]
		out += step("retried", func() (string, error) {
			if runs["retried"] < 3 {
				return "", fmt.Errorf("not yet")
			}
			return "now", nil
		}, abide.Retry(5).Backoff(time.Hour, 1, time.Hour))
		out += step("final", func() (string, error) { return "", abide.Final(fmt.Errorf("never")) }, abide.Retry(5))
		return out, abide.Sleep(ctx, time.Hour)
	})
	onStage(t, []abide.Definition{flow}, func(s *stage) {
		start := time.Now()
		i, err := flow.Start(s.Context(), s.Engine, abide.None{})
		s.check(err)
		for range 6 {
			s.wait(25 * time.Minute)
			s.open(flow)
		}
		got, err := i.Result(s.month())
		s.check(err)
		same(s, "result", got, `yes<nil>step "bad", attempt 1: nostep "panics", attempt 1: panic: oh dearnow<nil>step "final", attempt 1: never`)
		for name, want := range map[string]int{"good": 1, "bad": 1, "panics": 1, "retried": 3, "final": 1} {
			same(s, name, runs[name], want)
		}
		// Two waits of an hour, less a fifth at most, and a timer of an hour.
		if took := time.Since(start); took < 2*48*time.Minute+time.Hour || took > 3*time.Hour {
			s.Errorf("it took %v", took)
		}
	})
}

// TestStepRetryIsTheSameWhenItIsReplayed: a fork that replays a step that failed, and then
// decides itself how long to wait, waits as long as the original; another instance does not.
func TestStepRetryIsTheSameWhenItIsReplayed(t *testing.T) {
	flow := abide.NewOrchestration("flow", func(ctx abide.Context, _ abide.None) (abide.None, error) {
		_, err := abide.Step(ctx, "slow", func(context.Context) (abide.None, error) {
			<-time.After(time.Minute) // long enough to end the turn after the step
			return abide.None{}, errors.New("no")
		}, abide.Retry(2).Backoff(time.Hour, 1, time.Hour))
		return abide.None{}, err
	})
	onStage(t, []abide.Definition{flow}, func(s *stage) {
		// wait returns the time from the turn that set the first timer to that timer, and the
		// event before that turn.
		wait := func(id string) (d time.Duration, before int) {
			h, err := s.History(s.Context(), abide.Ref{ID: id}, 0)
			s.check(err)
			var turn time.Time
			for i, e := range h.Events {
				switch e.Kind {
				case history.TurnStarted:
					turn, before = e.At, i
				case history.TimerCreated:
					return e.At.Sub(turn), before
				}
			}
			s.Fatalf("%s has set no timer", id)
			return 0, 0
		}
		for _, id := range []string{"one", "two"} {
			if _, err := play(s, flow, abide.None{}, abide.ID(id)); err == nil {
				s.Fatal("the step did not fail")
			}
		}
		one, before := wait("one")
		two, _ := wait("two")
		_, err := s.Fork(s.Context(), abide.Ref{ID: "one"}, before, "fork")
		s.check(err)
		s.wait(3 * time.Hour)
		fork, _ := wait("fork")
		if fork != one || one == two || one > time.Hour || one < 48*time.Minute {
			s.Errorf("the waits are %v, %v in the fork of it, and %v in another instance", one, fork, two)
		}
	})
}

// TestStepHasATimeout: its context ends, and it counts as failed unless it succeeds all
// the same.
func TestStepHasATimeout(t *testing.T) {
	var runs int
	flow := abide.NewOrchestration("flow", func(ctx abide.Context, _ abide.None) (string, error) {
		start := abide.Now(ctx)
		_, err := abide.Step(ctx, "slow", func(c context.Context) (string, error) {
			runs++
			<-c.Done()
			return "", c.Err()
		}, abide.StartToClose(time.Minute), abide.Retry(2).Backoff(time.Second, 1, time.Second))
		if !errors.Is(err, abide.ErrTimeout) {
			return "", fmt.Errorf("the error is %w", err)
		}
		if err := abide.Sleep(ctx, time.Second); err != nil {
			return "", err
		}
		took := abide.Now(ctx).Sub(start)
		late, err := abide.Step(ctx, "late", func(c context.Context) (string, error) {
			<-c.Done()
			return "late", nil
		}, abide.StartToClose(time.Minute))
		return fmt.Sprint(late, " ", took.Round(time.Second)), err
	})
	onStage(t, []abide.Definition{flow}, func(s *stage) {
		expect(s, flow, abide.None{}, "late 2m2s")
		same(s, "runs", runs, 2)
	})
}

// TestCancelReachesSteps: the loop of steps ends with the one that runs, and the instance
// is cancelled.
func TestCancelReachesSteps(t *testing.T) {
	var runs int
	flow := abide.NewOrchestration("flow", func(ctx abide.Context, _ abide.None) (string, error) {
		for i := range 100 {
			_, err := abide.Step(ctx, fmt.Sprint("step-", i), func(c context.Context) (string, error) {
				runs++
				select {
				case <-c.Done():
					return "", c.Err()
				case <-time.After(time.Minute):
					return "", nil
				}
			}, abide.Retry(3))
			if errors.Is(err, abide.ErrCancelled) {
				return "", err
			}
		}
		return "all", nil
	})
	onStage(t, []abide.Definition{flow}, func(s *stage) {
		i, err := flow.Start(s.Context(), s.Engine, abide.None{})
		s.check(err)
		s.wait(10*time.Minute + 30*time.Second)
		s.check(s.Cancel(s.Context(), i.Ref(), "enough"))
		_, err = i.Result(s.month())
		same(s, "cancelled", errors.Is(err, abide.ErrCancelled), true)
		info, err := s.Get(s.Context(), i.Ref())
		s.check(err)
		same(s, "status", info.Status, abide.Cancelled)
		same(s, "runs", runs, 11)
	})
}

func TestContinueAsNew(t *testing.T) {
	flow := abide.NewOrchestration("flow", func(ctx abide.Context, n int) (string, error) {
		if n < 5 {
			return "", abide.ContinueAsNew(ctx, n+1)
		}
		return fmt.Sprint(n, abide.Execution(ctx)), nil
	})
	onStage(t, []abide.Definition{flow}, func(s *stage) { expect(s, flow, 1, "5 5") })
}

func TestContinueAsNewWithAnotherVersion(t *testing.T) {
	one := abide.NewOrchestration("flow", func(ctx abide.Context, in string) (string, error) {
		return "", abide.ContinueAsNew(ctx, in+"1", abide.Version("2"))
	}, abide.Version("1"))
	two := abide.NewOrchestration("flow", func(ctx abide.Context, in string) (string, error) {
		if len(in) < 3 {
			return "", abide.ContinueAsNew(ctx, in+"2")
		}
		return in, nil
	}, abide.Version("2"))
	onStage(t, []abide.Definition{one, two}, func(s *stage) { expect(s, one, "", "122") })
}

// TestContinueAsNewWithTheWrongTypeStalls, and goes on when it is fixed.
func TestContinueAsNewWithTheWrongTypeStalls(t *testing.T) {
	wrong := abide.NewOrchestration("flow", func(ctx abide.Context, n int) (int, error) {
		if n == 0 {
			return 0, abide.ContinueAsNew(ctx, "one")
		}
		return n, nil
	})
	right := abide.NewOrchestration("flow", func(ctx abide.Context, n int) (int, error) {
		if n == 0 {
			return 0, abide.ContinueAsNew(ctx, 1)
		}
		return n, nil
	})
	onStage(t, []abide.Definition{wrong}, func(s *stage) {
		i, err := wrong.Start(s.Context(), s.Engine, 0)
		s.check(err)
		s.stalled(i.Ref(), "string", "int", "continue as new")
		s.open(right)
		s.check(i.Resume(s.Context()))
		s.wait(time.Second)
		got, err := i.Result(s.month())
		s.check(err)
		same(s, "result", got, 1)
	})
}

// TestActivityWhoseInputDoesNotFitFails like any other: another process may know better.
func TestActivityWhoseInputDoesNotFitFails(t *testing.T) {
	act := abide.NewActivity("act", func(context.Context, int) (int, error) { return 0, nil })
	asText := abide.ActivityNamed[string, int]("act")
	flow := abide.NewOrchestration("flow", func(ctx abide.Context, _ abide.None) (int, error) { return asText.Call(ctx, "text") })
	onStage(t, []abide.Definition{flow, act}, func(s *stage) {
		_, err := play(s, flow, abide.None{})
		if err == nil || !strings.Contains(err.Error(), `the input of activity "act" does not fit`) {
			s.Errorf("error: %v", err)
		}
	})
}
