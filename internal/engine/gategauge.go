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

// atLimits is how many pieces of work wait for each limit, as of the last observation. It is the sum over the gates of
// all tenants at which something waits, of which there is a list in every store: what waits is not read. mu is held
// while the store is asked, so that others wait for the one read.
type atLimits struct {
	mu      sync.Mutex
	askedAt time.Time
	waiting map[string]int // by the name of the limit; 0 for those at which something has waited before
}

const (
	// askLimitsEvery bounds how often the store is asked for gates, however many look.
	askLimitsEvery = 5 * time.Second

	// maxGatesSummed is how many gates are asked for, and maxLimitsShown how many limits there are in the metric.
	maxGatesSummed = 1_000
	maxLimitsShown = 100
)

// observeLimits reports what waits for limits to the readers of the gauge, until it is stopped.
func (e *Engine) observeLimits() (stop func()) {
	gauge, held := e.meters.waiting, &atLimits{waiting: map[string]int{}}
	return e.meters.set.Observe(func(ctx context.Context, o metric.Observer) error {
		held.mu.Lock()
		defer held.mu.Unlock()
		if now := e.clock.Now(); held.askedAt.IsZero() || now.Sub(held.askedAt) >= askLimitsEvery {
			if err := held.ask(ctx, e.store); err != nil {
				return err
			}
			held.askedAt = now
		}
		for name, n := range held.waiting {
			o.ObserveFloat64(gauge, float64(n), metric.WithAttributeSet(attribute.NewSet(attribute.String(meter.LimitWaiting.Label, name))))
		}
		return nil
	}, gauge)
}

// ask sums up what waits at gates. Nothing has changed if there is an error.
func (l *atLimits) ask(ctx context.Context, s store.Store) error {
	waiting := make(map[string]int, len(l.waiting))
	for name := range l.waiting {
		waiting[name] = 0
	}
	q := store.Query{Kind: kindGate, Statuses: []string{gateBusy}, Limit: store.DefaultPage}
	for looked := 0; looked < maxGatesSummed; {
		page, err := s.List(ctx, q)
		if err != nil {
			return err
		}
		for i := range page.Records {
			g, err := gateOf(page.Records[i])
			if err != nil {
				continue // the gate says so when it is claimed
			}
			if _, known := waiting[g.limit.Name]; known || len(waiting) < maxLimitsShown {
				waiting[g.limit.Name] += g.waiting
			}
		}
		looked += len(page.Records)
		if q.Cursor = page.Next; q.Cursor == "" {
			break
		}
	}
	l.waiting = waiting
	return nil
}
