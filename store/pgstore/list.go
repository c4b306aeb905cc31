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
// left, names, tags and a prefix, is filtered record by record.
//
// If few of the records that it passes over match, and an index knows all that the prefix or the
// tags allow (see gather), the page is made of these. So a page is found soon whether many records
// match, which are near in time, or few, which are near in an index.
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
	indexes := searchIndexes(ctx, &q)
	for passes := s.db.passed; l.passed < maxPassed; passes = l.enough(4 * passes) {
		more, err := l.next(ctx, min(passes, maxPassed-l.passed))
		for ; err == nil && more && l.sparse && len(indexes) > 0; indexes = indexes[1:] {
			more, err = l.gather(ctx, indexes[0])
		}
		if err != nil {
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
	looked int  // in the last statement
	found  int  // of them, those that matched
	sparse bool // that is less than one in a hundred
}

// enough returns how many records are worth looking at next: as many as will fill the page if they match as
// often as the last ones, and a half more, and no more than most.
func (l *lister) enough(most int) int {
	if l.found == 0 {
		return most
	}
	return min(most, l.room()*l.looked/l.found*3/2+64)
}

// look is what a statement of a list returned.
type look struct {
	candidates int // of an index: more than gatherMost if they are not all
	looked     int // records
	matched    int // of them
	last       position
	found      []store.Record // of those that matched, what fits on the page
	spots      []position
}

// next looks at some records more, in the order of the list, and reports whether to go on with the
// page. If the page has ended and the list has not, there is a cursor.
func (l *lister) next(ctx context.Context, batch int) (more bool, err error) {
	if l.q.ByFields() {
		batch = l.room() + 1
	}
	sql, args := l.db.listText(l.q, l.at)
	k, err := l.look(ctx, l.db.read, sql, args, batch)
	if err != nil {
		return false, err
	}
	l.looked, l.found, l.sparse = k.looked, k.matched, k.matched < k.looked/100+1
	full := l.add(k)
	switch {
	case full || k.looked < batch:
		return false, nil // or that was all
	case k.looked > 0:
		l.at = k.last
	}
	if len(l.page.Records) == l.limit {
		l.page.Next = formatCursor(l.q, l.at)
		return false, nil
	}
	return true, nil
}

func (l *lister) room() int { return l.limit - len(l.page.Records) }

// add puts the records that were found on the page, and reports whether it is full: then it has a
// cursor.
func (l *lister) add(k *look) (full bool) {
	for i := range k.found {
		l.size += len(k.found[i].Body)
	}
	l.page.Records = append(l.page.Records, k.found...)
	l.passed += k.looked - len(k.found)
	if len(k.found) == k.matched {
		return false
	}
	if len(k.spots) > 0 {
		l.at = k.spots[len(k.spots)-1]
	}
	l.page.Next = formatCursor(l.q, l.at)
	return true
}

// reading is [database.read], or another way to send a statement.
type reading func(ctx context.Context, sql string, args []any, scan func(pgx.Rows) error) error

// look sends a statement of a list, with the parameters that all of them have last.
func (l *lister) look(ctx context.Context, read reading, sql string, args []any, batch int) (*look, error) {
	args = append(args, batch, l.room(), store.PageBytes-l.size, len(l.page.Records) == 0)
	k := &look{}
	return k, read(ctx, sql, args, func(r pgx.Rows) error {
		*k = look{}
		for r.Next() {
			var lastMS, lastNum, ms, num pgtype.Int8
			var rec recordScan
			into := []any{&k.candidates, &k.looked, &k.matched, &lastMS, &lastNum, &ms, &num}
			if err := r.Scan(append(into, rec.into()...)...); err != nil {
				return err
			}
			k.last = position{lastMS.Int64, lastNum.Int64}
			if !ms.Valid {
				continue
			}
			record, err := rec.record()
			if err != nil {
				return err
			}
			k.found, k.spots = append(k.found, record), append(k.spots, position{ms.Int64, num.Int64})
		}
		return r.Err()
	})
}

// listText returns the statement of a list from a position on, and its parameters but the last
// four: how many records to look at, how many to return, how many bytes of them, and
// whether one is returned that is larger than that.
func (d *database) listText(q *store.Query, at position) (string, []any) {
	streams, where, args := streamsText(q)
	t := newPageText(q, at, args)
	looked := streams + `,
looked AS MATERIALIZED (
	SELECT c.key, c.time, c.num FROM s CROSS JOIN LATERAL (
		SELECT r.key, r.time, r.num FROM {schema}.records r
		WHERE ` + where + ` AND r.status = s.status AND ` + t.between + `
		ORDER BY r.time ` + t.order + `, r.num ` + t.order + ` LIMIT ` + t.batch + `) c
	ORDER BY c.time ` + t.order + `, c.num ` + t.order + ` LIMIT ` + t.batch + `
)`
	return d.text.translate.Replace(t.statement(looked, "0")), t.args
}

// pageText is the parts of a statement of a list.
type pageText struct {
	args        []any
	order, back string
	between     string // that a record is in the times of the query, and after the position
	filter      string // that a record has the names, the tags and the prefix

	// Parameters that the caller adds.
	batch, room, bytes, first string
}

// newPageText returns the parts for a query, whose parameters are added to args.
func newPageText(q *store.Query, at position, args []any) *pageText {
	t := &pageText{order: "ASC", back: "DESC"}
	than := ">"
	if q.Descending {
		t.order, t.back, than = "DESC", "ASC", "<"
	}
	n := len(args)
	p := func(i int) string { return fmt.Sprintf("$%d", n+i) }
	t.between = "r.time >= " + p(1) + "::int8 AND r.time < " + p(2) + "::int8 AND (r.time, r.num) " + than + " (" + p(3) + "::int8, " + p(4) + "::int8)"
	t.filter = "(cardinality(" + p(5) + "::bytea[]) = 0 OR r.name = ANY (" + p(5) + "::bytea[])) AND r.tags @> " + p(6) + "::bytea[]" +
		" AND substring(r.id FOR octet_length(" + p(7) + "::bytea)) = " + p(7) + "::bytea"
	t.batch, t.room, t.bytes, t.first = p(8)+"::int8", p(9)+"::int8", p(10)+"::int8", p(11)+"::boolean"
	from, to := bounds(q)
	t.args = append(slices.Clip(args), from, to, at.ms, at.num, names(q.Names), encodeTags(q.Tags), []byte(q.Prefix))
	return t
}

// statement returns the statement that makes a page of the records of a table looked, after what
// looked is made of, with the number of candidates.
func (t *pageText) statement(looked, candidates string) string {
	return `WITH RECURSIVE ` + looked + `,
matched AS MATERIALIZED (
	SELECT r.*, sum(octet_length(r.body)) OVER w AS bytes, row_number() OVER w AS n
	FROM looked c JOIN {schema}.records r ON r.key = ANY (ARRAY[c.key])
	WHERE ` + t.filter + `
	WINDOW w AS (ORDER BY c.time ` + t.order + `, c.num ` + t.order + `)
),
head AS MATERIALIZED (
	SELECT ` + candidates + ` AS candidates, (SELECT count(*) FROM looked) AS looked, (SELECT count(*) FROM matched) AS matched, e.time, e.num
	FROM (VALUES (1)) one LEFT JOIN (SELECT time, num FROM looked ORDER BY time ` + t.back + `, num ` + t.back + ` LIMIT 1) e ON true
)
SELECT h.candidates, h.looked, h.matched, h.time, h.num, r.time, r.num, ` + recordColumns + `
FROM head h LEFT JOIN matched r ON r.n <= ` + t.room + ` AND (r.bytes <= ` + t.bytes + ` OR r.n = 1 AND ` + t.first + `)
ORDER BY r.n`
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

// parseCursor returns the position of a query's cursor, or the one before the first record: within the
// times of the query, because an index is read from the position on.
func parseCursor(q *store.Query) (position, error) {
	p, ok, err := cursor.Parse(q, 8)
	if err != nil {
		return position{}, err
	}
	from, to := bounds(q)
	at := position{p.Millis, 0}
	if ok {
		at.num = int64(p.Number())
	}
	switch { // numbers are positive
	case q.Descending && (!ok || at.ms >= to):
		return position{to, 0}, nil
	case !q.Descending && (!ok || at.ms < from):
		return position{from, 0}, nil
	}
	return at, nil
}
