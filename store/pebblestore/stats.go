package pebblestore

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2"

	"github.com/abidehq/abide/store"
)

// partitionStats is a partition whose visible messages are counted on disk.
type partitionStats struct {
	id    uint32
	floor pos
}

// maxRepairs is how many partitions Stats reads the first message of before it releases the
// mutex for other calls.
const maxRepairs = 64

// listRoute adds a route to those that Stats reports one by one, if there is room.
//
// A store can have any number of routes, and a page of statistics cannot. So the
// first MaxRouteStats are reported one by one, and the others are summed up in
// rest; addCount keeps both.
func (s *Store) listRoute(rs *routeState) {
	if len(s.listed) == store.MaxRouteStats {
		s.unlisted[rs] = struct{}{}
		return
	}
	s.listed = append(s.listed, rs)
	rs.listIndex = len(s.listed)
}

// unlistRoute removes a route without messages from those that Stats reports.
func (s *Store) unlistRoute(rs *routeState) {
	if rs.listIndex == 0 {
		delete(s.unlisted, rs)
		return
	}
	last := len(s.listed) - 1
	s.listed[rs.listIndex-1] = s.listed[last]
	s.listed[rs.listIndex-1].listIndex = rs.listIndex
	s.listed[last] = nil
	s.listed = s.listed[:last]
	rs.listIndex = 0
	for next := range s.unlisted {
		delete(s.unlisted, next)
		s.rest -= next.pending
		s.listRoute(next)
		return
	}
}

// Limits returns those of the contract.
func (s *Store) Limits() store.Limits { return store.ContractLimits() }

// Stats returns what the store holds. Its cost depends on how many routes it reports, and
// on how many messages are visible up to store.ReadyCap, and neither on how many partitions
// there are nor on how many messages wait for their time.
//
// Counts of pending messages are kept by addCount. Visible ones are counted on
// disk, up to a limit, without the mutex. Where next is too early, because what
// was there is gone, repairFirst asks the disk for the first message, some
// partitions at a time.
func (s *Store) Stats(ctx context.Context) (store.Stats, error) {
	release, err := s.read(ctx, "stats")
	if err != nil {
		return store.Stats{}, err
	}
	defer release()
	s.mu.Lock()
	now := s.now()
	stats := store.Stats{Waiting: s.waits.Waiting(), Now: store.FromMillis(now), ClockLead: s.time.Lead()}
	delivered := map[*routeState]int{}
	for _, l := range s.leases.items {
		if now < l.until {
			stats.Leases++
			delivered[l.key.partition.rs] += len(l.delivered)
		}
	}
	routes := slices.Clone(s.listed)
	stats.Rest = store.RestStats{Routes: len(s.unlisted), Pending: int(s.rest)}
	s.mu.Unlock()

	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: []byte{tagMsg}, UpperBound: []byte{tagMsg + 1}})
	if err != nil {
		return store.Stats{}, s.readError("stats", err)
	}
	for _, rs := range routes {
		repaired := false
		for !repaired && err == nil {
			if err = ctx.Err(); err == nil {
				repaired, err = s.repairFirst(rs)
			}
		}
		if err != nil {
			break
		}
		row, partitions := s.routeStats(rs, now)
		for _, l := range partitions {
			if l.countReady(it, &row, now); it.Error() != nil {
				break
			}
		}
		row.Leased = min(delivered[rs], row.Ready)
		if row.Pending > 0 {
			stats.Routes = append(stats.Routes, row)
		}
	}
	if err = closeIter(it, err); err != nil {
		return store.Stats{}, s.readError("stats", err)
	}
	slices.SortFunc(stats.Routes, func(a, b store.RouteStats) int {
		return cmp.Or(strings.Compare(a.Queue, b.Queue), strings.Compare(a.Route, b.Route))
	})
	if stats.Bytes, err = s.diskBytes(); err != nil {
		return store.Stats{}, s.readError("stats", err)
	}
	return stats, nil
}

