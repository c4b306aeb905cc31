package pebblestore

import (
	"context"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/abidehq/abide/store"
)

// Commit applies tx in a group with others, and waits for its sync.
func (s *Store) Commit(ctx context.Context, tx *store.Tx) error {
	if err := tx.Validate(); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	now, err := s.lock("commit")
	if err != nil {
		return err
	}
	if tx.Empty() {
		s.mu.Unlock()
		return nil
	}
	if err := s.room(); err != nil {
		s.mu.Unlock()
		return err
	}
	g := s.gathering
	if err := s.commit(g, tx, now); err != nil {
		s.mu.Unlock()
		return err
	}
	s.kick()
	s.mu.Unlock()
	return s.wait(ctx, g)
}

// commit checks tx and adds it to the group.
func (s *Store) commit(g *group, tx *store.Tx, now int64) error {
	keys, records := len(g.keys), len(g.records)
	defer func() { s.lastPinned = nil }()
	err := s.pinAll(g, tx)
	if err == nil {
		err = s.check(tx, now)
	}
	if err != nil {
		for _, k := range g.keys[keys:] {
			s.unpinKey(k)
		}
		for _, r := range g.records[records:] {
			s.records.unpin(r.entry)
		}
		g.keys, g.records = g.keys[:keys], g.records[:records]
		return err
	}
	if err := s.apply(g, tx, keys, now); err != nil {
		// Half of tx is in the batch and in memory: there is no way on from here.
		s.failLocked(err)
		return s.failure
	}
	return nil
}

// pinAll brings all that tx is about into memory, where it stays until the group is
// durable. From here on nothing needs to be read for most Txs.
func (s *Store) pinAll(g *group, tx *store.Tx) error {
	var err error
	first := len(g.keys)
	key := func(key store.Key) {
		if err != nil || (len(g.keys) > first && g.keys[len(g.keys)-1].key == key) {
			return
		}
		var k *keyState
		if k, err = s.pinKey(key); err == nil {
			g.keys = append(g.keys, k)
			s.lastPinned = k
		}
	}
	record := func(key store.RecordKey) {
		if err != nil {
			return
		}
		var r *recordState
		if r, err = s.pinRecord(key); err == nil {
			g.records = append(g.records, r)
		}
	}
	for i := range tx.Finish {
		key(tx.Finish[i].Lease.Key)
	}
	for i := range tx.DeleteKeys {
		key(tx.DeleteKeys[i])
	}
	for i := range tx.Trim {
		key(tx.Trim[i].Key)
	}
	for i := range tx.Append {
		key(tx.Append[i].Key)
	}
	for i := range tx.Put {
		key(tx.Put[i].Key)
	}
	for i := range tx.Retime {
		key(tx.Retime[i].Ref.Key)
	}
	for i := range tx.Delete {
		key(tx.Delete[i].Key)
	}
	for i := range tx.PutRecords {
		record(tx.PutRecords[i].Record.Key)
	}
	for i := range tx.DeleteRecords {
		record(tx.DeleteRecords[i].Key)
	}
	return err
}

// pinned returns a key that is pinned.
func (s *Store) pinned(key store.Key) *keyState {
	if k := s.lastPinned; k != nil && k.key == key { // most Txs are about one key
		return k
	}
	return s.keys.get(key).value
}

// check reports whether tx can be applied. It changes nothing.
func (s *Store) check(tx *store.Tx, now int64) error {
	for i := range tx.Finish {
		if l := &tx.Finish[i].Lease; !s.pinned(l.Key).live(l.Token, now) {
			return store.ClaimLost("commit", *l)
		}
	}
	length := func(key store.Key) int {
		if len(tx.DeleteKeys) > 0 && slices.Contains(tx.DeleteKeys, key) {
			return 0
		}
		return s.pinned(key).logLen
	}
	for i := range tx.Trim {
		if t := &tx.Trim[i]; t.Before > length(t.Key) {
			return store.LengthConflict(t.Key, t.Before, length(t.Key))
		}
	}
	for i := range tx.Append {
		if a := &tx.Append[i]; a.At != length(a.Key) {
			return store.LengthConflict(a.Key, a.At, length(a.Key))
		}
	}
	for i := range tx.PutRecords {
		p := &tx.PutRecords[i]
		if v := s.pinnedRecord(p.Record.Key).version; p.Expect != store.AnyVersion && p.Expect != v {
			return store.VersionConflict(p.Record.Key, p.Expect, v)
		}
	}
	for i := range tx.DeleteRecords {
		d := &tx.DeleteRecords[i]
		if v := s.pinnedRecord(d.Key).version; d.Expect != store.AnyVersion && d.Expect != v {
			return store.VersionConflict(d.Key, d.Expect, v)
		}
	}
	return nil
}

