package pebblestore

import (
	"math"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/abidehq/abide/internal/waitlist"
	"github.com/abidehq/abide/store"
)

// partition is all messages of one queue, tenant and route, in the order of their
// positions. What is due in it is one range of the disk, and claims of other routes
// never read it.
//
// Messages before the cursor are in memory, in the window, or gone. Messages from
// the cursor on are on disk. A message that comes in before the cursor moves the
// cursor back.
//
// The partition of messages whose keys have no route has an empty route. Its positions are
// the times at which they expire, and it has no window.
//
// A partition that is empty and in no group is idle in the cache, or is dropped from memory
// and from disk: a tenant that has nothing pending costs nothing.
//
// How a message travels, with the field that says where it is:
//
//	put, not durable   ref.group is the group that brings it; not in the window
//	durable, later     on disk only, at or after next
//	durable, due       loaded by load, or attached as it arrives (announce):
//	                   ref.window is the partition
//	leased             still in the window; ref.leased is the lease
//	consumed, deleted  ref.gone; a tombstone until its group is applied
//
// On disk, from left to right in the order of positions:
//
//	       floor            cursor            next
//	gone  |  in the window  |  nothing there  |  not loaded yet
//	      |  or overflowing |                 |
//
// A claim loads a partition when next is due and it has no ready key, or when
// next is before its first ready key: so that the oldest message comes first
// even when some of the partition stayed on disk.
type partition struct {
	entry  *cached[partitionName, *partition]
	id     uint32
	queue  *queue
	rs     *routeState // of queue and route
	tenant string
	route  string
	count  int64 // of pending messages

	cursor   pos // up to which the window is loaded
	next     pos // nothing on disk is at or after the cursor and before next
	window   window
	overflow map[*keyState]pos // first message that is not in the window because its key has too many there; all before it are

	ready    indexed[*keyState] // keys that can be claimed, by their first message
	inRing   bool               // in the ring of its route; it may be without ready keys until its turn
	dropped  bool               // removed by dropPartition; it may still be in the ring
	dueIndex int                // in the heap due of its route, plus one

	windowIndex int // in the windowed partitions of its route, plus one
}

// location is where a message is on disk: a partition, and a position in it.
type location struct {
	partition uint32
	pos       pos
}

// queue is the state of a queue. It is never forgotten: programs have few queues.
type queue struct {
	name   string
	routes map[string]*routeState // with partitions, or with waiting calls
	turn   int                    // rotates the routes of requests: see claim

	limited waitlist.Turns // of claims that are limited to tenants

	swept   *group // with the latest swept messages; claims wait for it
	sweepAt int64  // no sweep before this time, after an error or while the store is excluded
}

// routeState is the partitions of one route of a queue.
//
// Claims take one key of the first partition in the ring, which then goes to
// its end: tenants take turns, whatever the number of their messages. A
// partition that becomes due joins the ring when it is loaded, and at most
// loadPartitions are loaded for one key, so that a thousand tenants that are
// due in the same millisecond do not come into memory at once.
type routeState struct {
	queue      *queue
	name       string
	partitions int // how many there are

	due     indexed[*partition] // partitions without ready keys, by next
	ring    []*partition        // partitions with ready keys, in the order of their turns
	dropped int                 // dropped partitions in the ring; compacted when they are more than half

	topic   waitlist.Topic[claimResult]             // for Claim calls that wait for this route
	limited map[string]*waitlist.Topic[claimResult] // for those that wait for a tenant on it

	pending   int64        // messages of all partitions
	windowed  []*partition // partitions with messages in their windows, in no order
	listIndex int          // in the store's listed routes, plus one
}

// queue returns the state of a queue, which it adds if necessary.
func (s *Store) queue(name string) *queue {
	q := s.queues[name]
	if q == nil {
		q = &queue{name: name, routes: map[string]*routeState{}, sweepAt: s.sweepAt}
		s.queues[name] = q
	}
	return q
}

// route returns the state of a route of a queue, which it adds if necessary. A caller that
// adds neither a partition nor a waiter must call pruneRoute.
func (s *Store) route(q *queue, name string) *routeState {
	rs := q.routes[name]
	if rs == nil {
		rs = &routeState{queue: q, name: name, due: indexed[*partition]{
			less: func(a, b *partition) bool { return a.next.less(b.next) },
			slot: func(l *partition) *int { return &l.dueIndex },
		}}
		q.routes[name] = rs
		s.listRoute(rs)
	}
	return rs
}

// pruneRoute removes a route that has no partitions and no waiting calls.
func (s *Store) pruneRoute(rs *routeState) {
	if rs.partitions == 0 && !rs.topic.Waited() && len(rs.limited) == 0 {
		delete(rs.queue.routes, rs.name)
		s.unlistRoute(rs)
	}
}

