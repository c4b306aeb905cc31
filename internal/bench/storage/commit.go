package storage

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/abidehq/abide/internal/bench"
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

// turns is one interval of committing turns: claimers claim instances, and hand them to
// committers.
type turns struct {
	*workload
	store  store.Store
	took   bench.Histogram // Claim calls that returned something
	claims chan *store.Claim
	over   chan struct{} // closed when all committers are done
}

// commitTurns commits turns for a while, or so many of them.
func (w *workload) commitTurns(ctx context.Context, r *bench.Run, d time.Duration, limit int64) (*bench.Sample, *bench.Histogram, error) {
	t := &turns{workload: w, store: r.Store, claims: make(chan *store.Claim, w.committers), over: make(chan struct{})}
	builders := make([]*turn, w.committers)
	for i := range builders {
		builders[i] = newTurn()
	}
	g, ctx := errgroup.WithContext(ctx)
	for range w.claimers {
		g.Go(func() error { return t.claim(ctx) })
	}
	var s *bench.Sample
	g.Go(func() (err error) {
		defer close(t.over)
		s, err = r.Loop(ctx, bench.Loop{
			Doing: "committing", Unit: "commits", Workers: w.committers, N: limit, Duration: d, Warmup: true,
			Do: func(ctx context.Context, op *bench.Op) error {
				c, err := t.next(ctx)
				if err != nil {
					return err
				}
				tx := builders[op.Worker].of(c)
				op.Begin()
				if err := t.store.Commit(ctx, tx); err != nil {
					return fmt.Errorf("bench: commit a turn of %v: %w", c.Key, err)
				}
				return nil
			},
		})
		return err
	})
	if err := g.Wait(); err != nil {
		return nil, nil, err
	}
	close(t.claims) // claims that were not committed are released, so that the next interval does not wait for leases to end
	for c := range t.claims {
		if err := t.release(context.WithoutCancel(ctx), *c); err != nil {
			return nil, nil, err
		}
	}
	return s, &t.took, nil
}

// claim claims instances for the committers. It looks without waiting first, since
// waiting for something to be ready is not the time that a claim takes.
func (t *turns) claim(ctx context.Context) error {
	req := store.ClaimRequest{Queue: queue, Routes: turnRoutes, Max: t.committers, Lease: lease}
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
			t.took.Record(time.Since(began))
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
			return t.release(ctx, claims[i:]...)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// next returns the next claimed instance.
func (t *turns) next(ctx context.Context) (*store.Claim, error) {
	for {
		select {
		case c := <-t.claims:
			if c.Messages[0].ID != pendingID {
				return c, nil
			}
			// A store that was loaded long ago has messages that have become visible since.
			if err := t.store.Commit(ctx, finish(*c)); err != nil {
				return nil, fmt.Errorf("bench: consume a message: %w", err)
			}
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

func (t *turns) release(ctx context.Context, claims ...store.Claim) error {
	for i := range claims {
		if err := t.store.Release(ctx, store.Release{Lease: claims[i].Lease(), Uncounted: true}); err != nil {
			return fmt.Errorf("bench: release an instance: %w", err)
		}
	}
	return nil
}

func reportCommits(r *bench.Run, s *bench.Sample, claims *bench.Histogram) {
	r.Report.Add("commits", s.Count)
	r.Report.Add("duration_s", s.Elapsed)
	r.Report.Add("commits_per_s", s.Rate())
	r.CPU(s, "commit")
	r.Report.Quantiles("latency", "ms", &s.Latency)
	r.Written(s, "bytes_per_commit")
	r.Report.Add("claims", claims.Count())
	if claims.Count() > 0 {
		r.Report.Quantiles("claim", "us", claims)
	}
}
