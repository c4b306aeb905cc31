package action

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/abidehq/abide/internal/claimloop"
	"github.com/abidehq/abide/internal/lease"
	"github.com/abidehq/abide/store"
)

// recovered is the reason of actions that failed because the process died that ran them.
const recovered = "recovered from restart"

// task is an action that was claimed. It has a slot.
type task struct {
	claim *store.Claim
	since time.Time // when we began to claim it, by our clock
	a     Action
	body  []byte // of a webhook

	message int64 // the version that its message was put with
}

// begin marks claimed actions running, and hands them to the pool. Whatever does not come
// so far gives its slot back. It returns an error if the store is in trouble.
func (s *Service) begin(ctx context.Context, since time.Time, claims []store.Claim) error {
	ctx, cancel := context.WithTimeout(ctx, s.patience())
	defer cancel()
	var fresh []*task
	var wg sync.WaitGroup
	errs := make([]error, len(claims)+1)
	for i := range claims {
		t := &task{claim: &claims[i], since: since}
		m := &claims[i].Messages[0]
		var err error
		if t.a, t.body, err = parseMessage(m); err != nil {
			s.discard(ctx, t, err)
			continue
		}
		t.message = t.a.Version
		if m.Attempt > 1 {
			wg.Go(func() { errs[i] = s.resume(ctx, t) }) // it was claimed before
			continue
		}
		fresh = append(fresh, t)
	}
	errs[len(claims)] = s.beginFresh(ctx, fresh)
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err // one tells enough
		}
	}
	return nil
}

// beginFresh begins actions that were never claimed before, in one commit.
func (s *Service) beginFresh(ctx context.Context, fresh []*task) (trouble error) {
	for _, t := range fresh {
		t.start(s.idempotent(&t.a))
	}
	store.SplitTenants(fresh, func(t *task) string { return t.claim.Key.Tenant }, func(tasks []*task) error {
		if s.late(tasks[0]) {
			s.giveBack(tasks...)
			return nil
		}
		tx := &store.Tx{}
		for _, t := range tasks {
			tx.PutRecords = append(tx.PutRecords, store.PutRecord{Record: t.a.record(), Expect: t.a.Version - 1})
		}
		err := lease.Insist(ctx, s.store, s.clock, tx)
		switch {
		case err == nil:
			s.dispatch(ctx, tasks)
		case errors.Is(err, store.ErrConflict) || errors.Is(err, store.ErrTooLarge):
			if len(tasks) > 1 {
				break // each half is tried separately
			}
			if err := s.resume(ctx, tasks[0]); err != nil {
				trouble = err
			}
		default:
			trouble = wrap("begin", "actions", err)
			s.giveBack(tasks...)
		}
		return err
	})
	return trouble
}

// patience is how long it may take to begin what was claimed: so long that no other process has
// it meanwhile.
func (s *Service) patience() time.Duration { return s.cfg.LeaseDuration / 3 }

// late reports whether it has taken so long that the lease may have been lost.
func (s *Service) late(t *task) bool { return s.clock.Now().Sub(t.since) >= s.patience() }

// start makes the action one that runs under the claim. That it is idempotent is noted, since
// who finds it after a crash may not have the target.
func (t *task) start(idempotent bool) {
	t.a.Idempotent = idempotent
	t.a.Status, t.a.Reason = Running, ""
	t.a.StartedAt, t.a.UpdatedAt = t.claim.Now, t.claim.Now
	t.a.EndedAt, t.a.Outcome = time.Time{}, Outcome{}
	t.a.Attempt++
	t.a.Version++
	t.a.claim = string(t.claim.Token)
}

// dispatch hands actions to the pool. If it is late, it makes sure first that they are
// still ours: no commit has told so, as they finish no claim.
func (s *Service) dispatch(ctx context.Context, tasks []*task) {
	lost := map[store.Lease]bool{}
	if s.late(tasks[0]) {
		leases := make([]store.Lease, len(tasks))
		for i, t := range tasks {
			leases[i] = t.claim.Lease()
		}
		gone, err := s.store.Renew(context.WithoutCancel(ctx), s.cfg.LeaseDuration, leases)
		if err != nil {
			s.log.Debug("leases of actions not renewed, claims released", "actions", len(tasks), "error", err)
			gone = leases
		}
		for _, l := range gone {
			lost[l] = true
		}
	}
	for _, t := range tasks {
		if lost[t.claim.Lease()] {
			s.giveBack(t)
			continue
		}
		s.running.Go(func() { s.run(t) })
	}
}

