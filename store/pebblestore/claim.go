package pebblestore

import (
	"context"
	"errors"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/abidehq/abide/store"
)

// claimResult is what a claim has leased while the mutex was held.
//
// A Claim call has three parts: claimOrWait, under the mutex, decides and leases; then the
// groups that the result depends on become durable; then deliver reads bodies, without
// the mutex. A call that waits gets its result from the attempt of the call that made a key
// ready: a commit, a release or the alarm.
type claimResult struct {
	claims []store.Claim // complete but for the bodies below
	bodies []body        // that must be read from disk

	// group is the last one that must be durable before the caller sees anything: it
	// has messages that were quarantined on the way, or changes of a claimed key. Without
	// that a caller could act on a state that a crash takes back.
	group *group
}

// waitFor makes the caller wait for a group, unless it is durable or nil. Groups become
// durable in their order, so the latest one is enough.
func (t *claimResult) waitFor(g *group) {
	if g != nil && !g.durable && (t.group == nil || g.number > t.group.number) {
		t.group = g
	}
}

// body is a body of a claimed message that must be read from disk.
type body struct {
	claim, message int      // indexes in claims, and in its messages
	at             location // when it was claimed; it may have moved since
}

// Claim leases keys that are ready, and waits for them as the contract says. If it returns
// an error after keys were leased, they are released, and their attempts are not counted.
func (s *Store) Claim(ctx context.Context, req store.ClaimRequest) ([]store.Claim, error) {
	if err := req.Validate(); err != nil {
		return nil, err
	}
	if s.inspecting {
		return nil, store.ReadOnly("claim")
	}
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		t, err := s.claimOrWait(ctx, req)
		if err != nil {
			return nil, err
		}
		claims, err := s.deliver(t)
		if err != nil || len(claims) > 0 || len(t.claims) == 0 {
			return claims, err
		}
		// All of it was deleted before it could be read: the claim starts over.
	}
}

// claimOrWait leases keys that are ready, or waits for some. The first attempt is made under
// the same lock as the join, so no key can become ready in between.
func (s *Store) claimOrWait(ctx context.Context, req store.ClaimRequest) (claimResult, error) {
	if _, err := s.lock("claim"); err != nil {
		return claimResult{}, err
	}
	q := s.queue(req.Queue)
	s.sweepAll(q)
	if s.closed || s.failure != nil {
		err := s.closedErrorLocked("claim")
		s.mu.Unlock()
		return claimResult{}, err
	}
	now := s.now()
	t, err := s.claim(q, &req, now)
	t.waitFor(q.swept)
	if len(t.claims) > 0 || req.Wait == 0 || err != nil {
		s.mu.Unlock()
		return t, err
	}
	w := s.join(q, req)
	w.Result.waitFor(t.group)
	s.setAlarm(now)
	s.mu.Unlock()
	return s.waits.Wait(ctx, w)
}

// deliver completes a result, without the mutex, for the caller to see. It ignores the
// caller's context: what was leased is returned, or released.
//
// Between the claim and here a message may have moved, because its key was
// given another route, or may have been deleted, which ends the lease. Then
// its database key is not there: moved finds out which of the two. If all
// that was claimed was deleted, Claim begins again.
func (s *Store) deliver(t claimResult) ([]store.Claim, error) {
	if t.group != nil {
		if <-t.group.done; t.group.err != nil {
			return nil, t.group.err
		}
	}
	if len(t.bodies) == 0 {
		return t.claims, nil
	}
	release, err := s.read(context.Background(), "claim")
	if err != nil {
		return nil, err
	}
	defer release()
	for _, b := range t.bodies {
		c := &t.claims[b.claim]
		if c.Messages == nil {
			continue
		}
		d, err := s.readMsg(s.db, msgKey(nil, b.at.partition, b.at.pos))
		if errors.Is(err, pebble.ErrNotFound) {
			d, err = s.rereadMoved(c, c.Messages[b.message].ID)
		}
		if err != nil {
			s.releaseTaken(t)
			return nil, err
		}
		if d == nil {
			c.Messages = nil
			continue
		}
		m := &c.Messages[b.message]
		m.Body, m.TTL, m.PutAt = d.body, durationMS(d.ttlMS), store.FromMillis(d.putMS)
	}
	return slices.DeleteFunc(t.claims, func(c store.Claim) bool { return c.Messages == nil }), nil
}

// rereadMoved returns the data of a claimed message that is no longer at its location: its
// key has another route since. If it was deleted instead, the claim is lost, and the result
// is nil.
func (s *Store) rereadMoved(c *store.Claim, id string) (*msgData, error) {
	now, err := s.lock("claim")
	if err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	e := s.keys.get(c.Key)
	if e == nil || !e.value.live(c.Token, now) {
		return nil, nil
	}
	for _, r := range e.value.lease.delivered {
		if r.id == id {
			d, err := s.data(e.value, r)
			d.body = slices.Clone(d.body)
			return &d, err
		}
	}
	return nil, nil
}

