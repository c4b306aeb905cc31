package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/abidehq/abide"
)

// flow is what an engine serves for a workload, and what a client does with it.
type flow struct {
	serve []abide.Definition

	// once is one orchestration, from its start to its result.
	once func(ctx context.Context, s *sample) error

	// each is how many activities, steps or events an orchestration has, and rate the
	// figure that says how many there are in a second.
	each int64
	rate figure
}

// Names of orchestrations begin like this, so that nothing else in the store is touched.
const prefix = "abide-bench-"

func (r *engineRun) newFlow() flow {
	switch {
	case r.opts.Workload == WorkloadSequence && r.opts.Steps:
		return r.newSteps()
	case r.opts.Workload == WorkloadSequence:
		return r.newSequence()
	case r.opts.Workload == WorkloadFanout:
		return r.newFanout()
	case r.opts.Workload == WorkloadEvents:
		return r.newEvents()
	case r.opts.Workload == WorkloadSleep:
		f := r.newHello() // to see that an engine serves
		f.serve = append(f.serve, r.newNaps())
		return f
	default:
		return r.newHello()
	}
}

func (r *engineRun) newHello() flow {
	greet := abide.NewActivity(prefix+"greet", func(_ context.Context, name string) (string, error) {
		r.beat()
		return "Hello, " + name, nil
	})
	hello := abide.NewOrchestration(prefix+"hello", func(ctx abide.Context, name string) (string, error) {
		return greet.Call(ctx, name)
	})
	return flow{
		serve: []abide.Definition{hello, greet},
		once: func(ctx context.Context, _ *sample) error {
			return complete(ctx, r.engine, hello, "world", "Hello, world")
		},
	}
}

// increment is the activity of those workloads that have many.
func (r *engineRun) increment() *abide.Activity[int, int] {
	return abide.NewActivity(prefix+"increment", func(_ context.Context, n int) (int, error) {
		r.beat()
		return n + 1, nil
	})
}

func (r *engineRun) newSequence() flow {
	increment := r.increment()
	sequence := abide.NewOrchestration(prefix+"sequence", func(ctx abide.Context, length int) (n int, err error) {
		for range length {
			if n, err = increment.Call(ctx, n); err != nil {
				return 0, err
			}
		}
		return n, nil
	})
	return flow{
		serve: []abide.Definition{sequence, increment},
		once: func(ctx context.Context, _ *sample) error {
			return complete(ctx, r.engine, sequence, r.opts.Length, r.opts.Length)
		},
		each: int64(r.opts.Length), rate: figActivities,
	}
}

func (r *engineRun) newSteps() flow {
	steps := abide.NewOrchestration(prefix+"steps", func(ctx abide.Context, length int) (n int, err error) {
		for range length {
			n, err = abide.Step(ctx, "increment", func(context.Context) (int, error) {
				r.beat()
				return n + 1, nil
			})
			if err != nil {
				return 0, err
			}
		}
		return n, nil
	})
	return flow{
		serve: []abide.Definition{steps},
		once: func(ctx context.Context, _ *sample) error {
			return complete(ctx, r.engine, steps, r.opts.Length, r.opts.Length)
		},
		each: int64(r.opts.Length), rate: figSteps,
	}
}

func (r *engineRun) newFanout() flow {
	increment := r.increment()
	fanout := abide.NewOrchestration(prefix+"fanout", func(ctx abide.Context, width int) (int, error) {
		futures := make([]*abide.Future[int], width)
		for i := range futures {
			futures[i] = increment.Go(ctx, i)
		}
		results, err := abide.All(ctx, futures...)
		sum := 0
		for i, n := range results {
			sum += n - i
		}
		return sum, err
	})
	return flow{
		serve: []abide.Definition{fanout, increment},
		once: func(ctx context.Context, _ *sample) error {
			return complete(ctx, r.engine, fanout, r.opts.Width, r.opts.Width)
		},
		each: int64(r.opts.Width), rate: figActivities,
	}
}

func (r *engineRun) newEvents() flow {
	tick := abide.NewEvent[int]("tick")
	events := abide.NewOrchestration(prefix+"events", func(ctx abide.Context, length int) (int, error) {
		for want := range length {
			got, err := tick.Wait(ctx)
			if err != nil {
				return 0, err
			}
			if got != want {
				return 0, fmt.Errorf("event %d came when it was the turn of event %d", got, want)
			}
			r.beat()
		}
		return length, nil
	})
	return flow{
		serve: []abide.Definition{events},
		once: func(ctx context.Context, s *sample) error {
			i, err := events.Start(ctx, r.engine, r.opts.Length, abide.Tenant(tenant))
			if err != nil {
				return fmt.Errorf("bench: start an orchestration: %w", err)
			}
			for n := range r.opts.Length {
				began := time.Now()
				if err := tick.Raise(ctx, r.engine, i.ID(), n, abide.Tenant(tenant)); err != nil {
					return fmt.Errorf("bench: raise an event: %w", err)
				}
				s.raises.Record(time.Since(began))
			}
			return result(ctx, i, r.opts.Length)
		},
		each: int64(r.opts.Length), rate: figEvents,
	}
}

// complete runs an orchestration from its start to its result.
func complete[In any, Out comparable](ctx context.Context, c abide.Caller, o *abide.Orchestration[In, Out], in In, want Out) error {
	i, err := o.Start(ctx, c, in, abide.Tenant(tenant))
	if err != nil {
		return fmt.Errorf("bench: start an orchestration: %w", err)
	}
	return result(ctx, i, want)
}

// result waits for the result of an instance, and makes sure that it is the right one:
// figures of an engine that is wrong mean nothing.
func result[Out comparable](ctx context.Context, i *abide.Instance[Out], want Out) error {
	got, err := i.Result(ctx)
	if err != nil {
		return fmt.Errorf("bench: wait for a result: %w", err)
	}
	if got != want {
		return fmt.Errorf("bench: the result of instance %v is %v, want %v", i.Ref(), got, want)
	}
	return nil
}
