package pebblestore

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/abidehq/abide/store"
)

// group is the commits that share a batch and a sync. Callers add to the open group,
// under the store's mutex. One goroutine (applyGroups) closes it, applies it without
// waiting for the sync, and continues with the next one, which was filled meanwhile;
// another (syncGroups) waits for the sync and wakes the callers.
//
// Who owns what: until it is closed, a group belongs to the holder of the mutex. The
// batch then belongs to applyGroups, and after applied to syncGroups, which closes it.
// All other fields stay guarded by the mutex, except err, which may be read after done.
type group struct {
	batch  *pebble.Batch // writes of its commits, in the order of their arrival
	number uint64        // in the order in which groups become durable
	closed chan struct{} // closed when nothing more is added to it
	done   chan struct{} // closed when the group is durable, or has failed
	err    error         // set before done is closed

	used    bool // a caller waits for it, even if its batch is empty
	written bool // its batch was not empty; Pebble empties a large one when it is applied
	applied bool // reads of the database see it
	durable bool // synced

	// What acknowledge publishes when the group is durable, and then drops.
	arrivals   []arrival          // messages that it puts or moves
	keys       []*keyState        // pinned
	records    []*recordState     // pinned
	awaited    []*store.Record    // records put while Await calls were waiting for them
	tombstones []location         // removed from Store.tombstones when it is applied
	partitions map[*partition]pos // pinned; each with the first position that is put to, or maxPos
}

// arrival is a message that a group brings to a position of the partition of its key. It may
// have moved on or be gone by the time the group is durable: acknowledge compares.
type arrival struct {
	key *keyState
	ref *ref
	pos pos
}

// newGroup returns the next group, which is in flight from the beginning.
func (s *Store) newGroup() *group {
	s.groups++
	g := &group{
		batch: s.db.NewBatch(), number: s.groups, partitions: map[*partition]pos{},
		closed: make(chan struct{}), done: make(chan struct{}),
	}
	s.inFlight = append(s.inFlight, g)
	return g
}

// maxGroup is about how large a batch gets. Pebble refuses batches of 4 GiB, and a memtable
// has 64 MiB: a larger batch would become one of its own.
const maxGroup = 64 << 20

// joinGroup returns the open group, when it has room. The mutex is held when it is called
// and when it returns, but not all the time.
//
// A group that has grown beyond maxGroup takes nothing more: callers wait until
// applyGroups has closed it. That is the only back pressure on commits
// besides that of Pebble itself, which delays ApplyNoSyncWait when memtables or
// tables pile up.
func (s *Store) joinGroup(ctx context.Context) (*group, error) {
	for s.openGroup.batch.Len() > maxGroup {
		g := s.openGroup
		s.mu.Unlock()
		select {
		case <-g.closed:
		case <-s.closing:
		case <-ctx.Done():
		}
		s.mu.Lock()
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if s.closed || s.failure != nil {
			return nil, s.closedErrorLocked("commit")
		}
	}
	return s.openGroup, nil
}

// touch pins a partition that the group changes until the group is durable.
func (s *Store) touch(g *group, l *partition) { s.putAt(g, l, maxPos) }

// putAt notes that the group puts a message at a position of a partition, for floor.
func (s *Store) putAt(g *group, l *partition, p pos) {
	first, ok := g.partitions[l]
	if !ok {
		s.partitions.pin(l.entry)
	}
	if !ok || p.less(first) {
		g.partitions[l] = p
	}
}

// isTombstone reports whether the message that the disk shows at a location has left it, in a
// group that is not applied yet.
func (s *Store) isTombstone(partition uint32, p pos) bool {
	_, ok := s.tombstones[location{partition, p}]
	return ok
}

// newID returns a number that was never used before, for a put, a log or a record. Numbers
// grow, so that what is made later comes later on disk. The reservation is in the same batch
// as the first use of its block: either both survive a crash, or neither.
func (s *Store) newID(g *group) uint64 {
	if s.nextID == s.reservedIDs {
		s.reservedIDs += idBlock
		_ = g.batch.Set(metaIDs, binary.BigEndian.AppendUint64(nil, s.reservedIDs), nil)
	}
	s.nextID++
	return s.nextID - 1
}

// idBlock is how many numbers are reserved on disk at a time. Those that a killed
// process did not use are skipped.
const idBlock = 1 << 20

// kick tells applyGroups that the open group has something to apply. The mutex must be held,
// because Close closes the channel. One signal is enough for any number of commits.
func (s *Store) kick() {
	s.openGroup.used = true
	select {
	case s.wakeApply <- struct{}{}:
	default:
	}
}

