package pebblestore

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/abidehq/abide/store"
)

// group is the commits that share a sync. Callers add to the group that gathers,
// under the store's lock. One goroutine takes it, applies it without waiting for
// the sync, and goes on with the next one, which has gathered meanwhile; another
// waits for the sync and tells the callers.
type group struct {
	batch  *pebble.Batch
	number uint64        // in the order in which groups become durable
	taken  chan struct{} // closed when it gathers no more
	done   chan struct{} // closed when the group is durable, or has failed
	err    error         // set before done is closed

	used    bool // somebody waits for it, even if it changes nothing
	written bool // its batch is not empty; Pebble empties a large one when it is applied
	applied bool // reads see it
	durable bool

	// What becomes known when the group is durable.
	arrivals   []arrival
	keys       []*keyState    // pinned
	records    []*recordState // pinned
	awaited    []*store.Record
	tombstones []location
	partitions map[*partition]pos // touched partitions, each with the first location that was put to
}

// arrival is a message at a location that it takes when the group is durable.
type arrival struct {
	key *keyState
	ref *ref
	pos pos
}

func (s *Store) newGroup() *group {
	s.groups++
	g := &group{
		batch: s.db.NewBatch(), number: s.groups, partitions: map[*partition]pos{},
		taken: make(chan struct{}), done: make(chan struct{}),
	}
	s.inFlight = append(s.inFlight, g)
	return g
}

// maxGroup is about how large a group gets. Pebble does not take batches of 4 GiB.
const maxGroup = 64 << 20

// gather returns the group to add to, when there is one with room. The lock is held
// when it is called and when it returns, but not all the time.
//
// A group that has grown beyond maxGroup takes nothing more: callers wait until
// the applying goroutine has taken it. That is the only back pressure on commits
// besides that of Pebble itself, which delays ApplyNoSyncWait when memtables or
// tables pile up.
func (s *Store) gather(ctx context.Context) (*group, error) {
	for s.gathering.batch.Len() > maxGroup {
		g := s.gathering
		s.mu.Unlock()
		select {
		case <-g.taken:
		case <-s.closing:
		case <-ctx.Done():
		}
		s.mu.Lock()
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if s.closed || s.failure != nil {
			return nil, s.endedLocked("commit")
		}
	}
	return s.gathering, nil
}

// touch notes that the group changes a partition, which is kept until the group is durable.
func (s *Store) touch(g *group, l *partition) { s.putAt(g, l, maxPos) }

// putAt notes that the group puts a message at a location of a partition.
func (s *Store) putAt(g *group, l *partition, p pos) {
	first, ok := g.partitions[l]
	if !ok {
		s.partitions.pin(l.entry)
	}
	if !ok || p.less(first) {
		g.partitions[l] = p
	}
}

// isTombstone reports whether the message at a location of a partition has left it in a group
// that is not applied yet, so that the disk still shows it.
func (s *Store) isTombstone(partition uint32, p pos) bool {
	_, ok := s.tombstones[location{partition, p}]
	return ok
}

// newID returns a number that was never used before. Numbers grow, so that what is
// made later stands later on disk.
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

// kick tells the applying goroutine that there is something to do. The lock must be
// held, because closing the store closes the channel.
func (s *Store) kick() {
	s.gathering.used = true
	select {
	case s.gathered <- struct{}{}:
	default:
	}
}

// applyGroups applies one group after another.
//
// It is one of the two goroutines of the pipeline. It closes the group that
// gathers, writes the headers of the partitions that the group has touched,
// with their counts and floors as they are now, and hands the batch to Pebble.
// The channel applied has no room: the next group is closed only when the sync
// of the one before has ended, and gathers until then. So the size of groups
// adapts to the disk: a slow sync makes larger groups, an idle store syncs each
// commit by itself.
func (s *Store) applyGroups() {
	defer close(s.applied)
	for range s.gathered {
		s.mu.Lock()
		g := s.gathering
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
		s.gathering = s.newGroup()
		close(g.taken)
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
		s.applied <- g // waits while the group before is synced: meanwhile the next one gathers
	}
}

// syncGroups waits for one group after another to be durable, and tells everybody.
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

// acknowledge makes known what a durable group has brought.
//
// The order matters. Arrivals are announced first, so that the waiting calls
// that are served last find them. Pins are released before calls are served,
// because a claim may evict keys. Await calls are told before done is closed,
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
		s.waits.Ready(&l.rs.topic)
		s.partitions.unpin(l.entry)
	}
	// Keys remember groups, which would remember keys, and so on.
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

// wait waits for a group to be durable.
//
// If ctx ends first the commit goes on, and its outcome is unknown to the caller.
func (s *Store) wait(ctx context.Context, g *group) error {
	select {
	case <-g.done:
		return g.err
	case <-ctx.Done():
		return fmt.Errorf("pebblestore: outcome unknown: %w", ctx.Err())
	}
}
