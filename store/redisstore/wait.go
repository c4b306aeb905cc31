package redisstore

import (
	"context"
	"sync"
	"time"

	"github.com/abidehq/abide/internal/waitlist"
	"github.com/abidehq/abide/store"
)

// waiter is a Claim call, and subscription the waiting calls of one queue and the same
// routes: see package waitlist. An attempt is a round trip to the server, in a goroutine of
// its own or as part of a group of commits, and always without the lock.
//
// The life of an attempt, whichever way it takes:
//
//	waitlist marks the waiter busy          join, startAttempts, onAlarm, reserve
//	Store.calls.Add(1)                      under mu, with the store open
//	script, without mu                      attempt, or commitGroup
//	finishAttempt or cancelAttempt          under mu: result, next due time, alarm
//	releaseUnwanted                         without mu, if the caller has left
//	Store.calls.Done()
type (
	waiter       = waitlist.Waiter[[]store.Claim]
	subscription = waitlist.Subscription[[]store.Claim]
	topic        = waitlist.Topic[[]store.Claim]
)

// target is a queue and a route, which is what messages are put to. With an empty route it
// is the whole queue: ends of leases are noted there, since the route of the key that
// becomes free is not looked up.
type target struct{ queue, route string }

// topic returns the topic of a target, for a subscription to be attached to. The lock is held.
func (s *Store) topic(t target) *topic {
	if s.topics[t] == nil {
		s.topics[t] = &topic{}
	}
	return s.topics[t]
}

// detached removes the topics of a subscription that has ended if no other one is attached
// to them, so that the map does not grow with routes that are no longer waited for. The lock
// is held.
func (s *Store) detached(queue, route string) {
	for _, t := range []target{{queue, route}, {queue, ""}} {
		if topic := s.topics[t]; topic != nil && !topic.Waited() {
			delete(s.topics, t)
		}
	}
}

// join adds a Claim call and starts its first attempt. It returns nil if the store is closed.
// The first call that waits also starts to listen for hints: a process that never waits
// does not subscribe.
func (s *Store) join(req store.ClaimRequest) *waiter {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	w := s.waits.Begin(req, func() []*topic {
		topics := []*topic{s.topic(target{queue: req.Queue})}
		for _, route := range req.Routes {
			topics = append(topics, s.topic(target{req.Queue, route}))
		}
		return topics
	})
	if req.Wait > 0 {
		s.startListening()
	}
	if req.Tenants != nil {
		s.limited.Store(true)
	}
	s.start(w)
	return w
}

// start starts the attempt of a busy waiter, as part of the next group or alone. The lock is
// held, and the store is open.
func (s *Store) start(w *waiter) {
	if s.several() && !s.promising(w) {
		s.waits.Done(w, waitlist.Outcome{}) // it waits
		if sub := w.Subscription(); sub != nil {
			s.noteDueAt(sub, s.outlooks.of(&w.Request, len(s.segments)).next())
			s.setAlarm()
		}
		return
	}
	s.calls.Add(1)
	if !s.attachToGroup(w) {
		go s.attempt(w)
	}
}

// startAttempts starts an attempt for each waiter that the list returns. The lock is held. It
// is also the serve function of the list, which calls it when a wait is over. Close finishes
// all calls of the list, so nothing is started on a closed store.
func (s *Store) startAttempts() {
	for w := s.waits.Next(); w != nil; w = s.waits.Next() {
		s.start(w)
	}
}

// attempt makes a full claim on behalf of a busy waiter. It runs under lifetime, not under
// the caller's context: a script that was sent may lease keys, and its answer is needed to
// release them if the caller has left.
func (s *Store) attempt(w *waiter) {
	defer s.calls.Done()
	f, err := s.claimReady(s.lifetime, w)
	s.releaseUnwanted(s.finishAttempt(w, f, err))
}