// partitionName identifies a partition by what it is for.
type partitionName struct{ queue, tenant, route string }

// partition returns the partition of a key with that route, for a group to change.
//
// A new partition has a number that no partition in memory has. Its cursor
// starts at the present: numbers come again after a wrap, and what an earlier
// partition of that number has left in the journal, or in tables that are not
// yet compacted, is at earlier positions.
func (s *Store) partition(g *group, key store.Key, route string) *partition {
	name := partitionName{key.Queue, key.Tenant, route}
	if e := s.partitions.get(name); e != nil {
		s.touch(g, e.value)
		return e.value
	}
	// Numbers come again after four billion partitions. The last one is not used: the range of a
	// partition ends where that of the next number begins.
	for s.lastPartition++; s.lastPartition == 0 || s.lastPartition == math.MaxUint32 || s.partitionsByID[s.lastPartition] != nil; {
		s.lastPartition++
	}
	l := s.addPartition(s.lastPartition, name)
	l.cursor = pos{due: s.lastNow} // after everything that an earlier partition of this number has left
	s.touch(g, l)
	s.partitions.unpin(l.entry)
	return l
}

// addPartition adds a partition, pinned once for the caller.
func (s *Store) addPartition(id uint32, name partitionName) *partition {
	q := s.queue(name.queue)
	rs := s.route(q, name.route)
	name.queue, name.route = q.name, rs.name // the same strings for all partitions
	l := &partition{id: id, queue: q, rs: rs, tenant: name.tenant, route: rs.name, next: maxPos}
	l.ready = indexed[*keyState]{
		less: func(a, b *keyState) bool { return a.readyPos.less(b.readyPos) },
		slot: func(k *keyState) *int { return &k.readyIndex },
	}
	rs.partitions++
	l.entry = s.partitions.add(name, l)
	s.partitionsByID[id] = l
	return l
}

// dropPartition removes an empty partition, from memory and, with the open group, from disk.
// The cache calls it when it evicts one. The group need not be awaited: if a crash loses the
// deletion, Open finds a partition with count 0 and removes it.
func (s *Store) dropPartition(l *partition) {
	delete(s.partitionsByID, l.id)
	l.dropped = true
	rs := l.rs
	rs.due.remove(l)
	if l.inRing {
		if rs.dropped++; 2*rs.dropped > len(rs.ring) {
			rs.ring = slices.DeleteFunc(rs.ring, func(l *partition) bool { return l.dropped })
			rs.dropped = 0
		}
	}
	rs.partitions--
	s.pruneRoute(rs)
	s.keyBuf = partitionKey(s.keyBuf[:0], l.id)
	_ = s.openGroup.batch.Delete(s.keyBuf, nil)
}

// addCount adds to the number of pending messages of a partition. While there are some, the
// partition is pinned.
func (s *Store) addCount(l *partition, n int64) {
	before := l.count
	l.count += n
	l.rs.pending += n
	if l.rs.listIndex == 0 {
		s.rest += n
	}
	switch {
	case before == 0 && l.count > 0:
		s.partitions.pin(l.entry)
	case before > 0 && l.count == 0:
		s.partitions.unpin(l.entry)
	}
}

// setNext sets the position from which on the disk has something to load.
func (l *partition) setNext(p pos) {
	l.next = p
	l.reschedule()
}

// reschedule puts the partition into the ring or into the heap due of its route, as invariant
// 6 says. It does not remove a partition from the ring, which would be a search: anyReady does
// when its turn comes.
func (l *partition) reschedule() {
	rs := l.rs
	if l.ready.len() > 0 {
		if !l.inRing {
			l.inRing = true
			rs.ring = append(rs.ring, l)
		}
		rs.due.remove(l)
		return
	}
	if l.next == maxPos {
		rs.due.remove(l)
	} else {
		rs.due.push(l)
	}
}

// refresh makes a key ready, or not, after its state has changed.
//
// It is the only place that makes a key ready or not, and is called after
// every change of a key's lease, messages or route, with the key pinned. A
// message that is visible and not in the window does not make its key ready:
// then older messages of the partition may be on disk too, and the key would
// overtake them. load brings all of them in order.
func (s *Store) refresh(k *keyState, now int64) {
	l := k.partition
	if l == nil || l.route == "" {
		return
	}
	first := (*ref)(nil)
	if k.lease == nil {
		first = k.firstVisible(now)
	}
	if first != nil && first.window == nil {
		first = nil // others on disk may be older: its turn comes when it is loaded
	}
	switch {
	case first != nil:
		if k.readyIndex == 0 {
			s.keys.pin(k.entry)
		}
		k.readyPos = first.pos
		l.ready.push(k)
	case k.readyIndex != 0:
		l.ready.remove(k)
		s.unpinKey(k)
	}
	l.reschedule()
}

