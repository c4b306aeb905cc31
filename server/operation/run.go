package operation

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/internal/claimloop"
	"github.com/abidehq/abide/internal/lease"
	"github.com/abidehq/abide/internal/outage"
	"github.com/abidehq/abide/store"
)

const (
	// workers is how many operations a process works on at a time, atOnce how many
	// instances it does something to at a time, for all of them together, and pageSize how
	// many instances there are between two commits of how far an operation is.
	workers  = 4
	atOnce   = 16
	pageSize = 256

	// leaseLasts is how long a page belongs to a process after it was last heard of.
	leaseLasts = 30 * time.Second

	// drain is how long a page may take to its end when Run is to stop.
	drain = 10 * time.Second

	// maxAttempts is how often a page is begun. What kills its process each time does not
	// do so for ever.
	maxAttempts = 10
)

// Run works on operations until ctx ends. Then it waits for what is under way, and returns
// nil. It returns an error if the store was closed or has failed.
func (s *Service) Run(ctx context.Context) error {
	loop := claimloop.Loop{
		Store: s.store, Clock: s.clock,
		Request: store.ClaimRequest{Queue: queue, Routes: []string{route, routeTenant}, Max: 1, MaxMessages: 1, Lease: leaseLasts},
		Handle: func(ctx context.Context, claims []store.Claim) error {
			err := s.work(ctx, &claims[0]) // a page
			if err != nil && !outage.Permanent(err) {
				s.log.Debug("operation interrupted, trying again", "error", err)
			}
			return err
		},
	}
	loops, ctx := errgroup.WithContext(ctx)
	for range workers {
		loops.Go(func() error { return loop.Run(ctx) })
	}
	return loops.Wait()
}

// work does what a claim asks for. It returns an error if the store is in trouble.
func (s *Service) work(ctx context.Context, c *store.Claim) error {
	// A page that was begun comes to its end, also if ctx ends meanwhile.
	page, cancel := claimloop.Drain(ctx, s.clock, drain)
	defer cancel()
	s.keeper.Keep(c, cancel)
	defer s.keeper.Drop(c.Lease())
	t := &turn{s: s, claim: c, began: s.clock.Now()}
	rec, err := s.store.Get(page, recordKey(c.Key.Tenant, c.Key.Name))
	if err == nil {
		t.before, err = parseRecord(rec)
	}
	m := &c.Messages[0]
	switch {
	case errors.Is(err, store.ErrNotFound):
		return t.settle(&store.Tx{}) // it was removed
	case errors.Is(err, store.ErrCorrupt):
		return t.discard(err)
	case err != nil:
		t.giveBack()
		return err
	case t.before.Status.Ended() && m.ID == idRemove:
		return t.settle(&store.Tx{DeleteRecords: []store.DeleteRecord{{Key: rec.Key, Expect: rec.Version}}})
	case t.before.Status.Ended():
		return t.settle(&store.Tx{})
	}
	t.next = t.before
	if m.Attempt > maxAttempts {
		return t.give(fmt.Errorf("a page was begun %d times, and each time its process died", maxAttempts))
	}
	return t.goOn(page)
}

// turn is a claim on an operation, and what is made of it.
type turn struct {
	s            *Service
	claim        *store.Claim
	began        time.Time // by our clock
	before, next Operation
}

// now returns the store's time.
func (t *turn) now() time.Time {
	now := base.Millis(t.claim.Now.Add(t.s.clock.Now().Sub(t.began)))
	if now.Before(t.before.UpdatedAt) {
		return t.before.UpdatedAt
	}
	return now
}

// goOn does the next page of an operation.
func (t *turn) goOn(ctx context.Context) error {
	if t.next.Status == Pending {
		t.next.Status, t.next.BegunAt = Running, t.now()
		t.next.Total = t.s.total(ctx, &t.next)
	}
	err := t.s.turnPage(ctx, &t.next)
	switch {
	case ctx.Err() != nil: // another process has it, or there is no more time
		t.giveBack()
		t.addToCancelled()
		return nil //nolint:nilerr // another process continues the operation
	case isTrouble(err):
		t.giveBack()
		return fmt.Errorf("operation: %s: %w", t.before.ID, err)
	default:
		return t.give(err)
	}
}

