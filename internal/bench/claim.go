package bench

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/abidehq/abide/store"
)

// patience is how long a message that was put may take to be claimed. It bounds a run
// with a store that loses messages.
const patience = 10 * time.Second

// measureClaims runs the claim workload: before and after messages are consumed, or
// just once.
func (r *run) measureClaims(ctx context.Context) error {
	if err := r.drain(ctx); err != nil {
		return err
	}
	if r.opts.Consumed > 0 {
		s, err := r.claimProbes(ctx)
		if err != nil {
			return err
		}
		r.report.number(figClaimP50Before, micros(s.claims.Quantile(0.50)))
		r.report.number(figClaimP99Before, micros(s.claims.Quantile(0.99)))
		if err := r.consume(ctx); err != nil {
			return err
		}
		if err := r.drain(ctx); err != nil {
			return err
		}
		r.report.count(figConsumed, int64(r.opts.Consumed))
	}
	s, err := r.claimProbes(ctx)
	if err != nil {
		return err
	}
	r.report.count(figClaims, int64(s.claims.Count()))
	r.report.number(figDuration, s.elapsed.Seconds())
	r.reportClaims(s)
	return nil
}

func (r *run) reportClaims(s *sample) {
	p := &r.report
	if s.claims.Count() > 0 {
		p.number(figClaimP50, micros(s.claims.Quantile(0.50)))
		p.number(figClaimP99, micros(s.claims.Quantile(0.99)))
		p.number(figClaimMax, micros(s.claims.Max()))
	}
	if s.misses > 0 {
		p.count(figClaimMisses, s.misses)
	}
}

// claimProbes puts one message after another, and measures the claim that finds it
// while nothing else is due.
func (r *run) claimProbes(ctx context.Context) (*sample, error) {
	s := &sample{}
	var done atomic.Int64
	defer r.opts.Progress.Watch("claiming", "claims", r.opts.Commits, done.Load)()
	watch := startWatch()
	for n := int64(0); r.opts.Commits == 0 || n < r.opts.Commits; n++ {
		if r.opts.Duration > 0 && time.Since(watch.start) >= r.opts.Duration {
			break
		}
		probe := store.Message{
			Key:   probeKeys.key(r.opts.Keys, int(n)),
			ID:    "probe",
			Route: allRoutes[int(n)%len(allRoutes)],
			Body:  payload(uint64(n), MessageBytes),
		}
		if err := r.store.Commit(ctx, &store.Tx{Put: []store.Message{probe}}); err != nil {
			return nil, fmt.Errorf("bench: put a message: %w", err)
		}
		if err := r.claimProbe(ctx, probe.Key, s); err != nil {
			return nil, err
		}
		done.Add(1)
	}
	watch.stop(s)
	return s, nil
}

// claimProbe claims and consumes the one message that is due.
func (r *run) claimProbe(ctx context.Context, key store.Key, s *sample) error {
	req := store.ClaimRequest{Queue: queue, Routes: allRoutes, Max: 1, Lease: lease}
	deadline := time.Now().Add(patience)
	for {
		began := time.Now()
		claims, err := r.store.Claim(ctx, req)
		took := time.Since(began)
		if err != nil {
			return fmt.Errorf("bench: claim a message: %w", err)
		}
		if len(claims) == 0 {
			// The contract says that this does not happen: it is counted, and reported.
			s.misses++
			if time.Now().After(deadline) {
				return fmt.Errorf("bench: a message was put for %v and could not be claimed for %v", key, patience)
			}
			continue
		}
		if err := r.store.Commit(ctx, finish(claims...)); err != nil {
			return fmt.Errorf("bench: consume a message: %w", err)
		}
		if claims[0].Key == key {
			s.claims.Record(took)
			return nil
		}
	}
}

// drain consumes everything that is due. Instances of earlier runs lose the message
// that makes their next turn, so they are forgotten first, and loaded again when they
// are needed.
func (r *run) drain(ctx context.Context) error {
	if r.state.Instances > 0 {
		r.state.Instances = 0
		if err := r.state.write(ctx, r.store); err != nil {
			return err
		}
	}
	var done atomic.Int64
	defer r.opts.Progress.Watch("consuming what is due", "messages", 0, done.Load)()
	req := store.ClaimRequest{Queue: queue, Routes: allRoutes, Max: batch, Lease: lease}
	for {
		claims, err := r.store.Claim(ctx, req)
		if err == nil && len(claims) == 0 {
			return nil
		}
		if err == nil {
			err = r.store.Commit(ctx, finish(claims...))
		}
		if err != nil && !errors.Is(err, store.ErrClaimLost) { // a lost claim comes again
			return fmt.Errorf("bench: consume what is due: %w", err)
		}
		done.Add(int64(len(claims)))
	}
}