// routeStats returns the row of a route as far as memory has it, and the partitions whose
// visible messages must be counted on disk.
func (s *Store) routeStats(rs *routeState, now int64) (row store.RouteStats, onDisk []partitionStats) {
	s.mu.Lock()
	defer s.mu.Unlock()
	row = store.RouteStats{Queue: rs.queue.name, Route: rs.name, Pending: int(rs.pending)}
	if rs.name == "" || rs.pending == 0 {
		return row, nil
	}
	if rs.due.len() > 0 {
		noteOldest(&row, rs.due.items[0].next)
	}
	for _, l := range rs.windowed {
		if l.next.due <= now || len(l.overflow) > 0 {
			onDisk = append(onDisk, partitionStats{l.id, s.floor(l)})
			continue
		}
		row.Ready = min(row.Ready+l.window.live, store.ReadyCap)
		if first, ok := l.window.first(l); ok {
			noteOldest(&row, first)
		}
	}
	return row, s.duePartitions(rs, 0, now, onDisk)
}

// repairFirst corrects next of the partitions without ready keys until the first of them has a
// message there, so that the oldest message is right, and reports whether it is done. A
// message that is deleted before its time leaves next too early; each partition is
// corrected once for that.
func (s *Store) repairFirst(rs *routeState) (done bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if rs.name == "" || rs.pending == 0 {
		return true, nil
	}
	for range maxRepairs {
		if rs.due.len() == 0 {
			return true, nil
		}
		l := rs.due.items[0]
		first, err := s.firstOnDisk(l)
		if err != nil {
			return false, err
		}
		if first == l.next {
			return true, nil
		}
		l.setNext(first)
	}
	return false, nil
}

// firstOnDisk returns the position of the first message at or after next.
func (s *Store) firstOnDisk(l *partition) (pos, error) {
	first := maxPos
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: msgKey(nil, l.id, l.next), UpperBound: msgKey(nil, l.id+1, pos{})})
	if err != nil {
		return first, err
	}
	for it.First(); it.Valid(); it.Next() {
		if p := parseMsgKey(it.Key()); !s.isTombstone(l.id, p) {
			first = p
			break
		}
	}
	return first, closeIter(it, nil)
}

// duePartitions adds the partitions of a route, from a location of its heap on, that have something on
// disk which is due and nothing in memory, until there are store.ReadyCap.
func (s *Store) duePartitions(rs *routeState, i int, now int64, partitions []partitionStats) []partitionStats {
	if i >= rs.due.len() || rs.due.items[i].next.due > now || len(partitions) >= store.ReadyCap {
		return partitions
	}
	if l := rs.due.items[i]; l.window.live == 0 {
		partitions = append(partitions, partitionStats{l.id, s.floor(l)})
	}
	partitions = s.duePartitions(rs, 2*i+1, now, partitions)
	return s.duePartitions(rs, 2*i+2, now, partitions)
}

// noteOldest lowers the oldest due time of a row to that of a message.
func noteOldest(row *store.RouteStats, p pos) {
	if due := store.FromMillis(p.due); row.Oldest.IsZero() || due.Before(row.Oldest) {
		row.Oldest = due
	}
}

// diskBytes returns how much room the tables and the log take. Pebble's own metrics
// know more, but wait while Pebble syncs its list of files.
func (s *Store) diskBytes() (int64, error) {
	tables, err := s.db.EstimateDiskUsage([]byte{0}, []byte{math.MaxUint8})
	if err != nil {
		return 0, err
	}
	sum := int64(tables)
	files, err := s.fs.List(s.dir)
	if err != nil {
		return 0, err
	}
	for _, name := range files {
		if !strings.HasSuffix(name, ".log") {
			continue
		}
		if info, err := s.fs.Stat(s.fs.PathJoin(s.dir, name)); err == nil { // it may just have been removed
			sum += info.Size()
		}
	}
	return sum, nil
}

// countReady adds the visible messages of a partition to a row.
func (l *partitionStats) countReady(it *pebble.Iterator, row *store.RouteStats, now int64) {
	end := msgKey(nil, l.id+1, pos{})
	for it.SeekGE(msgKey(nil, l.id, l.floor)); it.Valid() && string(it.Key()) < string(end); it.Next() {
		p := parseMsgKey(it.Key())
		noteOldest(row, p)
		if p.due > now || row.Ready == store.ReadyCap {
			return
		}
		row.Ready++
	}
}
