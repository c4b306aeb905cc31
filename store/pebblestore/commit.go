package pebblestore

import (
	"context"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/abidehq/abide/store"
)

// Commit applies tx in a group with others, and waits until the group is durable.
//
// It returns [store.ErrClaimLost], [store.ErrConflict] and [store.ErrFull] with nothing
// changed, and so an error of a read. If ctx ends while it waits, the outcome is unknown.
// After [store.ErrFailed] it is unknown too, until the store is opened again.
//
// An empty Tx is checked like any other and waits for nothing.
func (s *Store) Commit(ctx context.Context, tx *store.Tx) error {
	if err := tx.Validate(); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if s.inspecting {
		return store.ReadOnly("commit")
	}
	read, err := s.prefetch(tx)
	if err != nil {
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
	if err := s.checkRoom(onlyRemoves(tx)); err != nil {
		s.mu.Unlock()
		return err
	}
	g, err := s.joinGroup(ctx)
	if err == nil {
		s.adopt(read)
		err = s.commit(g, tx, max(now, s.lastNow))
		s.unpinAdopted(read)
	}
	if err != nil {
		s.mu.Unlock()
		return err
	}
	s.kick()
	s.mu.Unlock()
	return s.wait(ctx, g)
}

// commit checks tx and adds it to the group.
//
// Nothing is changed before check and prepare have succeeded. The keys and
// records of tx stay pinned by the group, also those that turn out unchanged:
// telling them apart costs more than to keep them for a moment.
func (s *Store) commit(g *group, tx *store.Tx, now int64) error {
	keys, records := len(g.keys), len(g.records)
	defer func() { s.lastPinned = nil }()
	err := s.pinAll(g, tx)
	if err == nil {
		err = s.check(tx, now)
	}
	if err == nil {
		err = s.prepare(tx)
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

// pinAll pins the state of every key and record that tx names, and reads what memory lacks.
// It stays pinned until the group is durable. Most Txs need no other read.
//
// If it fails, commit releases what it has pinned. Keys that follow each other in
// a Tx are pinned once: most Txs name one key several times. What the caller vouches
// for as new is not read.
func (s *Store) pinAll(g *group, tx *store.Tx) error {
	var err error
	first := len(g.keys)
	key := func(key store.Key, isNew bool) {
		if err != nil || (len(g.keys) > first && g.keys[len(g.keys)-1].key == key) {
			return
		}
		var k *keyState
		if k, err = s.pinKeyOf(key, isNew); err == nil {
			g.keys = append(g.keys, k)
			s.lastPinned = k
		}
	}
	record := func(key store.RecordKey, isNew bool) {
		if err != nil {
			return
		}
		var r *recordState
		if r, err = s.pinRecordOf(key, isNew); err == nil {
			g.records = append(g.records, r)
		}
	}
	for i := range tx.Finish {
		key(tx.Finish[i].Lease.Key, false)
	}
	for i := range tx.DeleteKeys {
		key(tx.DeleteKeys[i], false)
	}
	for i := range tx.Trim {
		key(tx.Trim[i].Key, false)
	}
	for i := range tx.Append {
		key(tx.Append[i].Key, tx.Append[i].New)
	}
	for i := range tx.Put {
		key(tx.Put[i].Key, tx.Put[i].New)
	}
	for i := range tx.Retime {
		key(tx.Retime[i].Ref.Key, false)
	}
	for i := range tx.Delete {
		key(tx.Delete[i].Key, false)
	}
	for i := range tx.PutRecords {
		record(tx.PutRecords[i].Record.Key, tx.PutRecords[i].New)
	}
	for i := range tx.DeleteRecords {
		record(tx.DeleteRecords[i].Key, false)
	}
	return err
}

// pinned returns the state of a key that pinAll has pinned.
func (s *Store) pinned(key store.Key) *keyState {
	if k := s.lastPinned; k != nil && k.key == key { // most Txs are about one key
		return k
	}
	return s.keys.get(key).value
}

// check returns the error of a Tx that cannot be applied. It changes nothing. Lengths are
// those after DeleteKeys, because that is applied first; versions and leases are as they are
// in memory, with all groups in flight.
func (s *Store) check(tx *store.Tx, now int64) error {
	for i := range tx.Finish {
		if l := &tx.Finish[i].Lease; !s.pinned(l.Key).live(l.Token, now) {
			return store.ClaimLost("commit", *l)
		}
	}
	deleted := setOf(tx.DeleteKeys)
	length := func(key store.Key) int {
		if deleted(key) {
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
		if a := &tx.Append[i]; a.Idle && !deleted(a.Key) && !s.pinned(a.Key).idle(now) {
			return store.BusyConflict(a.Key)
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

// setOf returns a function that reports whether a value is among values: a linear search for
// a few, a map for many.
func setOf[K comparable](values []K) func(K) bool {
	if len(values) <= 8 {
		return func(k K) bool { return slices.Contains(values, k) }
	}
	set := make(map[K]struct{}, len(values))
	for _, v := range values {
		set[v] = struct{}{}
	}
	return func(k K) bool {
		_, ok := set[k]
		return ok
	}
}

// prepare reads what apply needs and memory does not have, so that an error of the disk is
// found while nothing has changed.
//
// A put needs a read only if it changes the route of a key that has messages,
// which must be written again; a retime needs the message; a delete needs its
// location; a delete of a key needs all of its messages.
func (s *Store) prepare(tx *store.Tx) error {
	for i := range tx.DeleteKeys {
		if k := s.pinned(tx.DeleteKeys[i]); !k.complete {
			if err := s.lookupAll(k); err != nil {
				return err
			}
		}
	}
	for i := range tx.Append {
		a := &tx.Append[i]
		if err := s.prepareRoute(s.pinned(a.Key), a.Route); err != nil {
			return err
		}
	}
	for i := range tx.Put {
		m := &tx.Put[i]
		if err := s.prepareRoute(s.pinned(m.Key), m.Route); err != nil {
			return err
		}
	}
	for i := range tx.Retime {
		ref := &tx.Retime[i].Ref
		if err := s.prepareRef(s.pinned(ref.Key), ref.ID, true); err != nil {
			return err
		}
	}
	for i := range tx.Delete {
		ref := &tx.Delete[i]
		if err := s.prepareRef(s.pinned(ref.Key), ref.ID, false); err != nil {
			return err
		}
	}
	return nil
}

// prepareRoute reads all messages of a key that is going to have another route, because they are
// written to another partition then.
func (s *Store) prepareRoute(k *keyState, route string) error {
	if route == "" || route == k.route || k.count == 0 {
		return nil
	}
	if !k.complete {
		if err := s.lookupAll(k); err != nil {
			return err
		}
	}
	for _, r := range k.refs {
		if err := s.prepareData(k, r); err != nil {
			return err
		}
	}
	return nil
}

// prepareRef finds a message, and reads it if it is going to be written again.
func (s *Store) prepareRef(k *keyState, id string, read bool) error {
	r, err := s.lookup(k, id)
	if r == nil || err != nil || !read {
		return err
	}
	return s.prepareData(k, r)
}

// prepareData reads a message that is going to be written again.
func (s *Store) prepareData(k *keyState, r *ref) error {
	if r.data != nil {
		return nil
	}
	d, err := s.data(k, r)
	if err == nil {
		r.data = &d
	}
	return err
}

// apply adds a checked tx, whose keys are those of the group from the first on, to
// the group, in the order that the contract gives.
//
// Errors of the batch are ignored: a batch is memory, and Pebble returns errors
// of it only for options that are not used here. Puts come before deletes, so
// that what a Tx both puts and deletes is not there afterwards.
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
		s.trim(g, s.pinned(tx.Trim[i].Key), tx.Trim[i].Before)
	}
	for i := range tx.Append {
		a := &tx.Append[i]
		s.append(g, a)
		if k := s.pinned(a.Key); a.Route != "" && a.Route != k.route {
			if err := s.setRoute(g, k, a.Route, now); err != nil {
				return err
			}
		}
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
	_ = s.attempts.flush() // if it fails, the next one rewrites the journal
	return nil
}

// endOfTx writes a key's header if it has changed, forgets the route of a key that
// is gone, and puts the key where it belongs.
func (s *Store) endOfTx(g *group, k *keyState, now int64) {
	if k.headerDirty {
		k.headerDirty = false
		s.keyBuf = headerKey(s.keyBuf[:0], k.key)
		if k.hasLog {
			s.valBuf = appendHeader(s.valBuf[:0], header{log: k.log, base: k.logBase, tag: k.logTag, route: k.route})
			_ = g.batch.Set(s.keyBuf, s.valBuf, nil)
		} else {
			_ = g.batch.Delete(s.keyBuf, nil)
		}
	}
	s.refresh(k, now)
	if k.count == 0 {
		k.complete, k.partition = true, nil
		if !k.hasLog {
			k.route = ""
		}
	}
}

// finish ends a lease, and consumes what was delivered with it, except for the
// messages that are kept: those are ready again, with the attempt counted. The
// key is marked as changed by the group, so that a claim of it that comes before
// the group is durable is held back until it is: otherwise a crash could lose the
// finish after the next claimer has acted on what followed from it.
func (s *Store) finish(g *group, f *store.Finish) {
	k := s.pinned(f.Lease.Key)
	delivered := k.lease.delivered
	s.endLease(k)
	k.changed = g
	keep := setOf(f.Keep)
	for _, r := range delivered {
		if !r.gone && !keep(r.id) {
			s.removeMessage(g, k, r)
		}
	}
}

// deleteKey removes a key with its messages, its log and its lease. The state
// stays in the cache, empty and complete, until the group is durable.
func (s *Store) deleteKey(g *group, k *keyState) error {
	if k.lease != nil {
		s.endLease(k)
	}
	if !k.complete {
		if err := s.lookupAll(k); err != nil {
			return err
		}
	}
	k.changed = g
	for _, r := range slices.Backward(slices.Clone(k.refs)) { // the last one is found and dropped at once
		s.removeMessage(g, k, r)
	}
	if k.readyIndex != 0 {
		k.partition.ready.remove(k)
		k.partition.reschedule()
		s.unpinKey(k)
	}
	if k.hasLog {
		s.deleteLog(g, k)
		k.hasLog, k.log, k.logTag, k.logBase, k.logLen = false, 0, 0, 0, 0
		k.headerDirty = true
	}
	k.route, k.partition, k.complete = "", nil, true
	return nil
}

// lookupAll brings all pending messages of a key into memory.
//
// What groups in flight have put is among refs already, and what they have
// removed has a tombstone: so the result is the state in memory, and not that
// of the disk.
func (s *Store) lookupAll(k *keyState) error {
	prefix := append(keyPrefix(nil, k.key), keyPending)
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: upper(prefix)})
	if err != nil {
		return s.readError("read key", err)
	}
	for it.First(); it.Valid(); it.Next() {
		partition, p, parseErr := parsePending(it.Key(), it.Value())
		if parseErr != nil {
			err = parseErr
			break
		}
		if find(k.refs, p) == nil && !s.isTombstone(partition, p) {
			s.insert(k, &ref{id: string(it.Key()[len(prefix):]), pos: p, durable: true, attempt: unknownAttempt})
		}
	}
	err = closeIter(it, err)
	if err != nil {
		return s.readError("read key", err)
	}
	return nil
}
