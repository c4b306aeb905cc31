package memstore

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/abidehq/abide/store"
)

// waiter is a Claim call that waits. Whoever makes a key ready claims it on the
// waiter's behalf, so that no wake-up is lost and none is in vain.
type waiter struct {
	req store.ClaimRequest

	// done is closed when the wait is over; claims and err are set before.
	done   chan struct{}
	claims []store.Claim
	err    error
}

func (w *waiter) end(claims []store.Claim, err error) {
	w.claims, w.err = claims, err
	close(w.done)
}

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
	claims := s.claim(q, req, nowMS)
	if len(claims) > 0 || req.Wait == 0 {
		s.serve(q, nowMS) // what was quarantined may have ended a wait, and alarms have moved
		s.mu.Unlock()
		return claims, nil
	}
	req.Routes = slices.Clone(req.Routes)
	w := &waiter{req: req, done: make(chan struct{})}
	q.waiters = append(q.waiters, w)
	s.serve(q, nowMS)
	stop := s.clock.AfterFunc(req.Wait, func() { s.giveUp(q, w, nil) })
	s.mu.Unlock()
	defer stop()

	select {
	case <-w.done:
	case <-ctx.Done():
		s.giveUp(q, w, ctx.Err())
		<-w.done
	}
	return w.claims, w.err
}

// giveUp ends a wait without claims, unless there are some after all.
func (s *Store) giveUp(q *queue, w *waiter, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.lastMS = max(s.lastMS, s.clock.Now().UnixMilli())
		s.serve(q, s.lastMS)
	}
	if i := slices.Index(q.waiters, w); i >= 0 {
		q.waiters = slices.Delete(q.waiters, i, i+1)
		w.end(nil, err)
	}
}

// serveAll gives waiters of all queues what they wait for.
func (s *Store) serveAll(nowMS int64) {
	for _, q := range s.queues {
		s.serve(q, nowMS)
	}
}

// serve gives the queue's waiters what they wait for, and sets the alarm for the
// next time at which something becomes ready by itself.
func (s *Store) serve(q *queue, nowMS int64) {
	q.stopAlarm()
	for len(q.waiters) > 0 && q.anyReady(nowMS) {
		served := false
		for i, w := range q.waiters {
			if claims := s.claim(q, w.req, nowMS); len(claims) > 0 {
				q.waiters = slices.Delete(q.waiters, i, i+1)
				w.end(claims, nil)
				served = true
				break
			}
		}
		if !served {
			break
		}
	}
	if next := q.next(nowMS); next > 0 {
		wait := store.FromMillis(next).Sub(s.clock.Now())
		q.stopAlarm = s.clock.AfterFunc(wait, func() { s.alarm(q) })
	}
}

// anyReady reports whether there is anything to give to anybody.
func (q *queue) anyReady(nowMS int64) bool {
	for _, k := range q.keys {
		if k.ready(nowMS) {
			return true
		}
	}
	return false
}

// alarm does what is due in a queue.
func (s *Store) alarm(q *queue) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.lastMS = max(s.lastMS, s.clock.Now().UnixMilli())
	s.expire(q, s.lastMS)
	s.serve(q, s.lastMS)
}

// next returns the next time after now at which something in the queue changes by
// itself, or 0.
func (q *queue) next(nowMS int64) int64 {
	next := int64(0)
	at := func(ms int64) {
		if ms > nowMS && (next == 0 || ms < next) {
			next = ms
		}
	}
	for _, k := range q.keys {
		switch {
		case k.leased(nowMS):
			at(k.lease.untilMS)
		case k.route == "":
			for _, m := range k.messages {
				at(m.expiresMS)
			}
		case len(k.messages) > 0 && len(q.waiters) > 0:
			at(k.messages[0].visibleMS)
		}
	}
	return next
}

// claim leases what is ready and qualifies.
func (s *Store) claim(q *queue, req store.ClaimRequest, nowMS int64) (claims []store.Claim) {
	for _, k := range q.inTurn(req.Routes, nowMS) {
		if len(claims) == req.Max {
			break
		}
		if c, ok := s.claimKey(q, k, req, nowMS); ok {
			claims = append(claims, c)
			q.lastTenant = k.key.Tenant
		}
	}
	return claims
}

// inTurn returns the keys that are ready and have one of the routes: one of each
// tenant, beginning with the tenant after that whose turn it was last, then the
// next one of each; of a tenant, the key with the oldest message first.
func (q *queue) inTurn(routes []string, nowMS int64) []*keyState {
	byTenant := map[string][]*keyState{}
	for _, k := range q.keys {
		if k.ready(nowMS) && slices.Contains(routes, k.route) {
			byTenant[k.key.Tenant] = append(byTenant[k.key.Tenant], k)
		}
	}
	var tenants []string
	count := 0
	for tenant, keys := range byTenant {
		slices.SortFunc(keys, func(a, b *keyState) int {
			if before(a.messages[0], b.messages[0]) {
				return -1
			}
			return 1
		})
		tenants = append(tenants, tenant)
		count += len(keys)
	}
	slices.SortFunc(tenants, func(a, b string) int {
		if aLater, bLater := a > q.lastTenant, b > q.lastTenant; aLater != bLater {
			if aLater {
				return -1
			}
			return 1
		}
		return strings.Compare(a, b)
	})
	turns := make([]*keyState, 0, count)
	for round := 0; len(turns) < count; round++ {
		for _, tenant := range tenants {
			if keys := byTenant[tenant]; round < len(keys) {
				turns = append(turns, keys[round])
			}
		}
	}
	return turns
}

// claimKey leases a key that is ready, unless all its visible messages have been
// delivered too often and go to quarantine.
func (s *Store) claimKey(q *queue, k *keyState, req store.ClaimRequest, nowMS int64) (store.Claim, bool) {
	limit := req.MaxMessages
	if limit == 0 {
		limit = store.DefaultMessages
	}
	var deliver []*message
	size := 0
	for _, m := range slices.Clone(k.messages) {
		if m.visibleMS > nowMS || len(deliver) == limit || (len(deliver) > 0 && size+len(m.Body) > store.PageBytes) {
			break
		}
		if req.MaxAttempts > 0 && m.Attempt >= req.MaxAttempts {
			s.quarantine(k, m, store.ReasonAttempts, nowMS)
			continue
		}
		deliver = append(deliver, m)
		size += len(m.Body)
	}
	if len(deliver) == 0 {
		q.forgetIfGone(k)
		return store.Claim{}, false
	}
	s.tokens++
	k.lease = &lease{
		token:     store.Token(fmt.Sprintf("%d", s.tokens)),
		untilMS:   nowMS + millis(req.Lease),
		delivered: map[string]bool{},
	}
	c := store.Claim{
		Key: k.key, Token: k.lease.token, Route: k.route, LogLength: k.logLength(), LogTag: k.logTag,
		Now: store.FromMillis(nowMS), Until: store.FromMillis(k.lease.untilMS),
	}
	for _, m := range deliver {
		m.Attempt++
		k.lease.delivered[m.ID] = true
		c.Messages = append(c.Messages, k.copy(m))
	}
	return c, true
}

// copy returns a message of the key for a caller to keep.
func (k *keyState) copy(m *message) store.Message {
	c := m.Message
	c.Route = k.route
	c.Body = bytes.Clone(m.Body)
	return c
}
