package faults_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/abidehq/abide"
)

// simGot is what a collector has received.
var simGot = abide.NewValue[[]int]("got")

// simState is what an execution of a collector begins with.
type simState struct {
	Got []int
}

// stopValue is what a collector comes to its end with.
const stopValue = -1

// simFlows are the orchestrations of the simulation.
type simFlows struct {
	collector *abide.Orchestration[simState, int]
	sleeper   *abide.Orchestration[int, string]
	parent    *abide.Orchestration[int, []string]
	work      *abide.Activity[int, int]
	cleanup   *abide.Activity[int, int]
}

func newSimFlows() *simFlows {
	f := &simFlows{}
	f.work = abide.NewActivity("work", func(ctx context.Context, n int) (int, error) {
		pass(time.Duration(n%7) * 500 * time.Millisecond)
		if info, _ := abide.ActivityOf(ctx); n%3 == 0 && info.Attempt%2 == 1 {
			return 0, errors.New("it is an odd attempt")
		}
		return n, nil
	}, abide.Retry(0))
	f.cleanup = abide.NewActivity("cleanup", func(_ context.Context, n int) (int, error) { return n, nil }, abide.Retry(0))
	f.sleeper = abide.NewOrchestration("sleeper", func(ctx abide.Context, seconds int) (string, error) {
		return "slept", abide.Sleep(ctx, time.Duration(seconds)*time.Second, abide.Named("nap"))
	})
	f.parent = abide.NewOrchestration("parent", f.runParent)
	f.collector = abide.NewOrchestration("collector", f.runCollector)
	return f
}

func (f *simFlows) serve() []abide.Definition {
	return []abide.Definition{f.collector, f.sleeper, f.parent, f.work, f.cleanup}
}

// runParent starts children, and returns what it was told of how they ended.
func (f *simFlows) runParent(ctx abide.Context, n int) ([]string, error) {
	var ids []string
	var children []*abide.Future[string]
	for i := range n {
		id := abide.NewID(ctx)
		ids = append(ids, id)
		children = append(children, f.sleeper.Go(ctx, 5*i, abide.ID(id), abide.OnParentClose(abide.ClosePolicy(i%3))))
	}
	var told []string
	for i, c := range children {
		out, err := c.Get(ctx)
		if abide.Cause(ctx) != nil {
			return nil, abide.Cause(ctx)
		}
		if err != nil {
			out = "failed"
		}
		told = append(told, ids[i]+" "+out)
	}
	return told, nil
}

// runCollector receives events until it is told to stop, and does this and that beside.
func (f *simFlows) runCollector(ctx abide.Context, in simState) (int, error) {
	rnd := abide.Rand(ctx)
	for range 1 + rnd.IntN(5) {
		if err := f.beside(ctx, rnd.IntN(8)); err != nil {
			return 0, f.giveUp(ctx, err)
		}
		v, err := numbered.Wait(ctx, abide.Timeout(time.Duration(rnd.IntN(3))*10*time.Second))
		switch {
		case errors.Is(err, abide.ErrTimeout):
		case err != nil:
			return 0, f.giveUp(ctx, err)
		case v == stopValue:
			return len(in.Got), nil
		default:
			in.Got = append(in.Got, v)
			simGot.Set(ctx, in.Got)
		}
	}
	return 0, abide.ContinueAsNew(ctx, in)
}

// giveUp cleans up before a collector ends with an error.
func (f *simFlows) giveUp(ctx abide.Context, why error) error {
	if _, err := f.cleanup.Call(abide.Shield(ctx), 1); err != nil {
		return fmt.Errorf("cleanup: %w", err)
	}
	return why
}

// beside does something besides receiving events. Most of it is left open.
func (f *simFlows) beside(ctx abide.Context, what int) error {
	var err error
	switch what {
	case 0:
		f.work.Go(ctx, 3)
	case 1:
		_, err = f.work.Call(ctx, 5)
	case 2:
		timer := abide.NewTimer(ctx, 3*time.Second)
		timer.Move(ctx, abide.Now(ctx).Add(9*time.Second))
	case 3:
		f.sleeper.Go(ctx, 20, abide.OnParentClose(abide.TerminateChild))
	case 4:
		child := f.sleeper.Go(ctx, 2)
		err = abide.Sleep(ctx, 2*time.Second)
		child.Cancel(ctx)
	case 5:
		_, err = abide.Step(ctx, "step", func(context.Context) (int, error) {
			pass(3 * time.Second) // longer than a lease
			return 1, nil
		})
	case 6:
		_, err = f.work.Call(ctx, 4, abide.ScheduleToClose(time.Second))
		if errors.Is(err, abide.ErrTimeout) {
			err = nil
		}
	}
	return err
}
