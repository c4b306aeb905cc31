package soak

import (
	"context"
	"fmt"
	"runtime/metrics"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/abidehq/abide/internal/bench"
)

// point is a sample: what happened since the one before, and what memory and disk take then.
type point struct {
	at                      time.Duration // since the beginning
	operations              float64       // completed in a second
	p50, p99                time.Duration // of orchestrations
	timersLate, actionsLate time.Duration // p99
	rss, heap, disk         float64       // in bytes
	internals               map[string]int64
}

// internals is a store that reports gauges of what is below it.
type internals interface {
	Internals(ctx context.Context) (map[string]int64, error)
}

// sampler takes samples while a load runs.
type sampler struct {
	w      *workload
	r      *bench.Run
	series series

	began, last time.Time
	completed   int64 // at the last sample
}

func newSampler(w *workload, r *bench.Run, rate int) *sampler {
	return &sampler{w: w, r: r, series: series{
		store: bench.Scheme(r.URL), rate: rate, duration: w.duration, retention: w.retention,
		retained: max(w.retention, minTimerRetention) + sweepEvery,
	}}
}

// sweepEvery is how often timers and actions are removed whose retention is over.
const sweepEvery = time.Minute

// during samples while f runs.
func (s *sampler) during(ctx context.Context, f func() error) (*series, error) {
	s.began = time.Now()
	s.last = s.began
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	g := errgroup.Group{}
	g.Go(func() error { return s.run(ctx) })
	err := f()
	stop()
	if sampling := g.Wait(); err == nil {
		err = sampling
	}
	return &s.series, err
}

// run takes a sample each time --every has passed, and closes each window when it is over,
// until the end of the measurement or of ctx.
func (s *sampler) run(ctx context.Context) error {
	next := s.w.every
	for len(s.series.windows) < windows {
		_, windowEnd := s.series.window(len(s.series.windows))
		at := min(next, windowEnd)
		if !s.reach(ctx, at) {
			break
		}
		if at == next {
			next += s.w.every
			if err := s.sample(ctx); err != nil && ctx.Err() == nil {
				return err
			}
		}
		if at == windowEnd {
			s.series.windows = append(s.series.windows, s.w.load.takeWindow()[latencies].Quantile(0.99))
		}
	}
	return nil
}

// reach waits until so much of the run is over. It returns false if what is measured has failed, or is
// over before.
func (s *sampler) reach(ctx context.Context, at time.Duration) bool {
	return bench.Pass(ctx, time.Until(s.began.Add(at))) == nil
}

func (s *sampler) sample(ctx context.Context) error {
	stats, err := s.r.Stats(ctx)
	if err != nil {
		return err
	}
	p := point{disk: float64(stats.Bytes), rss: bench.Memory() * (1 << 20), heap: heap()}
	if store, ok := s.r.Store.(internals); ok {
		if p.internals, err = store.Internals(ctx); err != nil {
			return fmt.Errorf("bench: read internals of the store: %w", err)
		}
	}
	now, completed, recorded := time.Now(), s.w.load.completed.Load(), s.w.load.take()
	p.at = now.Sub(s.began)
	p.operations = float64(completed-s.completed) / now.Sub(s.last).Seconds()
	p.p50, p.p99 = recorded[latencies].Quantile(0.50), recorded[latencies].Quantile(0.99)
	p.timersLate, p.actionsLate = recorded[timersLate].Quantile(0.99), recorded[actionsLate].Quantile(0.99)
	s.last, s.completed = now, completed
	s.series.points = append(s.series.points, p)
	return nil
}

// heap returns the bytes of live and dead objects in the heap of Go.
func heap() float64 {
	read := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(read)
	return float64(read[0].Value.Uint64())
}
