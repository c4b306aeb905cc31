package timer

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/abidehq/abide/bus/outbox"
	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/internal/claimloop"
	"github.com/abidehq/abide/store"
)

// shot is a timer that is being fired.
type shot struct {
	claim *store.Claim
	m     *store.Message
	timer Timer
	how   how
	err   error // the message is not that of a timer
}

// how is what happens to a message.
type how int

const (
	put   how = iota // the timer fires, and its envelope goes into the outbox
	hand             // the timer fires, and its envelope is published at once
	again            // the timer has fired, and nobody knows whether its envelope was published
	late             // the same, and the timer was armed again since
	drop             // the timer was moved or cancelled
)

// patience is how long firing waits for publishing when there is more to fire than a batch
// holds.
const patience = 100 * time.Millisecond

// gather is how much time there is between two batches of a worker that are neither small
// nor full. A timer that is due alone is fired at once; one of many waits for so long at
// most, and the work is a fraction of what one by one would cost.
const gather = 5 * time.Millisecond

// fireAll claims timers that are due, and fires them, until ctx ends.
func (s *Service) fireAll(ctx context.Context, relay *outbox.Relay) error {
	loop := claimloop.Loop{
		Store: s.store, Clock: s.clock, Gather: gather,
		Request: store.ClaimRequest{
			Queue: queue, Routes: []string{route},
			Max: s.cfg.Batch, MaxMessages: 1, Lease: s.cfg.LeaseDuration,
		},
		Handle: func(ctx context.Context, claims []store.Claim) error {
			err := s.fire(ctx, relay, claims)
			if err == nil && len(claims) == s.cfg.Batch {
				relay.CatchUp(ctx, patience)
			}
			return err
		},
	}
	return loop.Run(ctx)
}

// fire fires the timers of claims. It returns an error if the store is in trouble.
func (s *Service) fire(ctx context.Context, relay *outbox.Relay, claims []store.Claim) error {
	// What was claimed is fired, also if ctx ends meanwhile.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.LeaseDuration)
	defer cancel()
	shots := make([]*shot, 0, len(claims))
	quick := map[string]bool{}
	for _, sink := range s.sinks {
		quick[sink] = relay.Quick(sink)
	}
	var doubtful []*shot // that another process may have fired
	for i := range claims {
		sh := s.aim(&claims[i], quick)
		if sh.m.Attempt > 1 && sh.err == nil {
			doubtful = append(doubtful, sh)
			continue
		}
		shots = append(shots, sh)
	}
	known, trouble := s.lookAll(ctx, doubtful)
	shots = append(shots, known...)
	handed := map[string][]outbox.Handed{}
	store.SplitTenants(shots, func(sh *shot) string { return sh.claim.Key.Tenant }, func(shots []*shot) error {
		err := s.shoot(ctx, shots, handed)
		switch {
		case err == nil:
		case errors.Is(err, store.ErrClaimLost), errors.Is(err, store.ErrConflict):
			if len(shots) == 1 {
				s.meters.conflicts.Add(ctx, 1)
				err = s.miss(ctx, shots[0], err)
			}
		case errors.Is(err, store.ErrTooLarge) && len(shots) > 1:
		default:
			trouble = err
			s.log.Debug("timers not fired, claims released", "timers", len(shots), "tenant", shots[0].timer.Tenant, "key", shots[0].timer.Key, "error", err)
			s.giveBack(shots)
		}
		return err
	})
	for _, sink := range s.sinks { // in one order, so that a simulation can be repeated
		if list := handed[sink]; len(list) > 0 {
			relay.Hand(ctx, sink, list)
		}
	}
	return trouble
}

// shoot commits that timers have fired. What is to be published at once is added to
// handed.
func (s *Service) shoot(ctx context.Context, shots []*shot, handed map[string][]outbox.Handed) error {
	tx := &store.Tx{}
	for _, sh := range shots {
		sh.add(tx)
	}
	if err := s.store.Commit(ctx, tx); err != nil {
		return err
	}
	s.fired(ctx, shots)
	for _, sh := range shots {
		if sh.how == hand {
			sink := sh.timer.Deliveries[0].Sink
			handed[sink] = append(handed[sink], sh.hand())
		}
	}
	return nil
}

// aim makes a timer that has fired of a claim. If its only sink is a quick one, that gets
// the envelope at once.
func (s *Service) aim(c *store.Claim, quick map[string]bool) *shot {
	sh := &shot{claim: c, m: &c.Messages[0]}
	if sh.timer, sh.err = parseMessage(sh.m); sh.err != nil {
		return sh
	}
	sh.load(s)
	if d := sh.timer.Deliveries; len(d) == 1 && d[0].State == outbox.Pending && sh.timer.unsettled.IsZero() && quick[d[0].Sink] {
		sh.how = hand
	}
	return sh
}

// load makes the timer one that has fired.
func (sh *shot) load(s *Service) {
	sh.timer.fire(sh.claim.Now, s.sinksOf(sh.claim.Key.Tenant))
	sh.timer.Version++
	sh.how = put
}

