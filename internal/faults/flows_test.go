package faults_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/abidehq/abide"
)

// unit is what the flows wait in. It is long beside what it takes to get over a fault,
// so that faults do not change what comes of a flow.
const unit = time.Minute

// flow is one or more orchestrations, what is done to their instances from outside, and
// what must come of it, whatever goes wrong.
type flow struct {
	name  string
	build func(f *effects) (serve []abide.Definition, drive func(w *world))

	// want is what becomes of the instances, by ID, and effects are those that must have
	// been had, at least once.
	want    map[string]string
	effects []string
}

// flows do together all that an orchestration can do.
var flows = []flow{
	{name: "order", build: orderFlow, want: map[string]string{"i": `"charged after 2 reminders"`}, effects: []string{"charge", "mail", "remind", "ship"}},
	{name: "fanout", build: fanoutFlow, want: map[string]string{"i": `28`}, effects: []string{"add"}},
	{name: "saga", build: sagaFlow, want: map[string]string{"i": `"undone: out of stock"`}, effects: []string{"charge", "refund", "reserve", "unreserve"}},
	{name: "loop", build: loopFlow, want: map[string]string{"i": `4`}, effects: []string{"tick"}},
	{name: "family", build: familyFlow, want: map[string]string{
		"i": `"child"`, "cancel": "cancelled: cancelled: its parent i has ended", "terminate": "terminated: terminated: its parent i has ended",
		"abandon": `"abandoned"`, "detached": `"detached"`,
	}, effects: []string{"cleanup"}},
	{name: "timers", build: timersFlow, want: map[string]string{"i": `"5 8 true"`}},
	{name: "steps", build: stepsFlow, want: map[string]string{"i": `"a b c d"`}, effects: []string{"a", "b", "c", "d"}},
	{name: "relay", build: relayFlow, want: map[string]string{"i": `"0 1 2 3 4 5 6 7 8"`}},
	{name: "suspended", build: suspendedFlow, want: map[string]string{"i": `"0 1 2 3"`}},
	{name: "cancelled", build: cancelledFlow, want: map[string]string{"i": `cancelled: activity "work", attempt 0: cancelled: enough`}, effects: []string{"cleanup", "work"}},
	{name: "terminated", build: terminatedFlow, want: map[string]string{"i": "terminated: terminated: enough"}, effects: []string{"work"}},
	{name: "deadlines", build: deadlinesFlow, want: map[string]string{"i": `"timed out, then beaten"`}, effects: []string{"beat", "stuck"}},
	{name: "talk", build: talkFlow, want: map[string]string{"ping": `6`, "pong": `5`}},
}

func activity(f *effects, name string) *abide.Activity[int, int] {
	return abide.NewActivity(name, func(_ context.Context, n int) (int, error) {
		f.do(name)
		return n, nil
	})
}

func orderFlow(f *effects) ([]abide.Definition, func(*world)) {
	approved := abide.NewEvent[int]("approved")
	remind, mail, ship := activity(f, "remind"), activity(f, "mail"), activity(f, "ship")
	charge := abide.NewActivity("charge", func(context.Context, abide.None) (string, error) {
		if f.do("charge") == 1 {
			return "", errors.New("try again")
		}
		return "charged", nil
	})
	order := abide.NewOrchestration("order", func(ctx abide.Context, _ abide.None) (string, error) {
		reminders := 0
		for {
			_, err := approved.Wait(ctx, abide.Timeout(4*unit))
			if err == nil {
				break
			}
			if !errors.Is(err, abide.ErrTimeout) {
				return "", err
			}
			reminders++
			if _, err := remind.Call(ctx, reminders); err != nil {
				return "", err
			}
		}
		charged, err := charge.Call(ctx, abide.None{})
		if err != nil {
			return "", err
		}
		if err := abide.Join(ctx, mail.Go(ctx, 1), ship.Go(ctx, 2)); err != nil {
			return "", err
		}
		return fmt.Sprintf("%s after %d reminders", charged, reminders), abide.Sleep(ctx, 3*unit, abide.Named("return-window"))
	})
	return []abide.Definition{order, remind, charge, mail, ship}, func(w *world) {
		start(w, order, abide.None{}, "i")
		w.passUntil(10 * unit)
		w.do(approved.Raise(w.t.Context(), w.client, "i", 1))
	}
}

