package bench

import (
	"context"
	"sync/atomic"
	"time"
)

// measureLoop has clients run one orchestration after another.
func (r *engineRun) measureLoop(ctx context.Context) error {
	before, err := r.stats(ctx)
	if err != nil {
		return err
	}
	var done atomic.Int64
	stop := r.opts.Progress.Watch("running "+string(r.opts.Workload), "orchestrations", r.opts.N, done.Load)
	s := &sample{}
	err = r.guarded(ctx, func(ctx context.Context) error { return r.loop(ctx, s, &done) })
	stop()
	if err != nil {
		return err
	}
	r.reportLoop(s)
	return r.reportEach(ctx, s, before.Bytes)
}

// clients returns how many there are.
func (r *engineRun) clients() int {
	if r.opts.Workload == WorkloadIdle {
		return 1
	}
	return r.opts.Clients
}

// loop runs orchestrations until there are enough, or the time is up, and waits for the
// last result.
func (r *engineRun) loop(ctx context.Context, s *sample, done *atomic.Int64) error {
	var taken atomic.Int64
	clients := make([]sample, r.clients())
	watch := startWatch()
	more := func() bool {
		inTime := r.opts.Duration == 0 || time.Since(watch.start) < r.opts.Duration
		return inTime && (r.opts.N == 0 || taken.Add(1) <= r.opts.N)
	}
	c := newCrew(ctx)
	for i := range clients {
		c.do(func(ctx context.Context) error {
			for more() {
				began := time.Now()
				if err := r.flow.once(ctx, &clients[i]); err != nil {
					return err
				}
				clients[i].latency.Record(time.Since(began))
				r.beat()
				done.Add(1)
			}
			return nil
		})
	}
	err := c.wait()
	watch.stop(s)
	s.count = done.Load()
	for i := range clients {
		s.latency.Merge(&clients[i].latency)
		s.raises.Merge(&clients[i].raises)
	}
	return err
}

func (r *engineRun) reportLoop(s *sample) {
	p := &r.report
	p.count(figN, s.count)
	p.count(figClients, int64(r.clients()))
	switch r.opts.Workload {
	case WorkloadSequence, WorkloadEvents:
		p.count(figLength, int64(r.opts.Length))
	case WorkloadFanout:
		p.count(figWidth, int64(r.opts.Width))
	}
	p.number(figDuration, s.elapsed.Seconds())
	p.number(figOrchestrations, s.perSecond())
	if r.flow.each > 0 {
		p.number(r.flow.rate, s.perSecond()*float64(r.flow.each))
	}
	p.number(figResultP50, millis(s.latency.Quantile(0.50)))
	p.number(figResultP99, millis(s.latency.Quantile(0.99)))
	p.number(figResultMax, millis(s.latency.Max()))
	if s.raises.Count() > 0 {
		p.number(figRaiseP50, millis(s.raises.Quantile(0.50)))
		p.number(figRaiseP99, millis(s.raises.Quantile(0.99)))
	}
}
