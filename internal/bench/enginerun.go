package bench

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/store"
)

// engineRun is a run of a workload of an engine.
type engineRun struct {
	opts   *EngineOptions
	store  store.Store
	engine *abide.Engine
	flow   flow
	naps   *naps
	report Report

	openTook time.Duration
	rss      float64 // in MiB, at the moment that counts

	// pulse grows while something happens: see guard.
	pulse atomic.Int64
}

// defaultPatience is longer than anything that a healthy engine takes.
const defaultPatience = 30 * time.Second

// RunEngine measures an engine on a store, with clients in the same process, and reports
// what it found. The store is closed afterwards and keeps its instances.
func RunEngine(ctx context.Context, o EngineOptions) (*Report, error) {
	r, err := newEngineRun(&o)
	if err != nil {
		return nil, err
	}
	defer func() { _ = r.close() }() // what was acknowledged is durable, so an error changes no figure
	for _, step := range []func(context.Context) error{r.prepare, r.measure, r.conclude} {
		if err := step(ctx); err != nil {
			return nil, err
		}
	}
	return &r.report, nil
}

func newEngineRun(o *EngineOptions) (*engineRun, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Patience == 0 {
		o.Patience = defaultPatience
	}
	r := &engineRun{opts: o}
	r.flow = r.newFlow()
	return r, nil
}

// prepare opens the store, unless another process has to load it first.
func (r *engineRun) prepare(ctx context.Context) error {
	p := &r.report
	p.text(figWorkload, string(r.opts.Workload))
	p.text(figStore, schemeOf(r.opts.Store))
	p.count(figGOMAXPROCS, int64(runtime.GOMAXPROCS(0)))
	p.text(figGo, runtime.Version())
	if r.opts.Reopen == ReopenCrash {
		return nil
	}
	if err := r.open(ctx); err != nil {
		return err
	}
	return sayIfUsed(ctx, r.store, r.opts.Progress)
}

// open opens the store and serves the workload. It is what [abide.Open] does, and
// keeps the store at hand, for its size.
func (r *engineRun) open(ctx context.Context) error {
	began := time.Now()
	s, err := openStore(ctx, r.opts.Store)
	if err != nil {
		return err
	}
	e, err := abide.New(s, abide.Config{Register: r.flow.serve, Logger: r.opts.Logger})
	if err != nil {
		return errors.Join(fmt.Errorf("bench: start the engine: %w", err), s.Close())
	}
	r.store, r.engine, r.openTook = s, e, time.Since(began)
	return nil
}

// close closes the engine and its store, if they are open.
func (r *engineRun) close() error {
	if r.engine == nil {
		return nil
	}
	err := errors.Join(r.engine.Close(), r.store.Close())
	r.engine, r.store = nil, nil
	if err != nil {
		return fmt.Errorf("bench: close the engine: %w", err)
	}
	return nil
}

// measure runs the workload.
func (r *engineRun) measure(ctx context.Context) error {
	stop, err := startProfile(r.opts.CPUProfile)
	if err != nil {
		return err
	}
	defer stop()
	switch {
	case r.opts.Workload != WorkloadSleep:
		return r.measureLoop(ctx)
	case r.opts.asleep():
		return r.measureAsleep(ctx)
	default:
		return r.measureSleep(ctx)
	}
}

// conclude reports what the process and the store take in the end.
func (r *engineRun) conclude(ctx context.Context) error {
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

func (r *engineRun) stats(ctx context.Context) (store.Stats, error) {
	stats, err := r.store.Stats(ctx)
	if err != nil {
		return store.Stats{}, fmt.Errorf("bench: look at the store: %w", err)
	}
	return stats, nil
}

// reportEach reports what each orchestration of an interval took. The store had so many
// bytes before it.
func (r *engineRun) reportEach(ctx context.Context, s *sample, before int64) error {
	p := &r.report
	if s.hasCPU {
		p.number(figCPUEach, s.cpuEach())
	}
	stats, err := r.stats(ctx)
	if err != nil {
		return err
	}
	if grown := stats.Bytes - before; grown > 0 {
		p.number(figDiskEach, float64(grown)/float64(s.count))
	}
	if n, source := s.bytesEach(); n >= 1 {
		p.number(figWrittenEach, n)
		p.text(figBytesCounted, source)
	}
	return nil
}
