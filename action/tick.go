package action

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/internal/claimloop"
	"github.com/abidehq/abide/internal/outage"
	"github.com/abidehq/abide/internal/roster"
	"github.com/abidehq/abide/internal/sweep"
	"github.com/abidehq/abide/store"
)

// Run ticks until ctx ends, and then waits for running actions, see [Config.DrainTimeout]. It
// returns an error if the store is closed or fails permanently. It may be called once.
func (s *Service) Run(ctx context.Context) error {
	ctx, s.fail = context.WithCancelCause(ctx)
	defer s.fail(nil)
	stopGauges := s.meters.observe(s)
	defer stopGauges()
	defer s.publish().Stop()
	sweeping := make(chan struct{})
	go func() {
		defer close(sweeping)
		s.sweepAll(ctx)
	}()
	s.loop.Run(ctx)
	<-sweeping
	s.drain()
	if err := context.Cause(ctx); outage.Permanent(err) {
		return err
	}
	return nil
}

// publish shows the service among workers, if it has something to serve.
func (s *Service) publish() *roster.Publisher {
	if s.cfg.Unlisted || len(s.targets) == 0 {
		return nil
	}
	return roster.Publish(roster.Config{
		Store: s.store, Clock: s.clock, Logger: s.log, Busy: func() (turns, running, cached int) { return 0, len(s.slots), 0 },
		Worker: roster.Worker{ID: base.NewUUID(s.clock.Now()), Name: cmp.Or(s.cfg.WorkerName, base.ProcessName()), Targets: s.targets, Shared: s.shared(), RunSlots: cap(s.slots)},
	})
}

// tickOnce is what the loop does.
func (s *Service) tickOnce(ctx context.Context) {
	err := s.Tick(ctx)
	switch {
	case outage.Permanent(err):
		s.fail(err)
	case err != nil:
		s.log.Debug("tick failed, the next one tries again", "error", err)
	}
}

// settleTime is how long those that were interrupted have at least to end, and to have that
// noted.
const settleTime = 20 * time.Second

// drain waits for the actions that run, and interrupts them after a while.
func (s *Service) drain() {
	interrupt := s.clock.AfterFunc(s.cfg.DrainTimeout, func() {
		s.log.Warn("drain timeout passed, interrupting actions", "actions", len(s.slots))
		s.stop(ErrStopping)
	})
	defer interrupt()
	giveUp := s.clock.AfterFunc(s.cfg.DrainTimeout+max(s.cfg.DrainTimeout, settleTime), s.giveUp)
	defer giveUp()
	s.running.Wait()
}

// Tick performs one tick: it creates the actions of due schedules, claims due actions in the
// order of their due times while slots are free, marks them running, and starts them. It does
// not wait for them. [Service.Run] calls it.
func (s *Service) Tick(ctx context.Context) error {
	began := s.clock.Now()
	err := errors.Join(s.tickSchedules(ctx), s.tickActions(ctx))
	s.meters.tick(ctx, s.clock.Now().Sub(began))
	return err
}

func (s *Service) tickActions(ctx context.Context) error {
	if len(s.targets) == 0 {
		return nil
	}
	var since time.Time
	loop := claimloop.Loop{
		Store: s.caps.On(s.store), Clock: s.clock,
		Request: store.ClaimRequest{Queue: queue, Routes: s.targets, MaxMessages: 1, Lease: s.cfg.LeaseDuration, Lax: true},
		Prepare: func(_ context.Context, req *store.ClaimRequest) bool {
			since, req.Max = s.clock.Now(), s.takeSlots(claimBatch)
			if s.caps.Full() {
				s.left.Store(true) // before the claim: the target may be below its cap by then
			}
			return req.Max > 0
		},
		Claimed: func(most, n int) { s.giveSlots(most - n) },
		// An error ends the pass: what was given back would be claimed again, and again.
		Handle: func(ctx context.Context, claims []store.Claim) error { return s.begin(ctx, since, claims) },
	}
	return loop.Pass(ctx)
}

// takeSlots takes up to n free slots. If there is none, the one that becomes free next
// wakes the loop.
func (s *Service) takeSlots(n int) int {
	taken := 0
	for _, last := range []bool{false, true} {
		for taken < n && tryPut(s.slots) {
			taken++
		}
		if taken > 0 || last {
			break
		}
		s.left.Store(true) // and look again: a slot may have become free just before
	}
	return taken
}

func tryPut(slots chan<- struct{}) bool {
	select {
	case slots <- struct{}{}:
		return true
	default:
		return false
	}
}

// giveSlots gives back slots that no action has taken.
func (s *Service) giveSlots(n int) {
	for range n {
		<-s.slots
	}
}

// release gives back what claimed actions have taken: a slot, and their place below the cap of their
// target. It wakes the loop if something may have been left.
func (s *Service) release(tasks ...*task) {
	for _, t := range tasks {
		s.caps.Give(t.claim.Route)
	}
	s.giveSlots(len(tasks))
	if len(tasks) > 0 && s.left.Swap(false) {
		s.loop.Wake()
	}
}

// sweepEvery is how often there is a sweep. There is one at the start.
const sweepEvery = time.Minute

// sweepAll ends actions whose process died and whose target no worker serves, logs targets that
// no worker serves, and removes actions whose retention is over, until ctx ends.
func (s *Service) sweepAll(ctx context.Context) {
	for {
		if n, err := s.endOrphans(ctx); err != nil && ctx.Err() == nil {
			s.log.Error("sweep for actions of dead processes failed", "error", err)
		} else if n > 0 {
			s.log.Warn("actions ended, their process died and no worker serves their target", "actions", n)
		}
		if err := s.findUnserved(ctx); err != nil && ctx.Err() == nil {
			s.log.Error("search for unserved targets failed", "error", err)
		}
		if n, err := s.sweep(ctx); err != nil && ctx.Err() == nil {
			s.log.Debug("sweep of actions failed", "error", err)
		} else if n > 0 {
			s.log.Debug("removed actions whose retention is over", "actions", n)
		}
		if base.Sleep(ctx, s.clock, sweepEvery) != nil {
			return
		}
	}
}

func (s *Service) sweep(ctx context.Context) (int, error) {
	if s.cfg.Retention < 0 {
		return 0, nil
	}
	q := store.Query{
		Kind: kind, To: s.now(ctx).Add(-s.cfg.Retention), Limit: sweepBatch,
		Statuses: []string{string(Completed), string(Failed), string(Cancelled), string(Skipped)},
	}
	return sweep.Records(ctx, s.store, q, func(key store.RecordKey) []store.RecordKey {
		return []store.RecordKey{bodyKey(key.Tenant, key.ID)}
	})
}
