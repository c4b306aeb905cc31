package action

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/internal/claimloop"
	"github.com/abidehq/abide/internal/cron"
	"github.com/abidehq/abide/internal/lease"
	"github.com/abidehq/abide/store"
)

// scheduleBatch is how many schedules are looked after at a time: their commits share
// syncs.
const scheduleBatch = 64

// tickSchedules makes the actions of schedules whose next run is due.
func (s *Service) tickSchedules(ctx context.Context) error {
	loop := claimloop.Loop{
		Store: s.store, Clock: s.clock,
		Request: store.ClaimRequest{
			Queue: queueSchedule, Routes: []string{routeSchedule}, Max: scheduleBatch, Lease: s.cfg.LeaseDuration, Lax: true,
		},
		Handle: func(ctx context.Context, claims []store.Claim) error {
			var wg sync.WaitGroup
			errs := make([]error, len(claims))
			for i := range claims {
				wg.Go(func() { errs[i] = s.wakeSchedule(ctx, &claims[i]) })
			}
			wg.Wait()
			return errors.Join(errs...)
		},
	}
	return loop.Pass(ctx)
}

// wakeSchedule does what the messages of a schedule say.
func (s *Service) wakeSchedule(ctx context.Context, c *store.Claim) error {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.LeaseDuration)
	defer cancel()
	err := s.tryToWake(ctx, c)
	release := store.Release{Lease: c.Lease()}
	switch {
	case err == nil, errors.Is(err, store.ErrClaimLost):
		return nil
	case errors.Is(err, store.ErrConflict):
		err = nil // changed concurrently: once more, as it is now
	case errors.Is(err, store.ErrCorrupt), errors.Is(err, ErrInvalid), errors.Is(err, store.ErrInvalid):
		s.log.Error("schedule not processed", "tenant", c.Key.Tenant, "schedule", c.Key.Name, "error", err)
		release.After, err = outOfOrder, nil // others are not
	default:
		release.After = time.Second
	}
	_ = s.store.Release(context.WithoutCancel(ctx), release)
	return err
}

// outOfOrder is how long a schedule is left alone that cannot be read, or whose time zone
// this process does not know.
const outOfOrder = time.Minute

func (s *Service) tryToWake(ctx context.Context, c *store.Claim) error {
	const verb = "wake schedule"
	tx := &store.Tx{Finish: []store.Finish{{Lease: c.Lease()}}}
	sch, err := s.schedule(ctx, verb, c.Key.Tenant, c.Key.Name)
	if errors.Is(err, ErrNotFound) {
		return s.store.Commit(ctx, tx) // it was removed
	}
	if err != nil {
		return err
	}
	w := &waker{s: s, ctx: ctx, sch: &sch, tx: tx, now: c.Now}
	if w.times, err = sch.times(verb, sch.CreatedAt); err != nil {
		return err
	}
	if err := w.read(c.Messages); err != nil {
		return err
	}
	if w.changed {
		if err := sch.put(tx, c.Now); err != nil {
			return err
		}
	}
	if err := lease.Insist(ctx, s.store, s.clock, tx); err != nil {
		return err
	}
	for i := range w.made {
		s.meters.added(ctx, &w.made[i])
	}
	s.meters.skipped(ctx, tx)
	return nil
}

// waker is a schedule that is being looked after.
type waker struct {
	s       *Service
	ctx     context.Context //nolint:containedctx // of one call
	sch     *Schedule
	times   cron.Times
	tx      *store.Tx
	now     time.Time
	changed bool
	made    []Action
}

// read does what the messages say. A run that waits comes before one that is due.
func (w *waker) read(messages []store.Message) error {
	due := false
	for i := range messages {
		m := &messages[i]
		if m.ID == w.sch.messageRef().ID && w.sch.Status == Active {
			due = true
		} else if id := endedAction(m); id != "" && id == w.sch.Current {
			if err := w.ended(); err != nil {
				return err
			}
		}
	}
	if !due {
		return nil
	}
	return w.due()
}

// due makes the actions of all runs that are due.
func (w *waker) due() error {
	w.changed = true
	made := false
	for _, at := range w.choose() {
		if w.sch.spent() {
			break
		}
		// Those that are caught up run beside each other.
		now, err := w.run(at, made)
		if err != nil {
			return err
		}
		made = made || now
	}
	w.sch.goOn(w.times, base.Later(w.now, w.sch.Next))
	return nil
}

// grace is how late a run may be and still count as being in time: the loop may have been
// busy, or between two ticks.
func (w *waker) grace() time.Duration { return max(2*w.s.cfg.Rate, time.Minute) + w.sch.NextJitter }

// choose returns which of the runs that are due are made. The others are skipped, with a
// reason.
func (w *waker) choose() []time.Time {
	first := w.sch.Next
	last := w.sch.lastDue(w.times, first, w.now)
	inTime := w.now.Sub(last) <= w.grace()
	if first.Equal(last) && inTime {
		return []time.Time{first}
	}
	switch {
	case w.sch.CatchUp == CatchUpAll:
		from := w.now.Add(-w.sch.Window)
		runs := w.lastRuns(base.Later(first, from), last)
		if len(runs) > 0 && runs[0].After(first) {
			w.skip(first, w.before(runs[0]), "missed: more than can be caught up on")
		} else if len(runs) == 0 {
			w.skip(first, last, fmt.Sprintf("missed: longer ago than %v, which is as far as is caught up", w.sch.Window))
		}
		return runs
	case w.sch.CatchUp == CatchUpOne || inTime:
		if last.After(first) {
			w.skip(first, w.before(last), "missed: only the last one is caught up on")
		}
		return []time.Time{last}
	default:
		w.skip(first, last, "missed: nothing is caught up on")
		return nil
	}
}

