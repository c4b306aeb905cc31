package soak

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/action"
	"github.com/abidehq/abide/internal/bench"
	"github.com/abidehq/abide/timer"
)

// flows is what the engine serves.
type flows struct {
	register []abide.Definition
	hello    *abide.Orchestration[string, string]
	nap      *abide.Orchestration[int64, int64] // sleeps for so many milliseconds
	approval *abide.Orchestration[string, string]
	approved *abide.Event[string]
}

func newFlows() flows {
	greet := abide.NewActivity(bench.Prefix+"soak-greet", func(_ context.Context, name string) (string, error) {
		return "Hello, " + name, nil
	})
	f := flows{approved: abide.NewEvent[string]("approved")}
	f.hello = abide.NewOrchestration(bench.Prefix+"soak-hello", func(ctx abide.Context, name string) (string, error) {
		return greet.Call(ctx, name)
	})
	f.nap = abide.NewOrchestration(bench.Prefix+"soak-sleep", func(ctx abide.Context, ms int64) (int64, error) {
		return ms, abide.Sleep(ctx, time.Duration(ms)*time.Millisecond)
	})
	approved := f.approved
	f.approval = abide.NewOrchestration(bench.Prefix+"soak-event", func(ctx abide.Context, _ string) (string, error) {
		return approved.Wait(ctx)
	})
	f.register = []abide.Definition{f.hello, f.nap, f.approval, greet}
	return f
}

// Of a mix of ten operations, how many are of each kind; the rest are actions.
const (
	mix       = 10
	hellos    = 3
	naps      = 2
	approvals = 2
	timers    = 2
)

const (
	deleteEvery = 2 // of the instances with an activity, one in so many is deleted
	cancelEvery = 8 // of the timers, one in so many is cancelled

	// Sleeps, timers and actions take up to so long; quick is how long while the capacity is
	// looked for.
	longestWait = 2 * time.Second
	quick       = time.Millisecond

	farAway = time.Hour // when timers are due that are cancelled
)

// once runs the operation with a number, from its start to its end.
func (w *workload) once(ctx context.Context, op *bench.Op) error {
	kind, n := op.I%mix, op.I/mix
	w.load.accepted.Add(1)
	var err error
	switch {
	case kind < hellos:
		err = w.runHello(ctx, op, (n*hellos+kind)%deleteEvery == 0)
	case kind < hellos+naps:
		err = w.runNap(ctx, op)
	case kind < hellos+naps+approvals:
		err = w.runApproval(ctx, op)
	case kind < hellos+naps+approvals+timers:
		err = w.runTimer(ctx, op, (n*timers+kind)%cancelEvery == 0)
	default:
		err = w.runAction(ctx, op)
	}
	switch {
	case err == nil:
		w.load.completed.Add(1)
	case errors.Is(err, errRefused):
		w.load.accepted.Add(-1)
		w.load.refused.Add(1)
		err = nil
	}
	return err
}

// errRefused is the error of a start that the engine refused because the process is behind.
var errRefused = errors.New("bench: an orchestration was refused")

// startError returns the error of an orchestration that was not started.
func startError(err error) error {
	if errors.Is(err, abide.ErrBusy) {
		return errRefused
	}
	return fmt.Errorf("bench: start an orchestration: %w", err)
}

// raise raises the event of an instance, again if the engine refuses it: the instance waits
// for it.
func (w *workload) raise(ctx context.Context, id, by string) error {
	for {
		err := w.flows.approved.Raise(ctx, w.engine, id, by, abide.Tenant(w.tenant))
		if err == nil {
			return nil
		}
		if !errors.Is(err, abide.ErrBusy) || ctx.Err() != nil {
			return fmt.Errorf("bench: raise an event: %w", err)
		}
	}
}

// wait returns how long an operation is to wait: longestWait at most, by its number.
func (w *workload) wait(i int64) time.Duration {
	if w.load.probing {
		return quick
	}
	return (time.Duration(bench.Scramble(uint64(i))%uint64(longestWait/time.Millisecond)) + 1) * time.Millisecond
}

func (w *workload) runHello(ctx context.Context, op *bench.Op, remove bool) error {
	i, err := w.flows.hello.Start(ctx, w.engine, "world", abide.Tenant(w.tenant))
	if err != nil {
		return startError(err)
	}
	return finish(ctx, w, op, i, "Hello, world", 0, remove)
}

func (w *workload) runNap(ctx context.Context, op *bench.Op) error {
	asleep := w.wait(op.I)
	i, err := w.flows.nap.Start(ctx, w.engine, asleep.Milliseconds(), abide.Tenant(w.tenant))
	if err != nil {
		return startError(err)
	}
	return finish(ctx, w, op, i, asleep.Milliseconds(), asleep, false)
}

func (w *workload) runApproval(ctx context.Context, op *bench.Op) error {
	i, err := w.flows.approval.Start(ctx, w.engine, "request", abide.Tenant(w.tenant))
	if err != nil {
		return startError(err)
	}
	by := strconv.FormatInt(op.I, 10)
	if err := w.raise(ctx, i.ID(), by); err != nil {
		return err
	}
	return finish(ctx, w, op, i, by, 0, false)
}

// finish waits for the result of an instance that was to sleep for so long, and checks it. It
// deletes the instance if that is asked for, or if the capacity is looked for.
func finish[Out comparable](ctx context.Context, w *workload, op *bench.Op, i *abide.Instance[Out], want Out, asleep time.Duration, remove bool) error {
	w.load.started.Add(1)
	got, err := i.Result(ctx)
	if err != nil {
		return fmt.Errorf("bench: wait for a result: %w", err)
	}
	if got != want {
		return fmt.Errorf("bench: the result of instance %v is %v, want %v", i.Ref(), got, want)
	}
	w.load.record(latencies, op.Elapsed()-asleep)
	if !remove && !w.load.probing {
		return nil
	}
	if err := i.Delete(ctx); err != nil {
		return fmt.Errorf("bench: delete an instance: %w", err)
	}
	w.load.deleted.Add(1)
	return nil
}

func (w *workload) runTimer(ctx context.Context, op *bench.Op, cancelled bool) error {
	req := timer.Request{Tenant: w.tenant, Key: w.load.key(op.I), Payload: []byte(`{"order":"4711"}`)}
	if cancelled {
		req.Delay = farAway
		if _, err := w.timers.Schedule(ctx, req); err != nil {
			return fmt.Errorf("bench: schedule a timer: %w", err)
		}
		if _, err := w.timers.Cancel(ctx, w.tenant, req.Key); err != nil {
			return fmt.Errorf("bench: cancel a timer: %w", err)
		}
		return nil
	}
	req.DueAt = time.Now().Add(w.wait(op.I)).Truncate(time.Millisecond)
	came := w.load.timers.expect(op.I, req.DueAt)
	if _, err := w.timers.Schedule(ctx, req); err != nil {
		return fmt.Errorf("bench: schedule a timer: %w", err)
	}
	return await(ctx, came)
}

func (w *workload) runAction(ctx context.Context, op *bench.Op) error {
	at := time.Now().Add(w.wait(op.I)).Truncate(time.Millisecond)
	came := w.load.actions.expect(op.I, at)
	if _, _, err := w.actions.Add(ctx, action.Request{Tenant: w.tenant, Slug: bench.Name, Target: target, ID: w.load.key(op.I), At: at}); err != nil {
		return fmt.Errorf("bench: add an action: %w", err)
	}
	return await(ctx, came)
}

// await waits until a timer is published or an action runs.
func await(ctx context.Context, came <-chan error) error {
	select {
	case err := <-came:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
