package timer

import (
	"context"
	"errors"
	"time"

	"github.com/abidehq/abide/bus/outbox"
	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/store"
)

// longPoll is how long a claim waits at most. A commit or a due time ends the wait.
const longPoll = 10 * time.Minute

// shot is a timer that is being fired.
type shot struct {
	claim *store.Claim
	m     *store.Message
	timer Timer
	err   error // the message is not that of a timer
}

// patience is how long firing waits for publishing when there is more to fire than a batch
// holds.
const patience = 100 * time.Millisecond

// gather is how much time there is between two batches of a worker that are neither small
// nor full. A timer that is due alone is fired at once; one of many waits for so long at
// most, and the work is a fraction of what one by one would cost.
const gather = 5 * time.Millisecond

// fireAll claims timers that are due, and fires them, until ctx ends.
func (s *Service) fireAll(ctx context.Context, relay *outbox.Relay) error {
	req := store.ClaimRequest{
		Queue: queue, Routes: []string{route},
		Max: s.cfg.Batch, MaxMessages: 1, Lease: s.cfg.Lease, Wait: longPoll,
	}
	trouble := base.Pause{Clock: s.clock, Least: 50 * time.Millisecond, Most: 5 * time.Second}
	pace := base.Pace{Clock: s.clock, Every: gather}
	for {
		pace.Wait(ctx)
		claims, err := s.store.Claim(ctx, req)
		pace.Took(len(claims))
		switch {
		case len(claims) == 0 && ended(ctx):
			return nil
		case errors.Is(err, store.ErrClosed), errors.Is(err, store.ErrFailed):
			return err
		case err != nil:
			s.log.Error("cannot claim timers", "error", err)
		default:
			err = s.fire(ctx, claims)
		}
		if err != nil {
			_ = trouble.Sleep(ctx)
			continue
		}
		trouble.Reset()
		if len(claims) == req.Max {
			pace.Took(0) // there is more already
			relay.CatchUp(ctx, patience)
		}
	}
}

// fire fires the timers of claims. It returns an error if the store is in trouble.
func (s *Service) fire(ctx context.Context, claims []store.Claim) error {
	// What was claimed is fired, also if ctx ends meanwhile.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.Lease)
	defer cancel()
	shots := make([]*shot, len(claims))
	for i := range claims {
		shots[i] = s.aim(&claims[i])
	}
	var trouble error
	store.Split(shots, func(shots []*shot) error {
		tx := &store.Tx{}
		for _, shot := range shots {
			shot.add(tx)
		}
		err := s.store.Commit(ctx, tx)
		switch {
		case err == nil:
			s.fired(ctx, shots)
		case errors.Is(err, store.ErrClaimLost), errors.Is(err, store.ErrConflict):
			if len(shots) == 1 {
				s.meters.conflicts.Add(ctx, 1)
				err = s.miss(ctx, shots[0], err)
			}
		case errors.Is(err, store.ErrTooLarge) && len(shots) > 1:
		default:
			trouble = err
			s.log.Error("cannot fire timers, they are tried again", "timers", len(shots), "tenant", shots[0].timer.Tenant, "key", shots[0].timer.Key, "error", err)
			s.giveBack(ctx, shots)
		}
		return err
	})
	return trouble
}

// aim makes a timer that has fired of a claim.
func (s *Service) aim(c *store.Claim) *shot {
	sh := &shot{claim: c, m: &c.Messages[0]}
	if sh.timer, sh.err = parseMessage(sh.m); sh.err == nil {
		sh.timer.fire(c.Now, s.sinksOf(c.Key.Tenant))
		sh.timer.Version++
	}
	return sh
}

// add puts into tx what fires the timer.
func (sh *shot) add(tx *store.Tx) {
	tx.Finish = append(tx.Finish, store.Finish{Lease: sh.claim.Lease()})
	if sh.err != nil {
		q := store.Quarantine(*sh.m, sh.claim.Route, outbox.ReasonMalformed, sh.claim.Now)
		q.Record.Tags[store.TagError] = outbox.Shorten(sh.err.Error(), store.MaxName)
		tx.PutRecords = append(tx.PutRecords, q)
		return
	}
	t := &sh.timer
	tx.PutRecords = append(tx.PutRecords, store.PutRecord{Record: t.record(), Expect: t.Version - 1})
	if len(t.Deliveries) == 0 {
		return
	}
	envelope, payload := t.envelope()
	note := t.note(payload)
	for i := range t.Deliveries {
		if d := &t.Deliveries[i]; d.State == outbox.Pending {
			tx.Put = append(tx.Put, outbox.Put(d.Sink, t.Key, &envelope, note))
		}
	}
}

// fired notes that timers have fired.
func (s *Service) fired(ctx context.Context, shots []*shot) {
	n := 0
	freed := tally{}
	for _, sh := range shots {
		if sh.err != nil {
			s.log.Error("a message that is not a timer's is in quarantine", "tenant", sh.m.Key.Tenant, "key", sh.m.Key.Name, "error", sh.err)
			continue
		}
		n++
		freed[sh.timer.Tenant]++
		// VisibleAt is when it was due, or when it was put if it was due by then.
		s.meters.lateness.Record(ctx, sh.timer.FiredAt.Sub(sh.m.VisibleAt).Seconds())
	}
	s.meters.fired.Add(ctx, int64(n))
	for tenant, n := range freed {
		s.quota.give(tenant, n)
	}
}

// miss looks after a timer that could not be fired. If its claim is lost, that is all. If
// it is not, the record has changed and the message has stayed, which no service does;
// then the message is not the timer's any more. Only a record that is gone is made anew:
// two that remove what was kept long enough can take one for the other that was armed
// in between, and no timer is lost by that.
func (s *Service) miss(ctx context.Context, sh *shot, err error) error {
	if errors.Is(err, store.ErrClaimLost) {
		s.log.Debug("a timer was moved, cancelled or fired by somebody else", "tenant", sh.timer.Tenant, "key", sh.timer.Key)
		return err
	}
	_, gone := s.get(ctx, "fire", sh.timer.Tenant, sh.timer.Key)
	switch {
	case errors.Is(gone, ErrNotFound):
		tx := &store.Tx{}
		sh.timer.Version = 1
		sh.add(tx)
		if err = s.store.Commit(ctx, tx); err == nil {
			s.fired(ctx, []*shot{sh})
		}
		return err
	case gone != nil:
		return gone // it is tried again when the lease ends
	}
	s.log.Warn("a message does not match its timer and is dropped", "tenant", sh.timer.Tenant, "key", sh.timer.Key, "error", err)
	return s.store.Commit(ctx, &store.Tx{Finish: []store.Finish{{Lease: sh.claim.Lease()}}})
}

// giveBack has timers claimed again soon, and not only when their leases end.
func (s *Service) giveBack(ctx context.Context, shots []*shot) {
	for _, sh := range shots {
		if err := s.store.Release(ctx, store.Release{Lease: sh.claim.Lease(), Uncounted: true}); err != nil && !errors.Is(err, store.ErrClaimLost) {
			return
		}
	}
}
