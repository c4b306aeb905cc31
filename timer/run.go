package timer

import (
	"context"

	"golang.org/x/sync/errgroup"
)

// Run fires due timers, publishes their envelopes, applies commands and removes timers past
// their retention until ctx ends. It then waits for work in progress and returns nil. It returns
// an error if the store is closed or fails permanently.
func (s *Service) Run(ctx context.Context) error {
	if len(s.cfg.Sinks) == 0 {
		return invalid("run", "Config.Sinks is empty, and there is nothing to publish to")
	}
	relay, err := s.relay()
	if err != nil {
		return err
	}
	stopGauges := s.meters.observe(s)
	defer stopGauges()

	loops, ctx := errgroup.WithContext(ctx)
	loops.Go(func() error { return s.sweepAll(ctx) })
	loops.Go(func() error { return relay.Run(ctx) })
	loops.Go(func() error { return s.applyAll(ctx) })
	for range s.cfg.Workers {
		loops.Go(func() error { return s.fireAll(ctx, relay) })
	}
	return loops.Wait()
}