// applyGroups applies one group after another.
//
// It is one of the two goroutines of the pipeline. It closes the open group,
// writes the headers of the partitions that the group has touched,
// with their counts and floors as they are now, and hands the batch to Pebble.
// The channel applied has no buffer, so at most three groups are in flight under load: one
// is being synced, one is applied, and one is open:
//
//	group 1   open |apply|       sync       |ack
//	group 2         open |apply|            |   sync      |ack
//	group 3                open             |apply|       |   sync ...
//	group 4                                  open ...
//
// So the size of groups adapts to the disk: a slow sync makes larger groups, an idle store
// syncs each commit by itself. There is no delay in which a group waits for more commits: it
// would cost an idle store latency, and a busy one needs none.
//
// Headers are written here and not by each commit, because a partition that many
// commits of a group touch is then written once.
//
// After a failure it returns without closing anything but applied: failLocked has
// ended the groups in flight.
func (s *Store) applyGroups() {
	defer close(s.applied)
	for range s.wakeApply {
		s.mu.Lock()
		g := s.openGroup
		if !g.used || s.failure != nil {
			s.mu.Unlock()
			continue
		}
		for l := range g.partitions {
			s.keyBuf = partitionKey(s.keyBuf[:0], l.id)
			s.valBuf = appendPartition(s.valBuf[:0], l, s.floor(l))
			_ = g.batch.Set(s.keyBuf, s.valBuf, nil)
		}
		g.written = !g.batch.Empty()
		s.openGroup = s.newGroup()
		close(g.closed)
		s.mu.Unlock()

		// A group that changes nothing is durable when those before it are.
		if g.written {
			if err := s.db.ApplyNoSyncWait(g.batch, pebble.Sync); err != nil {
				s.fail(fmt.Errorf("apply: %w", err))
				return
			}
		}
		s.mu.Lock()
		g.applied = true
		for _, p := range g.tombstones {
			if s.tombstones[p] == g {
				delete(s.tombstones, p)
			}
		}
		s.mu.Unlock()
		s.checkSpace()
		s.applied <- g // blocks while the group before is being synced
	}
}

// syncGroups waits for one group after another to be durable, and acknowledges it. If the
// store has failed in the meantime, the group has been ended by failLocked, although it may
// be durable: its callers have been told that the outcome is unknown.
func (s *Store) syncGroups() {
	defer close(s.stopped)
	for g := range s.applied {
		if g.written {
			if err := g.batch.SyncWait(); err != nil {
				s.fail(fmt.Errorf("sync: %w", err))
				return
			}
		}
		s.mu.Lock()
		if s.failure == nil {
			s.acknowledge(g)
			close(g.done)
		}
		s.mu.Unlock()
		_ = g.batch.Close()
	}
}

// acknowledge publishes a durable group. The mutex is held.
//
// The order matters. Arrivals are announced first, so that the waiting calls
// that are served last find them. Pins are released before calls are served,
// because a claim may evict keys. Await calls are notified before done is closed,
// so that a caller whose commit has returned has nothing to race with.
func (s *Store) acknowledge(g *group) {
	if s.inFlight[0] != g {
		panic("pebblestore: groups are acknowledged out of order")
	}
	s.inFlight = s.inFlight[1:]
	g.durable = true
	now := s.now()
	for _, a := range g.arrivals {
		// It may have come back to this location, in this group or in a later one.
		if a.ref.gone || a.ref.pos != a.pos || a.ref.group != g {
			continue
		}
		a.ref.durable, a.ref.group = true, nil
		s.announce(a.key, a.ref, now)
	}
	seq := g.seq()
	for _, k := range g.keys {
		s.recent.addKey(k.key, seq)
		s.unpinKey(k)
	}
	s.acknowledgeRecords(g, seq)
	for _, k := range g.keys {
		s.ready(k)
	}
	for l := range g.partitions {
		s.partitionReady(l)
		s.partitions.unpin(l.entry)
	}
	// Keys refer to groups (changed, logGroup), which would keep all keys of the group alive.
	g.arrivals, g.keys, g.records, g.awaited, g.tombstones, g.partitions = nil, nil, nil, nil, nil, nil
	s.serve()
	s.setAlarm(now)
	s.checkInvariants()
}

// seq returns the sequence number of the group's batch, which was applied: 0 if it is
// empty, and unknownSeq if Pebble has emptied it.
func (g *group) seq() uint64 {
	switch {
	case !g.written:
		return 0
	case g.batch.Empty():
		return unknownSeq
	}
	return uint64(g.batch.SeqNum())
}

// wait waits for a group to be durable. If ctx ends first, the group is not withdrawn, and its
// outcome is unknown to the caller.
func (s *Store) wait(ctx context.Context, g *group) error {
	select {
	case <-g.done:
		return g.err
	case <-ctx.Done():
		return fmt.Errorf("pebblestore: outcome unknown: %w", ctx.Err())
	}
}
