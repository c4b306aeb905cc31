package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/spf13/pflag"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/internal/bench"
)

const (
	// To find out how fast instances are started, probes of them are. It may take leadMargin
	// times as long as that says.
	probes     = 1000
	leadMargin = 2
)

// sleep is the workload of instances that sleep until a time: within the run, or, with
// --idle or --reopen, for longer than the run takes.
type sleep struct {
	n          int64
	over, lead time.Duration
	flags      *pflag.FlagSet

	nap    *abide.Orchestration[nap, abide.None]
	hello  flow // to see that an engine serves
	engine *abide.Engine
	ledger *bench.Ledger // of those that wake in the run
}

// nap is the input of an instance that sleeps.
type nap struct {
	Run string    `json:"run"` // instances of an earlier run count for nothing
	I   int       `json:"i"`
	Due time.Time `json:"due"`
}

var _ bench.Loader = (*sleep)(nil)

func sleeping() bench.Spec {
	return bench.Spec{
		Name:  "sleep",
		Short: "Measure how late instances wake, and what it costs that they sleep",
		Long: `Measure how late instances wake, and what it costs that they sleep.

Instances are started, each with the time at which it is due. When all of them sleep
they begin to be due, at random times. The lateness is from that time to the moment at
which the instance's code runs, by the clock of this machine; that of the turn is by the
clock of the store. Memory is what the process has when all of them sleep.

With --idle or --reopen they sleep for a day and more. --reopen opens the store again,
after it was closed or after the process that had started them was killed, and measures
how long that takes until the engine serves, and until a new hello has its result. --idle
measures the CPU of the process while they sleep.`,
		Example: `  abide bench sleep
  abide bench sleep --n 100000 --over 1m --json
  abide bench sleep --n 100000 --idle 20s --reopen
  abide bench sleep --n 100000 --reopen=crash`,
		New: func(f *pflag.FlagSet, c *bench.Config) bench.Workload {
			w := &sleep{flags: f}
			f.Int64Var(&w.n, "n", 10_000, "instances")
			f.DurationVar(&w.over, "over", 10*time.Second, "the time over which they wake")
			f.DurationVar(&w.lead, "lead", 0, "the time between the first start and the first that is due; as long as it probably takes to start them if not given")
			c.IdleFlag(f, 0, "measure the CPU for so long while all sleep")
			c.ReopenFlag(f)
			return w
		},
	}
}

// Name implements [bench.Workload].
func (w *sleep) Name() string { return "sleep" }

// Validate implements [bench.Workload].
func (w *sleep) Validate(c *bench.Config) error {
	for _, flag := range []string{"over", "lead"} {
		if w.flags.Changed(flag) && asleep(c) {
			return bench.Invalid("--%s says when instances wake, and with --idle or --reopen none does: give one or the other", flag)
		}
	}
	return cmp.Or(
		bench.Within("n", w.n, 1, bench.MaxDue),
		bench.Within("over", w.over, 1, bench.MaxOver),
		bench.Within("lead", w.lead, 0, bench.MaxOver),
	)
}

// asleep reports whether instances sleep for longer than the run takes.
func asleep(c *bench.Config) bool { return c.Idle > 0 || c.Reopen != bench.ReopenNever }

// Open implements [bench.Workload].
func (w *sleep) Open(_ context.Context, r *bench.Run) (stop func() error, err error) {
	w.nap = abide.NewOrchestration(bench.Prefix+"sleep", func(ctx abide.Context, in nap) (abide.None, error) {
		r.Beat()
		if err := abide.SleepUntil(ctx, in.Due); err != nil {
			return abide.None{}, err
		}
		r.Beat()
		if in.Run == r.ID && w.ledger != nil {
			//abide:allow clock nothing that the orchestration does depends on when it is measured
			w.ledger.Note(in.I, time.Now(), abide.Now(ctx))
		}
		return abide.None{}, nil
	})
	w.hello = helloFlow(r, "", nil)
	w.engine, err = abide.New(r.Store, abide.Config{Register: slices.Concat(w.hello.register, w.hello.activities, []abide.Definition{w.nap}), Logger: r.Logger})
	if err != nil {
		return nil, err
	}
	return w.engine.Close, nil
}

// Load implements [bench.Loader].
func (w *sleep) Load(ctx context.Context, r *bench.Run) error {
	if !asleep(&r.Config) {
		return nil
	}
	before, err := r.Stats(ctx)
	if err != nil {
		return err
	}
	s, err := bench.Timed(w.n, func() error {
		return w.start(ctx, r, int(w.n), r.ID, func(i int) time.Time { return bench.Far(before.Now, i) })
	})
	if err != nil {
		return err
	}
	r.MarkMemory()
	r.Report.Add("loaded_per_s", s.Rate())
	return r.Cost(ctx, s, "orchestration", before.Bytes)
}

// Verify implements [bench.Loader]: it runs a hello beside the instances that sleep.
func (w *sleep) Verify(ctx context.Context, r *bench.Run) error {
	err := w.guard(ctx, r, func(ctx context.Context) error { return w.hello.once(ctx, caller{w.engine, tenant}, &bench.Op{}) })
	if err != nil {
		return err
	}
	r.MarkResult(time.Now())
	pending, ready, err := w.messages(ctx, r)
	if err == nil && int64(pending-ready) < w.n {
		err = bench.Lost(pending-ready, int(w.n), "instances sleep")
	}
	return err
}

