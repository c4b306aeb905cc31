package pebblestore

import (
	"context"
	"errors"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/abidehq/abide/store"
)

// waiter is a Claim call that waits. Whoever makes a key ready claims it on the
// waiter's behalf, so that no wake-up is lost and none is in vain.
type waiter struct {
	req  store.ClaimRequest
	done chan struct{} // closed when the wait is over; taken and err are set before
	taken
	err error
}

// taken is what a claim took, as long as the lock was held.
type taken struct {
	claims []store.Claim
	bodies []body // that must be read from disk

	// group holds what went to quarantine on the way, or is nil.
	group *group
}

// body is a body of a claimed message that must be read from disk.
type body struct {
	claim, message int
	at             place
}

func (w *waiter) end(t taken, err error) {
	w.taken, w.err = t, err
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
	now, err := s.lock("claim")
	if err != nil {
		return nil, err
	}
	q := s.queue(req.Queue)
	t, err := s.claim(q, &req, now)
	if len(t.claims) > 0 || req.Wait == 0 || err != nil {
		s.mu.Unlock()
		return s.hand(ctx, t, err)
	}
	req.Routes = slices.Clone(req.Routes)
	w := &waiter{req: req, done: make(chan struct{})}
	s.addWaiter(q, w)
	s.setAlarm(now)
	stop := s.clock.AfterFunc(req.Wait, func() { s.giveUp(q, w, nil) })
	s.mu.Unlock()
	defer stop()

	select {
	case <-w.done:
	case <-ctx.Done():
		s.giveUp(q, w, ctx.Err())
		<-w.done
	}
	if w.group == nil {
		w.group = t.group
	}
	return s.hand(ctx, w.taken, w.err)
}

func (s *Store) addWaiter(q *queue, w *waiter) {
	s.waiting++
	q.waiters = append(q.waiters, w)
	for _, route := range w.req.Routes {
		q.route(route).waiters++
	}
}

func (s *Store) removeWaiter(q *queue, i int) {
	s.waiting--
	for _, route := range q.waiters[i].req.Routes {
		q.route(route).waiters--
	}
	q.waiters = slices.Delete(q.waiters, i, i+1)
}

// giveUp ends a wait without claims, unless there are some after all.
func (s *Store) giveUp(q *queue, w *waiter, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failure == nil && !s.closed {
		s.serve(q, s.now())
	}
	if i := slices.Index(q.waiters, w); i >= 0 {
		s.removeWaiter(q, i)
		w.end(taken{}, err)
	}
}

// serve gives the queue's waiters what they wait for.
func (s *Store) serve(q *queue, now int64) {
	for i := 0; i < len(q.waiters); {
		w := q.waiters[i]
		t, err := s.claim(q, &w.req, now)
		if len(t.claims) == 0 && err == nil {
			i++
			continue
		}
		s.removeWaiter(q, i)
		w.end(t, err)
	}
}

// hand completes what was taken, outside the lock, and hands it to the caller.
func (s *Store) hand(ctx context.Context, t taken, err error) ([]store.Claim, error) {
	if err != nil {
		return nil, err
	}
	if t.group != nil { // what went to quarantine is there when Claim returns
		if err := s.wait(ctx, t.group); err != nil && len(t.claims) == 0 {
			return nil, err
		}
	}
	if len(t.bodies) == 0 {
		return t.claims, nil
	}
	release, err := s.read(ctx, "claim")
	if err != nil {
		return nil, err
	}
	defer release()
	for _, b := range t.bodies {
		d, err := s.readMsg(s.db, msgKey(nil, b.at.lane, b.at.pos))
		if errors.Is(err, pebble.ErrNotFound) {
			// The message was deleted since: the claim is lost already.
			t.claims[b.claim].Messages = nil
			continue
		}
		if err != nil {
			return nil, err
		}
		if ms := t.claims[b.claim].Messages; ms != nil {
			m := &ms[b.message]
			m.Body, m.TTL, m.PutAt = d.body, durationMS(d.ttlMS), store.FromMillis(d.putMS)
		}
	}
	return slices.DeleteFunc(t.claims, func(c store.Claim) bool { return c.Messages == nil }), nil
}

// claim leases what is ready and qualifies. The lanes of the routes take turns.
func (s *Store) claim(q *queue, req *store.ClaimRequest, now int64) (t taken, err error) {
	s.expireLeases(now)
	if err := s.sweep(q, &t, now); err != nil {
		return t, err
	}
	q.turn++
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
				return t, s.counted(t)
			}
		}
		if !progress {
			return t, s.counted(t)
		}
	}
}

// counted sees to it that the attempts of what was taken survive a killed process.
func (s *Store) counted(t taken) error {
	if t.group != nil {
		s.kick()
	}
	if err := s.attempts.flush(); err != nil {
		return s.undo(t, err)
	}
	return nil
}

