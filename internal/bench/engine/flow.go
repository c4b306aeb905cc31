package engine

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/pflag"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/internal/bench"
)

func hello() bench.Spec {
	return bench.Spec{
		Name:  "hello",
		Short: "Measure orchestrations with one activity",
		Long: `Measure orchestrations with one activity.

Each client starts an orchestration, waits for its result, and starts the next one. The
latency is from the call that starts it to its result. CPU is that of the whole process.`,
		Example: `  abide bench hello
  abide bench hello --store memory:// --n 10000 --clients 16 --json`,
		Processes: true,
		New: func(f *pflag.FlagSet, c *bench.Config) bench.Workload {
			l := newLoop(f, c, "hello", true)
			l.apartFlag()
			f.IntVar(&l.limit, "limit", 0, "run the activities under a limit of so many at the same time; 0 for none")
			f.IntVar(&l.keys, "keys", 1, "give the limit so many keys, each with its own number of activities")
			l.build = func(r *bench.Run) flow { return helloFlow(r, "", l.under) }
			return l
		},
	}
}

func idle() bench.Spec {
	return bench.Spec{
		Name:  "idle",
		Short: "Measure one orchestration at a time",
		Long: `Measure one orchestration with one activity at a time, on an engine that has nothing
else to do: the latency without load.`,
		Example: `  abide bench idle
  abide bench idle --n 1000 --json`,
		New: func(f *pflag.FlagSet, c *bench.Config) bench.Workload {
			l := newLoop(f, c, "idle", false)
			l.build = func(r *bench.Run) flow { return helloFlow(r, "", nil) }
			return l
		},
	}
}

// under returns the options of an activity under the limit that was asked for, with a key by number.
func (l *loop) under(number int) []abide.ActivityOption {
	switch {
	case l.limit == 0:
		return nil
	case l.keys == 1:
		return []abide.ActivityOption{abide.Under(abide.NewLimit(bench.Prefix+"limit", abide.Concurrency(l.limit)))}
	}
	limit := abide.NewLimit(bench.Prefix+"limit-by-key", abide.Concurrency(l.limit), abide.PerKey())
	return []abide.ActivityOption{abide.UnderKey(limit, strconv.Itoa(number%l.keys))}
}

// helloFlow is an orchestration with one activity. Under returns the options of an activity
// by a random number; nil means none. Suffix is that of the names.
func helloFlow(r *bench.Run, suffix string, under func(number int) []abide.ActivityOption) flow {
	greet := abide.NewActivity(bench.Prefix+"greet"+suffix, func(_ context.Context, name string) (string, error) {
		r.Beat()
		return "Hello, " + name, nil
	})
	hello := abide.NewOrchestration(bench.Prefix+"hello"+suffix, func(ctx abide.Context, name string) (string, error) {
		if under == nil {
			return greet.Call(ctx, name)
		}
		return greet.Call(ctx, name, under(int(abide.Rand(ctx).Uint32()))...)
	})
	return flow{
		register: []abide.Definition{hello}, activities: []abide.Definition{greet},
		once: func(ctx context.Context, c caller, op *bench.Op) error {
			return complete(ctx, c, op, hello, "world", "Hello, world")
		},
	}
}

func sequence() bench.Spec {
	return bench.Spec{
		Name:  "sequence",
		Short: "Measure activities, or steps, one after another",
		Long: `Measure orchestrations with activities one after another, each of which takes the
result of the one before. With --steps they are steps: run inline by the turn that
reaches them.`,
		Example: `  abide bench sequence
  abide bench sequence --steps --length 100 --json`,
		Processes: true,
		New: func(f *pflag.FlagSet, c *bench.Config) bench.Workload {
			l := newLoop(f, c, "sequence", true)
			l.apartFlag()
			f.IntVar(&l.length, "length", 10, "activities or steps of an orchestration")
			f.BoolVar(&l.steps, "steps", false, "steps instead of activities")
			l.build = func(r *bench.Run) flow {
				if l.steps {
					return stepsFlow(r, l.length)
				}
				return sequenceFlow(r, l.length)
			}
			return l
		},
	}
}

// newIncrement returns the activity of those workloads that have many.
func newIncrement(r *bench.Run) *abide.Activity[int, int] {
	return abide.NewActivity(bench.Prefix+"increment", func(_ context.Context, n int) (int, error) {
		r.Beat()
		return n + 1, nil
	})
}

