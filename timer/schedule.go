package timer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/abidehq/abide/bus/outbox"
	"github.com/abidehq/abide/internal/backoff"
	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/store"
)

// Schedule arms a timer; when it returns, the timer is durable. If a timer with that tenant and
// key exists, it is moved, and its correlation ID and payload are replaced; if it has fired or
// was cancelled, it is armed again.
func (s *Service) Schedule(ctx context.Context, r Request) (Timer, error) {
	timers, _, err := s.schedule(ctx, "schedule", []Request{r})
	if err != nil {
		return Timer{}, err
	}
	return timers[0], nil
}

// ScheduleAll schedules up to [MaxBulk] timers in one commit: all of them or none. Each must
// have a different tenant and key.
func (s *Service) ScheduleAll(ctx context.Context, requests []Request) ([]Timer, error) {
	const verb = "schedule all"
	if len(requests) > MaxBulk {
		return nil, invalid(verb, "%d timers, at most %d are allowed at once", len(requests), MaxBulk)
	}
	seen := make(map[store.RecordKey]int, len(requests))
	for i := range requests {
		k := recordKey(requests[i].Tenant, requests[i].Key)
		if before, dup := seen[k]; dup {
			return nil, invalid(verb, "requests %d and %d are both for %s/%s", before, i, k.Tenant, k.ID)
		}
		seen[k] = i
	}
	timers, _, err := s.schedule(ctx, verb, requests)
	return timers, err
}

// schedule returns the timers, and how many of them it has changed.
func (s *Service) schedule(ctx context.Context, verb string, requests []Request) (timers []Timer, applied int, err error) {
	for i := range requests {
		err := requests[i].check(verb, s.cfg.MaxPayload)
		if err != nil && len(requests) > 1 {
			err = requests[i].check(fmt.Sprintf("%s: request %d", verb, i), s.cfg.MaxPayload)
		}
		if err != nil {
			return nil, 0, err
		}
	}
	timers = make([]Timer, len(requests))
	// Most timers are new: the first try takes all of them to be, and reads nothing.
	read := slices.ContainsFunc(requests, func(r Request) bool { return r.IfVersion != 0 })
	crowd := s.crowd()
	for range backoff.Tries {
		applied, err := s.tryToSchedule(ctx, verb, requests, timers, read)
		if err == nil {
			s.meters.scheduled.Add(ctx, int64(applied))
			return timers, applied, nil
		}
		// A timer that is only moved takes nothing of the quota.
		if again := errors.Is(err, store.ErrConflict) || (!read && errors.Is(err, ErrQuota)); !again {
			return nil, 0, err
		}
		if !read {
			read = true
			continue
		}
		if err := crowd.Sleep(ctx); err != nil {
			return nil, 0, fmt.Errorf("timer: %s: %w", verb, err)
		}
	}
	return nil, 0, fmt.Errorf("timer: %s: too many concurrent changes: %w", verb, ErrConflict)
}

// tryToSchedule fills in timers, and returns how many it has changed. Unless it is to read
// the timers that there are, it takes all to be new, and meets a conflict if one is not.
func (s *Service) tryToSchedule(ctx context.Context, verb string, requests []Request, timers []Timer, read bool) (applied int, err error) {
	now := s.now(ctx)
	tx := &store.Tx{}
	armed := tally{} // how many more armed timers there will be, by tenant
	for i := range requests {
		r := &requests[i]
		var old Timer
		if read {
			if old, err = s.get(ctx, verb, r.Tenant, r.Key); err != nil && !errors.Is(err, ErrNotFound) {
				return 0, err
			}
		}
		if old.outdates(r) {
			timers[i] = old
			continue
		}
		switch {
		case r.IfVersion != 0 && r.IfVersion != old.Version:
			return 0, fmt.Errorf("timer: %s %s/%s: it was changed: it has version %d, expected %d: %w", verb, r.Tenant, r.Key, old.Version, r.IfVersion, ErrConflict)
		case r.IfAbsent && old.Version > 0:
			return 0, fmt.Errorf("timer: %s %s/%s: it is %s: %w", verb, r.Tenant, r.Key, old.Status, ErrExists)
		}
		timers[i] = old.rescheduled(r, now)
		timers[i].replace(tx, &old)
		applied++
		if old.Status != Armed {
			armed[r.Tenant]++
		}
	}
	if tx.Empty() {
		return 0, nil
	}
	release, err := s.quota.reserve(ctx, verb, armed)
	if err != nil {
		return 0, err
	}
	if err := s.store.Commit(ctx, tx); err != nil {
		release()
		return 0, fmt.Errorf("timer: %s: %w", verb, err)
	}
	return applied, nil
}

// outdates reports whether a request was applied to the timer before, or comes after one
// that was applied and stands behind it.
func (t *Timer) outdates(r *Request) bool {
	return r.Position.Source != "" && t.position.source == r.Position.Source && r.Position.Sequence <= t.position.sequence
}

// rescheduled returns what becomes of a timer, which may be no timer yet.
func (t *Timer) rescheduled(r *Request, now time.Time) Timer {
	next := Timer{
		Tenant: r.Tenant, Key: r.Key, Status: Armed,
		DueAt: base.Due(r.DueAt, r.Delay, now), RegisteredAt: base.Millis(now),
		CorrelationID: r.CorrelationID, Payload: r.Payload,
		Arming: t.Arming + 1, Version: t.Version + 1,
		position: t.position,
		// It is made before the timer fires, so that every process that fires it publishes
		// the same one, and anew by each move, so that its time is that of the last change.
		EnvelopeID: base.NewUUID(now),
	}
	if t.Status == Armed {
		next.RegisteredAt, next.Arming = t.RegisteredAt, t.Arming
	}
	switch {
	case t.Status != Fired:
		next.unsettled = t.unsettled
	case t.isUnsettled():
		next.unsettled = t.FiredAt
	}
	if r.Position.Source != "" {
		next.position = position{r.Position.Source, r.Position.Sequence}
	}
	return next
}

// isUnsettled reports whether it is not known of all sinks what they made of the
// envelope of a timer that has fired.
func (t *Timer) isUnsettled() bool {
	return slices.ContainsFunc(t.Deliveries, func(d Delivery) bool { return d.State == outbox.Pending || d.State == outbox.Retrying })
}

// replace puts into tx what makes old the timer that t is: its record, and its message.
func (t *Timer) replace(tx *store.Tx, old *Timer) {
	tx.PutRecords = append(tx.PutRecords, store.PutRecord{Record: t.record(), Expect: old.Version})
	if t.Status == Armed {
		tx.Put = append(tx.Put, t.message())
	}
	if old.Status == Armed {
		// A process that is about to fire it loses its claim.
		tx.Delete = append(tx.Delete, old.messageRef())
	}
}
