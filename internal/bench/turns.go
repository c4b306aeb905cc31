package bench

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/abidehq/abide/store"
)

const (
	// lease is long enough for a claim that waits for a committer, behind a disk that
	// hangs for a while.
	lease = time.Minute

	// wait is how long a claimer waits when nothing is ready. It bounds how long the
	// end of a measurement takes.
	wait = 250 * time.Millisecond
)

// turns is one interval of committing turns.
type turns struct {
	store store.Store
	opts  *Options
	limit int64 // of commits; 0 is none
	done  *atomic.Int64

	claims chan *store.Claim
	taken  atomic.Int64  // commits that were begun, or are about to
	timeUp chan struct{} // closed when committers begin no more
	over   chan struct{} // closed when all committers are done
}

// commitTurns commits turns for a while, or so many of them, and adds them to done as
// it goes.
func (r *run) commitTurns(ctx context.Context, d time.Duration, limit int64, done *atomic.Int64) (*sample, error) {
	t := &turns{
		store: r.store, opts: r.opts, limit: limit, done: done,
		claims: make(chan *store.Claim, r.opts.Committers),
		timeUp: make(chan struct{}),
		over:   make(chan struct{}),
	}
	latencies := make([]Histogram, t.opts.Committers)
	claims := make([]Histogram, t.opts.Claimers)
	s := &sample{}
	before := done.Load()

	c := newCrew(ctx)
	watch := startWatch()
	if d > 0 {
		defer time.AfterFunc(d, func() { close(t.timeUp) }).Stop()
	}
	for i := range claims {
		c.do(func(ctx context.Context) error { return t.claim(ctx, &claims[i]) })
	}
	var committers sync.WaitGroup
	for i := range latencies {
		committers.Add(1)
		c.do(func(ctx context.Context) error {
			defer committers.Done()
			return t.commit(ctx, &latencies[i])
		})
	}
	committers.Wait()
	watch.stop(s)
	close(t.over)
	if err := c.wait(); err != nil {
		return nil, err
	}
	if err := t.releaseRest(ctx); err != nil {
		return nil, err
	}
	s.count = done.Load() - before
	for i := range latencies {
		s.latency.Merge(&latencies[i])
	}
	for i := range claims {
		s.claims.Merge(&claims[i])
	}
	return s, nil
}

// claim claims instances for the committers. It looks without waiting first, since
// waiting for something to be ready is not the time that a claim takes.
func (t *turns) claim(ctx context.Context, took *Histogram) error {
	req := store.ClaimRequest{Queue: queue, Routes: turnRoutes, Max: t.opts.Committers, Lease: lease}
	for {
		select {
		case <-t.over:
			return nil
		default:
		}
		req.Wait = 0
		began := time.Now()
		claims, err := t.store.Claim(ctx, req)
		if err == nil && len(claims) > 0 {
			took.Record(time.Since(began))
		} else if err == nil {
			req.Wait = wait
			claims, err = t.store.Claim(ctx, req)
		}
		if err != nil {
			return fmt.Errorf("bench: claim instances: %w", err)
		}
		if err := t.hand(ctx, claims); err != nil {
			return err
		}
	}
}

// hand gives claims to the committers, and back to the store when those are done.
func (t *turns) hand(ctx context.Context, claims []store.Claim) error {
	for i := range claims {
		select {
		case t.claims <- &claims[i]:
		case <-t.over:
			return t.release(ctx, claims[i:])
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// commit commits turns of claimed instances until there were enough.
func (t *turns) commit(ctx context.Context, took *Histogram) error {
	turn := newTurn()
	for t.take() {
		claim, err := t.next(ctx)
		if claim == nil {
			return err
		}
		tx := turn.of(claim)
		began := time.Now()
		if err := t.store.Commit(ctx, tx); err != nil {
			return fmt.Errorf("bench: commit a turn of %v: %w", claim.Key, err)
		}
		took.Record(time.Since(began))
		t.done.Add(1)
	}
	return nil
}

// take reports whether another commit is within the limit.
func (t *turns) take() bool {
	return t.limit == 0 || t.taken.Add(1) <= t.limit
}

// next returns the next claimed instance, or nil if the time is up.
func (t *turns) next(ctx context.Context) (*store.Claim, error) {
	for {
		select {
		case <-t.timeUp: // even if there is more to do
			return nil, nil
		default:
		}
		select {
		case claim := <-t.claims:
			if claim.Messages[0].ID != pendingID {
				return claim, nil
			}
			// A store that was loaded long ago has messages that have become visible since.
			if err := t.store.Commit(ctx, finish(*claim)); err != nil {
				return nil, fmt.Errorf("bench: consume a message: %w", err)
			}
		case <-t.timeUp:
			return nil, nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// releaseRest gives back what nobody committed, so that the next interval does not
// wait for leases to end.
func (t *turns) releaseRest(ctx context.Context) error {
	for {
		select {
		case claim := <-t.claims:
			if err := t.release(ctx, []store.Claim{*claim}); err != nil {
				return err
			}
		default:
			return nil
		}
	}
}

func (t *turns) release(ctx context.Context, claims []store.Claim) error {
	for i := range claims {
		if err := t.store.Release(ctx, store.Release{Lease: claims[i].Lease(), Uncounted: true}); err != nil {
			return fmt.Errorf("bench: release an instance: %w", err)
		}
	}
	return nil
}

// finish returns the commit that consumes what was claimed and does nothing else.
func finish(claims ...store.Claim) *store.Tx {
	tx := &store.Tx{Finish: make([]store.Finish, len(claims))}
	for i := range claims {
		tx.Finish[i].Lease = claims[i].Lease()
	}
	return tx
}