// start starts an instance.
func start[In, Out any](w *world, o *abide.Orchestration[In, Out], in In, id string) {
	w.t.Helper()
	_, err := o.Start(w.t.Context(), w.client, in, abide.ID(id))
	w.do(err)
}

func fanoutFlow(f *effects) ([]abide.Definition, func(*world)) {
	add := activity(f, "add")
	fanout := abide.NewOrchestration("fanout", func(ctx abide.Context, n int) (int, error) {
		var futures []*abide.Future[int]
		for i := range n {
			futures = append(futures, abide.Go(ctx, func(ctx abide.Context) (int, error) {
				if i%2 == 0 {
					if err := abide.Sleep(ctx, unit); err != nil {
						return 0, err
					}
				}
				return add.Call(ctx, i)
			}))
		}
		sum := 0
		all, err := abide.All(ctx, futures...)
		for _, v := range all {
			sum += v
		}
		return sum, err
	})
	return []abide.Definition{fanout, add}, func(w *world) { start(w, fanout, 8, "i") }
}

func sagaFlow(f *effects) ([]abide.Definition, func(*world)) {
	reserve, unreserve, refund := activity(f, "reserve"), activity(f, "unreserve"), activity(f, "refund")
	charge := activity(f, "charge")
	ship := abide.NewActivity("ship", func(context.Context, abide.None) (abide.None, error) {
		return abide.None{}, abide.Final(errors.New("out of stock"))
	})
	saga := abide.NewOrchestration("saga", func(ctx abide.Context, _ abide.None) (string, error) {
		err := abide.RunSaga(ctx, func(saga *abide.Saga) error {
			for _, a := range [][2]*abide.Activity[int, int]{{reserve, unreserve}, {charge, refund}} {
				if _, err := a[0].Call(ctx, 1); err != nil {
					return err
				}
				saga.Undo(func(ctx abide.Context) error {
					_, err := a[1].Call(ctx, 1)
					return err
				})
			}
			_, err := ship.Call(ctx, abide.None{})
			return err
		})
		if failed, ok := errors.AsType[*abide.ActivityError](err); ok {
			return "undone: " + failed.Err.Error(), nil
		}
		return "", err
	})
	return []abide.Definition{saga, reserve, unreserve, charge, refund, ship}, func(w *world) { start(w, saga, abide.None{}, "i") }
}

func loopFlow(f *effects) ([]abide.Definition, func(*world)) {
	tick := activity(f, "tick")
	loop := abide.NewOrchestration("loop", func(ctx abide.Context, n int) (int, error) {
		if n == 4 {
			return n, nil
		}
		left := tick.Go(ctx, 100) // whose answer the next execution must not get
		timer := abide.NewTimer(ctx, 50*unit)
		if err := abide.Sleep(ctx, unit); err != nil {
			return 0, err
		}
		if n%2 == 0 {
			if _, err := left.Get(ctx); err != nil {
				return 0, err
			}
			timer.Cancel(ctx)
		}
		return 0, abide.ContinueAsNew(ctx, n+1)
	})
	return []abide.Definition{loop, tick}, func(w *world) { start(w, loop, 0, "i") }
}