// Measure implements [bench.Workload].
func (w *sleep) Measure(ctx context.Context, r *bench.Run) error {
	r.Report.Add("n", w.n)
	if asleep(&r.Config) {
		return r.MeasureIdle(ctx, nil)
	}
	lead, err := w.leadTime(ctx, r)
	if err != nil {
		return err
	}
	before, err := r.Stats(ctx)
	if err != nil {
		return err
	}
	first := before.Now.Add(lead).Truncate(time.Millisecond)
	due := func(i int) time.Time { return bench.Spread(first, w.over, i) }
	w.ledger = bench.NewLedger(int(w.n), due)
	var loaded *bench.Sample
	s, err := bench.Timed(w.n, func() error {
		if loaded, err = bench.Timed(w.n, func() error { return w.start(ctx, r, int(w.n), r.ID, due) }); err != nil {
			return err
		}
		after, err := r.Stats(ctx)
		if err != nil {
			return err
		}
		if !after.Now.Before(first) {
			return fmt.Errorf("bench: the first instances were due before all of them slept, although they were started up to %v earlier: give a longer --lead", lead)
		}
		r.MarkMemory()
		return w.awaitWoken(ctx, r, first.Add(w.over).Sub(after.Now))
	})
	if err := errors.Join(err, w.ledger.Check("instances")); err != nil {
		return err
	}
	r.Report.Add("over_s", w.over)
	r.Report.Add("lead_s", lead)
	r.Report.Add("loaded_per_s", loaded.Rate())
	late, turn := w.ledger.Lateness()
	r.Report.Quantiles("lateness", "ms", late)
	r.Report.Quantiles("turn_lateness", "ms", turn)
	return r.Cost(ctx, s, "orchestration", before.Bytes)
}

// guard runs f, and ends it when nothing happens any more.
func (w *sleep) guard(ctx context.Context, r *bench.Run, f func(ctx context.Context) error) error {
	return r.Guard(ctx, func(ctx context.Context) error { return stuck(ctx, w.engine, tenant, r.Patience) }, f)
}

// start starts n instances, and returns when all of them sleep, or have slept.
func (w *sleep) start(ctx context.Context, r *bench.Run, n int, run string, due func(i int) time.Time) error {
	return w.guard(ctx, r, func(ctx context.Context) error {
		err := r.Batches(ctx, bench.Loading{Doing: "loading", Unit: "instances", To: n}, func(ctx context.Context, from, to int) error {
			requests := make([]abide.StartRequest, 0, to-from)
			for i := from; i < to; i++ {
				req, err := w.nap.Prepare(w.engine, nap{Run: run, I: i, Due: due(i)}, abide.Tenant(tenant))
				if err != nil {
					return err
				}
				requests = append(requests, req)
			}
			return patiently(ctx, func() error {
				_, err := w.engine.Start(ctx, requests...)
				return err
			})
		})
		if err != nil {
			return err
		}
		return w.awaitQuiet(ctx, r)
	})
}

// messages counts the messages of instances that sleep, and those of them that are visible.
func (w *sleep) messages(ctx context.Context, r *bench.Run) (pending, ready int, err error) {
	return r.Messages(ctx, func(_, route string) bool { return route == w.nap.Name() })
}

// awaitQuiet waits until nothing is to be done for any instance that sleeps: the message
// that starts or wakes one is there until its turn is committed.
func (w *sleep) awaitQuiet(ctx context.Context, r *bench.Run) error {
	var ready atomic.Int64
	return r.Await(ctx, func() string { return fmt.Sprintf("%d instances have turns to do", ready.Load()) }, func() (bool, int64, error) {
		_, n, err := w.messages(ctx, r)
		ready.Store(int64(n))
		return n == 0, int64(n), err
	})
}

// leadTime returns how long before the first of them is due the instances should be started.
func (w *sleep) leadTime(ctx context.Context, r *bench.Run) (time.Duration, error) {
	if w.lead > 0 {
		return w.lead, nil
	}
	count := min(probes, int(w.n))
	r.Progress.Say("finding out how fast instances are started")
	began := time.Now()
	err := w.start(ctx, r, count, "probes", func(int) time.Time { return began })
	return bench.Lead(time.Since(began), count, int(w.n), leadMargin), err
}

// awaitWoken waits until the last instance is due, and until all have woken.
func (w *sleep) awaitWoken(ctx context.Context, r *bench.Run, last time.Duration) error {
	defer r.Progress.Watch("waking", "instances", w.n, w.ledger.Count)()
	if err := bench.Pass(ctx, max(last, 0)); err != nil {
		return err
	}
	err := r.Await(ctx, func() string { return fmt.Sprintf("%d of %d instances have woken", w.ledger.Count(), w.n) }, func() (bool, int64, error) {
		return w.ledger.Count() == w.n, w.ledger.Count(), nil
	})
	if err != nil {
		return err
	}
	return w.awaitQuiet(ctx, r)
}
