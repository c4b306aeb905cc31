package actions

import (
	"cmp"
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/spf13/pflag"

	"github.com/abidehq/abide/action"
	"github.com/abidehq/abide/internal/bench"
)

const (
	tenant = bench.Name
	target = bench.Name // actions of another target are never run here
	queue  = "actions"

	// adders is how many goroutines add actions: each commit is one action, and they share
	// syncs.
	adders = 256
)

// workload is the options of a run.
type workload struct {
	n, slots, pending, ticks int
	clients, body            int
	duration                 time.Duration

	service *action.Service       // that adds, and does not run
	runs    atomic.Pointer[tally] // of what is measured now
}

// tally counts the runs of actions, by number.
type tally struct {
	runs  []atomic.Int32
	count atomic.Int64
}

var _ bench.Loader = (*workload)(nil)

// Spec describes the workload.
func Spec() bench.Spec {
	return bench.Spec{
		Name:  "actions",
		Short: "Measure actions: ticks, how fast actions are run, and webhooks that arrive",
		Long: `Measure actions: ticks, how fast actions are run, and webhooks that arrive.

First, ticks are measured while nothing is due; with --pending there are actions then that
are not due in the run. Then actions are added that are due, and run, by a target in this
process that does nothing: the time is from the first tick until the last outcome is
durable. In the end senders in this process send signed webhooks over HTTP to a port of
this machine, each the next one when the one before was answered: what is answered is
durable. After that, those are run, too.

Without --store the embedded store is measured, in a folder of the working directory that
is removed afterwards. A store that is given keeps the actions, of the tenant and for the
target abide-bench; what it holds besides is not touched, except that schedules which are
due make their actions.`,
		Example: `  abide bench actions
  abide bench actions --pending 1000000 --json
  abide bench actions --n 100000 --slots 4000 --duration 0
  abide bench actions --clients 128 --body 4096 --duration 10s`,
		New: newWorkload,
	}
}

func newWorkload(f *pflag.FlagSet, c *bench.Config) bench.Workload {
	w := &workload{}
	f.IntVar(&w.n, "n", 50_000, "actions that are due at the same time")
	f.IntVar(&w.slots, "slots", 1000, "actions that run at a time")
	f.IntVar(&w.pending, "pending", 0, "actions that are there first, and are not due in the run")
	f.IntVar(&w.ticks, "ticks", 1000, "ticks that are measured while nothing is due")
	f.IntVar(&w.clients, "clients", 64, "senders of webhooks")
	f.DurationVar(&w.duration, "duration", 5*time.Second, "how long they send; 0 leaves that out")
	f.IntVar(&w.body, "body", 512, "bytes in the body of a webhook")
	c.WarmupFlag(f)
	return w
}

// Name implements [bench.Workload].
func (w *workload) Name() string { return "actions" }

// Validate implements [bench.Workload].
func (w *workload) Validate(*bench.Config) error {
	return cmp.Or(
		bench.Within("pending", w.pending, 0, bench.MaxLoad),
		bench.Within("ticks", w.ticks, 1, 1_000_000),
		bench.Within("n", w.n, 1, bench.MaxDue),
		bench.Within("slots", w.slots, 1, 100_000),
		bench.Within("clients", w.clients, 1, bench.MaxClients),
		bench.Within("body", w.body, 0, 128<<10),
		bench.NotNegative("duration", w.duration),
	)
}

// Open implements [bench.Workload].
func (w *workload) Open(_ context.Context, r *bench.Run) (stop func() error, err error) {
	w.service, err = w.newService(r)
	return func() error { return nil }, err
}

// newService makes a service, which can be run once.
func (w *workload) newService(r *bench.Run) (*action.Service, error) {
	act := func(_ context.Context, run action.Run) (action.Outcome, error) {
		return action.Outcome{}, w.act(r, run)
	}
	s, err := action.New(action.Config{
		Store: r.Store, Slots: w.slots, DrainTimeout: r.Patience, Logger: r.Logger,
		Targets: map[string]action.Definition{target: {Target: action.Func(act)}},
	})
	if err != nil {
		return nil, fmt.Errorf("bench: make a service: %w", err)
	}
	return s, nil
}

// act is the target.
func (w *workload) act(r *bench.Run, run action.Run) error {
	name := run.Action.ID
	if run.Action.Trigger.Kind == action.Webhook {
		name = run.Action.Trigger.Header[deliveryHeader]
	}
	i, ours := r.ParseKey(name)
	if ours && len(run.Body) != run.Action.Trigger.Size {
		return fmt.Errorf("bench: a body has %d bytes, %d were sent", len(run.Body), run.Action.Trigger.Size)
	}
	if t := w.runs.Load(); ours && t != nil && i < int64(len(t.runs)) {
		t.runs[i].Add(1)
		t.count.Add(1)
	}
	return nil
}

// waiting returns how many actions of ours are pending or running, and how many of these
// are due.
func waiting(ctx context.Context, r *bench.Run) (pending, due int, err error) {
	return r.Messages(ctx, func(q, route string) bool { return q == queue && route == target })
}

