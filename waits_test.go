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

// TestWaitsSaysWhatAnInstanceWaitsFor: activities with how often they were tried, timers,
// children.
func TestWaitsSaysWhatAnInstanceWaitsFor(t *testing.T) {
	broken := abide.NewActivity("broken", func(context.Context, abide.None) (abide.None, error) {
		return abide.None{}, errors.New("no paper")
	}, abide.Retry(0).Backoff(time.Hour, 1, time.Hour))
	nobody := abide.ActivityNamed[abide.None, abide.None]("nobody")
	child := abide.NewOrchestration("child", func(ctx abide.Context, _ abide.None) (abide.None, error) {
		return abide.None{}, abide.Sleep(ctx, 24*time.Hour)
	})
	flow := abide.NewOrchestration("flow", func(ctx abide.Context, _ abide.None) (abide.None, error) {
		return abide.None{}, abide.Join(ctx, broken.Go(ctx, abide.None{}), nobody.Go(ctx, abide.None{}),
			abide.NewTimer(ctx, 12*time.Hour, abide.Named("lunch")), child.Go(ctx, abide.None{}, abide.ID("c")))
	})
	onStage(t, []abide.Definition{flow, child, broken}, func(s *stage) {
		begin := time.Now()
		i, err := flow.Start(s.Context(), s.Engine, abide.None{})
		s.check(err)
		s.wait(90 * time.Minute)
		waits, err := s.Waits(s.Context(), i.Ref())
		s.check(err)
		var got []string
		for _, w := range waits {
			at := "some time"
			switch after := w.At.Sub(begin); {
			case w.At.IsZero():
			case w.Name == "broken" && after >= 96*time.Minute && after <= 2*time.Hour: // each wait is up to a fifth shorter
				at = "the second retry"
			default:
				at = after.Round(time.Minute).String()
			}
			got = append(got, fmt.Sprintf("%d %s %s %s at %s, attempt %d: %v", w.Event, w.Kind, w.Name, w.Child, at, w.Attempt, w.Err))
		}
		same(s, "waits", strings.Join(got, "\n"), strings.Join([]string{
			"3 ActivityScheduled broken  at the second retry, attempt 2: no paper",
			"4 ActivityScheduled nobody  at 0s, attempt 0: <nil>",
			"5 TimerCreated lunch  at 12h0m0s, attempt 0: <nil>",
			"6 ChildStarted child c at some time, attempt 0: <nil>",
		}, "\n"))
		s.check(i.Terminate(s.Context(), ""))
		_, err = i.Result(s.month())
		if !errors.Is(err, abide.ErrTerminated) {
			s.Errorf("result: %v", err)
		}
		waits, err = s.Waits(s.Context(), i.Ref())
		s.check(err)
		same(s, "waits when it has ended", len(waits), 0)
		_, err = s.Waits(s.Context(), abide.Ref{ID: "nobody"})
		if !errors.Is(err, abide.ErrNotFound) {
			s.Errorf("waits of nobody: %v", err)
		}
	})
}
