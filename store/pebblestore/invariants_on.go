//go:build invariants

package pebblestore

import (
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/abidehq/abide/store"
)

const (
	// checkedKeys is up to how many keys in memory all of them are checked after
	// each group. With more, only every checkEvery-th group is followed by a check.
	checkedKeys = 2000
	checkEvery  = 64

	// checkedMessages is up to how many pending messages memory is compared with
	// the disk.
	checkedMessages = 2000
)

// checkInvariants panics if a rule of the package comment does not hold. The mutex
// is held, and no Tx is under way. The numbers are those of the rules.
func (s *Store) checkInvariants() {
	if len(s.keys.byKey) > checkedKeys && s.groups%checkEvery != 0 {
		return
	}
	s.checkGroups()
	s.checkPartitions()
	s.checkKeys()
	s.checkLeases()
	if g := s.openGroup; len(s.inFlight) == 1 && !g.used && g.batch.Empty() {
		s.checkDisk() // nothing is in flight, so that the disk agrees with memory
	}
}

// checkNew panics if a key that a caller vouches for as new is on disk.
func (s *Store) checkNew(k *keyState) {
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: keyPrefix(nil, k.key), UpperBound: upper(keyPrefix(nil, k.key))})
	if err != nil {
		return
	}
	found := it.First()
	if closeIter(it, nil) == nil && found {
		panic(fmt.Sprintf("pebblestore: key %v is not new", k.key))
	}
}

// checkNewRecord panics if a record that a caller vouches for as new is on disk.
func (s *Store) checkNewRecord(key store.RecordKey) {
	if _, _, err := s.readRecord(s.db, key); err == nil {
		panic(fmt.Sprintf("pebblestore: record %v is not new", key))
	}
}

// violated panics with the number of a rule. A panic and not an error: the state in memory is
// wrong, and the next commit would write it to disk.
func violated(rule int, format string, args ...any) {
	panic(fmt.Sprintf("pebblestore: invariant %d does not hold: ", rule) + fmt.Sprintf(format, args...))
}

// checkGroups checks the order of groups (2).
func (s *Store) checkGroups() {
	for i, g := range s.inFlight {
		if g.durable || i > 0 && s.inFlight[i-1].number >= g.number {
			violated(2, "group %d of %d in flight has number %d, durable %v", i, len(s.inFlight), g.number, g.durable)
		}
	}
	if s.inFlight[len(s.inFlight)-1] != s.openGroup {
		violated(2, "the last group in flight is not the open one")
	}
}

// checkPartitions checks where partitions are (6) and what they count (10).
func (s *Store) checkPartitions() {
	pending, attached := map[*routeState]int64{}, 0
	for id, l := range s.partitionsByID {
		switch ready, due := l.ready.len() > 0, l.dueIndex != 0; {
		case l.id != id || l.dropped:
			violated(6, "partition %d is kept as %d, dropped %v", l.id, id, l.dropped)
		case ready && (!l.inRing || due):
			violated(6, "partition %d has ready keys: in the ring %v, in the heap %v", id, l.inRing, due)
		case !ready && due != (l.next != maxPos):
			violated(6, "partition %d has no ready keys and next is %v: in the heap %v", id, l.next, due)
		case l.count < 0 || l.count > 0 && l.entry.pins == 0:
			violated(10, "partition %d counts %d messages and has %d pins", id, l.count, l.entry.pins)
		}
		pending[l.rs] += l.count
		attached += l.window.live
	}
	for rs, n := range pending {
		if rs.pending != n {
			violated(10, "route %q counts %d messages, its partitions %d", rs.name, rs.pending, n)
		}
	}
	if s.attached != attached {
		violated(3, "%d messages are in windows, which hold %d", s.attached, attached)
	}
}

