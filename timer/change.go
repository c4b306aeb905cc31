package timer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/abidehq/abide/bus"
	"github.com/abidehq/abide/internal/backoff"
	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/store"
)

// Cancel cancels an armed timer. Cancelling a cancelled timer does nothing; for a timer that has
// fired it returns [ErrState].
func (s *Service) Cancel(ctx context.Context, tenant, key string) (Timer, error) {
	return s.cancel(ctx, Request{Tenant: tenant, Key: key})
}

// CancelIf cancels a timer if it has the given version, and returns [ErrConflict] otherwise.
func (s *Service) CancelIf(ctx context.Context, tenant, key string, version int64) (Timer, error) {
	if version < 1 {
		return Timer{}, invalid("cancel", "%s/%s is to have version %d; versions begin at 1", tenant, key, version)
	}
	return s.cancel(ctx, Request{Tenant: tenant, Key: key, IfVersion: version})
}

// Snooze postpones a timer by d, counted from its due time, or from now if it is overdue or has
// fired; a fired timer is armed again. For a cancelled timer it returns [ErrState].
func (s *Service) Snooze(ctx context.Context, tenant, key string, d time.Duration) (Timer, error) {
	const verb = "snooze"
	if d <= 0 || d > MaxDelay {
		return Timer{}, invalid(verb, "%s/%s by %v; more than 0 and at most %v is allowed", tenant, key, d, MaxDelay)
	}
	t, changed, err := s.change(ctx, verb, tenant, key, func(old *Timer, now time.Time) (Timer, error) {
		if old.Status == Cancelled {
			return Timer{}, fmt.Errorf("timer: %s %s/%s: it was cancelled at %s: %w", verb, tenant, key, old.CancelledAt.Format(time.RFC3339Nano), ErrState)
		}
		from := now
		if old.Status == Armed && old.DueAt.After(now) {
			from = old.DueAt
		}
		r := Request{Tenant: tenant, Key: key, DueAt: from.Add(d), CorrelationID: old.CorrelationID, Payload: old.Payload}
		if err := r.check(verb, MaxPayload); err != nil {
			return Timer{}, err
		}
		return old.rescheduled(&r, now), nil
	})
	if changed {
		s.meters.scheduled.Add(ctx, 1)
	}
	return t, err
}

func (s *Service) cancel(ctx context.Context, r Request) (Timer, error) {
	const verb = "cancel"
	t, changed, err := s.change(ctx, verb, r.Tenant, r.Key, func(old *Timer, now time.Time) (Timer, error) {
		switch {
		case r.IfVersion != 0 && r.IfVersion != old.Version:
			return Timer{}, fmt.Errorf("timer: %s %s/%s: it was changed: it has version %d, expected %d: %w", verb, r.Tenant, r.Key, old.Version, r.IfVersion, ErrConflict)
		case old.Status == Fired:
			return Timer{}, fmt.Errorf("timer: %s %s/%s: it fired at %s: %w", verb, r.Tenant, r.Key, old.FiredAt.Format(time.RFC3339Nano), ErrState)
		case old.Status == Cancelled:
			return *old, nil
		}
		return old.cancelled(now), nil
	})
	if changed {
		s.meters.cancelled.Add(ctx, 1)
	}
	return t, err
}

// cancelled returns what becomes of an armed timer that is cancelled.
func (t *Timer) cancelled(now time.Time) Timer {
	next := *t
	next.Status, next.CancelledAt = Cancelled, base.Millis(now)
	next.Version++
	return next
}

// change has f make something of a timer that exists, until no concurrent change interferes.
// What has the version that it had is not changed.
func (s *Service) change(ctx context.Context, verb, tenant, key string, f func(old *Timer, now time.Time) (Timer, error)) (t Timer, changed bool, err error) {
	if err := checkName(verb, tenant, key); err != nil {
		return Timer{}, false, err
	}
	crowd := s.crowd()
	for range backoff.Tries {
		old, err := s.get(ctx, verb, tenant, key)
		if err != nil {
			return Timer{}, false, err
		}
		next, err := f(&old, s.now(ctx))
		if err != nil || next.Version == old.Version {
			return next, false, err
		}
		if err = s.commitChange(ctx, verb, &old, &next); !errors.Is(err, store.ErrConflict) {
			return next, err == nil, err
		}
		if err := crowd.Sleep(ctx); err != nil {
			return Timer{}, false, wrap(verb, tenant, key, err)
		}
	}
	return Timer{}, false, fmt.Errorf("timer: %s %s/%s: too many concurrent changes: %w", verb, tenant, key, ErrConflict)
}

// crowd is the pause between two tries. What a commit conflicts with may not be durable yet, and
// is not visible until then: a store may take a while for that.
func (s *Service) crowd() *backoff.Pause {
	pause := backoff.Contention(s.clock)
	return &pause
}

func (s *Service) commitChange(ctx context.Context, verb string, old, next *Timer) error {
	release := func() {}
	if next.Status == Armed && old.Status != Armed {
		var err error
		if release, err = s.quota.reserve(ctx, verb, tally{next.Tenant: 1}); err != nil {
			return err
		}
	}
	tx := &store.Tx{}
	next.replace(tx, old)
	if err := s.store.Commit(ctx, tx); err != nil {
		release()
		return wrap(verb, next.Tenant, next.Key, err)
	}
	if old.Status == Armed && next.Status != Armed {
		s.quota.give(next.Tenant, 1)
	}
	return nil
}

// apply cancels a timer by a command. Other than with [Service.Cancel], a timer that has
// fired stays so, and one that does not exist is made, so that a command to schedule it
// that stands before this one and arrives later is known to be too late.
func (s *Service) apply(ctx context.Context, tenant, key string, at bus.Position) (applied bool, err error) {
	const verb = "cancel"
	crowd := s.crowd()
	for range backoff.Tries {
		old, err := s.get(ctx, verb, tenant, key)
		if err != nil && !errors.Is(err, ErrNotFound) {
			return false, err
		}
		if old.outdates(&Request{Position: at}) {
			return false, nil
		}
		now := base.Millis(s.now(ctx))
		next := old
		if old.Status == Armed {
			next = old.cancelled(now)
		} else {
			next.Version++
		}
		if old.Status == "" {
			next.Tenant, next.Key, next.Status = tenant, key, Cancelled
			next.DueAt, next.RegisteredAt, next.CancelledAt = now, now, now
		}
		if at.Source != "" {
			next.position = position{at.Source, at.Sequence}
		}
		if err = s.commitChange(ctx, verb, &old, &next); errors.Is(err, store.ErrConflict) {
			if err := crowd.Sleep(ctx); err != nil {
				return false, wrap(verb, tenant, key, err)
			}
			continue
		}
		if err == nil && old.Status == Armed {
			s.meters.cancelled.Add(ctx, 1)
		}
		return err == nil, err
	}
	return false, fmt.Errorf("timer: %s %s/%s: too many concurrent changes: %w", verb, tenant, key, ErrConflict)
}