// resume begins an action that was claimed before, according to its record.
func (s *Service) resume(ctx context.Context, t *task) error {
	for range 3 {
		a, err := s.get(ctx, "begin", t.a.Tenant, t.a.ID)
		switch {
		case errors.Is(err, ErrNotFound):
			s.drop(ctx, t) // it was removed
			return nil
		case err != nil:
			s.giveBack(t)
			return err
		case a.message != t.message:
			s.drop(ctx, t) // the message is not the action's any more
			return nil
		}
		t.a = a
		switch {
		case a.Status.Ended():
			s.drop(ctx, t)
			return nil
		case a.Status == Running && a.claim == string(t.claim.Token):
			s.dispatch(ctx, []*task{t}) // it was this process, which did not learn that it had succeeded
			return nil
		case a.Status == Running && a.StartedAt.After(t.claim.Now), s.late(t):
			s.giveBack(t) // another process has claimed it after us, or may have
			return nil
		case a.Status == Running && !s.mayRepeat(&a):
			s.log.Error("action failed, its process died", "tenant", a.Tenant, "action", a.ID, "slug", a.Slug, "attempt", a.Attempt)
			s.settle(t, Outcome{}, recoveredError{})
			s.release(t)
			return nil
		}
		t.start(s.idempotent(&t.a))
		tx := &store.Tx{PutRecords: []store.PutRecord{{Record: t.a.record(), Expect: a.Version}}}
		err = lease.Insist(ctx, s.store, s.clock, tx)
		if err == nil {
			s.dispatch(ctx, []*task{t})
			return nil
		}
		if !errors.Is(err, store.ErrConflict) {
			s.giveBack(t)
			return wrap("begin", a.Tenant+"/"+a.ID, err)
		}
		// Another process has changed it, or our commit was applied and its answer lost: read it
		// again.
	}
	s.giveBack(t)
	return nil
}

// mayRepeat reports whether an action whose process died is run again.
func (s *Service) mayRepeat(a *Action) bool {
	return s.idempotent(a) && a.Attempt < max(crashAttempts, s.cfg.Targets[a.Target].Attempts)
}

func (s *Service) idempotent(a *Action) bool {
	return a.Idempotent || s.cfg.Targets[a.Target].Idempotent
}

// drop consumes a message that is not needed any more.
func (s *Service) drop(ctx context.Context, t *task) {
	defer s.release(t)
	err := s.store.Commit(ctx, &store.Tx{Finish: []store.Finish{{Lease: t.claim.Lease()}}})
	if err != nil {
		s.log.Debug("message of an action not dropped", "key", t.claim.Key, "error", err)
	}
}

// discard puts a message that is not an action's into quarantine.
func (s *Service) discard(ctx context.Context, t *task, why error) {
	defer s.release(t)
	q := store.Quarantine(t.claim.Messages[0], t.claim.Route, "malformed", t.claim.Now)
	q.Record.Tags[store.TagError] = shorten(why.Error(), store.MaxName)
	s.log.Error("message is not an action, quarantined", "key", t.claim.Key, "error", why)
	err := s.store.Commit(ctx, &store.Tx{
		Finish: []store.Finish{{Lease: t.claim.Lease()}}, PutRecords: []store.PutRecord{q},
	})
	if err != nil {
		s.log.Debug("message not quarantined, trying again", "key", t.claim.Key, "error", err)
	}
}

// giveBack has actions claimed again soon, and not only when the lease ends.
func (s *Service) giveBack(tasks ...*task) {
	leases := make([]store.Lease, len(tasks))
	for i, t := range tasks {
		leases[i] = t.claim.Lease()
	}
	_ = claimloop.Release(s.store, s.cfg.LeaseDuration, leases...)
	s.release(tasks...)
}

// recoveredError is why an action fails whose process died.
type recoveredError struct{}

func (recoveredError) Error() string { return recovered }