// checkKeys checks what is known of keys (7, 8).
func (s *Store) checkKeys() {
	attached := 0
	for key, e := range s.keys.byKey {
		k, inWindow := e.value, 0
		for i, r := range k.refs {
			if i > 0 && !k.refs[i-1].pos.less(r.pos) {
				violated(8, "messages of %v are out of order", key)
			}
			if r.gone {
				violated(8, "message %v#%s is gone and known", key, r.id)
			}
			if r.window != nil {
				inWindow++
			}
		}
		if !k.partial && k.complete && k.count != len(k.refs) {
			violated(8, "%v counts %d messages and knows all %d", key, k.count, len(k.refs))
		}
		if inWindow != k.attached {
			violated(3, "%v has %d messages in the window and counts %d", key, inWindow, k.attached)
		}
		attached += inWindow
		if k.readyIndex == 0 {
			continue
		}
		if r := find(k.refs, k.readyPos); k.lease != nil || e.pins == 0 || r == nil || r.window != k.partition {
			violated(7, "%v is ready at %v: leased %v, %d pins, message %v", key, k.readyPos, k.lease != nil, e.pins, r)
		}
	}
	if attached != s.attached {
		violated(3, "keys have %d messages in windows, which hold %d", attached, s.attached)
	}
}

// checkLeases checks leases and their keys (9).
func (s *Store) checkLeases() {
	for i, l := range s.leases.items {
		if l.index != i+1 || l.key.lease != l || l.key.entry.pins == 0 {
			violated(9, "the lease of %v is at %d and says %d, %d pins", l.key.key, i, l.index-1, l.key.entry.pins)
		}
		for _, r := range l.delivered {
			if r.leased != l && !r.gone {
				violated(9, "message %v#%s was delivered and is not leased", l.key.key, r.id)
			}
		}
	}
}

// checkDisk compares partitions with what the disk has (3, 4, 5, 10).
func (s *Store) checkDisk() {
	total := int64(0)
	for _, l := range s.partitionsByID {
		total += l.count
	}
	if total > checkedMessages {
		return
	}
	for _, l := range s.partitionsByID {
		if err := s.checkPartitionOnDisk(l); err != nil {
			s.logger.Warn("pebblestore: invariants not checked", "partition", l.id, "error", err)
		}
	}
}

func (s *Store) checkPartitionOnDisk(l *partition) error {
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: msgKey(nil, l.id, pos{}), UpperBound: msgKey(nil, l.id+1, pos{})})
	if err != nil {
		return err
	}
	found, floor := int64(0), s.floor(l)
	for it.First(); it.Valid(); it.Next() {
		p := parseMsgKey(it.Key())
		name, id, _, parseErr := parseMsg(it.Key(), it.Value())
		if parseErr != nil {
			return closeIter(it, parseErr)
		}
		found++
		key := store.Key{Queue: l.queue.name, Tenant: l.tenant, Name: name}
		switch {
		case p.less(floor):
			violated(5, "message %v#%s is at %v, below the floor %v", key, id, p, floor)
		case !p.less(l.cursor) && p.less(l.next) && !s.inMemory(l, key, p):
			violated(4, "message %v#%s is at %v, between the cursor %v and %v", key, id, p, l.cursor, l.next)
		case p.less(l.cursor) && l.route != "" && !s.inMemory(l, key, p):
			violated(3, "message %v#%s is at %v, before the cursor %v, and not in the window", key, id, p, l.cursor)
		}
	}
	if err := closeIter(it, nil); err != nil {
		return err
	}
	if found != l.count {
		violated(10, "partition %d counts %d messages and has %d on disk", l.id, l.count, found)
	}
	return nil
}

// inMemory reports whether a message is in the window, or overflows.
func (s *Store) inMemory(l *partition, key store.Key, p pos) bool {
	e := s.keys.get(key)
	if e == nil {
		return false
	}
	if from, ok := l.overflow[e.value]; ok && !p.less(from) {
		return true
	}
	r := find(e.value.refs, p)
	return r != nil && r.window == l
}
