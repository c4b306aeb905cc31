package action

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/abidehq/abide/internal/backoff"
	"github.com/abidehq/abide/store"
)

// Cancel cancels a pending action, or interrupts a running one. Why becomes its reason.
// Cancelling a cancelled action does nothing; for an action that has ended it returns
// [ErrState].
func (s *Service) Cancel(ctx context.Context, tenant, id, why string) (Action, error) {
	const verb = "cancel"
	if why == "" {
		why = "cancelled"
	}
	return s.change(ctx, verb, tenant, id, func(a *Action, now time.Time, tx *store.Tx) error {
		if a.Status == Cancelled {
			return errUnchanged
		}
		if a.Status.Ended() {
			return fmt.Errorf("action: %s %s/%s: it is %s since %s: %w", verb, tenant, id, a.Status, a.EndedAt.Format(time.RFC3339), ErrState)
		}
		if a.Trigger.Kind == Webhook {
			body, err := s.Body(ctx, tenant, id)
			if err != nil && !errors.Is(err, ErrNotFound) {
				return err
			}
			defer func() { tx.PutRecords = append(tx.PutRecords, a.bodyRecord(body)) }()
		}
		// A process that runs it, or is about to, loses its claim.
		tx.Delete = append(tx.Delete, messageRef(tenant, id, a.message))
		a.Status, a.Reason, a.claim = Cancelled, shorten(why, MaxReason), ""
		a.EndedAt = now
		tx.Put = append(tx.Put, a.tellSchedule()...)
		return nil
	})
}

// Retry runs a failed or cancelled action again, at the next tick. For other actions it returns
// [ErrState].
func (s *Service) Retry(ctx context.Context, tenant, id string) (Action, error) {
	const verb = "retry"
	a, err := s.change(ctx, verb, tenant, id, func(a *Action, now time.Time, tx *store.Tx) error {
		if a.Status != Failed && a.Status != Cancelled {
			return fmt.Errorf("action: %s %s/%s: it is %s, and neither failed nor cancelled: %w", verb, tenant, id, a.Status, ErrState)
		}
		if err := s.permit(verb, tenant, a.Target, a.Trigger.Kind); err != nil {
			return err
		}
		var body []byte
		if a.Trigger.Kind == Webhook {
			var err error
			if body, err = s.Body(ctx, tenant, id); err != nil {
				return err
			}
			tx.DeleteRecords = append(tx.DeleteRecords, store.DeleteRecord{Key: bodyKey(tenant, id), Expect: store.AnyVersion})
		}
		a.Reason, a.Attempt, a.Outcome = "", 0, Outcome{}
		a.StartedAt = time.Time{}
		a.Version++ // change has yet to do it
		a.again(now)
		tx.Put = append(tx.Put, a.toMessage(body))
		a.Version--
		return nil
	})
	if err == nil {
		a.Warning = s.warn(ctx, tenant, a.Target)
	}
	return a, err
}

// errUnchanged: there is nothing to change.
var errUnchanged = errors.New("unchanged")

// change has f change an action and fill in the rest of tx, until no concurrent change
// interferes.
func (s *Service) change(ctx context.Context, verb, tenant, id string, f func(a *Action, now time.Time, tx *store.Tx) error) (a Action, err error) {
	err = s.retry(ctx, func() error {
		if a, err = s.get(ctx, verb, tenant, id); err != nil {
			return err
		}
		now := s.now(ctx)
		tx := &store.Tx{}
		if err := f(&a, now, tx); err != nil {
			return err
		}
		before := a.Version
		a.UpdatedAt = now
		a.Version++
		tx.PutRecords = append(tx.PutRecords, store.PutRecord{Record: a.record(), Expect: before})
		return wrap(verb, tenant+"/"+id, s.store.Commit(ctx, tx))
	})
	switch {
	case errors.Is(err, errUnchanged):
		return a, nil
	case err != nil:
		return Action{}, err
	}
	if a.Status.Ended() {
		s.meters.ended(ctx, a.Status)
		s.keeper.Lose(messageRef(tenant, id, 0).Key)
	}
	return a, nil
}

// retry calls f until no concurrent change interferes.
func (s *Service) retry(ctx context.Context, f func() error) error {
	err := backoff.Retry(ctx, s.clock, func(err error) bool { return errors.Is(err, store.ErrConflict) }, f)
	if errors.Is(err, store.ErrConflict) {
		return fmt.Errorf("%w: %w", err, ErrConflict)
	}
	return err
}

// now returns the store's time, in whole milliseconds.
func (s *Service) now(ctx context.Context) time.Time {
	return s.time.Now(ctx).Truncate(time.Millisecond)
}