// announce makes a message claimable that is now durable at its location. There are four
// cases:
//
//   - it is before the cursor: the cursor moves back, so that the next load
//     finds it;
//   - it is due, and its key has too many messages in the window: it
//     overflows, and stays on disk;
//   - it is due, before everything that is on disk only, and there is room: it
//     goes into the window, and needs no read;
//   - else next is lowered to it, and it is loaded when its turn comes.
func (s *Store) announce(k *keyState, r *ref, now int64) {
	l := k.partition
	if r.pos.less(l.cursor) && r.window == nil {
		l.cursor = r.pos
		l.setNext(r.pos)
	}
	if r.window == nil && r.pos.less(l.next) {
		due := l.route != "" && r.pos.due <= now
		switch {
		case due && s.overflows(l, k, r.pos):
			// It stays on disk: overflows has noted from where on the key is loaded later.
		case due && s.admits(l):
			s.attach(l, k, r)
			l.cursor = r.pos.next()
		default:
			l.setNext(r.pos)
		}
	}
	if r.window == nil || len(r.data.body) > s.limits.body {
		r.data = nil
	}
	s.refresh(k, now)
	if !k.complete && r.window == nil && r.leased == nil {
		k.drop(r)
	}
}

// admits reports whether there is room in memory for another message of a partition. If many
// messages are in memory and no call waits for it, it stays on disk.
func (s *Store) admits(l *partition) bool {
	if s.attached >= s.limits.total && !l.rs.topic.Waited() && l.rs.limited[l.tenant] == nil {
		return false
	}
	return l.window.live < s.windowLimit(s.limits.window)
}

// windowLimit returns how many of up to limit messages of a partition to keep in memory: 16
// when all windows together have reached limits.total, so that many partitions with a
// backlog each have a few keys ready.
func (s *Store) windowLimit(limit int) int {
	if s.attached >= s.limits.total {
		return min(limit, 16)
	}
	return limit
}

// attach adds a message to the window. Its key is pinned once for each message there, so that
// a key with a message in the window is always in memory.
func (s *Store) attach(l *partition, k *keyState, r *ref) {
	r.window = l
	k.attached++
	s.attached++
	s.keys.pin(k.entry)
	l.window.add(l, r)
	if l.windowIndex == 0 {
		l.rs.windowed = append(l.rs.windowed, l)
		l.windowIndex = len(l.rs.windowed)
	}
}

// detach removes a message from the window, if it is there. When half of the messages of a
// key that overflows are gone, the rest is loaded again from its first overflowing position.
func (s *Store) detach(k *keyState, r *ref) {
	l := r.window
	if l == nil {
		return
	}
	r.window = nil
	if l.window.live--; l.window.live == 0 {
		windowed := l.rs.windowed
		last := windowed[len(windowed)-1]
		windowed[l.windowIndex-1], last.windowIndex = last, l.windowIndex
		windowed[len(windowed)-1] = nil
		l.rs.windowed, l.windowIndex = windowed[:len(windowed)-1], 0
	}
	k.attached--
	s.attached--
	if from, ok := l.overflow[k]; ok && k.attached < s.limits.refs/2 {
		delete(l.overflow, k)
		s.unpinKey(k)
		l.rewind(from)
	}
	s.unpinKey(k)
}

// overflows reports whether a message of a key stays on disk because the key has too
// many in the window: then it is the first of those, or comes after it.
//
// A key with a hundred thousand messages would fill the window, and the memory,
// by itself. So a key has limits.refs messages in the window at most; from the
// first of the others on it overflows. When half of those in the window are
// gone, detach moves the cursor back to that position, and the rest is loaded.
// overflows has an effect: the first message that overflows is noted.
func (s *Store) overflows(l *partition, k *keyState, p pos) bool {
	if from, ok := l.overflow[k]; ok {
		return !p.less(from)
	}
	if k.attached < s.limits.refs || !k.lastAttached().less(p) {
		return false
	}
	if l.overflow == nil {
		l.overflow = map[*keyState]pos{}
	}
	l.overflow[k] = p
	s.keys.pin(k.entry)
	return true
}

// rewind makes the next load read the disk from an earlier position on.
func (l *partition) rewind(p pos) {
	if p.less(l.cursor) {
		l.cursor = p
	}
	if p.less(l.next) {
		l.setNext(p)
	}
}

