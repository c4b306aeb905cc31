package redisstore

import (
	"context"
	"sync"
	"time"

	"github.com/abidehq/abide/internal/waitlist"
	"github.com/abidehq/abide/store"
)

// waiter is a Claim call, and subscription the waiting calls of one queue and the same
// routes: see package waitlist. An attempt is a look: a round trip to the server, in a
// goroutine of its own or as part of a group of commits, and always without the lock.
type (
	waiter       = waitlist.Waiter[[]store.Claim]
	subscription = waitlist.Subscription[[]store.Claim]
	topic        = waitlist.Topic[[]store.Claim]
)

// target is a queue and a route. Without a route it is the whole queue.
type target struct{ queue, route string }

// topic returns the topic of a target, for a subscription to be attached to.
func (s *Store) topic(t target) *topic {
	if s.topics[t] == nil {
		s.topics[t] = &topic{}
	}
	return s.topics[t]
}

// detached forgets topics that no subscription is attached to. The lock is held.
func (s *Store) detached(queue, route string) {
	for _, t := range []target{{queue, route}, {queue, ""}} {
		if topic := s.topics[t]; topic != nil && !topic.Waited() {
			delete(s.topics, t)
		}
	}
}

// join enters a call, which looks for the first time. It returns nil if the store is closed.
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
		s.watch()
	}
	s.start(w)
	return w
}

// start has a busy waiter look, with the next commits or by itself. The lock is held, and the
// store open.
func (s *Store) start(w *waiter) {
	s.calls.Add(1)
	if !s.ride(w) {
		go s.lookFor(w)
	}
}

// startWanted starts the looks that are wanted. The lock is held.
func (s *Store) startWanted() {
	for w := s.waits.Next(); w != nil; w = s.waits.Next() {
		s.start(w)
	}
}

// lookFor looks on behalf of a busy waiter.
func (s *Store) lookFor(w *waiter) {
	defer s.calls.Done()
	f, err := s.look(s.life, &w.Request)
	s.giveBack(s.looked(w, f, err))
}

// looked ends a look, or a claim by a commit, and starts those that are wanted next. It
// returns the claims that no caller is there for.
//
// What was leased is noted for all subscriptions of the queue even if this call
// got it: when the lease ends by time, it is one of the others that must look.
func (s *Store) looked(w *waiter, f found, err error) (unwanted []store.Claim) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range f.claims {
		s.noteLease(f.claims[i].Key.Queue, f.now, f.claims[i].Until)
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
	return unwanted
}

// unlooked ends a claim by a commit that found nothing, and was no whole look. With again,
// there may be something that only a look finds.
func (s *Store) unlooked(w *waiter, f found, again bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if again {
		s.waits.Wake(w.Subscription())
	}
	s.waits.Cancel(w)
	s.noteNext(w, f)
}

// noteNext notes when a look may find something again, and starts the looks that are
// wanted. The lock is held.
func (s *Store) noteNext(w *waiter, f found) {
	if sub := w.Subscription(); sub != nil {
		s.noteDue(sub, f.now, f.next)
		s.startWanted()
		s.setAlarm()
	}
}

// giveBack gives up claims that a call got after it had returned.
func (s *Store) giveBack(claims []store.Claim) {
	for i := range claims {
		err := s.release(s.life, store.Release{Lease: claims[i].Lease(), Uncounted: true})
		if err != nil && s.life.Err() == nil {
			s.logger.Debug("redisstore: claim without a caller not released, its lease expires", "key", claims[i].Key, "error", err)
		}
	}
}

// noteDue notes a time at which a look of a subscription may find something; -1 is none. The
// lock is held.
func (s *Store) noteDue(sub *subscription, now, next int64) {
	if next < 0 {
		return
	}
	if at := s.moment(now, next); sub.DueAt.IsZero() || at.Before(sub.DueAt) {
		sub.DueAt = at
	}
}

// noteLease notes the end of a lease for all who wait in its queue. The lock is held.
func (s *Store) noteLease(queue string, now int64, until time.Time) {
	if t := s.topics[target{queue: queue}]; t != nil {
		for _, sub := range t.Subscriptions() {
			s.noteDue(sub, now, until.UnixMilli())
		}
	}
}

// readiness is a partition that has something, now or later.
type readiness struct {
	queue, route string
	at           int64
}

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

// wake tells those who wait what has become ready.
//
// It is called with what the answer of a script of this process says, and with
// what hints of others say. A partition that is ready now marks its
// subscriptions; one that will be ready later only brings their alarm forward.
func (s *Store) wake(now int64, list []readiness) {
	if len(list) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range list {
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
	s.startWanted()
	s.setAlarm()
}

// setAlarm sets the alarm for the next time at which a look may find something, or a message
// without a route expires. The lock is held.
func (s *Store) setAlarm() {
	next := s.expireAt
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

// onAlarm starts the looks whose time has come. It returns when they have ended, so that whoever
// made the time pass finds it done.
func (s *Store) onAlarm() {
	s.mu.Lock()
	s.alarm.Rung()
	now := s.ticker().Now()
	var looks sync.WaitGroup
	s.waits.Subscriptions(func(sub *subscription) bool {
		if !sub.DueAt.IsZero() && !sub.DueAt.After(now) {
			sub.DueAt = time.Time{}
			s.waits.Wake(sub)
		}
		return true
	})
	for w := s.waits.Next(); w != nil; w = s.waits.Next() {
		s.calls.Add(1)
		looks.Go(func() { s.lookFor(w) })
	}
	if !s.closed && !s.expireAt.IsZero() && !s.expireAt.After(now) {
		s.expireAt = time.Time{}
		s.calls.Add(1)
		looks.Go(func() {
			defer s.calls.Done()
			if err := s.sweep(s.life); err != nil && s.life.Err() == nil {
				s.logger.Warn("redisstore: expired messages not quarantined", "error", err)
				s.noteExpiry(0, pollEvery.Milliseconds())
			}
		})
	}
	s.setAlarm()
	s.mu.Unlock()
	looks.Wait()
}

// lookAgain has one call of each subscription look: hints may have been lost.
func (s *Store) lookAgain() {
	s.mu.Lock()
	s.waits.Subscriptions(func(sub *subscription) bool {
		s.waits.Wake(sub)
		return true
	})
	s.startWanted()
	s.mu.Unlock()
	s.checkAwaited(context.WithoutCancel(s.life))
}