// finishAttempt ends a full claim, or one that found something, and starts the attempts that
// follow. It returns the claims that have no caller, which the caller of finishAttempt
// releases.
//
// The end of each lease is noted for all subscriptions of the queue, also if this call
// got it: when the lease ends by time, one of the others must try.
//
// An error counts only if nothing was leased before it. A call that has leased some keys,
// and failed to quarantine a message then, returns the keys: the error will come back with
// the next attempt.
func (s *Store) finishAttempt(w *waiter, f claimResult, err error) (unwanted []store.Claim) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range f.claims {
		s.noteLease(&f.claims[i])
	}
	o := waitlist.Outcome{Found: len(f.claims) > 0, More: f.more}
	if !o.Found {
		o.Err = err
	}
	w.Result = f.claims
	if !s.waits.Done(w, o) {
		unwanted = f.claims
	}
	s.noteNext(w, f)
	if s.several() && w.Subscription() == nil {
		// What it has left, or could not reach, is for the calls that wait.
		if t := s.topics[target{queue: w.Request.Queue}]; t != nil {
			s.waits.Ready(t)
			s.startAttempts()
		}
	}
	return unwanted
}

// cancelAttempt ends an attempt that found nothing and was not a full claim, so that the call
// waits on. With again, a full claim may find something: the subscription is marked first, so
// that the waiter, which becomes idle, is the candidate for it.
func (s *Store) cancelAttempt(w *waiter, f claimResult, again bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if again {
		s.waits.Wake(w.Subscription())
	}
	s.waits.Cancel(w)
	s.noteNext(w, f)
}

// noteNext notes when an attempt may find something again, and starts the attempts that are
// due now. A call with Wait 0 has no subscription, and no use for either. The lock is held.
func (s *Store) noteNext(w *waiter, f claimResult) {
	if sub := w.Subscription(); sub != nil {
		if s.several() {
			s.noteDueAt(sub, s.outlooks.of(&w.Request, len(s.segments)).next())
		} else {
			s.noteDue(sub, f.now, f.next)
		}
		s.startAttempts()
		s.setAlarm()
	}
}

// releaseUnwanted releases claims whose call returned before they came. The attempt is not
// counted: no worker has seen the messages. If that fails the leases expire, and the
// attempt stays counted.
func (s *Store) releaseUnwanted(claims []store.Claim) {
	for i := range claims {
		err := s.release(s.lifetime, store.Release{Lease: claims[i].Lease(), Uncounted: true})
		if err != nil && s.lifetime.Err() == nil {
			s.logger.Debug("redisstore: claim without a caller not released, its lease expires", "key", claims[i].Key, "error", err)
		}
	}
}

// noteDue notes a time, by the server's clock, at which an attempt of a subscription may find
// something; -1 is none. now is the server's time in the same answer. Only the earliest time
// is kept: the attempt then made learns the next one. The lock is held.
func (s *Store) noteDue(sub *subscription, now, next int64) {
	if next >= 0 {
		s.noteDueAt(sub, s.moment(now, next))
	}
}

// noteDueAt notes a time by the ticker; zero is none. The lock is held.
func (s *Store) noteDueAt(sub *subscription, at time.Time) {
	if !at.IsZero() && (sub.DueAt.IsZero() || at.Before(sub.DueAt)) {
		sub.DueAt = at
	}
}

// noteLease notes the end of a lease for all subscriptions of its queue, although only those
// with the key's route can claim it. The note is not withdrawn when the lease is finished or
// renewed. Both may cost an attempt in vain, which is allowed; an attempt that is not made
// is not. The lock is held.
func (s *Store) noteLease(c *store.Claim) {
	queue, at := target{queue: c.Key.Queue}, s.moment(c.Now.UnixMilli(), c.Until.UnixMilli())
	if s.several() {
		s.outlooks.due(queue, s.segmentOf(c.Key.Tenant), at)
	}
	if t := s.topics[queue]; t != nil {
		for _, sub := range t.Subscriptions() {
			s.noteDueAt(sub, at)
		}
	}
}

// readiness is a partition that has a message to claim, and since when or from when on.
type readiness struct {
	queue, route string
	at           int64 // by the server's clock
}