// load brings messages that are due from disk into the window, until there are
// enough ready keys, and notes what comes next.
//
// It continues until it meets a message that is not due, or has enough ready
// keys and every further message is younger than the oldest of them. An error
// leaves the cursor before the message that could not be read: the next load
// begins with it again. Messages with a tombstone are passed over: the disk
// shows them, and a group in flight has removed them.
func (s *Store) load(l *partition, now int64) error {
	it, err := s.db.NewIter(&pebble.IterOptions{
		LowerBound: msgKey(nil, l.id, l.cursor),
		UpperBound: msgKey(nil, l.id+1, pos{}),
	})
	if err != nil {
		return s.readError("load messages", err)
	}
	next := maxPos
	for it.First(); it.Valid(); it.Next() {
		p := parseMsgKey(it.Key())
		if p.due > now || (l.ready.len() >= s.windowLimit(s.limits.load) && !p.less(l.ready.items[0].readyPos)) {
			next = p
			break
		}
		l.cursor, l.next = p.next(), p.next()
		if s.isTombstone(l.id, p) {
			continue
		}
		if err = s.loadMsg(l, p, it.Key(), it.Value(), now); err != nil {
			l.cursor, l.next = p, p
			break
		}
	}
	if err = closeIter(it, err); err != nil {
		next = l.cursor // what follows is unknown: the next load tries again
	}
	l.setNext(next)
	if err != nil {
		return s.readError("load messages", err)
	}
	return nil
}

// loadMsg adds one message that was read from disk to the window. The key may be unknown so
// far: then its state is partial, and is kept by the pin of the window. A message that
// memory knows keeps its state there, which may be newer than the disk.
func (s *Store) loadMsg(l *partition, p pos, key, value []byte, now int64) error {
	name, id, d, err := parseMsg(key, value)
	if err != nil {
		return err
	}
	k := s.pinPartial(store.Key{Queue: l.queue.name, Tenant: l.tenant, Name: name})
	defer s.unpinKey(k)
	r := find(k.refs, p)
	if (r == nil || r.window == nil) && s.overflows(l, k, p) {
		return nil
	}
	if r == nil {
		r = &ref{id: id, pos: p, durable: true, attempt: unknownAttempt}
		k.partition, k.route = l, l.route
		s.insert(k, r)
	}
	if r.window == nil {
		s.attach(l, k, r)
		if r.data == nil {
			s.setFromDisk(l, r, &d)
			if len(d.body) <= s.limits.body {
				d.body = slices.Clone(d.body)
				r.data = &d
			}
		}
	}
	s.refresh(k, now)
	return nil
}

// floor is the position before which the partition has no message on disk. It is stored, so
// that the first load after a restart does not scan the tombstones of what was consumed long
// ago.
//
// It is the minimum of what is not loaded yet, the first message in the window,
// the first of each key that overflows, and what groups in flight put. It is
// written with each group that touches the partition, so it costs no write of
// its own.
func (s *Store) floor(l *partition) pos {
	floor := l.next // nothing but overflowing messages is between the cursor and next
	if first, ok := l.window.first(l); ok && first.less(floor) {
		floor = first
	}
	for _, p := range l.overflow {
		if p.less(floor) {
			floor = p
		}
	}
	for _, g := range s.inFlight {
		if p, ok := g.partitions[l]; ok && p.less(floor) {
			floor = p
		}
	}
	if floor == maxPos { // the partition is empty
		floor = l.cursor
	}
	return floor
}

// window is the messages of a partition that are in memory, in the order of their
// positions. It is a queue: messages mostly arrive at its end and leave at its front. One
// that leaves from the middle is recognised by its ref, and removed when it comes to the
// front, or when most of the items have left.
type window struct {
	items []windowItem
	head  int // items before it are removed
	live  int // messages that are still in the window
}

// windowItem is a message at a position. It has left the window if its ref says otherwise.
type windowItem struct {
	pos pos
	ref *ref
}

// add inserts a message. The search for its place begins at the end, where it mostly is.
func (w *window) add(l *partition, r *ref) {
	w.live++
	if len(w.items) > 2*w.live+64 { // most of them have left
		w.items = slices.DeleteFunc(w.items, func(item windowItem) bool { return !item.live(l) })
		w.head = 0
	}
	i := len(w.items)
	for i > w.head && r.pos.less(w.items[i-1].pos) {
		i--
	}
	w.items = slices.Insert(w.items, i, windowItem{r.pos, r})
}

// live reports whether the message is still in the window of l, at this position.
func (i windowItem) live(l *partition) bool {
	return i.ref != nil && i.ref.window == l && i.ref.pos == i.pos
}

// first returns the position of the first message in the window.
func (w *window) first(l *partition) (pos, bool) {
	for w.head < len(w.items) {
		if item := w.items[w.head]; item.live(l) {
			return item.pos, true
		}
		w.items[w.head] = windowItem{}
		w.head++
	}
	w.items, w.head = w.items[:0], 0
	return pos{}, false
}
