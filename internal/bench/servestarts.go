package bench

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/abidehq/abide"
)

// measureStarts has clients start instances over HTTP, each the next one when the one before
// was answered. They run meanwhile. In the end, each that was answered must have its result.
func (r *serveRun) measureStarts(ctx context.Context) error {
	if r.opts.Duration == 0 {
		return nil
	}
	var done atomic.Int64
	stop := r.opts.Progress.Watch("starting", "instances", 0, done.Load)
	clients := make([]Histogram, r.opts.Clients)
	started := make([][]string, r.opts.Clients)
	s := &sample{}
	before := r.house.engine.Counts().Ended
	watch := startWatch()
	c := newCrew(ctx)
	for k := range clients {
		c.do(func(ctx context.Context) error {
			for time.Since(watch.start) < r.opts.Duration {
				id, took, err := r.start(ctx, "")
				if err != nil {
					return err
				}
				clients[k].Record(took)
				started[k] = append(started[k], id)
				done.Add(1)
			}
			return nil
		})
	}
	err := c.wait()
	watch.stop(s)
	completed := r.house.engine.Counts().Ended - before
	stop()
	if err != nil {
		return err
	}
	s.count = done.Load()
	for k := range clients {
		s.latency.Merge(&clients[k])
	}
	r.reportStarts(s, completed)
	return r.checkStarted(ctx, started, before)
}

// checkStarted waits until all instances that were started have ended, and makes sure that
// each is there and has its result.
func (r *serveRun) checkStarted(ctx context.Context, started [][]string, before int64) error {
	total := 0
	for _, ids := range started {
		total += len(ids)
	}
	if err := r.awaitEnded(ctx, before, int64(total)); err != nil {
		return err
	}
	var checked atomic.Int64
	defer r.opts.Progress.Watch("checking", "instances", int64(total), checked.Load)()
	c := newCrew(ctx)
	for _, ids := range started {
		c.do(func(ctx context.Context) error {
			for _, id := range ids {
				if err := r.checkResult(ctx, id); err != nil {
					return err
				}
				checked.Add(1)
			}
			return nil
		})
	}
	return c.wait()
}

// checkResult returns an error unless a hello has completed with what it must say.
func (r *serveRun) checkResult(ctx context.Context, id string) error {
	info, err := r.house.engine.Get(ctx, abide.Ref{Tenant: tenant, ID: id})
	if err != nil {
		return fmt.Errorf("bench: get an instance whose start was answered: %w", err)
	}
	result, err := abide.ResultOf[string](info)
	if err != nil {
		return fmt.Errorf("bench: get the result of instance %v: %w", info.Ref, err)
	}
	if result != helloResult {
		return fmt.Errorf("bench: the result of instance %v is %q, want %q", info.Ref, result, helloResult)
	}
	return nil
}

// awaitEnded waits until so many instances have ended since there were that many.
func (r *serveRun) awaitEnded(ctx context.Context, before, total int64) error {
	seen, since := int64(-1), time.Now()
	return every(ctx, look, func() (bool, error) {
		counts := r.house.engine.Counts()
		ended := counts.Ended - before
		switch {
		case ended >= total:
			return true, nil
		case ended != seen:
			seen, since = ended, time.Now()
		case time.Since(since) >= r.opts.Patience:
			return false, fmt.Errorf("bench: %d of %d instances have ended and %d have stalled, and nothing has happened for %v",
				ended, total, counts.Stalled, r.opts.Patience)
		}
		return false, nil
	})
}

func (r *serveRun) reportStarts(s *sample, completed int64) {
	p := &r.report
	p.count(figClients, int64(r.opts.Clients))
	p.number(figDuration, s.elapsed.Seconds())
	p.count(figStarts, s.count)
	p.number(figStarted, s.perSecond())
	p.number(figCompleted, float64(completed)/s.elapsed.Seconds())
	p.number(figStartP50, millis(s.latency.Quantile(0.50)))
	p.number(figStartP99, millis(s.latency.Quantile(0.99)))
	p.number(figStartMax, millis(s.latency.Max()))
	if s.hasCPU {
		p.number(figStartCPU, s.cpuEach())
	}
	if n, source := s.bytesEach(); n >= 1 {
		p.number(figStartBytes, n)
		p.text(figBytesCounted, source)
	}
}
