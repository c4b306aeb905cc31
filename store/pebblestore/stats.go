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

// laneStats is what Stats needs to know of a lane.
type laneStats struct {
	id    uint32
	name  laneName
	count int64
	floor pos
}

// Stats counts what there is.
func (s *Store) Stats(ctx context.Context) (store.Stats, error) {
	release, err := s.read(ctx, "stats")
	if err != nil {
		return store.Stats{}, err
	}
	defer release()
	s.mu.Lock()
	now := s.now()
	stats := store.Stats{Waiting: s.waiting, Now: store.FromMillis(now)}
	for _, l := range s.leases.items {
		if now < l.until {
			stats.Leases++
		}
	}
	var lanes []laneStats
	for name, l := range s.lanes {
		if l.count > 0 {
			lanes = append(lanes, laneStats{l.id, name, l.count, s.floor(l)})
		}
	}
	s.mu.Unlock()

	rows := map[[2]string]*store.RouteStats{}
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: []byte{tagMsg}, UpperBound: []byte{tagMsg + 1}})
	if err != nil {
		return store.Stats{}, s.readError("stats", err)
	}
	for _, l := range lanes {
		row := rows[[2]string{l.name.queue, l.name.route}]
		if row == nil {
			row = &store.RouteStats{Queue: l.name.queue, Route: l.name.route}
			rows[[2]string{l.name.queue, l.name.route}] = row
		}
		row.Pending += int(l.count)
		if l.name.route != "" {
			if l.countReady(it, row, now); it.Error() != nil {
				break
			}
		}
	}
	err = closeIter(it, nil)
	if err != nil {
		return store.Stats{}, s.readError("stats", err)
	}
	for _, row := range rows {
		stats.Routes = append(stats.Routes, *row)
	}
	slices.SortFunc(stats.Routes, func(a, b store.RouteStats) int {
		return cmp.Or(strings.Compare(a.Queue, b.Queue), strings.Compare(a.Route, b.Route))
	})
	if stats.Bytes, err = s.diskBytes(); err != nil {
		return store.Stats{}, s.readError("stats", err)
	}
	return stats, nil
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

// countReady adds the visible messages of a lane to a row.
func (l *laneStats) countReady(it *pebble.Iterator, row *store.RouteStats, now int64) {
	end := msgKey(nil, l.id+1, pos{})
	for it.SeekGE(msgKey(nil, l.id, l.floor)); it.Valid() && string(it.Key()) < string(end); it.Next() {
		p := parseMsgKey(it.Key())
		if due := store.FromMillis(p.due); row.Oldest.IsZero() || due.Before(row.Oldest) {
			row.Oldest = due
		}
		if p.due > now || row.Ready == store.ReadyCap {
			return
		}
		row.Ready++
	}
}
