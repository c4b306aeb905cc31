package pebblestore

import (
	"slices"

	"github.com/abidehq/abide/store"
)

// removeMessage removes a pending message, consumed or deleted.
//
// The key stays pinned by the group. A ref that is gone may still be in the
// delivered messages of a lease that the same Tx has ended: code that iterates over those
// must check gone.
func (s *Store) removeMessage(g *group, k *keyState, r *ref) {
	s.vacate(g, k, r)
	s.keyBuf = pendingKey(s.keyBuf[:0], k.key, r.id)
	_ = g.batch.Delete(s.keyBuf, nil)
	k.count--
	r.gone = true
}

// vacate removes a pending message from its location, to delete it or to move it.
//
// A lease that covers the message ends: its holder was given a message that
// no longer exists, or is no longer visible. The location gets a tombstone until
// the group is applied, because load and lookupAll read the database, which
// shows the message until then. The journal forgets the location at once.
func (s *Store) vacate(g *group, k *keyState, r *ref) {
	if r.leased != nil {
		s.endLease(k)
	}
	k.drop(r)
	s.detach(k, r)
	s.touch(g, k.partition)
	s.addCount(k.partition, -1)
	s.keyBuf = msgKey(s.keyBuf[:0], k.partition.id, r.pos)
	_ = g.batch.Delete(s.keyBuf, nil)
	p := location{k.partition.id, r.pos}
	s.attempts.forget(p)
	s.tombstones[p] = g
	g.tombstones = append(g.tombstones, p)
}

// occupy gives a pending message a location in the partition of its key.
//
// The message is not durable there before the group is: it is in group.arrivals,
// and announce makes it known. If it moves again before that, arrival.pos and
// ref.pos differ, and acknowledge passes the older arrival over. Both database
// keys are written: the message at its location, and the location under the key
// and ID, by which a put finds out that an ID is taken.
func (s *Store) occupy(g *group, k *keyState, r *ref, p pos) {
	if r.pos.seq != 0 && p.due <= s.lastNow {
		// It may have been at this location before, in this millisecond: then the journal's
		// file still has the attempts of that time.
		s.attempts.note(location{k.partition.id, p}, r.attempt)
	}
	r.pos, r.durable, r.group = p, false, g
	s.insert(k, r)
	s.putAt(g, k.partition, p)
	s.addCount(k.partition, 1)
	delete(s.tombstones, location{k.partition.id, p}) // it may be back where it was
	r.data.attempt = r.attempt
	s.keyBuf = msgKey(s.keyBuf[:0], k.partition.id, p)
	s.valBuf = appendMsg(s.valBuf[:0], k.key.Name, r.id, r.data)
	_ = g.batch.Set(s.keyBuf, s.valBuf, nil)
	s.keyBuf = pendingKey(s.keyBuf[:0], k.key, r.id)
	s.valBuf = appendPending(s.valBuf[:0], k.partition.id, p)
	_ = g.batch.Set(s.keyBuf, s.valBuf, nil)
	g.arrivals = append(g.arrivals, arrival{k, r, p})
}

// put adds a message, unless its ID is taken: a message ID put twice is one
// message. The first message with a route moves all earlier ones of its key to
// the partition of that route. A message of a key without a route is hidden: its
// position is the time at which it expires, and its due time is in its value.
func (s *Store) put(g *group, m *store.Message, now int64) error {
	k := s.pinned(m.Key)
	if m.IfRouted && k.route == "" {
		return nil
	}
	if m.Route != "" && m.Route != k.route {
		if err := s.setRoute(g, k, m.Route, now); err != nil {
			return err
		}
	}
	if r, err := s.lookup(k, m.ID); r != nil || err != nil {
		return err
	}
	if k.partition == nil {
		k.partition = s.partition(g, k.key, k.route)
	}
	r := &ref{id: m.ID, size: len(m.Body), data: &msgData{putMS: now, ttlMS: millis(m.TTL), body: slices.Clone(m.Body)}}
	p := pos{due: max(now, store.Millis(m.VisibleAt)), seq: s.newID(g)}
	if k.route == "" {
		r.data.hidden, r.data.visibleMS = true, p.due
		ttl := r.data.ttlMS
		if ttl == 0 {
			ttl = millis(store.DefaultTTL)
		}
		p.due = now + ttl
	}
	k.count++
	s.occupy(g, k, r, p)
	return nil
}

