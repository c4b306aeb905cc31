package memstore

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strconv"

	"github.com/abidehq/abide/internal/waitlist"
	"github.com/abidehq/abide/store"
)

// Claim leases keys that are ready.
func (s *Store) Claim(ctx context.Context, req store.ClaimRequest) ([]store.Claim, error) {
	if err := req.Validate(); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	nowMS, err := s.lock("claim")
	if err != nil {
		return nil, err
	}
	q := s.queue(req.Queue)
	claims := s.claim(q, &req, nowMS)
	if len(claims) > 0 || req.Wait == 0 {
		s.serve(q, nowMS) // what was quarantined may have ended a wait, and alarms have moved
		s.mu.Unlock()
		return claims, nil
	}
	req.Routes, req.Tenants = slices.Clone(req.Routes), slices.Clone(req.Tenants)
	w := s.waits.Join(req, func() []*waitlist.Topic[[]store.Claim] { return []*waitlist.Topic[[]store.Claim]{&q.topic} })
	s.serve(q, nowMS)
	s.mu.Unlock()
	return s.waits.Wait(ctx, w)
}

// expireWait ends waits whose time is over, unless there is something after all. The lock
// is held.
func (s *Store) expireWait() {
	if !s.closed {
		s.serveAll(s.advance())
	}
}

// serveAll serves the waiters of all queues.
func (s *Store) serveAll(nowMS int64) {
	for _, q := range s.queues {
		s.serve(q, nowMS)
	}
}

// serve serves the waiters of a queue that has ready keys, and sets the alarm for the next
// time at which the queue changes by itself.
func (s *Store) serve(q *queue, nowMS int64) {
	if q.ready.Len() > 0 {
		s.waits.Ready(&q.topic)
	}
	s.waits.Serve(func(w *waitlist.Waiter[[]store.Claim]) (waitlist.Outcome, bool) {
		w.Result = s.claim(s.queue(w.Request.Queue), &w.Request, nowMS)
		found := len(w.Result) > 0
		return waitlist.Outcome{Found: found, More: found}, false
	})
	s.setAlarm(q)
}

// setAlarm sets the queue's alarm for the next time at which it changes by itself: a
// message without a route expires, or, if a Claim call waits, a lease ends or a key
// becomes ready.
func (s *Store) setAlarm(q *queue) {
	next := int64(math.MaxInt64)
	if m := q.nextExpiry(); m != nil && s.excluded == 0 {
		next = m.place.ms
	}
	if q.topic.Waited() {
		if k, ok := q.leased.Min(); ok {
			next = min(next, k.place.ms)
		}
		if k, ok := q.future.Min(); ok {
			next = min(next, k.place.ms)
		}
	}
	if next == math.MaxInt64 {
		q.alarm.Stop()
		return
	}
	// Sub saturates: a time in thousands of years is as far away as a Duration can be.
	at := store.FromMillis(next)
	q.alarm.Set(at, at.Sub(s.clock.Now())-s.time.Lead())
}

// onAlarm does what is due in a queue.
func (s *Store) onAlarm(q *queue) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	q.alarm.Rung()
	s.serve(q, s.advance())
}

// claim leases what is ready and qualifies. Tenants take turns, beginning with the one
// after that whose key was claimed last; of a tenant, the key with the oldest message
// comes first.
func (s *Store) claim(q *queue, req *store.ClaimRequest, nowMS int64) (claims []store.Claim) {
	if q.ready.Len() == 0 {
		return nil
	}
	var routes []string // that have ready keys
	for _, route := range req.Routes {
		if q.firstReady(place{route: route}) != nil {
			routes = append(routes, route)
		}
	}
	if req.Tenants != nil {
		return s.claimLimited(q, routes, req, nowMS)
	}
	turn := q.lastTenant
	for len(claims) < req.Max {
		k := q.inTurn(routes, turn)
		if k == nil {
			break
		}
		turn = k.key.Tenant
		if c, ok := s.claimKey(q, k, req, nowMS); ok {
			claims = append(claims, c)
			q.lastTenant = turn
		}
	}
	return claims
}

