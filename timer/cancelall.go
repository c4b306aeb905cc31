package timer

import (
	"context"
	"errors"
	"time"

	"github.com/abidehq/abide/store"
)

// CancelAll cancels the armed timers of a tenant that match f, whose Statuses, Limit and Cursor must
// be empty, and returns how many it cancelled. It works in small commits, so that it does not block other
// callers. After an error it returns how many were cancelled; calling it again continues from
// there.
func (s *Service) CancelAll(ctx context.Context, f Filter) (int, error) {
	const verb = "cancel all"
	switch {
	case f.Tenant == "":
		return 0, invalid(verb, "no tenant: timers are cancelled for one tenant at a time")
	case len(f.Statuses) > 0:
		return 0, invalid(verb, "statuses are given, and only armed timers can be cancelled")
	case f.Limit != 0 || f.Cursor != "":
		return 0, invalid(verb, "a limit or a cursor is given, and all timers that match are cancelled")
	}
	f.Statuses = []Status{Armed}
	q, err := f.query(verb)
	if err != nil {
		return 0, err
	}
	q.Limit = cancelBatch
	n := 0
	for {
		page, err := s.list(ctx, verb, f, q)
		if err != nil {
			return n, err
		}
		done, err := s.cancelPage(ctx, f, page.Timers)
		n += done
		if err != nil || page.Next == "" {
			return n, err
		}
		q.Cursor = page.Next
	}
}

// cancelPage cancels timers that were armed when they were listed. Those that have
// changed since are looked at again.
func (s *Service) cancelPage(ctx context.Context, f Filter, timers []Timer) (n int, err error) {
	now := s.now(ctx)
	store.Split(timers, func(timers []Timer) error {
		if err != nil {
			return err
		}
		tx := &store.Tx{}
		for i := range timers {
			next := timers[i].cancelled(now)
			next.replace(tx, &timers[i])
		}
		failed := s.store.Commit(ctx, tx)
		switch {
		case failed == nil:
			n += len(timers)
			s.quota.give(timers[0].Tenant, len(timers))
			s.meters.cancelled.Add(ctx, int64(len(timers)))
		case !errors.Is(failed, store.ErrConflict) && !errors.Is(failed, store.ErrTooLarge):
			err = wrap("cancel all", timers[0].Tenant, "", failed)
		case len(timers) == 1:
			changed, one := s.cancelIfMatches(ctx, f, &timers[0])
			if changed {
				n++
			}
			err = one
		}
		return failed
	})
	return n, err
}

// cancelIfMatches cancels a timer that has changed since it was listed, if it is still one
// of those that are meant.
func (s *Service) cancelIfMatches(ctx context.Context, f Filter, listed *Timer) (bool, error) {
	_, changed, err := s.change(ctx, "cancel all", listed.Tenant, listed.Key, func(old *Timer, now time.Time) (Timer, error) {
		if old.Status != Armed || !f.matches(old) {
			return *old, nil
		}
		return old.cancelled(now), nil
	})
	if changed {
		s.meters.cancelled.Add(ctx, 1)
	}
	if errors.Is(err, ErrNotFound) {
		err = nil
	}
	return changed, err
}

// matches reports whether a timer is still due within the bounds, and has the
// correlation ID: what else there is to match does not change.
func (f *Filter) matches(t *Timer) bool {
	return (f.From.IsZero() || !t.at().Before(f.From)) && (f.To.IsZero() || t.at().Before(f.To)) &&
		(f.CorrelationID == "" || f.CorrelationID == t.CorrelationID)
}