// parseReady reads the partitions of an answer. One that is invalid is logged and left out:
// the commit that the answer is for has been applied.
func (s *Store) parseReady(a *answer) (list []readiness) {
	for a.more() {
		partition, at := a.text(), a.num()
		queue, route, err := parsePartition(partition)
		if err != nil {
			s.logger.Error("redisstore: script returned an invalid partition", "error", err)
			continue
		}
		list = append(list, readiness{queue, route, at})
	}
	return list
}

// wake wakes the calls that wait for partitions of a segment which have become ready.
//
// The list comes from the answer of a script of this process, or from a hint of
// another. A partition that is ready now marks its
// subscriptions; one that will be ready later only brings their alarm forward.
func (s *Store) wake(seg *segment, now int64, list []readiness) {
	if len(list) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range list {
		if s.several() {
			s.noteReady(seg, now, r)
		}
		t := s.topics[target{r.queue, r.route}]
		switch {
		case t == nil:
		case r.at <= now:
			s.waits.Ready(t)
		default:
			for _, sub := range t.Subscriptions() {
				s.noteDue(sub, now, r.at)
			}
		}
	}
	s.startAttempts()
	s.setAlarm()
}

// setAlarm sets the alarm for the next time at which an attempt may find something, or a
// message without a route expires. It visits all subscriptions, of which a process has few:
// one for each set of routes that its workers serve. The lock is held.
func (s *Store) setAlarm() {
	next := time.Time{}
	for _, seg := range s.segments {
		if !seg.expireAt.IsZero() && (next.IsZero() || seg.expireAt.Before(next)) {
			next = seg.expireAt
		}
	}
	s.waits.Subscriptions(func(sub *subscription) bool {
		if !sub.DueAt.IsZero() && (next.IsZero() || sub.DueAt.Before(next)) {
			next = sub.DueAt
		}
		return true
	})
	if !s.closed && !next.IsZero() {
		s.alarm.Set(next, next.Sub(s.ticker().Now()))
	}
}

// onAlarm starts the attempts that are due. It returns when they have ended, so that a test
// that advances a manual clock finds their effects when the clock returns. For that reason
// they are not attached to groups.
func (s *Store) onAlarm() {
	s.mu.Lock()
	s.alarm.Rung()
	now := s.ticker().Now()
	var attempts sync.WaitGroup
	s.waits.Subscriptions(func(sub *subscription) bool {
		if !sub.DueAt.IsZero() && !sub.DueAt.After(now) {
			sub.DueAt = time.Time{}
			s.waits.Wake(sub)
		}
		return true
	})
	for w := s.waits.Next(); w != nil; w = s.waits.Next() {
		s.calls.Add(1)
		attempts.Go(func() { s.attempt(w) })
	}
	for _, seg := range s.segments {
		if s.closed || seg.expireAt.IsZero() || seg.expireAt.After(now) {
			continue
		}
		seg.expireAt = time.Time{}
		s.calls.Add(1)
		attempts.Go(func() {
			defer s.calls.Done()
			if err := s.sweep(s.lifetime, seg); err != nil && s.lifetime.Err() == nil {
				s.logger.Warn("redisstore: expired messages not quarantined", "error", err)
				s.noteExpiry(seg, 0, pollEvery.Milliseconds())
			}
		})
	}
	s.setAlarm()
	s.mu.Unlock()
	attempts.Wait()
}

// retryAll makes one attempt for each subscription, and compares the versions of all records
// that are awaited, because hints may have been lost. It is called by the poll, when the
// subscription to hints is established, and after a change of the connection.
func (s *Store) retryAll() {
	if s.several() {
		s.lookAgain(context.WithoutCancel(s.lifetime))
	}
	s.mu.Lock()
	s.waits.Subscriptions(func(sub *subscription) bool {
		s.waits.Wake(sub)
		return true
	})
	s.startAttempts()
	s.mu.Unlock()
	s.checkAwaited(context.WithoutCancel(s.lifetime))
}
