package pebblestore

import (
	"errors"
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/abidehq/abide/store"
)

// keyState is the state of a key. Memory is authoritative: the disk follows when the
// group that holds the changes is applied, and until then the key is pinned.
//
// What is known of a key grows in three steps:
//
//	partial    messages that load found in the partition. Enough to keep the
//	           order of ready keys; not enough to claim or to commit
//	filled     the header, the number of messages and the first limits.refs
//	           of them (fill). Enough for everything; a message that is not
//	           among refs is looked up on disk
//	complete   refs has all messages. A message that is not there does not
//	           exist, so a put needs no read
//
// A key that is not complete is evicted as soon as it is not pinned: what
// would have to be kept up to date for it is on disk.
type keyState struct {
	entry *cached[store.Key, *keyState]
	key   store.Key

	// partial: only messages that were loaded from the partition are known yet, and
	// nothing else but the partition.
	partial bool

	// complete: refs has all pending messages of the key.
	complete bool

	count int    // of pending messages; not set while partial
	refs  []*ref // in the order of their positions

	route     string     // empty if it has none yet
	partition *partition // of all pending messages; nil if there are none
	attached  int        // how many refs are in the window of the partition

	hasLog      bool
	log         uint64 // number of the log
	logTag      uint64 // that the log was begun with
	logBase     int    // how many entries were trimmed
	logLen      int    // entries, trimmed ones included
	logGroup    *group // with the latest append
	headerDirty bool   // the header must be written at the end of the Tx

	lease   *lease // nil if it is not leased
	changed *group // the last one that consumed messages or changed the log; a claim waits for it

	readyPos   pos // position of its first visible message, while it is ready
	readyIndex int // in the partition's heap of ready keys, plus one; 0 if not ready
}

// ref is a pending message. It is shared by the refs of its key, the window of its partition
// and the lease it was delivered with; each of them drops it on its own.
type ref struct {
	id      string
	pos     pos
	attempt int // how often it was claimed, or unknownAttempt
	size    int // of the body; known if attempt is

	durable bool       // it is on disk at this location
	group   *group     // that brings it to this location; nil when it is durable
	gone    bool       // it was consumed or deleted
	window  *partition // the partition in whose window it is, or nil
	leased  *lease     // that it was delivered with, or nil

	// data is nil if it must be read from disk. Before the message is durable it is
	// never nil.
	data *msgData
}

// pinKey returns the state of a key, pinned and not partial.
func (s *Store) pinKey(key store.Key) (*keyState, error) {
	k := s.pinPartial(key)
	if k.partial {
		if err := s.fill(k); err != nil {
			s.keys.unpin(k.entry)
			return nil, err
		}
	}
	return k, nil
}

// pinKeyOf is pinKey of a key that may be vouched for as new: then it is not read.
func (s *Store) pinKeyOf(key store.Key, isNew bool) (*keyState, error) {
	if !isNew {
		return s.pinKey(key)
	}
	k := s.pinPartial(key)
	if k.partial && len(k.refs) == 0 {
		s.checkNew(k)
		k.partial, k.complete = false, true
	}
	return k, nil
}

// pinPartial returns the state of a key, pinned and perhaps partial.
func (s *Store) pinPartial(key store.Key) *keyState {
	if e := s.keys.get(key); e != nil {
		s.keys.pin(e)
		return e.value
	}
	k := &keyState{key: key, partial: true}
	k.entry = s.keys.add(key, k)
	return k
}

// unpinKey ends a pin of a key. Without pins, the state is evicted at once if it is not
// complete, since it would miss changes, or if it has so many messages that it is better
// read again.
func (s *Store) unpinKey(k *keyState) {
	s.keys.unpin(k.entry)
	if k.entry.pins == 0 && !k.partial && (!k.complete || len(k.refs) > s.limits.idleRefs) {
		s.keys.evict(k.entry)
	}
}

