package soak

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/action"
	"github.com/abidehq/abide/bus"
	"github.com/abidehq/abide/bus/outbox"
	"github.com/abidehq/abide/internal/bench"
	"github.com/abidehq/abide/timer"
)

const (
	target = bench.Name // of actions
	sink   = bench.Name // of timers

	// minTimerRetention is the shortest that package timer allows.
	minTimerRetention = time.Minute

	// actionRate is the interval between ticks of the action service.
	actionRate  = 100 * time.Millisecond
	actionSlots = 256

	maxRate = 1_000_000
)

// workload is the options of a run.
type workload struct {
	duration, probe, every, retention time.Duration
	rate, share, clients              int
	csvFile, svgFile                  string

	tenant  string
	engine  *abide.Engine
	timers  *timer.Service
	actions *action.Service
	flows   flows
	load    load
}

var _ bench.Workload = (*workload)(nil)

// Spec describes the workload.
func Spec() bench.Spec {
	return bench.Spec{
		Name:  "soak",
		Short: "Measure whether throughput, latency, memory and disk stay the same for a long time",
		Long: `Measure whether throughput, latency, memory and disk stay the same for a long time.

First, clients run the mix in a closed loop, to find the capacity of this machine; what they
do before retention has begun to remove is not counted. Then operations begin in an open
loop at a share of that rate: orchestrations with an activity, with a durable sleep and with
an event, tenant timers, and actions. Some instances are
deleted, some timers cancelled, and retention removes all of them after a while.

Throughput, latency, lateness, memory, disk and what the store reports of itself are
sampled all the time, written with --series and drawn with --svg. The verdicts compare the
last sixth of the run with the second: p99 of orchestrations at most 1.3 times as long,
resident memory and disk within 10 %.

In the end all that was accepted must have completed, and be kept or deleted: otherwise
the command fails.

Engine, timers, actions and clients are in this process. Without --store the embedded
store is measured, in a folder of the working directory that is removed afterwards. A
store that is given keeps what retention has not yet removed, of a tenant whose name
begins with abide-bench-; do not give the store of a program.`,
		Example: `  abide bench soak
  abide bench soak --duration 10m --rate 500 --series soak.csv --svg soak.svg
  abide bench soak --store postgres://user@host/database --json`,
		New: newWorkload,
	}
}

func newWorkload(f *pflag.FlagSet, _ *bench.Config) bench.Workload {
	w := &workload{}
	f.DurationVar(&w.duration, "duration", time.Hour, "how long to measure")
	f.DurationVar(&w.probe, "probe", 20*time.Second, "how long to measure the capacity first, after --retention of the same load; not with --rate")
	f.IntVar(&w.share, "share", 60, "the load in percent of the capacity")
	f.IntVar(&w.rate, "rate", 0, "the load in operations a second, instead of a share of the capacity")
	f.IntVar(&w.clients, "clients", 4096, "operations that are under way at most")
	f.DurationVar(&w.retention, "retention", 3*time.Minute, "how long instances, timers and actions are kept that have ended; timers for a minute at least")
	f.DurationVar(&w.every, "every", 10*time.Second, "the time between samples")
	f.StringVar(&w.csvFile, "series", "", "write the samples to this file, as CSV")
	f.StringVar(&w.svgFile, "svg", "", "write a chart of the samples to this file")
	return w
}

// Name implements [bench.Workload].
func (w *workload) Name() string { return "soak" }

// Validate implements [bench.Workload].
func (w *workload) Validate(*bench.Config) error {
	return cmp.Or(
		bench.Within("duration", w.duration, windows*10*time.Millisecond, 30*24*time.Hour),
		bench.Within("probe", w.probe, 10*time.Millisecond, time.Hour),
		bench.Within("share", w.share, 1, 100),
		bench.Within("rate", w.rate, 0, maxRate),
		bench.Within("clients", w.clients, 1, bench.MaxClients),
		bench.Within("retention", w.retention, time.Second, 24*time.Hour),
		bench.Within("every", w.every, 10*time.Millisecond, w.duration),
	)
}

