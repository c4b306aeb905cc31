package pgstore

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/abidehq/abide/internal/cursor"
	"github.com/abidehq/abide/store"
)

// position is a place in a list: the time of a record, then its number.
type position struct{ ms, num int64 }

// How many records a list passes over: in one statement at first, and in all, before it
// returns what it has. The time for a page is bounded, and a query that few records match
// continues with the next page.
const (
	firstPassed = 512
	maxPassed   = 10_000
)

// List returns records that match q. There is an index by kind, status and time, and one
// by kind, tenant, status and time: a list is the records of each status, merged. What is
// left, names and tags, is filtered record by record.
func (s *Store) List(ctx context.Context, q store.Query) (store.Page, error) {
	if err := q.Validate(); err != nil {
		return store.Page{}, err
	}
	at, err := parseCursor(&q)
	if err != nil {
		return store.Page{}, err
	}
	if err := s.Check(ctx, "list"); err != nil {
		return store.Page{}, err
	}
	limit := q.Limit
	if limit == 0 {
		limit = store.DefaultPage
	}
	l := &lister{db: s.db, q: &q, at: at, limit: limit}
	passes := firstPassed
	for more := true; more && l.passed < maxPassed; passes *= 4 {
		if more, err = l.next(ctx, min(passes, maxPassed-l.passed)); err != nil {
			return store.Page{}, s.failed("list", err)
		}
		if !more {
			return l.page, nil
		}
	}
	l.page.Next = formatCursor(&q, l.at)
	return l.page, nil
}

// lister is a List call.
type lister struct {
	db     *database
	q      *store.Query
	at     position // how far it has come
	limit  int
	page   store.Page
	size   int
	passed int
}

// next looks at some records more, and reports whether to go on with the page. If the page
// has ended and the list has not, there is a cursor.
func (l *lister) next(ctx context.Context, batch int) (more bool, err error) {
	filtered := len(l.q.Names) > 0 || len(l.q.Tags) > 0
	room := l.limit - len(l.page.Records)
	if !filtered {
		batch = room + 1
	}
	sql, args := l.db.listText(l.q, l.at)
	args = append(args, batch, room, store.PageBytes-l.size, len(l.page.Records) == 0)
	var looked, matched int
	var last position
	var found []store.Record
	var spots []position
	err = l.db.read(ctx, sql, args, func(r pgx.Rows) error {
		found, spots = nil, nil
		for r.Next() {
			var lastMS, lastNum, ms, num pgtype.Int8
			var rec recordScan
			if err := r.Scan(append([]any{&looked, &matched, &lastMS, &lastNum, &ms, &num}, rec.into()...)...); err != nil {
				return err
			}
			last = position{lastMS.Int64, lastNum.Int64}
			if !ms.Valid {
				continue
			}
			record, err := rec.record()
			if err != nil {
				return err
			}
			found, spots = append(found, record), append(spots, position{ms.Int64, num.Int64})
		}
		return r.Err()
	})
	if err != nil {
		return false, err
	}
	for i := range found {
		l.size += len(found[i].Body)
	}
	l.page.Records = append(l.page.Records, found...)
	l.passed += looked - len(found)
	switch {
	case len(found) < matched: // it is full
		if len(spots) > 0 {
			l.at = spots[len(spots)-1]
		}
		l.page.Next = formatCursor(l.q, l.at)
		return false, nil
	case looked < batch:
		return false, nil // that was all
	case looked > 0:
		l.at = last
	}
	if len(l.page.Records) == l.limit {
		l.page.Next = formatCursor(l.q, l.at)
		return false, nil
	}
	return true, nil
}

