package pebblestore

import (
	"maps"
	"math"
	"slices"
	"time"

	"github.com/abidehq/abide/internal/waitlist"
	"github.com/abidehq/abide/store"
)

// join adds a Claim call for which nothing is ready to the waiting ones. The routes and
// tenants are copied: the caller may change its slices after Claim has returned, and an attempt
// may still read them.
//
// A call that is limited to tenants waits for each of them on each route, and not for the
// routes: what others put does not wake it.
func (s *Store) join(q *queue, req store.ClaimRequest) *waitlist.Waiter[claimResult] {
	req.Routes, req.Tenants = slices.Clone(req.Routes), slices.Clone(req.Tenants)
	return s.waits.Join(req, func() []*waitlist.Topic[claimResult] {
		topics := make([]*waitlist.Topic[claimResult], 0, len(req.Routes))
		for _, route := range req.Routes {
			rs := s.route(q, route)
			s.awaited[rs] = struct{}{}
			if req.Tenants == nil {
				topics = append(topics, &rs.topic)
			}
			for _, tenant := range req.Tenants {
				topics = append(topics, rs.topicOf(tenant))
			}
		}
		return topics
	})
}

// topicOf returns the topic of a tenant on the route.
func (rs *routeState) topicOf(tenant string) *waitlist.Topic[claimResult] {
	t := rs.limited[tenant]
	if t == nil {
		if rs.limited == nil {
			rs.limited = map[string]*waitlist.Topic[claimResult]{}
		}
		t = &waitlist.Topic[claimResult]{}
		rs.limited[tenant] = t
	}
	return t
}

// detached removes a route from those with waiting calls when the last one has gone.
func (s *Store) detached(queue, route string) {
	rs := s.queues[queue].routes[route]
	if rs == nil {
		return
	}
	maps.DeleteFunc(rs.limited, func(_ string, t *waitlist.Topic[claimResult]) bool { return !t.Waited() })
	if !rs.topic.Waited() && len(rs.limited) == 0 {
		delete(s.awaited, rs)
		s.pruneRoute(rs)
	}
}

// ready marks the waiters for the route of a key that may be ready.
func (s *Store) ready(k *keyState) {
	if k.partition != nil {
		s.partitionReady(k.partition)
	}
}

// partitionReady marks the waiters for a partition: those for its route, and those for its
// tenant on that.
func (s *Store) partitionReady(l *partition) {
	s.waits.Ready(&l.rs.topic)
	if t := l.rs.limited[l.tenant]; t != nil {
		s.waits.Ready(t)
	}
}

// serve makes attempts on behalf of the marked waiters, under the mutex. A call that makes a
// key ready thus leases it to a waiting call itself, without a context switch.
//
// What marks waiters, and where:
//
//	a group is durable       acknowledge: routes of its keys and partitions
//	a lease is released      Release, undo
//	a lease has expired,     onAlarm: routes that are claimable now
//	a message is due
//	a wait is over           package waitlist: one last attempt
func (s *Store) serve() { s.waits.Serve(s.attempt) }

// expireWait makes the last attempt for a wait whose time is over.
func (s *Store) expireWait() {
	if s.failure == nil && !s.closed {
		s.now()
		s.serve()
	}
}

// attempt claims on behalf of a waiter, at the time of the call under way. An error is that of
// the waiter's call, and another waiter is tried: what cannot be read may concern other
// routes only. After a failure of the store all waiters have been ended.
func (s *Store) attempt(w *waitlist.Waiter[claimResult]) (o waitlist.Outcome, stop bool) {
	t, err := s.claim(s.queue(w.Request.Queue), &w.Request, s.lastNow)
	t.waitFor(w.Result.group)
	w.Result = t
	found := len(t.claims) > 0
	return waitlist.Outcome{Found: found, More: found || err != nil, Err: err}, s.failure != nil
}

// now reads the clock, in milliseconds. It does not run backwards: see base.Steady. Everything
// that happens under one lock uses one reading, lastNow.
func (s *Store) now() int64 {
	s.lastNow = s.time.Now()
	return s.lastNow
}

// maxAlarm is the longest time, in milliseconds, after which the clock is read again: the
// timer of a machine that sleeps, or whose clock is set, goes off late.
const maxAlarm = 60_000

// setAlarm sets the alarm for the next event that no call causes: a message is due on a route
// with waiting calls, a lease ends while calls wait, or a message without a route expires.
//
// There is one alarm for the store. It is set when a call begins to wait, and
// after each group, release and alarm: those are the moments at which the next
// event can come nearer. Without waiting calls only expiry needs it: what is due
// or has expired is found by the next claim.
func (s *Store) setAlarm(now int64) {
	next := int64(math.MaxInt64)
	if s.waits.Waiting() > 0 && s.leases.len() > 0 {
		next = s.leases.items[0].until
	}
	for _, q := range s.queues {
		if rs := q.routes[""]; rs != nil && rs.due.len() > 0 {
			next = min(next, max(rs.due.items[0].next.due, q.sweepAt))
		}
	}
	for rs := range s.awaited {
		if rs.topic.Waited() && rs.due.len() > 0 {
			next = min(next, rs.due.items[0].next.due)
		}
		for tenant := range rs.limited {
			if l := s.partitionOf(rs, tenant); l != nil && l.ready.len() == 0 {
				next = min(next, l.next.due)
			}
		}
	}
	if next == math.MaxInt64 {
		return
	}
	ms := min(max(next, now+1), now+maxAlarm)
	at := store.FromMillis(ms)
	s.alarm.Set(at, min(at.Sub(s.clock.Now()), durationMS(ms-now)))
}

// onAlarm handles the events that are due.
//
// It returns when what it has swept is durable: a test that advances a manual
// clock finds everything done that was due.
func (s *Store) onAlarm() {
	s.mu.Lock()
	if s.closed || s.failure != nil {
		s.mu.Unlock()
		return
	}
	now := s.now()
	s.alarm.Rung()
	s.expireLeases(now)
	var swept []*group
	for _, q := range s.queues {
		if q.sweepDue(now) {
			s.sweep(q)
			swept = append(swept, q.swept)
		}
	}
	for rs := range s.awaited {
		if rs.topic.Waited() && rs.claimable(now) {
			s.waits.Ready(&rs.topic)
		}
		for tenant, t := range rs.limited {
			if l := s.partitionOf(rs, tenant); l != nil && (l.ready.len() > 0 || l.next.due <= now) {
				s.waits.Ready(t)
			}
		}
	}
	s.serve()
	s.setAlarm(now)
	s.mu.Unlock()
	for _, g := range swept {
		if g != nil {
			<-g.done
		}
	}
}

// claimable reports whether a claim of the route may find something. It may be wrong, as next
// may be too early; it is never wrong the other way.
func (rs *routeState) claimable(now int64) bool {
	return len(rs.ring) > 0 || rs.due.len() > 0 && rs.due.items[0].next.due <= now
}

// millis returns a duration in milliseconds, rounded up.
func millis(d time.Duration) int64 {
	return int64((d + time.Millisecond - 1) / time.Millisecond)
}

func durationMS(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }
