package redisstore

import (
	"context"
	"fmt"
	"slices"

	"github.com/abidehq/abide/internal/cursor"
	"github.com/abidehq/abide/store"
)

// A list reads at most maxScanned records for a page, and scanBatch of them in one script, so
// that the server serves other clients in between. A page may therefore have fewer records
// than asked for, or none, and a cursor all the same.
const (
	maxScanned = 32_768
	scanBatch  = 2_000
)

// endOfTime is later than the time of any record.
const endOfTime = int64(1) << 50

// position is a position in the order of a list: the time of a record, and as a tie-breaker
// the member that its index has for it.
type position struct {
	ms  int64
	tie string // tenant and ID, or the ID alone in the index of one tenant
	set bool   // false: before the first
}

// List returns records that match q. The indexes are by kind, status and time, and by
// kind, tenant, status and time; names and tags are compared record by record.
//
// A page is not of one moment: it takes as many scripts as it needs, each of which sees the
// store as it is then. A record that moves in the order meanwhile may be missed or come twice.
// A list of several segments merges theirs: see mergedList. Its cursor is the same.
func (s *Store) List(ctx context.Context, q store.Query) (store.Page, error) {
	if err := q.Validate(); err != nil {
		return store.Page{}, err
	}
	after, err := cursorStart(&q)
	if err != nil {
		return store.Page{}, err
	}
	done, err := s.begin(ctx, "list")
	if err != nil {
		return store.Page{}, err
	}
	defer done()
	limit := q.Limit
	if limit == 0 {
		limit = store.DefaultPage
	}
	if list := s.segmentsOf(&q); len(list) > 1 {
		return s.mergedPage(ctx, &q, after, limit)
	}
	return s.page(ctx, s.segmentsOf(&q)[0], &q, after, limit)
}

// page returns a page of the records of one segment.
func (s *Store) page(ctx context.Context, seg *segment, q *store.Query, after position, limit int) (page store.Page, err error) {
	size := 0
	for passed := 0; ; {
		w, err := s.walk(ctx, seg, "list", q, after, limit-len(page.Records), min(scanBatch, maxScanned-passed), store.PageBytes-size)
		if err != nil {
			return store.Page{}, err
		}
		full := false
		for i := range w.records {
			if size+len(w.records[i].Body) > store.PageBytes && len(page.Records) > 0 {
				full = true
				break
			}
			size += len(w.records[i].Body)
			page.Records = append(page.Records, w.records[i])
			after = w.positions[i]
		}
		if full {
			page.Next = formatCursor(q, after)
			return page, nil
		}
		after = w.after
		if !w.more {
			return page, nil
		}
		passed += w.scanned
		if len(page.Records) == limit || passed >= maxScanned || w.full {
			page.Next = formatCursor(q, after)
			return page, nil
		}
	}
}

func formatCursor(q *store.Query, at position) string {
	return cursor.Format(q, cursor.Position{Millis: at.ms, Tie: []byte(at.tie)})
}

// walkResult is what one script has read of a list.
type walkResult struct {
	records   []store.Record
	positions []position
	after     position // where it ended
	counted   int
	scanned   int   // how many records were read
	changes   int64 // the store's counter of changes of records
	more      bool  // the index has more after it
	full      bool  // the next record exceeds the bytes of the page
}

// walk reads up to budget records of a segment after a position, in one script, and returns
// (mode "list") or counts (mode "count") those that match: up to limit of them, and up to
// maxBytes of bodies.
func (s *Store) walk(ctx context.Context, seg *segment, mode string, q *store.Query, after position, limit, budget, maxBytes int) (w walkResult, err error) {
	m, err := s.eval(ctx, seg, listScript, walkArgs(mode, q, after, limit, budget, maxBytes))
	if err != nil {
		return w, err
	}
	a := read(m)
	w.more = a.num() == 1
	for list := a.sub(); list.more(); {
		rid, raw := list.text(), list.text()
		r, err := parseRecord(rid, raw)
		if err != nil {
			return w, err
		}
		w.records = append(w.records, r)
		w.positions = append(w.positions, positionOf(q, &r))
	}
	w.after.tie, w.after.ms, w.after.set = a.text(), a.num(), true
	w.counted, w.scanned, w.changes = int(a.num()), int(a.num()), a.num()
	w.full = w.more && w.counted < limit && w.scanned < budget
	if a.err != nil {
		return w, fmt.Errorf("redisstore: %s: %w", mode, a.err)
	}
	return w, nil
}

// positionOf returns the position of a record in the index that the query uses.
func positionOf(q *store.Query, r *store.Record) position {
	at := position{ms: r.Time.UnixMilli(), tie: r.Key.ID, set: true}
	if q.Tenant == nil {
		at.tie = string(append(long(nil, r.Key.Tenant), r.Key.ID...))
	}
	return at
}

// walkArgs encodes a walk; list.lua reads it.
func walkArgs(mode string, q *store.Query, after position, limit, budget, maxBytes int) args {
	a := args{mode, q.Kind}
	a.tenant(q)
	a.names(unique(q.Statuses))
	a.names(unique(q.Names))
	a.len(len(q.Tags))
	for name, value := range q.Tags {
		a.add(name, value)
	}
	from, to := bounds(q)
	a.num(from)
	a.num(to)
	a.yesNo(q.Descending)
	a.yesNo(after.set)
	if after.set {
		a.num(after.ms)
		a.add(after.tie)
	}
	a.add(q.Prefix)
	a.len(limit)
	a.len(budget)
	a.len(maxBytes)
	return a
}

func (a *args) tenant(q *store.Query) {
	a.yesNo(q.Tenant != nil)
	if q.Tenant != nil {
		a.add(*q.Tenant)
	}
}

func (a *args) names(list []string) {
	a.len(len(list))
	a.add(list...)
}

func unique(list []string) []string {
	return slices.Compact(slices.Sorted(slices.Values(list)))
}

// bounds returns the times that a query is about, in milliseconds: from the first on, and
// before the second. Times of records are rounded down, so bounds are rounded up.
func bounds(q *store.Query) (from, to int64) {
	to = endOfTime
	if !q.From.IsZero() {
		from = store.Millis(q.From)
	}
	if !q.To.IsZero() {
		to = min(to, store.Millis(q.To))
	}
	return from, to
}

// A count reads defaultCountBatch records in one script, and starts over at most maxRestarts
// times before it reads all of them in one.
const (
	defaultCountBatch = 10_000
	maxRestarts       = 4
)

// Count counts the records that match q, up to limit. The number of each segment is that of one
// moment, so a commit, which is of one segment, is counted as a whole or not at all; the moments
// of several segments differ by a round trip.
func (s *Store) Count(ctx context.Context, q store.Query, limit int) (int, error) {
	if err := store.ValidateCount(&q, limit); err != nil {
		return 0, err
	}
	done, err := s.begin(ctx, "count")
	if err != nil {
		return 0, err
	}
	defer done()
	count := s.countOneByOne
	if q.ByFields() {
		count = s.countIndexed
	}
	list := s.segmentsOf(&q)
	counts := make([]int, len(list))
	errs := forEach(list, func(i int, seg *segment) (err error) {
		counts[i], err = count(ctx, seg, &q, limit)
		return err
	})
	sum := 0
	for i, err := range errs {
		if err != nil {
			return 0, s.nameSegment(list[i].index, err)
		}
		sum += counts[i]
	}
	return min(sum, limit), nil
}

// countOneByOne counts the records of a query with names or tags, which no index has. The
// number must be that of one moment, and a script that reads very many records blocks the
// server: so it reads a batch at a time, and starts over if any record of the store has
// changed in between. If they keep changing, the last try is one script, which blocks other
// clients for as long as it takes.
func (s *Store) countOneByOne(ctx context.Context, seg *segment, q *store.Query, limit int) (int, error) {
	for range maxRestarts {
		w, err := s.walk(ctx, seg, "count", q, position{}, limit, s.countBatch, 0)
		if err != nil {
			return 0, err
		}
		n, changes := w.counted, w.changes
		for w.more && n < limit && w.changes == changes {
			if w, err = s.walk(ctx, seg, "count", q, w.after, limit-n, s.countBatch, 0); err != nil {
				return 0, err
			}
			n += w.counted
		}
		if w.changes == changes {
			return n, nil
		}
	}
	w, err := s.walk(ctx, seg, "count", q, position{}, limit, store.MaxCount, 0)
	return w.counted, err
}

// countIndexed counts by the sizes of ranges of the indexes, without reading records.
func (s *Store) countIndexed(ctx context.Context, seg *segment, q *store.Query, limit int) (int, error) {
	a := args{q.Kind}
	a.tenant(q)
	from, to := bounds(q)
	a.num(from)
	a.num(max(from, to))
	a.len(limit)
	a.names(unique(q.Statuses))
	m, err := s.eval(ctx, seg, countScript, a)
	if err != nil {
		return 0, err
	}
	n, err := m.AsInt64()
	if err != nil {
		return 0, fmt.Errorf("redisstore: count: %w", err)
	}
	return int(n), nil
}

// cursorStart returns the position of a query's cursor.
func cursorStart(q *store.Query) (position, error) {
	p, ok, err := cursor.Parse(q, cursor.AnyTie)
	return position{ms: p.Millis, tie: string(p.Tie), set: ok}, err
}
