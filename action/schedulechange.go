package action

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/abidehq/abide/internal/cron"
	"github.com/abidehq/abide/store"
)

// AddSchedule adds a schedule, or returns [ErrExists].
func (s *Service) AddSchedule(ctx context.Context, p Plan) (Schedule, error) {
	const verb = "add schedule"
	now := s.now(ctx)
	p.setDefaults()
	times, err := p.check(verb, now)
	if err != nil {
		return Schedule{}, err
	}
	if err := s.permit(verb, p.Tenant, p.Target, Scheduled); err != nil {
		return Schedule{}, err
	}
	sch := Schedule{Plan: p, Status: Active, CreatedAt: now}
	sch.goOn(times, now.Add(-1))
	if sch.Status == Ended {
		return Schedule{}, invalid(verb, "schedule %q has no runs from now on", p.ID)
	}
	tx := &store.Tx{}
	if err = sch.put(tx, now); err == nil {
		err = s.store.Commit(ctx, tx)
	}
	if errors.Is(err, store.ErrConflict) {
		return Schedule{}, fmt.Errorf("action: %s %s/%s: %w", verb, p.Tenant, p.ID, ErrExists)
	}
	if err != nil {
		return Schedule{}, wrap(verb, p.Tenant+"/"+p.ID, err)
	}
	sch.Warning = s.warn(ctx, p.Tenant, p.Target)
	return sch, nil
}

// UpdateSchedule replaces the plan of a schedule. Its counters and status are kept; due runs
// that were not made are skipped. If version is not 0 and not that of the schedule, it returns
// [ErrConflict].
func (s *Service) UpdateSchedule(ctx context.Context, p Plan, version int64) (Schedule, error) {
	const verb = "update schedule"
	p.setDefaults()
	sch, err := s.changeSchedule(ctx, verb, p.Tenant, p.ID, func(sch *Schedule, now time.Time, tx *store.Tx) error {
		if version != 0 && version != sch.Version {
			return fmt.Errorf("action: %s %s/%s: it was changed: it has version %d, expected %d: %w", verb, p.Tenant, p.ID, sch.Version, version, ErrConflict)
		}
		times, err := p.check(verb, sch.CreatedAt)
		if err != nil {
			return err
		}
		if err := s.permit(verb, p.Tenant, p.Target, Scheduled); err != nil {
			return err
		}
		sch.skipDue(verb, now, tx, "the schedule was changed")
		sch.Plan = p
		if sch.Status != Paused {
			sch.goOn(times, now)
		}
		return nil
	})
	if err == nil {
		sch.Warning = s.warn(ctx, p.Tenant, p.Target)
	}
	return sch, err
}

// Pause pauses a schedule: it creates no actions until it is resumed. Runs that are due or
// queued are skipped.
func (s *Service) Pause(ctx context.Context, tenant, id, why string) (Schedule, error) {
	const verb = "pause"
	return s.changeSchedule(ctx, verb, tenant, id, func(sch *Schedule, now time.Time, tx *store.Tx) error {
		switch sch.Status {
		case Paused:
			return errUnchanged
		case Ended:
			return fmt.Errorf("action: %s %s/%s: it has no more runs: %w", verb, tenant, id, ErrState)
		}
		sch.skipDue(verb, now, tx, pausedReason)
		if at := sch.Queued; !at.IsZero() {
			tx.PutRecords = append(tx.PutRecords, sch.skipped(nil, at, at, now, pausedReason))
		}
		sch.Status, sch.Reason = Paused, shorten(why, MaxReason)
		sch.PausedAt = now
		sch.Next, sch.NextJitter, sch.Queued = time.Time{}, 0, time.Time{}
		return nil
	})
}

// pausedReason is why runs are skipped that are due while a schedule is paused.
const pausedReason = "the schedule was paused"

// skipDue notes that the runs which are due and not yet made are skipped.
func (s *Schedule) skipDue(verb string, now time.Time, tx *store.Tx, why string) {
	if s.Next.IsZero() || s.Next.After(now) {
		return
	}
	last := s.Next
	times, err := s.times(verb, s.CreatedAt)
	if err == nil { // else the plan is out of order, and may be about to be replaced by a better one
		last = s.lastDue(times, s.Next, now)
	}
	tx.PutRecords = append(tx.PutRecords, s.skipped(times, s.Next, last, now, why))
}

// Resume resumes a paused schedule. Runs that were due while it was paused are skipped, see
// [Service.Backfill].
func (s *Service) Resume(ctx context.Context, tenant, id string) (Schedule, error) {
	const verb = "resume"
	sch, err := s.changeSchedule(ctx, verb, tenant, id, func(sch *Schedule, now time.Time, tx *store.Tx) error {
		if sch.Status != Paused {
			return errUnchanged
		}
		if err := s.permit(verb, tenant, sch.Target, Scheduled); err != nil {
			return err
		}
		times, err := sch.times(verb, sch.CreatedAt)
		if err != nil {
			return err
		}
		if first, ok := sch.next(times, sch.PausedAt); ok && !first.After(now) {
			last := sch.lastDue(times, first, now)
			tx.PutRecords = append(tx.PutRecords, sch.skipped(times, first, last, now, pausedReason))
		}
		sch.PausedAt = time.Time{}
		sch.goOn(times, now)
		return nil
	})
	if err == nil {
		sch.Warning = s.warn(ctx, tenant, sch.Target)
	}
	return sch, err
}