// setRoute gives a key a route: all its messages move to the partition of that route. A
// message that has waited for a route for too long is quarantined instead. Everything is
// read before anything is changed; prepare has made sure that it is in memory.
//
// Messages keep their sequence numbers, so that their order within the key stays. They
// become visible no earlier than now, as if they had been put when the key got its route.
func (s *Store) setRoute(g *group, k *keyState, route string, now int64) error {
	old := k.partition
	k.headerDirty = k.headerDirty || k.hasLog
	if !k.complete {
		if err := s.lookupAll(k); err != nil {
			return err
		}
	}
	refs := slices.Clone(k.refs)
	datas := make([]msgData, len(refs))
	for i, r := range refs {
		var err error
		if datas[i], err = s.data(k, r); err != nil {
			return err
		}
	}
	kept := refs[:0]
	for i, r := range refs {
		d := datas[i]
		if d.hidden && r.pos.due <= now {
			if err := s.quarantine(g, k, r, store.ReasonExpired, now); err != nil {
				return err
			}
			continue
		}
		lease := r.leased // a lease outlasts a change of the route
		r.leased = nil
		s.vacate(g, k, r)
		r.leased = lease
		r.data = &d
		kept = append(kept, r)
	}
	if old != nil && k.readyIndex != 0 {
		old.ready.remove(k)
		old.reschedule()
		s.unpinKey(k)
	}
	k.route, k.partition = route, s.partition(g, k.key, route)
	for _, r := range kept {
		p := pos{due: max(now, r.pos.due), seq: r.pos.seq}
		if r.data.hidden {
			p.due = max(now, r.data.visibleMS)
			r.data.hidden = false
		}
		s.occupy(g, k, r, p)
	}
	return nil
}

// retime makes a pending message visible at another time. One that does not exist
// is not an error: it was consumed, which the caller cannot know.
func (s *Store) retime(g *group, t *store.Retime, now int64) error {
	k := s.pinned(t.Ref.Key)
	r, err := s.lookup(k, t.Ref.ID)
	if r == nil || err != nil {
		return err
	}
	return s.moveTo(g, k, r, max(now, store.Millis(t.VisibleAt)))
}

// moveTo makes a pending message visible at another time. One of a key without a route keeps
// its position, which is its expiry.
func (s *Store) moveTo(g *group, k *keyState, r *ref, visibleMS int64) error {
	d, err := s.data(k, r)
	if err != nil {
		return err
	}
	p := pos{due: visibleMS, seq: r.pos.seq}
	if d.hidden {
		d.visibleMS, p.due = visibleMS, r.pos.due
	}
	s.vacate(g, k, r)
	r.data = &d
	s.occupy(g, k, r, p)
	return nil
}

// deleteMessage removes a pending message, if it exists. If it was delivered
// with a claim, that claim is lost.
func (s *Store) deleteMessage(g *group, ref store.MessageRef) error {
	k := s.pinned(ref.Key)
	r, err := s.lookup(k, ref.ID)
	if r == nil || err != nil {
		return err
	}
	s.removeMessage(g, k, r)
	return nil
}

// quarantine replaces a pending message by a quarantine record, as part of a Tx.
func (s *Store) quarantine(g *group, k *keyState, r *ref, reason string, now int64) error {
	d, err := s.data(k, r)
	if err != nil {
		return err
	}
	m := k.message(r, &d)
	p := store.Quarantine(m, k.route, reason, store.FromMillis(now))
	rec, err := s.pinRecord(p.Record.Key)
	if err != nil {
		return err
	}
	g.records = append(g.records, rec)
	s.removeMessage(g, k, r)
	s.putRecord(g, &p.Record)
	return nil
}

// message returns a pending message as the contract has it. It shares the body with d.
func (k *keyState) message(r *ref, d *msgData) store.Message {
	m := store.Message{
		Key: k.key, ID: r.id, Route: k.route, VisibleAt: store.FromMillis(r.pos.due),
		TTL: durationMS(d.ttlMS), Body: d.body, Attempt: r.attempt, PutAt: store.FromMillis(d.putMS),
	}
	if d.hidden {
		m.VisibleAt = store.FromMillis(d.visibleMS)
	}
	return m
}