// add adds the actions with numbers from up to but not including to.
func (w *workload) add(ctx context.Context, r *bench.Run, from, to int, at func(i int) time.Time) error {
	l := bench.Loading{Doing: "adding", Unit: "actions", From: from, To: to, Batch: 1, Workers: adders}
	return r.Batches(ctx, l, func(ctx context.Context, i, _ int) error {
		_, _, err := w.service.Add(ctx, action.Request{Tenant: tenant, Slug: tenant, Target: target, ID: r.Key(int64(i)), At: at(i)})
		return err
	})
}

// Load implements [bench.Loader]: it adds as many actions that are not due in the run as are
// missing.
func (w *workload) Load(ctx context.Context, r *bench.Run) error {
	if w.pending == 0 {
		return nil
	}
	there, due, err := waiting(ctx, r)
	if err != nil {
		return err
	}
	if missing := w.pending - (there - due); missing > 0 {
		now := time.Now()
		s, err := bench.Timed(int64(missing), func() error {
			return w.add(ctx, r, w.n, w.n+missing, func(i int) time.Time { return bench.Far(now, i) })
		})
		if err != nil {
			return err
		}
		r.Report.Add("loaded", missing)
		r.Report.Add("loaded_per_s", s.Rate())
	} else {
		r.Progress.Say("using the store as it is: %d pending actions", there)
	}
	r.MarkMemory()
	if there, _, err = waiting(ctx, r); err != nil {
		return err
	}
	stats, err := r.Stats(ctx)
	if err != nil {
		return err
	}
	r.Report.Add("pending", there)
	if stats.Bytes > 0 {
		r.Report.Add("disk_bytes_per_action", float64(stats.Bytes)/float64(there))
	}
	return nil
}

// Verify implements [bench.Loader].
func (w *workload) Verify(ctx context.Context, r *bench.Run) error {
	there, _, err := waiting(ctx, r)
	if err == nil && there < w.pending {
		err = bench.Lost(there, w.pending, "actions are pending")
	}
	return err
}

// Measure implements [bench.Workload].
func (w *workload) Measure(ctx context.Context, r *bench.Run) error {
	r.Report.Add("slots", w.slots)
	for _, step := range []func(context.Context, *bench.Run) error{w.measureTicks, w.measureDispatch, w.measureHooks} {
		if err := step(ctx, r); err != nil {
			return err
		}
	}
	return nil
}

// measureTicks makes ticks while nothing is due.
func (w *workload) measureTicks(ctx context.Context, r *bench.Run) error {
	if _, due, err := waiting(ctx, r); err != nil || due > 0 {
		if err == nil {
			err = fmt.Errorf("bench: %d actions of an earlier run are due: use another store", due)
		}
		return err
	}
	s, err := r.Loop(ctx, bench.Loop{Doing: "making", Unit: "ticks", Workers: 1, N: int64(w.ticks), Do: func(ctx context.Context, _ *bench.Op) error {
		if err := w.service.Tick(ctx); err != nil {
			return fmt.Errorf("bench: tick: %w", err)
		}
		return nil
	}})
	if err != nil {
		return err
	}
	r.Report.Add("ticks", s.Count)
	r.Report.Quantiles("tick", "us", &s.Latency)
	return nil
}

// measureDispatch adds actions that are due, and then runs them.
func (w *workload) measureDispatch(ctx context.Context, r *bench.Run) error {
	due := time.Now().Add(-time.Second) // for certain, by any clock
	adding, err := bench.Timed(int64(w.n), func() error {
		return w.add(ctx, r, 0, w.n, func(int) time.Time { return due })
	})
	if err != nil {
		return err
	}
	s, err := w.drain(ctx, r, w.n)
	if err != nil {
		return err
	}
	r.Report.Add("n", w.n)
	r.Report.Add("added_per_s", adding.Rate())
	r.Report.Add("dispatched_per_s", s.Rate())
	r.Report.Add("dispatch_s", s.Elapsed)
	r.CPU(adding, "added")
	r.CPU(s, "dispatched")
	r.Written(s, "written_bytes_per_action")
	return nil
}

// drain runs the service until the n actions that are due have been run, each once, and
// returns what that took.
func (w *workload) drain(ctx context.Context, r *bench.Run, n int) (*bench.Sample, error) {
	t := &tally{runs: make([]atomic.Int32, n)}
	w.runs.Store(t)
	service, err := w.newService(r)
	if err != nil {
		return nil, err
	}
	defer r.Progress.Watch("running", "actions", int64(n), t.count.Load)()
	running, stop := context.WithCancel(ctx)
	defer stop()
	over := make(chan error, 1)
	s, err := bench.Timed(int64(n), func() error {
		go func() { over <- service.Run(running) }()
		what := func() string { return fmt.Sprintf("%d of %d actions were run", t.count.Load(), n) }
		return r.Await(ctx, what, func() (bool, int64, error) {
			_, due, err := waiting(ctx, r)
			return due == 0, int64(due), err
		})
	})
	stop()
	if runErr := <-over; err == nil && runErr != nil {
		err = fmt.Errorf("bench: run actions: %w", runErr)
	}
	if err != nil {
		return nil, err
	}
	for i := range t.runs {
		if runs := t.runs[i].Load(); runs != 1 {
			return nil, fmt.Errorf("bench: action %d of %d was run %d times", i, n, runs)
		}
	}
	return s, nil
}
