package abide_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/abidehq/abide"
)

// slowly is an activity that takes as many minutes as it is told, and returns that.
func slowly() *abide.Activity[int, int] {
	return abide.NewActivity("slowly", func(ctx context.Context, minutes int) (int, error) {
		select {
		case <-time.After(time.Duration(minutes) * time.Minute):
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
		if minutes == 13 {
			return 0, abide.Final(errors.New("thirteen"))
		}
		return minutes, nil
	})
}

func TestSelectTakesTheFirst(t *testing.T) {
	act := slowly()
	flow := abide.NewOrchestration("select", func(ctx abide.Context, in []int) (string, error) {
		var of []abide.Awaitable
		for _, minutes := range in {
			of = append(of, act.Go(ctx, minutes))
		}
		of = append(of, abide.NewTimer(ctx, 20*time.Minute))
		first := abide.Select(ctx, of...)
		same := abide.Select(ctx, of...) // of those that are known, the one that was known first
		for _, a := range of {
			switch a := a.(type) {
			case *abide.Future[int]:
				a.Cancel(ctx)
			case *abide.Timer:
				a.Cancel(ctx)
			}
		}
		return fmt.Sprint(first, same, abide.Select(ctx)), nil
	})
	onStage(t, []abide.Definition{flow, act}, func(s *stage) {
		for in, want := range map[string]string{"5 3 8": "1 1 -1", "30 40": "2 2 -1", "13 14": "0 0 -1"} {
			var minutes []int
			for f := range strings.FieldsSeq(in) {
				n, err := strconv.Atoi(f)
				s.check(err)
				minutes = append(minutes, n)
			}
			got, err := play(s, flow, minutes)
			s.check(err)
			same(s, in, got, want)
		}
	})
}

func TestJoinAndAll(t *testing.T) {
	act := slowly()
	flow := abide.NewOrchestration("join", func(ctx abide.Context, in []int) (string, error) {
		var of []abide.Awaitable
		var futures []*abide.Future[int]
		for _, minutes := range in {
			f := act.Go(ctx, minutes)
			of, futures = append(of, f), append(futures, f)
		}
		err := abide.Join(ctx, of...)
		results, err2 := abide.All(ctx, futures...)
		if (err == nil) != (err2 == nil) {
			return "", fmt.Errorf("join says %w, all says %w", err, err2)
		}
		var failed *abide.ActivityError
		return fmt.Sprint(results, errors.As(err, &failed)), nil
	})
	onStage(t, []abide.Definition{flow, act}, func(s *stage) {
		for want, in := range map[string][]int{"[3 1 2] false": {3, 1, 2}, "[3 0 2] true": {3, 13, 2}, "[0 0] true": {13, 13}, "[] false": nil} {
			got, err := play(s, flow, in)
			s.check(err)
			same(s, fmt.Sprint(in), got, want)
		}
	})
}

// TestGoRunsBeside: coroutines take turns where they wait, in an order that never changes.
func TestGoRunsBeside(t *testing.T) {
	flow := abide.NewOrchestration("go", func(ctx abide.Context, _ abide.None) (string, error) {
		var out []string
		one := abide.Go(ctx, func(ctx abide.Context) (int, error) {
			out = append(out, "one")
			err := abide.Sleep(ctx, 2*time.Minute)
			out = append(out, "one again")
			return 1, err
		})
		two := abide.Go(ctx, func(ctx abide.Context) (int, error) {
			out = append(out, "two")
			err := abide.Sleep(ctx, time.Minute)
			out = append(out, "two again")
			return 2, err
		})
		bad := abide.Go(ctx, func(abide.Context) (int, error) { return 0, errors.New("bad") })
		out = append(out, "main")
		a, err := one.Get(ctx)
		if err != nil {
			return "", err
		}
		b, err := two.Get(ctx)
		if err != nil {
			return "", err
		}
		_, err = bad.Get(ctx)
		return fmt.Sprint(strings.Join(out, ", "), a, b, err), nil
	})
	onStage(t, []abide.Definition{flow}, func(s *stage) {
		expect(s, flow, abide.None{}, "main, one, two, two again, one again1 2 bad")
	})
}

func TestCancelOfACoroutine(t *testing.T) {
	act := slowly()
	flow := abide.NewOrchestration("go", func(ctx abide.Context, _ abide.None) (string, error) {
		f := abide.Go(ctx, func(ctx abide.Context) (string, error) {
			_, err := act.Call(ctx, 60)
			return fmt.Sprint(errors.Is(err, abide.ErrCancelled), abide.Cause(ctx) != nil), nil
		})
		if err := abide.Sleep(ctx, time.Minute); err != nil {
			return "", err
		}
		f.Cancel(ctx)
		got, err := f.Get(ctx)
		return got + abide.Now(ctx).Format(" 04"), err
	})
	onStage(t, []abide.Definition{flow, act}, func(s *stage) {
		minute := time.Now().Add(time.Minute).UTC().Format(" 04")
		expect(s, flow, abide.None{}, "true true"+minute)
	})
}

func TestScopesAndShield(t *testing.T) {
	act := slowly()
	leaf := abide.NewOrchestration("leaf", func(ctx abide.Context, _ abide.None) (abide.None, error) {
		return abide.None{}, abide.Sleep(ctx, time.Hour)
	})
	event := abide.NewEvent[string]("never")
	flow := abide.NewOrchestration("scope", func(ctx abide.Context, _ abide.None) (string, error) {
		outer, cancel := abide.WithCancel(ctx)
		inner, _ := abide.WithCancel(outer)
		futures := []abide.Awaitable{
			act.Go(outer, 60), act.Go(inner, 60), abide.NewTimer(inner, time.Hour), leaf.Go(inner, abide.None{}, abide.ID("leaf")), event.Receive(inner),
		}
		kept := act.Go(abide.Shield(inner), 5)
		if err := abide.Sleep(ctx, time.Minute); err != nil {
			return "", err
		}
		cancel("that will do")
		cancel("twice")
		err := abide.Join(ctx, futures...)
		if !errors.Is(err, abide.ErrCancelled) || strings.Count(err.Error(), "that will do") != 5 {
			return "", fmt.Errorf("not all was cancelled: %w", err)
		}
		if _, err := act.Call(inner, 1); !errors.Is(err, abide.ErrCancelled) {
			return "", fmt.Errorf("asked for under a scope that was cancelled: %w", err)
		}
		n, err := kept.Get(ctx)
		return fmt.Sprint(n, err, abide.Cause(ctx), abide.Cause(outer), " ", abide.Cause(inner)), nil
	})
	onStage(t, []abide.Definition{flow, act, leaf}, func(s *stage) {
		expect(s, flow, abide.None{}, "5 <nil> <nil> cancelled: that will do cancelled: that will do")
		info, err := s.WaitEnd(s.month(), abide.Ref{ID: "leaf"})
		s.check(err)
		same(s, "child", info.Status, abide.Cancelled)
	})
}

func TestCancelledInstanceTidiesUpUnderAShield(t *testing.T) {
	act := slowly()
	flow := abide.NewOrchestration("tidy", func(ctx abide.Context, _ abide.None) (abide.None, error) {
		err := abide.Sleep(ctx, time.Hour)
		if _, err := act.Call(ctx, 1); !errors.Is(err, abide.ErrCancelled) {
			return abide.None{}, fmt.Errorf("not cancelled: %w", err)
		}
		if _, err := act.Call(abide.Shield(ctx), 1); err != nil {
			return abide.None{}, err
		}
		abide.SetStatus(ctx, "tidied up")
		return abide.None{}, fmt.Errorf("gave up: %w", err)
	})
	onStage(t, []abide.Definition{flow, act}, func(s *stage) {
		i, err := flow.Start(s.Context(), s.Engine, abide.None{})
		s.check(err)
		s.wait(time.Minute)
		s.check(i.Cancel(s.Context(), "enough"))
		_, err = i.Result(s.month())
		refuses(s.T, err, abide.ErrCancelled, "gave up", "enough")
		var ended *abide.InstanceError
		same(s, "an InstanceError", errors.As(err, &ended), true)
		same(s, "status", ended.Status, abide.Cancelled)
		info, err := i.Info(s.Context())
		s.check(err)
		same(s, "text", info.StatusText, "tidied up")
	})
}

func TestSagaUndoes(t *testing.T) {
	var did []string
	book := abide.NewActivity("book", func(_ context.Context, what string) (string, error) {
		if strings.HasPrefix(what, "bad") {
			return "", abide.Final(errors.New("no " + what))
		}
		did = append(did, what)
		return what, nil
	})
	flow := abide.NewOrchestration("saga", func(ctx abide.Context, in []string) (string, error) {
		err := abide.RunSaga(ctx, func(saga *abide.Saga) error {
			for _, what := range in {
				if what == "sleep" {
					if err := abide.Sleep(ctx, time.Hour); err != nil {
						return err
					}
					continue
				}
				if _, err := book.Call(ctx, what); err != nil {
					return err
				}
				saga.Undo(func(ctx abide.Context) error {
					_, err := book.Call(ctx, "un"+what)
					return err
				})
				if what == "sticky" {
					saga.Undo(func(abide.Context) error { return errors.New("it sticks") })
				}
			}
			return nil
		})
		return "done", err
	})
	onStage(t, []abide.Definition{flow, book}, func(s *stage) {
		tests := []struct {
			in   string
			want string
			err  []string
		}{
			{"a b c", "a b c", nil},
			{"a b bad", "a b unb una", []string{"no bad"}},
			{"a sticky b bad", "a sticky b unb unsticky una", []string{"no bad", "it sticks"}},
		}
		for _, tt := range tests {
			did = nil
			_, err := play(s, flow, strings.Fields(tt.in))
			same(s, tt.in, strings.Join(did, " "), tt.want)
			if tt.err == nil {
				s.check(err)
			}
			for _, words := range tt.err {
				same(s, "error says "+words, err != nil && strings.Contains(err.Error(), words), true)
			}
		}
		// Also when it is cancelled.
		did = nil
		i, err := flow.Start(s.Context(), s.Engine, []string{"a", "b", "sleep"})
		s.check(err)
		s.wait(time.Minute)
		s.check(i.Cancel(s.Context(), ""))
		_, err = i.Result(s.month())
		refuses(s.T, err, abide.ErrCancelled)
		same(s, "undone", strings.Join(did, " "), "a b unb una")
	})
}

func TestEventWithTimeout(t *testing.T) {
	approved := abide.NewEvent[string]("approved")
	flow := abide.NewOrchestration("wait", func(ctx abide.Context, _ abide.None) (string, error) {
		start := abide.Now(ctx)
		v, err := approved.Wait(ctx, abide.Timeout(time.Hour))
		switch {
		case errors.Is(err, abide.ErrTimeout):
			return "timeout after " + abide.Now(ctx).Sub(start).String(), nil
		case err != nil:
			return "", err
		}
		return v + " after " + abide.Now(ctx).Sub(start).String(), nil
	})
	onStage(t, []abide.Definition{flow}, func(s *stage) {
		expect(s, flow, abide.None{}, "timeout after 1h0m0s")
		i, err := flow.Start(s.Context(), s.Engine, abide.None{}, abide.ID("i"))
		s.check(err)
		s.wait(time.Minute)
		s.check(approved.Raise(s.Context(), s.Engine, "i", "yes"))
		got, err := i.Result(s.month())
		s.check(err)
		same(s, "result", got, "yes after 1m0s")
		// One that is there already needs no timer.
		s.check(approved.Raise(s.Context(), s.Engine, "j", "early"))
		j, err := flow.Start(s.Context(), s.Engine, abide.None{}, abide.ID("j"))
		s.check(err)
		got, err = j.Result(s.month())
		s.check(err)
		same(s, "result", got, "early after 0s")
		// The timer of a wait has the event's name, so the wait can be moved.
		k, err := flow.Start(s.Context(), s.Engine, abide.None{}, abide.ID("k"))
		s.check(err)
		s.wait(time.Minute)
		s.check(s.MoveTimer(s.Context(), k.Ref(), "approved", time.Now().Add(4*time.Minute)))
		got, err = k.Result(s.month())
		s.check(err)
		same(s, "result", got, "timeout after 5m0s")
	})
}

// TestWaitThatTimedOutDoesNotTakeALaterEvent.
func TestWaitThatTimedOutDoesNotTakeALaterEvent(t *testing.T) {
	event := abide.NewEvent[int]("e")
	flow := abide.NewOrchestration("wait", func(ctx abide.Context, _ abide.None) (int, error) {
		if _, err := event.Wait(ctx, abide.Timeout(time.Minute)); !errors.Is(err, abide.ErrTimeout) {
			return 0, fmt.Errorf("not a timeout: %w", err)
		}
		return event.Wait(ctx)
	})
	onStage(t, []abide.Definition{flow}, func(s *stage) {
		i, err := flow.Start(s.Context(), s.Engine, abide.None{}, abide.ID("i"))
		s.check(err)
		s.wait(time.Hour)
		s.check(event.Raise(s.Context(), s.Engine, "i", 7))
		got, err := i.Result(s.month())
		s.check(err)
		same(s, "result", got, 7)
	})
}

func TestTimersOfTheAPI(t *testing.T) {
	flow := abide.NewOrchestration("timers", func(ctx abide.Context, _ abide.None) (string, error) {
		start := abide.Now(ctx)
		timer := abide.NewTimer(ctx, time.Hour, abide.Named("nap"))
		if timer.Fired() || !timer.At().Equal(start.Add(time.Hour)) {
			return "", fmt.Errorf("fired %v, at %v", timer.Fired(), timer.At())
		}
		if !timer.Move(ctx, start.Add(2*time.Hour)) {
			return "", errors.New("not moved")
		}
		if err := timer.Wait(ctx); err != nil {
			return "", err
		}
		gone := abide.NewTimer(ctx, time.Hour)
		gone.Cancel(ctx)
		err := gone.Wait(ctx)
		if !errors.Is(err, abide.ErrCancelled) || gone.Fired() || gone.Move(ctx, start) {
			return "", fmt.Errorf("cancelled: %w", err)
		}
		if err := abide.SleepUntil(ctx, start.Add(3*time.Hour)); err != nil {
			return "", err
		}
		if err := abide.SleepUntil(ctx, start); err != nil {
			return "", err
		}
		return fmt.Sprint(timer.Fired(), abide.Now(ctx).Sub(start)), nil
	})
	onStage(t, []abide.Definition{flow}, func(s *stage) { expect(s, flow, abide.None{}, "true 3h0m0s") })
}