func sequenceFlow(r *bench.Run, length int) flow {
	increment := newIncrement(r)
	sequence := abide.NewOrchestration(bench.Prefix+"sequence", func(ctx abide.Context, length int) (n int, err error) {
		for range length {
			if n, err = increment.Call(ctx, n); err != nil {
				return 0, err
			}
		}
		return n, nil
	})
	return flow{
		register: []abide.Definition{sequence}, activities: []abide.Definition{increment},
		once: func(ctx context.Context, c caller, op *bench.Op) error {
			return complete(ctx, c, op, sequence, length, length)
		},
		each: length, unit: "activities",
	}
}

func stepsFlow(r *bench.Run, length int) flow {
	steps := abide.NewOrchestration(bench.Prefix+"steps", func(ctx abide.Context, length int) (n int, err error) {
		for range length {
			n, err = abide.Step(ctx, "increment", func(context.Context) (int, error) {
				r.Beat()
				return n + 1, nil
			})
			if err != nil {
				return 0, err
			}
		}
		return n, nil
	})
	return flow{
		register: []abide.Definition{steps},
		once: func(ctx context.Context, c caller, op *bench.Op) error {
			return complete(ctx, c, op, steps, length, length)
		},
		each: length, unit: "steps",
	}
}

func fanout() bench.Spec {
	return bench.Spec{
		Name:  "fanout",
		Short: "Measure many activities at once",
		Long: `Measure orchestrations that call many activities at once, and wait for all of
them.`,
		Example: `  abide bench fanout
  abide bench fanout --width 10000 --clients 1 --n 10 --json`,
		Processes: true,
		New: func(f *pflag.FlagSet, c *bench.Config) bench.Workload {
			l := newLoop(f, c, "fanout", true)
			l.apartFlag()
			f.IntVar(&l.width, "width", 100, "activities of an orchestration")
			l.build = func(r *bench.Run) flow { return fanoutFlow(r, l.width) }
			return l
		},
	}
}

func fanoutFlow(r *bench.Run, width int) flow {
	increment := newIncrement(r)
	fanout := abide.NewOrchestration(bench.Prefix+"fanout", func(ctx abide.Context, width int) (int, error) {
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
		register: []abide.Definition{fanout}, activities: []abide.Definition{increment},
		once: func(ctx context.Context, c caller, op *bench.Op) error {
			return complete(ctx, c, op, fanout, width, width)
		},
		each: width, unit: "activities",
	}
}

func events() bench.Spec {
	return bench.Spec{
		Name:  "events",
		Short: "Measure events that are raised from outside",
		Long: `Measure orchestrations that receive events. Each client starts an orchestration,
raises its events one after another, each as soon as the one before is durable, and
waits for the result.`,
		Example: `  abide bench events
  abide bench events --length 1000 --clients 8 --json`,
		Processes: true,
		New: func(f *pflag.FlagSet, c *bench.Config) bench.Workload {
			l := newLoop(f, c, "events", true)
			f.IntVar(&l.length, "length", 10, "events of an orchestration")
			l.build = func(r *bench.Run) flow { return eventsFlow(r, l.length) }
			return l
		},
	}
}

func eventsFlow(r *bench.Run, length int) flow {
	tick, raises := abide.NewEvent[int]("tick"), &bench.Histogram{}
	events := abide.NewOrchestration(bench.Prefix+"events", func(ctx abide.Context, length int) (int, error) {
		for want := range length {
			got, err := tick.Wait(ctx)
			if err != nil {
				return 0, err
			}
			if got != want {
				return 0, fmt.Errorf("%w: event %d came before event %d", errOrder, got, want)
			}
			r.Beat()
		}
		return length, nil
	})
	return flow{
		register: []abide.Definition{events},
		once: func(ctx context.Context, c caller, op *bench.Op) error {
			i, err := start(ctx, c, op, events, length)
			if i == nil {
				return err
			}
			for n := range length {
				began := time.Now()
				if err := patiently(ctx, func() error { return tick.Raise(ctx, c, i.ID(), n, abide.Tenant(c.tenant)) }); err != nil {
					return fmt.Errorf("bench: raise an event: %w", err)
				}
				raises.Record(time.Since(began))
			}
			return result(ctx, i, length)
		},
		each: length, unit: "events", raises: raises,
	}
}