// undo gives back what was taken before an error.
func (s *Store) undo(t taken, err error) error {
	now := s.now()
	for i := range t.claims {
		k := s.pinned(t.claims[i].Key)
		s.keys.pin(k.entry)
		for _, r := range k.lease.delivered {
			r.attempt--
			s.attempts.note(place{k.lane.id, r.pos}, r.attempt)
		}
		s.endLease(k)
		s.refresh(k, now)
		s.unpinKey(k)
	}
	return err
}

// nextReady takes the next ready key of a route, or returns nil.
func (s *Store) nextReady(rs *routeState, now int64) (*keyState, error) {
	for rs.due.len() > 0 && rs.due.items[0].next.due <= now {
		if err := s.load(rs.due.items[0], now); err != nil {
			return nil, err
		}
	}
	for len(rs.ring) > 0 {
		l := rs.ring[0]
		rs.ring = rs.ring[1:]
		if l.ready.len() == 0 {
			l.inRing = false
			continue
		}
		rs.ring = append(rs.ring, l)
		k := l.ready.items[0]
		return k, nil
	}
	return nil, nil
}

// claimKey leases a ready key, unless all its visible messages have been delivered
// too often and go to quarantine.
func (s *Store) claimKey(k *keyState, req *store.ClaimRequest, t *taken, now int64) error {
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
	size := 0
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
		} else {
			deliver = append(deliver, r)
			size += r.size
		}
		return len(deliver) < limit
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
	l := s.startLease(k, deliver, now+millis(req.Lease))
	c := store.Claim{
		Key: k.key, Token: l.token, Route: k.route, LogLength: k.logLen,
		Messages: make([]store.Message, len(deliver)),
		Now:      store.FromMillis(now), Until: store.FromMillis(l.until),
	}
	for i, r := range deliver {
		r.attempt++
		at := place{k.lane.id, r.pos}
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

// quarantineAll makes records of messages of one key, in the group that gathers.
func (s *Store) quarantineAll(k *keyState, refs []*ref, reason string, t *taken, now int64) error {
	g := s.gathering
	s.keys.pin(k.entry)
	g.keys = append(g.keys, k)
	t.group = g
	for _, r := range refs {
		if err := s.quarantine(g, k, r, reason, now); err != nil {
			s.failLocked(err)
			return s.failure
		}
	}
	s.endOfTx(g, k, now)
	return nil
}

// sweepBatch is how many expired messages go to quarantine at once.
const sweepBatch = 1000

// sweep puts messages that have waited too long for a route into quarantine.
func (s *Store) sweep(q *queue, t *taken, now int64) error {
	rs := q.routes[""]
	if rs == nil {
		return nil
	}
	for rs.due.len() > 0 && rs.due.items[0].next.due <= now {
		if err := s.sweepLane(rs.due.items[0], t, now); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) sweepLane(l *lane, t *taken, now int64) error {
	it, err := s.db.NewIter(&pebble.IterOptions{
		LowerBound: msgKey(nil, l.id, l.cursor),
		UpperBound: msgKey(nil, l.id+1, pos{}),
	})
	if err != nil {
		return s.readError("load messages", err)
	}
	next := maxPos
	type expired struct {
		name, id string
		pos      pos
	}
	var found []expired
	for it.First(); it.Valid(); it.Next() {
		p := parseMsgKey(it.Key())
		if s.isDying(l.id, p) {
			continue
		}
		if p.due > now || len(found) == sweepBatch {
			next = p
			break
		}
		e := expired{pos: p}
		if e.name, e.id, _, err = parseMsg(it.Key(), it.Value()); err != nil {
			break
		}
		found = append(found, e)
	}
	if err == nil {
		err = it.Error()
	}
	if closeErr := it.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return s.readError("load messages", err)
	}
	for _, e := range found {
		if err := s.expire(l, e.name, e.id, e.pos, t, now); err != nil {
			return err
		}
	}
	l.cursor = next
	if next == maxPos {
		l.cursor = pos{due: now}
	}
	l.setNext(next)
	s.kick()
	return nil
}

// expire puts one message of a key without a route into quarantine.
func (s *Store) expire(l *lane, name, id string, p pos, t *taken, now int64) error {
	k, err := s.pinKey(store.Key{Queue: l.queue.name, Tenant: l.tenant, Name: name})
	if err != nil {
		return err
	}
	defer s.unpinKey(k)
	r := find(k.refs, p)
	if r == nil && !k.complete {
		r = &ref{id: id, pos: p, durable: true, attempt: unknownAttempt}
		s.insert(k, r)
	}
	if r == nil || !r.durable {
		return nil
	}
	return s.quarantineAll(k, []*ref{r}, store.ReasonExpired, t, now)
}
