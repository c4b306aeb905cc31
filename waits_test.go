package abide_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
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

// TestWaitsSaysWhoRunsAnActivity: an activity that a worker runs is leased by it, and no longer when it
// is tried later; the turn is leased while it runs, and not while the instance waits.
func TestWaitsSaysWhoRunsAnActivity(t *testing.T) {
	var end chan struct{} // of the bubble
	slow := abide.NewActivity("slow", func(context.Context, abide.None) (abide.None, error) {
		<-end
		return abide.None{}, errors.New("no paper")
	}, abide.Retry(0).Backoff(time.Hour, 1, time.Hour))
	flow := abide.NewOrchestration("flow", func(ctx abide.Context, _ abide.None) (abide.None, error) {
		return slow.Call(ctx, abide.None{})
	})
	onStage(t, []abide.Definition{flow, slow}, func(s *stage) {
		end = make(chan struct{})
		stop := sync.OnceFunc(func() { close(end) })
		defer stop() // also after a failure: the engine waits for it
		i, err := flow.Start(s.Context(), s.Engine, abide.None{})
		s.check(err)
		s.wait(time.Minute)
		waits, err := s.Waits(s.Context(), i.Ref())
		s.check(err)
		same(s, "number of waits", len(waits), 1)
		l := waits[0].Lease
		if l == nil {
			s.Fatal("an activity that runs has no lease")
		}
		// The stage is not listed, so that it is not known when it was seen.
		if l.WorkerID == "" || !strings.HasSuffix(l.Worker, fmt.Sprintf(":%d", os.Getpid())) || !l.SeenAt.IsZero() || !l.Until.After(time.Now()) {
			s.Errorf("lease %+v, want one of this process", l)
		}
		turn, err := s.TurnLease(s.Context(), i.Ref())
		s.check(err)
		same(s, "the turn of an instance that waits is leased", turn != nil, false)
		stop()
		s.wait(time.Minute)
		waits, err = s.Waits(s.Context(), i.Ref())
		s.check(err)
		same(s, "number of waits", len(waits), 1)
		same(s, "an activity that is tried later is leased", waits[0].Lease != nil, false)
		_, err = s.TurnLease(s.Context(), abide.Ref{ID: "nobody"})
		if !errors.Is(err, abide.ErrNotFound) {
			s.Errorf("lease of nobody: %v", err)
		}
		s.check(i.Terminate(s.Context(), ""))
	})
}