// releaseTaken releases what was leased for a call that fails in deliver. A lease that has
// been lost in the meantime is left out: undo relies on live leases.
func (s *Store) releaseTaken(t claimResult) {
	now, err := s.lock("claim")
	if err != nil {
		return
	}
	defer s.mu.Unlock()
	live := claimResult{group: t.group}
	for _, c := range t.claims {
		if e := s.keys.get(c.Key); e != nil && e.value.live(c.Token, now) {
			live.claims = append(live.claims, c)
		}
	}
	_ = s.undo(live, nil)
	_ = s.attempts.flush() // if it fails, the next one rewrites the journal
	s.serve()
	s.setAlarm(now)
}

// claim leases keys that are ready on the routes of a request, in turns.
//
// A claim takes keys one by one, of one route after another, and of one
// partition after another within a route, beginning with another route each
// time: no route and no tenant waits for another one's backlog. It ends when
// it has Max keys, or when no route has a ready key left, so that an empty
// answer means that nothing was ready. An error releases what was leased:
// the caller gets all of it or none.
func (s *Store) claim(q *queue, req *store.ClaimRequest, now int64) (t claimResult, err error) {
	s.expireLeases(now)
	q.turn++
	if req.Tenants != nil {
		return s.claimLimited(q, req, now)
	}
	for {
		progress := false
		for i := range req.Routes {
			rs := q.routes[req.Routes[(i+q.turn)%len(req.Routes)]]
			if rs == nil {
				continue
			}
			k, err := s.nextReady(rs, now)
			if err != nil {
				return t, s.undo(t, err)
			}
			if k == nil {
				continue
			}
			progress = true
			if err := s.claimKey(k, req, &t, now); err != nil {
				return t, s.undo(t, err)
			}
			if len(t.claims) == req.Max {
				return t, s.flushAttempts(t)
			}
		}
		if !progress {
			return t, s.flushAttempts(t)
		}
	}
}

// claimLimited is claim for a request that is limited to tenants. It looks at their partitions
// only: one key of each route and tenant in turn.
func (s *Store) claimLimited(q *queue, req *store.ClaimRequest, now int64) (t claimResult, err error) {
	tenants := q.limited.Order(req.Tenants)
	for progress := true; progress; {
		progress = false
		for _, tenant := range tenants {
			for i := range req.Routes {
				k, err := s.readyOf(q, tenant, req.Routes[(i+q.turn)%len(req.Routes)], now)
				if err != nil {
					return t, s.undo(t, err)
				}
				if k == nil {
					continue
				}
				progress = true
				if err := s.claimKey(k, req, &t, now); err != nil {
					return t, s.undo(t, err)
				}
				q.limited.Served(tenant)
				if len(t.claims) == req.Max {
					return t, s.flushAttempts(t)
				}
			}
		}
	}
	return t, s.flushAttempts(t)
}

// partitionOf returns the partition of a tenant on a route, or nil if it has none.
func (s *Store) partitionOf(rs *routeState, tenant string) *partition {
	if e := s.partitions.get(partitionName{rs.queue.name, tenant, rs.name}); e != nil {
		return e.value
	}
	return nil
}

// readyOf returns the ready key of a tenant on a route with the oldest message, or nil.
func (s *Store) readyOf(q *queue, tenant, route string, now int64) (*keyState, error) {
	rs := q.routes[route]
	if rs == nil {
		return nil, nil
	}
	l := s.partitionOf(rs, tenant)
	if l == nil {
		return nil, nil
	}
	if l.next.due <= now && (l.ready.len() == 0 || l.next.less(l.ready.items[0].readyPos)) {
		if err := s.load(l, now); err != nil {
			return nil, err
		}
	}
	if l.ready.len() == 0 {
		return nil, nil
	}
	return l.ready.items[0], nil
}

// flushAttempts hands the attempts of a result to the operating system, so that they survive
// a killed process, before the caller sees it. It also sends the group with quarantined
// messages on its way.
func (s *Store) flushAttempts(t claimResult) error {
	if t.group != nil {
		s.kick()
	}
	if err := s.attempts.flush(); err != nil {
		return s.undo(t, err)
	}
	return nil
}

// undo releases what was leased before an error, which it returns.
//
// Attempts are not counted, in memory and in the journal: no caller has seen the
// messages. What was quarantined on the way stays there.
func (s *Store) undo(t claimResult, err error) error {
	now := s.now()
	if t.group != nil {
		s.kick()
	}
	for i := range t.claims {
		k := s.pinned(t.claims[i].Key)
		s.keys.pin(k.entry)
		for _, r := range k.lease.delivered {
			r.attempt--
			s.attempts.note(location{k.partition.id, r.pos}, r.attempt)
		}
		s.endLease(k)
		s.refresh(k, now)
		s.ready(k)
		s.unpinKey(k)
	}
	return err
}