// claimLimited is claim for a request that is limited to tenants: one key of each in turn.
func (s *Store) claimLimited(q *queue, routes []string, req *store.ClaimRequest, nowMS int64) (claims []store.Claim) {
	for tenants := q.limited.Order(req.Tenants); len(tenants) > 0; {
		left := tenants[:0]
		for _, tenant := range tenants {
			if len(claims) == req.Max {
				return claims
			}
			k := q.firstOf(routes, tenant)
			if k == nil {
				continue
			}
			left = append(left, tenant)
			if c, ok := s.claimKey(q, k, req, nowMS); ok {
				claims = append(claims, c)
				q.limited.Served(tenant)
			}
		}
		tenants = left
	}
	return claims
}

// firstOf returns the ready key of a tenant, of one of the routes, with the oldest message, or
// nil.
func (q *queue) firstOf(routes []string, tenant string) (first *keyState) {
	for _, route := range routes {
		k := q.firstReady(place{route: route, tenant: tenant, ms: math.MinInt64})
		if k != nil && k.key.Tenant == tenant && (first == nil || k.precedes(first)) {
			first = k
		}
	}
	return first
}

// inTurn returns the ready key, of one of the routes, that is next after a tenant's
// turn, or nil.
func (q *queue) inTurn(routes []string, tenant string) *keyState {
	first := func(from func(route string) place) (first *keyState) {
		for _, route := range routes {
			if k := q.firstReady(from(route)); k != nil && (first == nil || k.precedes(first)) {
				first = k
			}
		}
		return first
	}
	if k := first(func(route string) place { return after(route, tenant) }); k != nil {
		return k
	}
	return first(func(route string) place { return place{route: route} })
}

// precedes reports whether a ready key comes before another, by tenant and by the time
// of its first message, whatever their routes.
func (k *keyState) precedes(o *keyState) bool {
	a, b := k.place, o.place
	a.route, b.route = "", ""
	return a.compare(b) < 0
}

// claimKey leases a key that is ready, unless all its visible messages have been
// delivered too often and go to quarantine.
func (s *Store) claimKey(q *queue, k *keyState, req *store.ClaimRequest, nowMS int64) (store.Claim, bool) {
	limit := cmp.Or(req.MaxMessages, store.DefaultMessages)
	var deliver []*message
	size := 0
	for len(deliver) < min(limit, len(k.messages)) {
		m := k.messages[len(deliver)]
		if m.visibleMS > nowMS || (len(deliver) > 0 && size+len(m.Body) > store.PageBytes) {
			break
		}
		if req.MaxAttempts > 0 && m.Attempt >= req.MaxAttempts {
			s.quarantine(m, store.ReasonAttempts, nowMS)
			continue
		}
		deliver = append(deliver, m)
		size += len(m.Body)
	}
	defer q.settle(k, nowMS)
	if len(deliver) == 0 {
		return store.Claim{}, false
	}
	s.tokens++
	k.lease = &lease{
		number:    s.tokens,
		token:     store.Token(strconv.FormatInt(s.number, 10) + "." + strconv.FormatInt(s.tokens, 10)),
		owner:     req.Owner,
		untilMS:   nowMS + millis(req.Lease),
		delivered: deliver,
	}
	c := store.Claim{
		Key: k.key, Token: k.lease.token, Route: k.route, LogLength: k.logLength(), LogTag: k.logTag,
		Now: store.FromMillis(nowMS), Until: store.FromMillis(k.lease.untilMS),
		Messages: make([]store.Message, 0, len(deliver)),
	}
	for _, m := range deliver {
		m.Attempt++
		c.Messages = append(c.Messages, k.copy(m))
	}
	return c, true
}
