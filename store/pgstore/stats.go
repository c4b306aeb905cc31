package pgstore

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/abidehq/abide/internal/rows"
	"github.com/abidehq/abide/store"
)

const (
	// What is pending by route, how much of it is ready, and since when. A key with a single
	// message is not looked into.
	readStats = `WITH n AS MATERIALIZED (SELECT {now} AS now, {database time} AS clock),
t AS MATERIALIZED (
	SELECT n.now, n.clock, (SELECT count(*) FROM {schema}.tally) AS tallies,
		(SELECT count(*) FROM {schema}.keys k WHERE k.token IS NOT NULL AND k.at IS NOT NULL AND k.at > n.now AND NOT {reserved}) AS leases,
		(SELECT coalesce(sum(pg_total_relation_size(format('%I.%I', s.schemaname, s.tablename)::regclass)), 0)::int8
			FROM pg_tables s WHERE s.schemaname = $3) AS size
	FROM n),
p AS MATERIALIZED (SELECT lane, queue, route, sum(n)::int8 AS n FROM {schema}.tally GROUP BY lane, queue, route HAVING sum(n) <> 0)
SELECT t.now, t.clock, t.tallies, t.leases, t.size, p.queue, p.route, p.n,
	CASE WHEN p.route = '' THEN 0 ELSE (
		SELECT count(*) FROM (
			SELECT FROM {schema}.keys k CROSS JOIN LATERAL (
				SELECT WHERE k.count = 1 OR k.m_visible <= t.now
				UNION ALL
				SELECT FROM {schema}.messages m WHERE k.count > 1 AND m.key = k.id AND m.visible <= t.now) m
			WHERE k.lane = p.lane AND k.token IS NULL AND k.at <= t.now
			UNION ALL
			SELECT FROM {schema}.keys k CROSS JOIN LATERAL (
				SELECT WHERE CASE WHEN k.count = 1 THEN k.first ELSE k.m_visible END <= t.now
				UNION ALL
				SELECT FROM {schema}.messages m WHERE k.count > 1 AND m.key = k.id AND m.visible <= t.now) m
			WHERE k.lane = p.lane AND k.token IS NOT NULL AND k.at IS NOT NULL
			LIMIT $2::int8) r) END,
	CASE WHEN p.route = '' THEN 0 ELSE (
		SELECT coalesce(sum(cardinality(k.delivered)), 0)::int8 FROM {schema}.keys k
		WHERE k.lane = p.lane AND k.token IS NOT NULL AND k.at IS NOT NULL AND k.at > t.now) END,
	CASE WHEN p.route <> '' THEN least(
		(SELECT k.at FROM {schema}.keys k WHERE k.lane = p.lane AND k.token IS NULL AND k.at IS NOT NULL ORDER BY k.at LIMIT 1),
		(SELECT min(k.first) FROM {schema}.keys k WHERE k.lane = p.lane AND k.token IS NOT NULL AND k.at IS NOT NULL)) END
FROM t LEFT JOIN p ON true`
)

// Stats returns what the store holds.
func (s *Store) Stats(ctx context.Context) (store.Stats, error) {
	if err := s.Check(ctx, "stats"); err != nil {
		return store.Stats{}, err
	}
	stats := store.Stats{Waiting: s.Waiting()}
	d := s.db
	tallyRows := 0
	q, floor := d.ask()
	var now, clock int64
	err := d.read(ctx, d.text.sql(readStats), []any{floor, store.ReadyCap, d.config.schema}, func(r pgx.Rows) error {
		stats.Routes = nil
		var queue, route []byte
		var pending, ready, leased, oldest pgtype.Int8
		_, err := pgx.ForEachRow(r, []any{&now, &clock, &tallyRows, &stats.Leases, &stats.Bytes, &queue, &route, &pending, &ready, &leased, &oldest}, func() error {
			if !pending.Valid {
				return nil
			}
			row := store.RouteStats{Queue: string(queue), Route: string(route), Pending: int(pending.Int64), Ready: int(ready.Int64)}
			row.Leased = min(int(leased.Int64), row.Ready)
			if oldest.Valid && oldest.Int64 != rows.Never {
				row.Oldest = store.FromMillis(oldest.Int64)
			}
			stats.Routes = append(stats.Routes, row)
			return nil
		})
		return err
	})
	if err != nil {
		return store.Stats{}, s.failed("stats", err)
	}
	if d.clock != nil {
		clock = d.clock.Now().UnixMilli()
	}
	now = d.answer(q, now)
	stats.Now = store.FromMillis(now)
	if lead := time.Duration(now-clock) * time.Millisecond; lead > 0 && lead <= store.MaxClockLead {
		stats.ClockLead = lead
	}
	slices.SortFunc(stats.Routes, func(a, b store.RouteStats) int {
		return cmp.Or(strings.Compare(a.Queue, b.Queue), strings.Compare(a.Route, b.Route))
	})
	if tallyRows > len(stats.Routes)+foldAt {
		d.fold(ctx)
	}
	return stats, nil
}

// readOne reads a single value.
func (d *database) readOne(ctx context.Context, sql string, args []any, into ...any) error {
	return d.read(ctx, sql, args, func(r pgx.Rows) error {
		_, err := pgx.ForEachRow(r, into, func() error { return nil })
		return err
	})
}

// foldAt is how many rows of the tally are folded at once: few enough to add them up in a
// moment, enough that it is seldom done.
const foldAt = 2000

// wroteTally notes that rows were added to the tally, and folds them now and then.
func (d *database) wroteTally(n int) {
	if n == 0 || d.deltas.Add(int64(n)) < foldAt {
		return
	}
	d.deltas.Store(0)
	select {
	case d.foldSoon <- struct{}{}:
	default: // it is asked for already
	}
}

// keepTidy folds the tally when there is much of it, until the store is closed.
func (d *database) keepTidy(ctx context.Context) {
	for {
		select {
		case <-d.foldSoon:
			d.fold(ctx)
		case <-ctx.Done():
			return
		}
	}
}

// fold replaces rows of the tally by their sums. Nothing depends on it but how fast the
// table is read.
func (d *database) fold(ctx context.Context) {
	if err := d.read(ctx, d.text.sql(foldTally), nil, drain); err != nil && ctx.Err() == nil {
		d.log.Warn("message counters not merged", "error", err)
	}
}