func familyFlow(f *effects) ([]abide.Definition, func(*world)) {
	cleanup := activity(f, "cleanup")
	child := abide.NewOrchestration("child", func(ctx abide.Context, in string) (string, error) {
		if err := abide.Sleep(ctx, 4*unit); err != nil {
			_, _ = cleanup.Call(abide.Shield(ctx), 1)
			return "", err
		}
		return in, nil
	})
	parent := abide.NewOrchestration("parent", func(ctx abide.Context, _ abide.None) (string, error) {
		out, err := child.Call(ctx, "child")
		child.Go(ctx, "cancelled", abide.ID("cancel"))
		child.Go(ctx, "terminated", abide.ID("terminate"), abide.OnParentClose(abide.TerminateChild))
		child.Go(ctx, "abandoned", abide.ID("abandon"), abide.OnParentClose(abide.AbandonChild))
		child.Detach(ctx, "detached", abide.ID("detached"))
		if err := abide.Sleep(ctx, unit); err != nil {
			return "", err
		}
		return out, err
	})
	return []abide.Definition{parent, child, cleanup}, func(w *world) { start(w, parent, abide.None{}, "i") }
}

func timersFlow(*effects) ([]abide.Definition, func(*world)) {
	timers := abide.NewOrchestration("timers", func(ctx abide.Context, _ abide.None) (string, error) {
		begun := abide.Now(ctx)
		units := func() int { return int(abide.Now(ctx).Sub(begun).Round(unit) / unit) }
		own, others, never := abide.NewTimer(ctx, 3*unit), abide.NewTimer(ctx, 50*unit, abide.Named("outside")), abide.NewTimer(ctx, 6*unit)
		if err := abide.Sleep(ctx, unit); err != nil {
			return "", err
		}
		own.Move(ctx, begun.Add(5*unit))
		never.Cancel(ctx)
		if err := own.Wait(ctx); err != nil {
			return "", err
		}
		first := units()
		if err := others.Wait(ctx); err != nil {
			return "", err
		}
		return fmt.Sprint(first, units(), errors.Is(never.Wait(ctx), abide.ErrCancelled)), nil
	})
	return []abide.Definition{timers}, func(w *world) {
		start(w, timers, abide.None{}, "i")
		w.passUntil(2 * unit)
		w.do(w.client.MoveTimer(w.t.Context(), abide.Ref{ID: "i"}, "outside", w.begun.Add(8*unit)))
	}
}

func stepsFlow(f *effects) ([]abide.Definition, func(*world)) {
	steps := abide.NewOrchestration("steps", func(ctx abide.Context, _ abide.None) (string, error) {
		var got []string
		for _, name := range []string{"a", "b", "c", "d"} {
			s, err := abide.Step(ctx, name, func(context.Context) (string, error) {
				if f.do(name) == 1 && name == "b" {
					return "", errors.New("try again")
				}
				if name == "c" {
					pass(unit) // longer than a lease
				}
				return name, nil
			}, abide.Retry(3))
			if err != nil {
				return "", err
			}
			got = append(got, s)
		}
		return strings.Join(got, " "), nil
	})
	return []abide.Definition{steps}, func(w *world) { start(w, steps, abide.None{}, "i") }
}

func relayFlow(*effects) ([]abide.Definition, func(*world)) {
	relay := abide.NewOrchestration("relay", func(ctx abide.Context, got []int) (string, error) {
		for range 3 {
			v, err := numbered.Wait(ctx)
			if err != nil {
				return "", err
			}
			got = append(got, v)
		}
		if len(got) < 9 {
			return "", abide.ContinueAsNew(ctx, got)
		}
		return strings.Trim(fmt.Sprint(got), "[]"), nil
	})
	return []abide.Definition{relay}, func(w *world) {
		raise := func(from, to int) {
			for i := from; i < to; i++ {
				w.do(numbered.Raise(w.t.Context(), w.client, "i", i))
			}
		}
		raise(0, 2) // before it is started
		start(w, relay, nil, "i")
		w.passUntil(unit)
		raise(2, 8) // more than one execution receives
		w.passUntil(2 * unit)
		raise(8, 9)
	}
}