// apply adds a checked tx, whose keys are those of the group from the first on, to
// the group, in the order that the contract gives.
func (s *Store) apply(g *group, tx *store.Tx, first int, now int64) error {
	for i := range tx.Finish {
		s.finish(g, &tx.Finish[i])
	}
	for _, key := range tx.DeleteKeys {
		if err := s.deleteKey(g, s.pinned(key)); err != nil {
			return err
		}
	}
	for i := range tx.Trim {
		if err := s.trim(g, s.pinned(tx.Trim[i].Key), tx.Trim[i].Before); err != nil {
			return err
		}
	}
	for i := range tx.Append {
		s.append(g, &tx.Append[i])
	}
	for i := range tx.Put {
		if err := s.put(g, &tx.Put[i], now); err != nil {
			return err
		}
	}
	for i := range tx.Retime {
		if err := s.retime(g, &tx.Retime[i], now); err != nil {
			return err
		}
	}
	for i := range tx.Delete {
		if err := s.deleteMessage(g, tx.Delete[i]); err != nil {
			return err
		}
	}
	for i := range tx.PutRecords {
		s.putRecord(g, &tx.PutRecords[i].Record)
	}
	for i := range tx.DeleteRecords {
		s.deleteRecord(g, tx.DeleteRecords[i].Key)
	}
	for _, k := range g.keys[first:] {
		s.endOfTx(g, k, now)
	}
	_ = s.attempts.flush() // if it fails, the next one writes everything anew
	return nil
}

// endOfTx writes a key's header if it has changed, forgets the route of a key that
// is gone, and puts the key where it belongs.
func (s *Store) endOfTx(g *group, k *keyState, now int64) {
	if k.headerDirty {
		k.headerDirty = false
		s.keyBuf = headerKey(s.keyBuf[:0], k.key)
		if k.hasLog {
			s.valBuf = appendHeader(s.valBuf[:0], k.log, k.logBase, k.route)
			_ = g.batch.Set(s.keyBuf, s.valBuf, nil)
		} else {
			_ = g.batch.Delete(s.keyBuf, nil)
		}
	}
	s.refresh(k, now)
	if k.count == 0 {
		k.complete = true
		if !k.hasLog {
			k.route, k.lane = "", nil
		}
	}
}

func (s *Store) finish(g *group, f *store.Finish) {
	k := s.pinned(f.Lease.Key)
	delivered := k.lease.delivered
	s.endLease(k)
	for _, r := range delivered {
		if !r.gone && !slices.Contains(f.Keep, r.id) {
			s.removeMessage(g, k, r)
		}
	}
}

// removeMessage takes a pending message away.
func (s *Store) removeMessage(g *group, k *keyState, r *ref) {
	s.leavePlace(g, k, r)
	s.keyBuf = pendingKey(s.keyBuf[:0], k.key, r.id)
	_ = g.batch.Delete(s.keyBuf, nil)
	k.count--
	r.gone = true
}

// leavePlace takes a pending message away from its place.
func (s *Store) leavePlace(g *group, k *keyState, r *ref) {
	if r.leased != nil {
		s.endLease(k)
	}
	k.drop(r)
	s.detach(k, r)
	k.lane.count--
	g.touch(k.lane)
	s.keyBuf = msgKey(s.keyBuf[:0], k.lane.id, r.pos)
	_ = g.batch.Delete(s.keyBuf, nil)
	p := place{k.lane.id, r.pos}
	s.attempts.forget(p)
	s.dying[p] = g
	g.dying = append(g.dying, p)
}

// takePlace gives a pending message a place in the lane of its key.
func (s *Store) takePlace(g *group, k *keyState, r *ref, p pos) {
	if r.pos.seq != 0 && p.due <= s.lastNow {
		// It may have been here before, in this millisecond: then the file of the journal
		// still has the attempts that it had.
		s.attempts.note(place{k.lane.id, p}, r.attempt)
	}
	r.pos, r.durable, r.group = p, false, g
	s.insert(k, r)
	k.lane.count++
	g.putAt(k.lane, p)
	delete(s.dying, place{k.lane.id, p}) // it may be back where it was
	r.data.attempt = r.attempt
	s.keyBuf = msgKey(s.keyBuf[:0], k.lane.id, p)
	s.valBuf = appendMsg(s.valBuf[:0], k.key.Name, r.id, r.data)
	_ = g.batch.Set(s.keyBuf, s.valBuf, nil)
	s.keyBuf = pendingKey(s.keyBuf[:0], k.key, r.id)
	s.valBuf = appendPending(s.valBuf[:0], k.lane.id, p)
	_ = g.batch.Set(s.keyBuf, s.valBuf, nil)
	g.arrivals = append(g.arrivals, arrival{k, r, p})
}