// give commits how far the operation is. With an error, it has failed.
func (t *turn) give(failed error) error {
	switch {
	case failed != nil:
		t.next.Error = base.Shorten(failed.Error(), MaxError)
		t.next.end(Failed, t.now())
	case t.next.cursor == "":
		t.next.end(Completed, t.now())
	default:
		t.next.UpdatedAt = t.now()
		t.next.Version++
	}
	taken, err := t.commit(&store.Tx{
		PutRecords: []store.PutRecord{{Record: t.next.record(), Expect: t.before.Version}},
		Put:        []store.Message{t.next.message()},
	})
	switch {
	case taken:
		t.addToCancelled()
	case err == nil && t.next.Status.Ended():
		t.s.report(&t.next)
	}
	return err
}

// addToCancelled adds what was done on a page to an operation that was cancelled meanwhile,
// unless it is there already.
func (t *turn) addToCancelled() {
	ctx, cancel := context.WithTimeout(context.Background(), leaseLasts)
	defer cancel()
	now, err := t.s.Get(ctx, t.before.under, t.before.ID)
	if err != nil || now.Status != Cancelled || now.pages != t.before.pages || t.next.Matched == t.before.Matched {
		return
	}
	n := &t.next
	now.Total, now.Matched, now.Done, now.Skipped, now.Failed = n.Total, n.Matched, n.Done, n.Skipped, n.Failed
	now.Errors, now.BegunAt, now.pages = n.Errors, n.BegunAt, n.pages
	tx := &store.Tx{PutRecords: []store.PutRecord{{Record: now.record(), Expect: now.Version}}}
	if err := t.s.store.Commit(ctx, tx); err != nil {
		t.s.log.Warn("progress of a cancelled operation unknown", "operation", now.ID, "error", err)
	}
}

// settle commits the end of the claim, unless another process has.
func (t *turn) settle(tx *store.Tx) error {
	_, err := t.commit(tx)
	return err
}

// commit finishes the claim. It tries until its outcome is known, as what was done
// would be done again. Taken means that another process has the claim, or that the operation
// was cancelled; or that an earlier try of this commit has succeeded without an answer.
func (t *turn) commit(tx *store.Tx) (taken bool, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), leaseLasts)
	defer cancel()
	tx.Finish = []store.Finish{{Lease: t.claim.Lease()}}
	err = lease.Insist(ctx, t.s.store, t.s.clock, tx)
	if errors.Is(err, store.ErrClaimLost) || errors.Is(err, store.ErrConflict) {
		return true, nil
	}
	return false, err
}

// discard puts the message of an operation that cannot be read into quarantine.
func (t *turn) discard(why error) error {
	c := t.claim
	t.s.log.Error("operation undecodable, quarantined", "operation", c.Key.Name, "error", why)
	q := store.Quarantine(c.Messages[0], c.Route, "malformed", c.Now)
	q.Record.Tags[store.TagError] = base.Shorten(why.Error(), store.MaxName)
	return t.settle(&store.Tx{PutRecords: []store.PutRecord{q}})
}

// giveBack has the page claimed again soon, and not only when the lease ends.
func (t *turn) giveBack() {
	_ = claimloop.Release(t.s.store, leaseLasts, t.claim.Lease())
}

// report says what a person should know.
func (s *Service) report(o *Operation) {
	attrs := []any{
		"operation", o.ID, "kind", o.Kind, "tenant", o.Tenant(), "by", o.By,
		"matched", o.Matched, "done", o.Done, "skipped", o.Skipped, "failed", o.Failed,
	}
	if o.Status == Failed {
		s.log.Error("operation failed", append(attrs, "error", o.Error)...)
		return
	}
	s.log.Info("operation completed", attrs...)
}
