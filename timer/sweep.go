package timer

import (
	"context"
	"time"

	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/internal/outage"
	"github.com/abidehq/abide/internal/sweep"
	"github.com/abidehq/abide/store"
)

// sweepEvery is how often fired and cancelled timers are looked at whose retention may
// be over.
const sweepEvery = time.Minute

// sweepAll removes timers whose retention is over until ctx ends.
func (s *Service) sweepAll(ctx context.Context) error {
	for {
		n, err := s.sweep(ctx)
		if n > 0 {
			s.log.Debug("removed timers whose retention is over", "timers", n)
		}
		switch {
		case ctx.Err() != nil:
			return nil //nolint:nilerr // of a call that was stopped
		case outage.Permanent(err):
			return err
		case err != nil:
			s.log.Debug("sweep of timers failed", "error", err)
		}
		_ = base.Sleep(ctx, s.clock, sweepEvery)
	}
}

// sweep removes fired and cancelled timers whose retention is over, in small commits, and
// returns how many.
func (s *Service) sweep(ctx context.Context) (int, error) {
	if s.cfg.Retention < 0 {
		return 0, nil
	}
	q := store.Query{
		Kind: kind, Statuses: []string{string(Fired), string(Cancelled)},
		To: s.now(ctx).Add(-s.cfg.Retention), Limit: sweepBatch,
	}
	n, err := sweep.Records(ctx, s.store, q, nil)
	s.meters.removed.Add(ctx, int64(n))
	return n, err
}