// RemoveSchedule removes a schedule. The actions that it has made stay.
func (s *Service) RemoveSchedule(ctx context.Context, tenant, id string) error {
	const verb = "remove schedule"
	return s.retry(ctx, func() error {
		sch, err := s.schedule(ctx, verb, tenant, id)
		if err != nil {
			return err
		}
		return wrap(verb, tenant+"/"+id, s.store.Commit(ctx, &store.Tx{
			Delete:        []store.MessageRef{sch.messageRef()},
			DeleteRecords: []store.DeleteRecord{{Key: scheduleKey(tenant, id), Expect: sch.Version}},
		}))
	})
}

// Trigger creates an action of a schedule immediately, regardless of its overlap policy.
func (s *Service) Trigger(ctx context.Context, tenant, id string) (Action, error) {
	const verb = "trigger"
	sch, err := s.schedule(ctx, verb, tenant, id)
	if err != nil {
		return Action{}, err
	}
	if err := s.permit(verb, tenant, sch.Target, Scheduled); err != nil {
		return Action{}, err
	}
	now := s.now(ctx)
	a := sch.action(now, now)
	a.tells = false
	made, _, err := s.add(ctx, verb, a, nil)
	return made, err
}

// Backfill creates the actions of all runs of a schedule with from <= t < to, at most [MaxRuns],
// to be run now and concurrently. Runs that were made before are made again, and the bounds of
// the plan do not apply.
func (s *Service) Backfill(ctx context.Context, tenant, id string, from, to time.Time) ([]Action, error) {
	const verb = "backfill"
	sch, err := s.schedule(ctx, verb, tenant, id)
	if err != nil {
		return nil, err
	}
	if err := s.permit(verb, tenant, sch.Target, Scheduled); err != nil {
		return nil, err
	}
	if from.IsZero() || to.IsZero() || !from.Before(to) {
		return nil, invalid(verb, "from %s to %s is not a range", from.Format(time.RFC3339), to.Format(time.RFC3339))
	}
	times, err := sch.times(verb, sch.CreatedAt)
	if err != nil {
		return nil, err
	}
	most := sch.most(s.cfg.Store.Limits())
	runs, more := cron.Between(times, from, to, most)
	if more {
		return nil, invalid(verb, "there are more than %d runs from %s to %s; choose a shorter range", most, from.Format(time.RFC3339), to.Format(time.RFC3339))
	}
	now := s.now(ctx)
	tx := &store.Tx{}
	actions := make([]Action, len(runs))
	for i, at := range runs {
		actions[i] = sch.action(at, now)
		actions[i].tells = false
		tx.PutRecords = append(tx.PutRecords, store.PutRecord{Record: actions[i].record()})
		tx.Put = append(tx.Put, actions[i].toMessage(nil))
	}
	if err := s.store.Commit(ctx, tx); err != nil {
		return nil, wrap(verb, tenant+"/"+id, err)
	}
	warning := s.warn(ctx, tenant, sch.Target)
	for i := range actions {
		s.meters.added(ctx, &actions[i])
		actions[i].Warning = warning
	}
	return actions, nil
}

// changeSchedule has f change a schedule, until no concurrent change interferes. What wakes it
// is replaced.
func (s *Service) changeSchedule(ctx context.Context, verb, tenant, id string, f func(sch *Schedule, now time.Time, tx *store.Tx) error) (sch Schedule, err error) {
	var tx *store.Tx
	err = s.retry(ctx, func() error {
		if sch, err = s.schedule(ctx, verb, tenant, id); err != nil {
			return err
		}
		now := s.now(ctx)
		tx = &store.Tx{}
		if err := f(&sch, now, tx); err != nil {
			return err
		}
		if err := sch.put(tx, now); err != nil {
			return err
		}
		return wrap(verb, tenant+"/"+id, s.store.Commit(ctx, tx))
	})
	switch {
	case errors.Is(err, errUnchanged):
		return sch, nil
	case err != nil:
		return Schedule{}, err
	}
	s.meters.skipped(ctx, tx)
	return sch, nil
}

// put puts the schedule into tx, with the message that wakes it in place of the one before.
func (s *Schedule) put(tx *store.Tx, now time.Time) error {
	before, old := s.Version, s.messageRef()
	s.Version++
	s.UpdatedAt = now
	record, err := s.record()
	if err != nil {
		return err
	}
	tx.PutRecords = append(tx.PutRecords, store.PutRecord{Record: record, Expect: before})
	if before > 0 {
		tx.Delete = append(tx.Delete, old)
	}
	if s.Status == Active {
		tx.Put = append(tx.Put, s.toMessage())
	}
	return nil
}

// goOn makes the schedule active, with the next run after a time, or ended if there is none.
func (s *Schedule) goOn(times cron.Times, after time.Time) {
	next, ok := s.next(times, after)
	if !ok || s.spent() {
		s.Status, s.Reason, s.Next, s.NextJitter = Ended, "", time.Time{}, 0
		return
	}
	s.Status, s.Reason, s.Next = Active, "", next.UTC()
	limit := s.Plan.Jitter
	if after, ok := times.Next(next); ok {
		limit = min(limit, after.Sub(next))
	}
	s.NextJitter = cron.Jitter(s.ID, s.Next, limit)
}

// spent reports whether there were as many runs as there may be, with the one that waits.
func (s *Schedule) spent() bool {
	runs := s.Runs
	if !s.Queued.IsZero() {
		runs++
	}
	return s.Count > 0 && runs >= s.Count
}