func suspendedFlow(*effects) ([]abide.Definition, func(*world)) {
	flow := abide.NewOrchestration("collect", collect)
	return []abide.Definition{flow}, func(w *world) {
		raise := func(i int) { w.do(numbered.Raise(w.t.Context(), w.client, "i", i)) }
		ref := abide.Ref{ID: "i"}
		start(w, flow, 4, "i")
		w.passUntil(unit)
		raise(0)
		w.passUntil(2 * unit)
		w.do(w.client.Suspend(w.t.Context(), ref, "wait"))
		w.passUntil(3 * unit)
		raise(1)
		raise(2)
		w.passUntil(4 * unit)
		w.do(w.client.Resume(w.t.Context(), ref))
		w.passUntil(5 * unit)
		raise(3)
	}
}

// worker works until nobody waits for it any more.
func worker(f *effects, name string) *abide.Activity[int, int] {
	return abide.NewActivity(name, func(ctx context.Context, _ int) (int, error) {
		f.do(name)
		<-ctx.Done()
		return 0, context.Cause(ctx)
	}, abide.Retry(0))
}

func cancelledFlow(f *effects) ([]abide.Definition, func(*world)) {
	work, cleanup := worker(f, "work"), activity(f, "cleanup")
	flow := abide.NewOrchestration("cancelled", func(ctx abide.Context, _ abide.None) (string, error) {
		_, err := work.Call(ctx, 1)
		if _, err := cleanup.Call(abide.Shield(ctx), 1); err != nil {
			return "", err
		}
		return "", err
	})
	return []abide.Definition{flow, work, cleanup}, func(w *world) {
		start(w, flow, abide.None{}, "i")
		w.passUntil(unit)
		w.do(w.client.Cancel(w.t.Context(), abide.Ref{ID: "i"}, "enough"))
	}
}

func terminatedFlow(f *effects) ([]abide.Definition, func(*world)) {
	work := worker(f, "work")
	flow := abide.NewOrchestration("terminated", func(ctx abide.Context, _ abide.None) (string, error) {
		abide.NewTimer(ctx, 50*unit)
		_, err := work.Call(ctx, 1)
		return "", err
	})
	return []abide.Definition{flow, work}, func(w *world) {
		start(w, flow, abide.None{}, "i")
		w.passUntil(unit)
		w.do(w.client.Terminate(w.t.Context(), abide.Ref{ID: "i"}, "enough"))
	}
}

func deadlinesFlow(f *effects) ([]abide.Definition, func(*world)) {
	stuck := worker(f, "stuck")
	beat := abide.NewActivity("beat", func(ctx context.Context, _ abide.None) (string, error) {
		f.do("beat")
		if _, known, err := abide.LastHeartbeat[int](ctx); err != nil || known {
			return "beaten", err
		}
		if err := abide.Heartbeat(ctx, 1); err != nil {
			return "", err
		}
		<-ctx.Done() // it is not heard of again
		return "", context.Cause(ctx)
	}, abide.HeartbeatTimeout(unit/2), abide.Retry(10))
	flow := abide.NewOrchestration("deadlines", func(ctx abide.Context, _ abide.None) (string, error) {
		_, err := stuck.Call(ctx, 1, abide.ScheduleToClose(unit))
		if !errors.Is(err, abide.ErrTimeout) {
			return "", fmt.Errorf("it did not time out: %w", err)
		}
		out, err := beat.Call(ctx, abide.None{})
		return "timed out, then " + out, err
	})
	return []abide.Definition{flow, stuck, beat}, func(w *world) { start(w, flow, abide.None{}, "i") }
}

func talkFlow(*effects) ([]abide.Definition, func(*world)) {
	ball := abide.NewEvent[int]("ball")
	player := abide.NewOrchestration("player", func(ctx abide.Context, other string) (int, error) {
		for {
			n, err := ball.Wait(ctx)
			if err != nil || n >= 6 {
				return n, err
			}
			ball.Send(ctx, other, n+1)
			if n == 5 {
				return n, nil
			}
		}
	})
	return []abide.Definition{player}, func(w *world) {
		start(w, player, "pong", "ping")
		w.do(ball.Raise(w.t.Context(), w.client, "ping", 0))
		w.passUntil(unit)
		start(w, player, "ping", "pong") // what was sent to it before has waited
	}
}
