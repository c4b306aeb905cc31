package bench

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/abidehq/abide/store"
)

// consumers is how many goroutines consume.
const consumers = 4

// consume lets many messages through the queue, so that what they leave behind, if
// anything, is in the way of the claims that follow. Every other one is visible only
// a little later, and comes the way that timers come.
func (r *run) consume(ctx context.Context) error {
	stats, err := r.store.Stats(ctx)
	if err != nil {
		return fmt.Errorf("bench: learn the store's time: %w", err)
	}
	began := time.Now()
	message := func(i int) store.Message {
		m := store.Message{
			Key:   consumedKeys.key(r.opts.Keys, i),
			ID:    "consumed",
			Route: allRoutes[i%len(allRoutes)],
			Body:  payload(uint64(i), MessageBytes),
		}
		if i%2 == 1 {
			after := time.Duration(20+scramble(uint64(i))%500) * time.Millisecond
			m.VisibleAt = stats.Now.Add(time.Since(began) + after)
		}
		return m
	}
	c := newCrew(ctx)
	c.do(func(ctx context.Context) error {
		return r.putAll(ctx, "messages to consume", 0, r.opts.Consumed, message)
	})
	var done atomic.Int64
	for range consumers {
		c.do(func(ctx context.Context) error { return r.consumeSome(ctx, &done) })
	}
	return c.wait()
}

// consumeSome claims and consumes until enough are done.
func (r *run) consumeSome(ctx context.Context, done *atomic.Int64) error {
	req := store.ClaimRequest{Queue: queue, Routes: allRoutes, Max: batch, Lease: lease, Wait: wait}
	for done.Load() < int64(r.opts.Consumed) {
		claims, err := r.store.Claim(ctx, req)
		if err == nil && len(claims) > 0 {
			err = r.store.Commit(ctx, finish(claims...))
		}
		if err != nil {
			return fmt.Errorf("bench: consume messages: %w", err)
		}
		done.Add(int64(len(claims)))
	}
	return nil
}