// Open implements [bench.Workload].
func (w *workload) Open(ctx context.Context, r *bench.Run) (stop func() error, err error) {
	w.tenant = bench.Prefix + r.ID
	w.flows = newFlows()
	w.load.init(r.ID)
	local := &bus.Local{}
	local.Subscribe(bus.Filter{Type: timer.TypeDueTimeReached}, w.load.noteTimer)
	w.engine, err = abide.New(r.Store, abide.Config{Register: w.flows.register, Retention: w.retention, Logger: r.Logger})
	if err != nil {
		return nil, err
	}
	w.timers, err = timer.New(timer.Config{
		Store: r.Store, Sinks: []outbox.Sink{{Name: sink, Bus: local}}, Logger: r.Logger,
		Retention: max(w.retention, minTimerRetention),
	})
	if err == nil {
		w.actions, err = action.New(action.Config{
			Store: r.Store, Rate: actionRate, Slots: actionSlots, Retention: w.retention, DrainTimeout: r.Patience, Logger: r.Logger,
			Targets: map[string]action.Definition{target: {Target: action.Func(w.load.noteAction)}},
		})
	}
	if err != nil {
		return nil, errors.Join(err, w.engine.Close())
	}
	stopTimers := serve(ctx, r, "fire timers", w.timers.Run)
	stopActions := serve(ctx, r, "run actions", w.actions.Run)
	return func() error {
		stopTimers()
		stopActions()
		return w.engine.Close()
	}, nil
}

// serve runs a service until the function that it returns is called. An error of the service
// ends the run.
func serve(ctx context.Context, r *bench.Run, what string, run func(context.Context) error) (stop func()) {
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	over := make(chan struct{})
	go func() {
		defer close(over)
		if err := run(running); err != nil {
			r.Fail(fmt.Errorf("bench: %s: %w", what, err))
		}
	}()
	return func() {
		cancel()
		<-over
	}
}

// Measure implements [bench.Workload].
func (w *workload) Measure(ctx context.Context, r *bench.Run) error {
	rate, err := w.findRate(ctx, r)
	if err != nil {
		return err
	}
	w.load.reset()
	s := newSampler(w, r, rate)
	series, err := s.during(ctx, func() error {
		_, err := r.Loop(ctx, bench.Loop{
			Doing: "soaking", Unit: "operations", Workers: w.clients, Duration: w.duration, Rate: rate,
			Do:    func(ctx context.Context, op *bench.Op) error { return w.once(ctx, op) },
			Stuck: func(context.Context) error { return w.load.lost(r.Patience) },
		})
		return err
	})
	if err != nil {
		return err
	}
	if err := w.writeFiles(series); err != nil {
		return err
	}
	series.report(&r.Report)
	return w.check(ctx, r)
}

// findRate returns at which rate operations are to begin: --rate, or a share of the rate at
// which a closed loop runs them.
func (w *workload) findRate(ctx context.Context, r *bench.Run) (int, error) {
	if w.rate > 0 {
		r.Report.Add("rate_per_s", float64(w.rate))
		return w.rate, nil
	}
	w.load.probing = true
	defer func() { w.load.probing = false }()
	loop := func(doing string, d time.Duration) (*bench.Sample, error) {
		return r.Loop(ctx, bench.Loop{
			Doing: doing, Unit: "operations", Workers: min(w.clients, probeClients), Duration: d,
			Do:    func(ctx context.Context, op *bench.Op) error { return w.once(ctx, op) },
			Stuck: func(context.Context) error { return w.load.lost(r.Patience) },
		})
	}
	if _, err := loop("waiting for retention", w.retention); err != nil {
		return 0, err
	}
	w.load.phase = 'q' // or its timers and actions would have the names of those before
	s, err := loop("finding the capacity", w.probe)
	if err != nil {
		return 0, err
	}
	rate := max(1, int(s.Rate())*w.share/100)
	r.Report.Add("capacity_per_s", s.Rate())
	r.Report.Add("rate_per_s", float64(rate))
	r.Progress.Say("capacity is %.0f operations/s; going on with %d %% of it, %d/s", s.Rate(), w.share, rate)
	return rate, nil
}

// probeClients is how many clients look for the capacity: enough that those which wait for a
// tick of the action service leave enough others.
const probeClients = 256
