package bench

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"time"

	"github.com/abidehq/abide/bus"
	"github.com/abidehq/abide/bus/outbox"
	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/timer"
)

// timersRun is a run of the workload of tenant timers.
type timersRun struct {
	opts    *TimersOptions
	store   store.Store
	service *timer.Service
	ledger  *ledger
	far     int // how many timers were scheduled that are not due in the run
	farFrom time.Time
	report  Report

	// fail ends the run with an error, and stop the service.
	fail func(error)
	stop func()

	openTook time.Duration
	rss      float64 // in MiB, while nothing happens but that timers are pending
}

// localSink is where envelopes go.
const localSink = tenant

// RunTimers measures tenant timers on a store, which are published to a subscriber in the
// same process, and reports what it found. The store is closed afterwards and keeps its
// timers.
func RunTimers(ctx context.Context, o TimersOptions) (*Report, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	r := newTimersRun(&o, fail)
	defer func() { _ = r.close() }() // what was acknowledged is durable, so an error changes no figure
	for _, step := range []func(context.Context) error{r.prepare, r.pending, r.idle, r.measure, r.conclude} {
		if err := step(ctx); err != nil {
			if cause := context.Cause(ctx); cause != nil {
				err = cause
			}
			return nil, err
		}
	}
	return &r.report, nil
}

func newTimersRun(o *TimersOptions, fail func(error)) *timersRun {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Patience == 0 {
		o.Patience = defaultPatience
	}
	return &timersRun{opts: o, ledger: newLedger(), fail: fail}
}

// prepare opens the store, unless another process has to load it first.
func (r *timersRun) prepare(ctx context.Context) error {
	p := &r.report
	p.text(figWorkload, string(WorkloadTimers))
	p.text(figStore, schemeOf(r.opts.Store))
	p.count(figGOMAXPROCS, int64(runtime.GOMAXPROCS(0)))
	p.text(figGo, runtime.Version())
	p.count(figTenants, int64(r.opts.Tenants))
	p.count(figPayload, int64(r.opts.Payload))
	p.count(figBulk, int64(r.opts.Bulk))
	if r.opts.Reopen == ReopenCrash {
		return nil
	}
	if err := r.open(ctx); err != nil {
		return err
	}
	return sayIfUsed(ctx, r.store, r.opts.Progress)
}

// open opens the store, and has a service fire its timers.
func (r *timersRun) open(ctx context.Context) error {
	began := time.Now()
	s, err := openStore(ctx, r.opts.Store)
	if err != nil {
		return err
	}
	local := &bus.Local{}
	local.Subscribe(bus.Filter{Type: timer.TypeDueTimeReached}, r.ledger.note)
	service, err := timer.New(timer.Config{
		Store: s, Sinks: []outbox.Sink{{Name: localSink, Bus: local}}, Logger: r.opts.Logger,
	})
	if err != nil {
		return errors.Join(fmt.Errorf("bench: start the service: %w", err), s.Close())
	}
	r.store, r.service, r.openTook = s, service, time.Since(began)

	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	over := make(chan struct{})
	go func() {
		defer close(over)
		if err := service.Run(running); err != nil {
			r.fail(fmt.Errorf("bench: fire timers: %w", err))
		}
	}()
	r.stop = func() {
		stop()
		<-over
	}
	return nil
}

// close stops the service and closes its store, if they are there.
func (r *timersRun) close() error {
	if r.store == nil {
		return nil
	}
	r.stop()
	err := r.store.Close()
	r.store, r.service = nil, nil
	if err != nil {
		return fmt.Errorf("bench: close the store: %w", err)
	}
	return nil
}

// idle does nothing for a while, and reports the CPU that this takes.
func (r *timersRun) idle(ctx context.Context) error {
	if r.opts.Idle == 0 {
		return nil
	}
	if err := settle(ctx, r.opts.Idle, r.opts.Progress); err != nil {
		return err
	}
	r.opts.Progress.Say("idling for %v", r.opts.Idle)
	s := &sample{}
	watch := startWatch()
	if err := pass(ctx, r.opts.Idle); err != nil {
		return err
	}
	watch.stop(s)
	r.report.idle(s)
	return nil
}

// measure runs the workload.
func (r *timersRun) measure(ctx context.Context) error {
	stop, err := startProfile(r.opts.CPUProfile)
	if err != nil {
		return err
	}
	defer stop()
	if r.opts.Herd > 0 {
		return r.measureHerd(ctx)
	}
	if err := r.measureSingle(ctx); err != nil {
		return err
	}
	return r.measureTimers(ctx)
}

// conclude reports what the process and the store take in the end.
func (r *timersRun) conclude(ctx context.Context) error {
	p := &r.report
	now, peak := memory()
	if r.rss == 0 {
		r.rss = now
	}
	if r.rss > 0 {
		p.number(figRSS, r.rss)
		p.number(figRSSPeak, peak)
	}
	stats, err := r.stats(ctx)
	if err != nil {
		return err
	}
	if stats.Bytes > 0 {
		p.number(figDisk, float64(stats.Bytes)/mib)
	}
	p.number(figOpen, r.openTook.Seconds())
	return writeMemProfile(r.opts.MemProfile)
}

func (r *timersRun) stats(ctx context.Context) (store.Stats, error) {
	stats, err := r.store.Stats(ctx)
	if err != nil {
		return store.Stats{}, fmt.Errorf("bench: look at the store: %w", err)
	}
	return stats, nil
}
