package engine

import (
	"context"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/abidehq/abide/internal/meter"
	"github.com/abidehq/abide/store"
)

// holdings are the statistics of the store as of the last observation. They are read at most once in askEvery,
// however many readers observe the gauges; mu is held meanwhile, so that others wait for the one read.
type holdings struct {
	mu          sync.Mutex
	askedAt     time.Time
	stats       store.Stats
	offset      time.Duration // of the store's time from the clock of the process
	quarantined int
}

const (
	// askEvery bounds how often the store is asked what it holds, however many look.
	askEvery = time.Second

	// countQuarantine is how far messages in quarantine are counted.
	countQuarantine = 10_000
)

// observe reports the current values of the gauges to their readers, until it is stopped.
func (e *Engine) observe() (stop func()) {
	m, held := e.meters, &holdings{}
	return m.set.Observe(func(ctx context.Context, o metric.Observer) error {
		o.ObserveFloat64(m.turning, float64(e.turning.running.Load()))
		o.ObserveFloat64(m.acting, float64(e.acting.running.Load()))
		for _, s := range []*slots{e.turning, e.acting, e.operating} {
			o.ObserveFloat64(m.abandoned, float64(s.count()), metric.WithAttributeSet(attribute.NewSet(attribute.String(meter.CodeAbandoned.Label, s.what))))
		}
		o.ObserveFloat64(m.limit, float64(e.limiter.State().Limit))
		o.ObserveFloat64(m.cached, float64(e.cache.len()))
		return held.observe(ctx, e, o)
	}, m.turning, m.acting, m.abandoned, m.limit, m.cached, m.pending, m.ready, m.age, m.quarantineNow, m.clockLead, m.clockOffset)
}

func (h *holdings) observe(ctx context.Context, e *Engine, o metric.Observer) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if now := e.clock.Now(); h.askedAt.IsZero() || now.Sub(h.askedAt) >= askEvery {
		stats, err := e.store.Stats(ctx)
		if err != nil {
			return err
		}
		h.offset = stats.Now.Sub(now.Add(e.clock.Now().Sub(now) / 2))
		n, err := e.store.Count(ctx, store.Query{Kind: store.KindQuarantine}, countQuarantine)
		if err != nil {
			return err
		}
		h.askedAt, h.stats, h.quarantined = now, stats, n
	}
	m := e.meters
	o.ObserveFloat64(m.quarantineNow, float64(h.quarantined))
	o.ObserveFloat64(m.clockLead, h.stats.ClockLead.Seconds())
	o.ObserveFloat64(m.clockOffset, h.offset.Seconds())
	for name, q := range byQueue(&h.stats) {
		queue := metric.WithAttributeSet(attribute.NewSet(attribute.String(meter.QueuePending.Label, name)))
		o.ObserveFloat64(m.pending, float64(q.pending), queue)
		o.ObserveFloat64(m.ready, float64(q.ready), queue)
		o.ObserveFloat64(m.age, q.age.Seconds(), queue)
	}
	return nil
}

// queueStats is what a queue holds.
type queueStats struct {
	pending, ready int
	age            time.Duration // of the oldest visible message
}

// byQueue returns what the queues hold. Those of the engine are always among them, so
// that an empty one shows as empty. Messages of suspended and stalled instances wait for
// a person, and say nothing about how well the queue is served.
func byQueue(stats *store.Stats) map[string]queueStats {
	queues := map[string]queueStats{queueTurns: {}, QueueActivities: {}, queueControl: {}, QueueEntities: {}, queueLimits: {}}
	for i := range stats.Routes {
		r := &stats.Routes[i]
		q := queues[r.Queue]
		q.pending += r.Pending
		if r.Ready > 0 && r.Route != routeParked && r.Route != routeLimited {
			q.ready += r.Ready
			q.age = max(q.age, stats.Now.Sub(r.Oldest))
		}
		queues[r.Queue] = q
	}
	return queues
}