// listText returns the statement of a list from a position on, and its parameters but the last
// four: how many records to look at, how many to return, how many bytes of them, and
// whether one is returned that is larger than that.
func (d *database) listText(q *store.Query, at position) (string, []any) {
	streams, where, args := streamsText(q)
	order, than := "ASC", ">"
	if q.Descending {
		order, than = "DESC", "<"
	}
	n := len(args)
	sql := `WITH RECURSIVE ` + streams + `,
looked AS MATERIALIZED (
	SELECT c.key, c.time, c.num FROM s CROSS JOIN LATERAL (
		SELECT r.key, r.time, r.num FROM {schema}.records r
		WHERE ` + where + ` AND r.status = s.status AND r.time >= $` + fmt.Sprint(n+1) + `::int8 AND r.time < $` + fmt.Sprint(n+2) + `::int8
			AND (r.time, r.num) ` + than + ` ($` + fmt.Sprint(n+3) + `::int8, $` + fmt.Sprint(n+4) + `::int8)
		ORDER BY r.time ` + order + `, r.num ` + order + ` LIMIT $` + fmt.Sprint(n+7) + `::int8) c
	ORDER BY c.time ` + order + `, c.num ` + order + ` LIMIT $` + fmt.Sprint(n+7) + `::int8
),
matched AS MATERIALIZED (
	SELECT r.*, sum(octet_length(r.body)) OVER w AS bytes, row_number() OVER w AS n
	FROM looked c JOIN {schema}.records r ON r.key = ANY (ARRAY[c.key])
	WHERE (cardinality($` + fmt.Sprint(n+5) + `::bytea[]) = 0 OR r.name = ANY ($` + fmt.Sprint(n+5) + `::bytea[]))
		AND r.tags @> $` + fmt.Sprint(n+6) + `::bytea[]
	WINDOW w AS (ORDER BY c.time ` + order + `, c.num ` + order + `)
),
head AS MATERIALIZED (
	SELECT (SELECT count(*) FROM looked) AS looked, (SELECT count(*) FROM matched) AS matched, e.time, e.num
	FROM (VALUES (1)) one LEFT JOIN (SELECT time, num FROM looked ORDER BY time ` + reverse(order) + `, num ` + reverse(order) + ` LIMIT 1) e ON true
)
SELECT h.looked, h.matched, h.time, h.num, r.time, r.num, ` + recordColumns + `
FROM head h LEFT JOIN matched r ON r.n <= $` + fmt.Sprint(n+8) + `::int8 AND (r.bytes <= $` + fmt.Sprint(n+9) + `::int8 OR r.n = 1 AND $` + fmt.Sprint(n+10) + `::boolean)
ORDER BY r.n`
	from, to := bounds(q)
	args = append(args, from, to, at.ms, at.num, names(q.Names), encodeTags(q.Tags))
	return d.text.translate.Replace(sql), args
}

func reverse(order string) string {
	if order == "ASC" {
		return "DESC"
	}
	return "ASC"
}

// streamsText returns a table s of the statuses that a query is about, what else is asked
// of its records r, and the parameters of both.
func streamsText(q *store.Query) (streams, where string, args []any) {
	args = []any{[]byte(q.Kind)}
	where = "r.kind = $1::bytea"
	if q.Tenant != nil {
		args = append(args, []byte(*q.Tenant))
		where += " AND r.tenant = $2::bytea"
	}
	if len(q.Statuses) > 0 {
		args = append(args, names(q.Statuses))
		return fmt.Sprintf("s (status) AS (SELECT DISTINCT u.status FROM unnest($%d::bytea[]) AS u (status))", len(args)), where, args
	}
	// From each status to the next that there is.
	return `s (status) AS (
	(SELECT r.status FROM {schema}.records r WHERE ` + where + ` ORDER BY r.status LIMIT 1)
	UNION ALL
	SELECT n.status FROM s CROSS JOIN LATERAL (
		SELECT r.status FROM {schema}.records r WHERE ` + where + ` AND r.status > s.status ORDER BY r.status LIMIT 1) n
)`, where, args
}

// names returns names as a parameter, each once.
func names(list []string) [][]byte {
	list = slices.Compact(slices.Sorted(slices.Values(list)))
	all := make([][]byte, 0, len(list))
	for _, name := range list {
		all = append(all, []byte(name))
	}
	return all
}

// bounds returns the times of a query, in milliseconds: from, and before.
func bounds(q *store.Query) (from, to int64) {
	to = math.MaxInt64
	if !q.From.IsZero() {
		from = store.Millis(q.From)
	}
	if !q.To.IsZero() {
		to = store.Millis(q.To)
	}
	return from, to
}

func formatCursor(q *store.Query, at position) string {
	return cursor.Format(q, cursor.Numbered(at.ms, uint64(at.num)))
}

// parseCursor returns the position of a query's cursor, or the one before the first record.
func parseCursor(q *store.Query) (position, error) {
	p, ok, err := cursor.Parse(q, 8)
	switch {
	case err != nil:
		return position{}, err
	case !ok && q.Descending:
		return position{math.MaxInt64, math.MaxInt64}, nil
	case !ok:
		return position{-1, 0}, nil
	}
	return position{p.Millis, int64(p.Number())}, nil
}