// add puts into tx what fires the timer.
func (sh *shot) add(tx *store.Tx) {
	if sh.how == hand {
		// The claim is finished when the envelope is published. Until then, a process that
		// claims the message finds that the timer has fired, and publishes the same envelope.
		tx.PutRecords = append(tx.PutRecords, store.PutRecord{Record: sh.timer.record(), Expect: sh.timer.Version - 1})
		return
	}
	tx.Finish = append(tx.Finish, store.Finish{Lease: sh.claim.Lease()})
	if sh.err != nil {
		q := store.Quarantine(*sh.m, sh.claim.Route, outbox.ReasonMalformed, sh.claim.Now)
		q.Record.Tags[store.TagError] = base.Shorten(sh.err.Error(), store.MaxName)
		tx.PutRecords = append(tx.PutRecords, q)
		return
	}
	if sh.how == drop {
		return
	}
	t := &sh.timer
	if sh.how == put {
		tx.PutRecords = append(tx.PutRecords, store.PutRecord{Record: t.record(), Expect: t.Version - 1})
	}
	if len(t.Deliveries) == 0 {
		return
	}
	envelope, payload := t.envelope()
	note := t.note(payload, sh.how == late)
	for i := range t.Deliveries {
		if d := &t.Deliveries[i]; d.State == outbox.Pending {
			tx.Put = append(tx.Put, outbox.Put(d.Sink, t.Key, &envelope, note))
		}
	}
}

// hand returns the envelope of a timer that has fired.
func (sh *shot) hand() outbox.Handed {
	envelope, payload := sh.timer.envelope()
	return outbox.Handed{Claim: sh.claim, Name: sh.timer.Key, Envelope: envelope, Note: sh.timer.note(payload, false)}
}

// fired notes that timers have fired.
func (s *Service) fired(ctx context.Context, shots []*shot) {
	n := 0
	freed := tally{}
	debug := s.log.Enabled(ctx, slog.LevelDebug)
	for _, sh := range shots {
		if sh.err != nil {
			s.log.Error("message is not a timer, quarantined", "tenant", sh.m.Key.Tenant, "key", sh.m.Key.Name, "error", sh.err)
			continue
		}
		if sh.how != put && sh.how != hand {
			continue // it was counted when it fired
		}
		n++
		freed[sh.timer.Tenant]++
		// VisibleAt is when it was due, or when it was put if it was due by then.
		late := sh.timer.FiredAt.Sub(sh.m.VisibleAt)
		s.meters.lateness.Record(ctx, late.Seconds())
		if debug {
			s.log.Debug("timer fired", "tenant", sh.timer.Tenant, "key", sh.timer.Key, "due", sh.timer.DueAt, "lateness", late, "envelope", sh.timer.EnvelopeID)
		}
	}
	s.meters.fired.Add(ctx, int64(n))
	for tenant, n := range freed {
		s.quota.give(tenant, n)
	}
}

// miss looks after a timer that could not be fired. If its claim is lost, that is all. If
// it is not, the record is another one than the message says.
func (s *Service) miss(ctx context.Context, sh *shot, err error) error {
	if errors.Is(err, store.ErrClaimLost) {
		s.log.Debug("timer moved, cancelled or fired by another process", "tenant", sh.timer.Tenant, "key", sh.timer.Key)
		return err
	}
	if err := s.look(ctx, sh); err != nil {
		return err // it is tried again when the lease ends
	}
	return s.shoot(ctx, []*shot{sh}, nil)
}

// lookers is how many timers are looked at at once.
const lookers = 8

// lookAll looks at timers, some at once, and returns those of which it is known how they
// are to be fired. It stops at half of the lease, so that there is time to fire those; the
// others are given back.
func (s *Service) lookAll(ctx context.Context, doubtful []*shot) (known []*shot, trouble error) {
	if len(doubtful) == 0 {
		return nil, nil
	}
	half, cancel := context.WithTimeout(ctx, s.cfg.LeaseDuration/2)
	defer cancel()
	errs := make([]error, len(doubtful))
	var crew sync.WaitGroup
	var next atomic.Int64
	for range min(lookers, len(doubtful)) {
		crew.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(doubtful)); i = next.Add(1) - 1 {
				errs[i] = s.look(half, doubtful[i])
			}
		})
	}
	crew.Wait()
	var rest []*shot
	for i, err := range errs {
		switch {
		case err == nil:
			known = append(known, doubtful[i])
		case half.Err() == nil:
			trouble = err // it is tried again when the lease ends
		default:
			rest = append(rest, doubtful[i])
		}
	}
	s.giveBack(rest)
	if len(known) == 0 && len(rest) > 0 {
		trouble = errors.Join(trouble, half.Err())
	}
	return known, trouble
}

// look finds out what to do with a message by the record of its timer: it was claimed
// before, or the record is another one than it says.
//
// A message whose timer is moved or cancelled is deleted. So one that is there, and whose timer
// is not armed any more, or is armed again, is one that has fired, by a process that died before
// the envelope was published; or the timer was removed after that, when it had been kept long
// enough.
func (s *Service) look(ctx context.Context, sh *shot) error {
	message, err := parseMessage(sh.m)
	if err != nil {
		return err
	}
	now, err := s.get(ctx, "fire", message.Tenant, message.Key)
	switch {
	case errors.Is(err, ErrNotFound):
		sh.timer = message
		sh.timer.Version = 0 // it is made anew, and nothing is lost
		sh.load(s)
	case err != nil:
		return err
	case now.EnvelopeID != message.EnvelopeID:
		sh.timer = message
		sh.load(s)
		sh.how = late
		if !now.unsettled.IsZero() {
			sh.timer.FiredAt = now.unsettled
		}
	case now.Status == Fired:
		sh.timer, sh.how = now, again
	case now.Status == Armed && now.Version == message.Version:
		sh.timer = message
		sh.load(s)
	default:
		sh.how = drop
		s.log.Warn("message does not match its timer, dropped", "tenant", message.Tenant, "key", message.Key)
	}
	return nil
}

// giveBack has timers claimed again soon, and not only when their leases end.
func (s *Service) giveBack(shots []*shot) {
	leases := make([]store.Lease, len(shots))
	for i, sh := range shots {
		leases[i] = sh.claim.Lease()
	}
	_ = claimloop.Release(s.store, s.cfg.LeaseDuration, leases...)
}
