package pebblestore

import (
	"cmp"
	"context"
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
			l.countReady(it, row, now)
		}
	}
	err = it.Error()
	if closeErr := it.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return store.Stats{}, s.readError("stats", err)
	}
	for _, row := range rows {
		stats.Routes = append(stats.Routes, *row)
	}
	slices.SortFunc(stats.Routes, func(a, b store.RouteStats) int {
		return cmp.Or(strings.Compare(a.Queue, b.Queue), strings.Compare(a.Route, b.Route))
	})
	stats.Bytes = int64(s.db.Metrics().DiskSpaceUsage())
	return stats, nil
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