func (s *Store) deleteKey(g *group, k *keyState) error {
	if k.lease != nil {
		s.endLease(k)
	}
	if !k.complete {
		if err := s.lookupAll(k); err != nil {
			return err
		}
	}
	for _, r := range slices.Clone(k.refs) {
		s.removeMessage(g, k, r)
	}
	if k.readyIndex != 0 {
		k.lane.ready.remove(k)
		k.lane.settle()
		s.unpinKey(k)
	}
	if k.hasLog {
		if err := s.deleteLog(g, k); err != nil {
			return err
		}
		k.hasLog, k.log, k.logBase, k.logLen = false, 0, 0, 0
		k.headerDirty = true
	}
	k.route, k.lane, k.complete = "", nil, true
	return nil
}

// lookupAll brings all pending messages of a key into memory.
func (s *Store) lookupAll(k *keyState) error {
	prefix := append(keyPrefix(nil, k.key), keyPending)
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: upper(prefix)})
	if err != nil {
		return s.readError("read key", err)
	}
	for it.First(); it.Valid(); it.Next() {
		lane, p, parseErr := parsePending(it.Key(), it.Value())
		if parseErr != nil {
			err = parseErr
			break
		}
		if find(k.refs, p) == nil && !s.isDying(lane, p) {
			s.insert(k, &ref{id: string(it.Key()[len(prefix):]), pos: p, durable: true, attempt: unknownAttempt})
		}
	}
	if err == nil {
		err = it.Error()
	}
	if closeErr := it.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return s.readError("read key", err)
	}
	return nil
}

func (s *Store) put(g *group, m *store.Message, now int64) error {
	k := s.pinned(m.Key)
	if m.Route != "" && m.Route != k.route {
		if err := s.setRoute(g, k, m.Route, now); err != nil {
			return err
		}
	}
	if r, err := s.lookup(k, m.ID); r != nil || err != nil {
		return err
	}
	if k.lane == nil {
		k.lane = s.lane(k.key, k.route)
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
	s.takePlace(g, k, r, p)
	return nil
}

// setRoute gives a key a route: all its messages move to the lane of that route. A
// message that has waited for a route for too long goes to quarantine instead.
func (s *Store) setRoute(g *group, k *keyState, route string, now int64) error {
	old := k.lane
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
		s.leavePlace(g, k, r)
		r.leased = lease
		r.data = &d
		kept = append(kept, r)
	}
	if old != nil && k.readyIndex != 0 {
		old.ready.remove(k)
		old.settle()
		s.unpinKey(k)
	}
	k.route, k.lane = route, s.lane(k.key, route)
	for _, r := range kept {
		p := pos{due: max(now, r.pos.due), seq: r.pos.seq}
		if r.data.hidden {
			p.due = max(now, r.data.visibleMS)
			r.data.hidden = false
		}
		s.takePlace(g, k, r, p)
	}
	return nil
}

func (s *Store) retime(g *group, t *store.Retime, now int64) error {
	k := s.pinned(t.Ref.Key)
	r, err := s.lookup(k, t.Ref.ID)
	if r == nil || err != nil {
		return err
	}
	return s.moveTo(g, k, r, max(now, store.Millis(t.VisibleAt)))
}

// moveTo makes a pending message visible at another time.
func (s *Store) moveTo(g *group, k *keyState, r *ref, visibleMS int64) error {
	d, err := s.data(k, r)
	if err != nil {
		return err
	}
	p := pos{due: visibleMS, seq: r.pos.seq}
	if d.hidden {
		d.visibleMS, p.due = visibleMS, r.pos.due
	}
	s.leavePlace(g, k, r)
	r.data = &d
	s.takePlace(g, k, r, p)
	return nil
}

func (s *Store) deleteMessage(g *group, ref store.MessageRef) error {
	k := s.pinned(ref.Key)
	r, err := s.lookup(k, ref.ID)
	if r == nil || err != nil {
		return err
	}
	s.removeMessage(g, k, r)
	return nil
}

// quarantine makes a pending message a record.
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

// message returns a pending message for a caller to keep, if d is.
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