// loadPartitions is how many partitions that have become due are loaded for one key, if
// others are ready: enough for every tenant to get its turn, and few enough that a thousand
// partitions due in the same millisecond are not loaded at once.
const loadPartitions = 8

// nextReady returns the ready key of a route whose turn it is, or nil.
//
// First it loads partitions that have become due, so that they take part in the
// turns; then it takes the first partition of the ring, and moves it to the end.
// If that partition has something on disk that is older than its first ready
// key, it is loaded first: messages of a partition come in the order of their
// positions, whether they were in memory or not.
func (s *Store) nextReady(rs *routeState, now int64) (*keyState, error) {
	for loaded := 0; rs.due.len() > 0 && rs.due.items[0].next.due <= now; loaded++ {
		if loaded >= loadPartitions && rs.anyReady() {
			break
		}
		if err := s.load(rs.due.items[0], now); err != nil {
			return nil, err
		}
	}
	if !rs.anyReady() {
		return nil, nil
	}
	l := rs.ring[0]
	rs.ring = append(rs.ring[1:], l)
	if l.next.due <= now && l.next.less(l.ready.items[0].readyPos) { // an older message is on disk
		if err := s.load(l, now); err != nil {
			return nil, err
		}
	}
	return l.ready.items[0], nil
}

// anyReady reports whether a partition of the route has a ready key. If so, the first one in
// the ring has. It removes partitions without ready keys from the front of the ring.
func (rs *routeState) anyReady() bool {
	for len(rs.ring) > 0 {
		l := rs.ring[0]
		if l.ready.len() > 0 {
			return true
		}
		rs.ring = rs.ring[1:]
		l.inRing = false
		if l.dropped {
			rs.dropped--
		}
	}
	return false
}

// claimKey leases a ready key, unless all its visible messages have been delivered
// too often and go to quarantine.
//
// The key may be partial: then it is completed from disk first, because a
// claim returns the length of its log. Bodies that are not in memory are read
// after the mutex is released: see deliver.
//
// It delivers visible messages in order, up to MaxMessages and store.PageBytes; the first
// one is delivered whatever its size. Messages that have reached MaxAttempts are quarantined
// on the way, and the rest is delivered: one bad message does not hold up its key. If only
// such messages are visible, the key is not leased, and t has the group of their records.
func (s *Store) claimKey(k *keyState, req *store.ClaimRequest, t *claimResult, now int64) error {
	s.keys.pin(k.entry)
	defer s.unpinKey(k)
	if k.partial {
		if err := s.fill(k); err != nil {
			return err
		}
	}
	limit := req.MaxMessages
	if limit == 0 {
		limit = store.DefaultMessages
	}
	var deliver, exhausted []*ref
	var err error
	size, exhaustedSize := 0, 0
	k.visible(now, func(r *ref) bool {
		if r.attempt == unknownAttempt {
			if _, err = s.data(k, r); err != nil {
				return false
			}
		}
		if len(deliver) > 0 && size+r.size > store.PageBytes {
			return false
		}
		if req.MaxAttempts > 0 && r.attempt >= req.MaxAttempts {
			exhausted = append(exhausted, r)
			exhaustedSize += r.size
		} else {
			deliver = append(deliver, r)
			size += r.size
		}
		return len(deliver) < limit && exhaustedSize < store.PageBytes
	})
	if err != nil {
		return err
	}
	if len(exhausted) > 0 {
		if err := s.quarantineAll(k, exhausted, store.ReasonAttempts, t, now); err != nil {
			return err
		}
	}
	if len(deliver) == 0 {
		s.refresh(k, now)
		return nil
	}
	t.waitFor(k.changed)
	l := s.startLease(k, deliver, req.Owner, now+millis(req.Lease))
	c := store.Claim{
		Key: k.key, Token: l.token, Route: k.route, LogLength: k.logLen, LogTag: k.logTag,
		Messages: make([]store.Message, len(deliver)),
		Now:      store.FromMillis(now), Until: store.FromMillis(l.until),
	}
	for i, r := range deliver {
		r.attempt++
		at := location{k.partition.id, r.pos}
		s.attempts.note(at, r.attempt)
		d := r.data
		if d == nil {
			t.bodies = append(t.bodies, body{len(t.claims), i, at})
			d = &msgData{}
		}
		c.Messages[i] = k.message(r, d)
		c.Messages[i].Body = slices.Clone(d.body)
	}
	t.claims = append(t.claims, c)
	s.refresh(k, now)
	return nil
}