// lastRuns returns the runs from one time to another, both included, the last of them if
// there are more than the cap.
func (w *waker) lastRuns(from, to time.Time) []time.Time {
	var runs []time.Time
	most := min(w.sch.Cap, w.sch.most(w.s.cfg.Store.Limits()))
	for at := to; !at.Before(from) && len(runs) < most; {
		runs = append(runs, at)
		before, ok := w.times.Prev(at)
		if !ok {
			break
		}
		at = before
	}
	slices.Reverse(runs)
	return runs
}

// before returns the run before another one.
func (w *waker) before(at time.Time) time.Time {
	if before, ok := w.times.Prev(at); ok {
		return before
	}
	return at
}

// run makes the action of a run, or does what Overlap says. It reports whether it was made
// now.
func (w *waker) run(at time.Time, beside bool) (made bool, err error) {
	busy, err := w.busy()
	if err != nil {
		return false, err
	}
	busy = busy || w.makeQueued()
	if busy && !beside {
		switch w.sch.Overlap {
		case OverlapSkip:
			w.skip(at, at, fmt.Sprintf("overlap: action %s has not ended", w.sch.Current))
			return false, nil
		case OverlapQueue:
			if !w.sch.Queued.IsZero() {
				w.skip(at, at, fmt.Sprintf("overlap: action %s has not ended, and the run of %s waits for it", w.sch.Current, w.sch.Queued.Format(time.RFC3339)))
				return false, nil
			}
			w.sch.Queued = at.UTC()
			return false, nil
		case OverlapCancel:
			_, err := w.s.Cancel(w.ctx, w.sch.Tenant, w.sch.Current, "overlap: the next run of schedule "+w.sch.ID+" is due")
			if err != nil && !errors.Is(err, ErrState) && !errors.Is(err, ErrNotFound) {
				return false, err
			}
		case OverlapAllow:
		}
	}
	w.make(at)
	return true, nil
}

// busy reports whether the action that was made last has not ended.
func (w *waker) busy() (bool, error) {
	if w.sch.Current == "" {
		return false, nil
	}
	for i := range w.made {
		if w.made[i].ID == w.sch.Current {
			return true, nil
		}
	}
	a, err := w.s.get(w.ctx, "wake schedule", w.sch.Tenant, w.sch.Current)
	switch {
	case errors.Is(err, ErrNotFound), err == nil && a.Status.Ended():
		w.sch.Current = ""
		return false, nil
	default:
		return true, err
	}
}

// ended makes the action of the run that waits, if there is one.
func (w *waker) ended() error {
	w.changed = true
	busy, err := w.busy()
	if err == nil && !busy {
		w.makeQueued()
	}
	return err
}

// makeQueued makes the action of the run that waits, and reports whether there was one.
func (w *waker) makeQueued() bool {
	at := w.sch.Queued
	if at.IsZero() {
		return false
	}
	w.sch.Queued = time.Time{}
	w.make(at)
	return true
}

// make puts the action of a run into the commit.
func (w *waker) make(at time.Time) {
	a := w.sch.action(at, w.now)
	w.sch.Current, w.sch.Last = a.ID, at.UTC()
	w.sch.Runs++
	w.tx.PutRecords = append(w.tx.PutRecords, store.PutRecord{Record: a.record()})
	w.tx.Put = append(w.tx.Put, a.toMessage(nil))
	w.made = append(w.made, a)
}

// skip notes that the runs from one time to another, both included, are not made.
func (w *waker) skip(from, to time.Time, why string) {
	w.tx.PutRecords = append(w.tx.PutRecords, w.sch.skipped(w.times, from, to, w.now, why))
	w.s.log.Info("schedule runs skipped", "tenant", w.sch.Tenant, "schedule", w.sch.ID, "slug", w.sch.Slug, "from", from, "to", to, "reason", why)
}

// maxCounted is how many skipped runs are counted.
const maxCounted = 10_000

// skipped returns the record of the action that stands for the runs from one time to
// another, both included, that are not made.
func (s *Schedule) skipped(times cron.Times, from, to, now time.Time, why string) store.PutRecord {
	a := s.action(from, now)
	a.Status, a.EndedAt, a.tells = Skipped, now, false
	if to.After(from) {
		runs, more := cron.Between(times, from, to.Add(1), maxCounted)
		n := strconv.Itoa(len(runs))
		if more {
			n = "more than " + n
		}
		why = fmt.Sprintf("%s (%s runs, from %s to %s)", why, n, from.UTC().Format(time.RFC3339), to.UTC().Format(time.RFC3339))
	}
	a.Reason = shorten(why, MaxReason)
	return store.PutRecord{Record: a.record()}
}

// action returns the action of a run.
func (s *Schedule) action(at, now time.Time) Action {
	return Action{
		ID: base.NewUUID(now), Tenant: s.Tenant, Slug: s.Slug, Target: s.Target,
		Trigger: Trigger{Kind: Scheduled, At: now}, Status: Pending,
		Payload: s.Payload, Idempotent: s.Idempotent,
		Schedule: s.ID, RunAt: at.UTC(), CreatedAt: now, UpdatedAt: now,
		Version: 1, message: 1, tells: s.Overlap == OverlapQueue,
	}
}