// fill completes a partial state from the disk. No group in flight has changes of the key, or
// it would have been pinned, and not partial.
//
// One scan of the key's prefix finds the header and the pending messages. Tables are asked
// by their filters, and memtables are left out if recent says that the key cannot be in one:
// a key that does not exist, the common case, costs no read. Refs that are in the window
// are kept: others refer to them.
func (s *Store) fill(k *keyState) error {
	s.keyBuf = keyPrefix(s.keyBuf[:0], k.key)
	prefix := s.keyBuf
	it, err := s.db.NewIter(&pebble.IterOptions{
		LowerBound:   prefix,
		UpperBound:   upper(prefix),
		UseL6Filters: true, // most keys that are not in memory are new ones

		OnlyReadGuaranteedDurable: !s.recent.hasKey(k.key), // that is, only tables
	})
	if err != nil {
		return s.readError("read key", err)
	}
	count, known, refs := 0, k.refs, []*ref(nil)
	var partitionID uint32
	for it.SeekPrefixGE(prefix); it.Valid(); it.Next() {
		suffix := it.Key()[len(prefix):]
		if suffix[0] == keyHeader {
			var h header
			if h, err = parseHeader(it.Key(), it.Value()); err != nil {
				break
			}
			k.hasLog, k.log, k.logBase, k.logTag, k.route = true, h.log, h.base, h.tag, h.route
			continue
		}
		var p pos
		if partitionID, p, err = parsePending(it.Key(), it.Value()); err != nil {
			break
		}
		if count++; count <= s.limits.refs {
			r := find(known, p)
			if r == nil {
				r = &ref{id: string(suffix[1:]), pos: p, durable: true, attempt: unknownAttempt}
			}
			refs = append(refs, r)
		}
	}
	err = closeIter(it, err)
	if err == nil && k.hasLog {
		k.logLen, err = s.logLength(s.db, k.log)
	}
	l := s.partitionsByID[partitionID]
	if err == nil && count > 0 && l == nil {
		err = fmt.Errorf("messages of %v are in partition %d, which is not there: %w", k.key, partitionID, store.ErrCorrupt)
	}
	if err != nil {
		return s.readError("read key", err)
	}
	k.partial, k.count = false, count
	if k.complete = count <= s.limits.refs; k.complete {
		slices.SortFunc(refs, func(a, b *ref) int {
			if a.pos.less(b.pos) {
				return -1
			}
			return 1
		})
		k.refs = refs
	}
	if count > 0 {
		k.partition = l
		k.route = l.route
	}
	return nil
}

// unknownAttempt is the attempt of a ref whose message has not been read yet.
const unknownAttempt = -1

// find returns the ref at a position, or nil.
func find(refs []*ref, p pos) *ref {
	if i, ok := search(refs, p); ok {
		return refs[i]
	}
	return nil
}

func search(refs []*ref, p pos) (int, bool) {
	return slices.BinarySearchFunc(refs, p, func(r *ref, p pos) int {
		switch {
		case r.pos.less(p):
			return -1
		case p.less(r.pos):
			return 1
		}
		return 0
	})
}

// insert adds a ref that is not among the refs. A key with more than limits.refs is no longer
// complete: from then on messages may be on disk only.
func (s *Store) insert(k *keyState, r *ref) {
	i := len(k.refs)
	if i > 0 && r.pos.less(k.refs[i-1].pos) {
		i, _ = search(k.refs, r.pos)
	}
	k.refs = slices.Insert(k.refs, i, r)
	if len(k.refs) > s.limits.refs && k.complete {
		k.complete = false
	}
}

// drop removes a ref from the refs of its key.
func (k *keyState) drop(r *ref) {
	if i, ok := search(k.refs, r.pos); ok && k.refs[i] == r {
		k.refs = slices.Delete(k.refs, i, i+1)
	}
}

