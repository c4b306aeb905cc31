package timer

import (
	"context"
	"errors"
	"sync"
)

// Run fires timers that are due, publishes their envelopes, applies commands and removes
// what was kept long enough, until ctx ends. Then it waits for what is under way, and
// returns nil. It returns an error if the store was closed or has failed.
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

	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var (
		wg   sync.WaitGroup
		mu   sync.Mutex
		errs []error
	)
	run := func(f func(context.Context) error) {
		wg.Go(func() {
			if err := f(ctx); err != nil {
				mu.Lock()
				errs = append(errs, err)
				mu.Unlock()
				stop()
			}
		})
	}
	run(s.sweepAll)
	run(relay.Run)
	run(s.applyAll)
	for range s.cfg.Workers {
		run(func(ctx context.Context) error { return s.fireAll(ctx, relay) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

func ended(ctx context.Context) bool { return ctx.Err() != nil }
