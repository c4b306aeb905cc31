package storage

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/abidehq/abide/internal/bench"
	"github.com/abidehq/abide/store"
)

// consumeBatch is how many messages are consumed with one claim.
const consumeBatch = 1000

// measureClaims runs the claim workload: before and after messages are consumed, or
// just once.
func (w *workload) measureClaims(ctx context.Context, r *bench.Run) error {
	if err := w.drain(ctx, r); err != nil {
		return err
	}
	if w.consumed > 0 {
		_, claims, _, err := w.claimProbes(ctx, r)
		if err != nil {
			return err
		}
		r.Report.Add("claim_p50_us_before", claims.Quantile(0.50))
		r.Report.Add("claim_p99_us_before", claims.Quantile(0.99))
		if err := w.consume(ctx, r); err != nil {
			return err
		}
		if err := w.drain(ctx, r); err != nil {
			return err
		}
		r.Report.Add("consumed", w.consumed)
	}
	s, claims, misses, err := w.claimProbes(ctx, r)
	if err != nil {
		return err
	}
	r.Report.Add("claims", claims.Count())
	r.Report.Add("duration_s", s.Elapsed)
	r.Report.Quantiles("claim", "us", claims)
	if misses > 0 {
		r.Report.Add("claim_misses", misses)
	}
	return nil
}

// claimProbes puts one message after another, and measures the claim that finds it while
// nothing else is due. Misses are claims that found nothing: the contract says that this does
// not happen.
func (w *workload) claimProbes(ctx context.Context, r *bench.Run) (s *bench.Sample, took *bench.Histogram, misses int, err error) {
	took = &bench.Histogram{}
	req := store.ClaimRequest{Queue: queue, Routes: allRoutes, Max: 1, Lease: lease}
	s, err = r.Loop(ctx, bench.Loop{
		Doing: "claiming", Unit: "claims", Workers: 1, N: w.commits, Duration: w.duration, Warmup: true,
		Do: func(ctx context.Context, op *bench.Op) error {
			probe := store.Message{
				Key:   probeKeys.key(w.keys, int(op.I)),
				ID:    "probe",
				Route: allRoutes[int(op.I)%len(allRoutes)],
				Body:  bench.Bytes(uint64(op.I), messageBytes),
			}
			if err := r.Store.Commit(ctx, &store.Tx{Put: []store.Message{probe}}); err != nil {
				return fmt.Errorf("bench: put a message: %w", err)
			}
			for {
				began := time.Now()
				claims, err := r.Store.Claim(ctx, req)
				passed := time.Since(began)
				switch {
				case err != nil:
					return fmt.Errorf("bench: claim a message: %w", err)
				case len(claims) == 0:
					misses++
					continue
				}
				if err := r.Store.Commit(ctx, finish(claims...)); err != nil {
					return fmt.Errorf("bench: consume a message: %w", err)
				}
				if claims[0].Key == probe.Key {
					took.Record(passed)
					return nil
				}
			}
		},
	})
	return s, took, misses, err
}

// drain consumes everything that is due. Instances of earlier runs lose the message
// that makes their next turn, so they are forgotten first, and loaded again when they
// are needed.
func (w *workload) drain(ctx context.Context, r *bench.Run) error {
	if w.state.Instances > 0 {
		w.state.Instances = 0
		if err := w.state.write(ctx, r.Store); err != nil {
			return err
		}
	}
	req := store.ClaimRequest{Queue: queue, Routes: allRoutes, Max: consumeBatch, Lease: lease}
	for {
		n, err := consumeSome(ctx, r.Store, req)
		if n == 0 || err != nil {
			return err
		}
	}
}

// consumeSome claims and consumes messages, and returns how many there were.
func consumeSome(ctx context.Context, s store.Store, req store.ClaimRequest) (int, error) {
	claims, err := s.Claim(ctx, req)
	if err == nil && len(claims) > 0 {
		err = s.Commit(ctx, finish(claims...))
	}
	if err != nil && !errors.Is(err, store.ErrClaimLost) { // a lost claim comes again
		return 0, fmt.Errorf("bench: consume messages: %w", err)
	}
	return len(claims), nil
}

// consumers is how many goroutines consume.
const consumers = 4

// consume puts many messages through the queue, so that what they leave behind, if
// anything, is in the way of the claims that follow. Every other one is visible only
// a little later, and comes the way that timers come.
func (w *workload) consume(ctx context.Context, r *bench.Run) error {
	stats, err := r.Stats(ctx)
	if err != nil {
		return err
	}
	began := time.Now()
	message := func(i int) store.Message {
		m := store.Message{
			Key:   consumedKeys.key(w.keys, i),
			ID:    "consumed",
			Route: allRoutes[i%len(allRoutes)],
			Body:  bench.Bytes(uint64(i), messageBytes),
		}
		if i%2 == 1 {
			after := time.Duration(20+bench.Scramble(uint64(i))%500) * time.Millisecond
			m.VisibleAt = stats.Now.Add(time.Since(began) + after)
		}
		return m
	}
	var done atomic.Int64
	req := store.ClaimRequest{Queue: queue, Routes: allRoutes, Max: consumeBatch, Lease: lease, Wait: wait}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		return put(ctx, r, bench.Loading{Doing: "loading", Unit: "messages to consume", To: w.consumed}, message)
	})
	for range consumers {
		g.Go(func() error {
			for done.Load() < int64(w.consumed) {
				n, err := consumeSome(ctx, r.Store, req)
				if err != nil {
					return err
				}
				done.Add(int64(n))
			}
			return nil
		})
	}
	return g.Wait()
}