// lookup returns the pending message with an ID, or nil. Of a key that is not complete it
// reads the disk, and ignores what has a tombstone.
func (s *Store) lookup(k *keyState, id string) (*ref, error) {
	for _, r := range k.refs {
		if r.id == id {
			return r, nil
		}
	}
	if k.complete {
		return nil, nil
	}
	s.keyBuf = pendingKey(s.keyBuf[:0], k.key, id)
	v, closer, err := s.db.Get(s.keyBuf)
	if err == pebble.ErrNotFound { //nolint:errorlint // Pebble returns it as it is
		return nil, nil
	}
	if err != nil {
		return nil, s.readError("read message", err)
	}
	partition, p, err := parsePending(s.keyBuf, v)
	if closeErr := closer.Close(); closeErr != nil { // only now Pebble says that it could not read the value
		err = s.readError("read message", closeErr)
	}
	if err != nil {
		return nil, err
	}
	if s.isTombstone(partition, p) {
		return nil, nil
	}
	r := &ref{id: id, pos: p, durable: true, attempt: unknownAttempt}
	s.insert(k, r)
	return r, nil
}

// data returns the value of a message, from memory or from disk, with the attempts that memory
// has. The body is shared with the ref if it comes from memory: callers do not change it.
func (s *Store) data(k *keyState, r *ref) (msgData, error) {
	var d msgData
	if r.data != nil {
		d = *r.data
	} else {
		s.keyBuf = msgKey(s.keyBuf[:0], k.partition.id, r.pos)
		read, err := s.readMsg(s.db, s.keyBuf)
		if errors.Is(err, pebble.ErrNotFound) {
			err = fmt.Errorf("pebblestore: message %q of %v is not there: %w", r.id, k.key, store.ErrCorrupt)
		}
		if err != nil {
			return d, err
		}
		s.setFromDisk(k.partition, r, read)
		d = *read
	}
	d.attempt = r.attempt
	return d, nil
}

// setFromDisk sets attempts and size of a message that was not read before. Attempts counted
// since it was written are in the journal.
func (s *Store) setFromDisk(l *partition, r *ref, d *msgData) {
	if r.attempt != unknownAttempt {
		return
	}
	r.attempt, r.size = d.attempt, len(d.body)
	if n, ok := s.attempts.get(location{l.id, r.pos}); ok {
		r.attempt = n
	}
}

// readMsg reads a message from disk. The result is a copy.
func (s *Store) readMsg(from source, key []byte) (*msgData, error) {
	v, closer, err := from.Get(key)
	if err != nil {
		return nil, s.readError("read message", err)
	}
	_, _, d, err := parseMsg(key, v)
	d.body = slices.Clone(d.body)
	_ = closer.Close()
	return &d, err
}

// visible calls yield with the messages that can be delivered, in order, until it
// returns false. Of a key that is not complete, only what is in the window counts,
// up to where the disk may have something that comes first.
func (k *keyState) visible(now int64, yield func(*ref) bool) {
	end := maxPos
	if !k.complete {
		end = k.partition.next
		if p, ok := k.partition.overflow[k]; ok && p.less(end) {
			end = p
		}
	}
	for _, r := range k.refs {
		if r.pos.due > now || !r.pos.less(end) {
			return
		}
		if !r.durable {
			return // later messages wait for it: they are delivered in order
		}
		if !k.complete && r.window == nil {
			continue
		}
		if !yield(r) {
			return
		}
	}
}

// idle reports whether the key is not leased, and has no message that is visible or waits for a
// route. A key that is not complete may have one.
func (k *keyState) idle(now int64) bool {
	if k.lease != nil && now < k.lease.until {
		return false
	}
	return k.count == 0 || k.route != "" && k.complete && k.refs[0].pos.due > now
}

// lastAttached returns the position of the last message that is in the window.
func (k *keyState) lastAttached() pos {
	for _, r := range slices.Backward(k.refs) {
		if r.window != nil {
			return r.pos
		}
	}
	return pos{}
}

// firstVisible returns the first message that can be delivered, or nil.
func (k *keyState) firstVisible(now int64) (first *ref) {
	k.visible(now, func(r *ref) bool {
		first = r
		return false
	})
	return first
}
