package redisstore

import (
	"context"
	"fmt"
	"slices"

	"github.com/abidehq/abide/internal/cursor"
	"github.com/abidehq/abide/store"
)

// A list looks at maxPassed records for a page, and at passAtOnce of them in one script, so
// that others get their turn.
const (
	maxPassed  = 32_768
	passAtOnce = 2_000
)

// endOfTime is later than the time of any record.
const endOfTime = int64(1) << 50

// position is a place in a list: the time of a record, and its tenant and ID as its index
// has them.
type position struct {
	ms    int64
	place string
	set   bool
}

// List returns records that match q. The indexes are by kind, status and time, and by
// kind, tenant, status and time; names and tags are looked at record by record.
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
	var page store.Page
	size := 0
	for passed := 0; ; {
		w, err := s.walk(ctx, "list", &q, after, limit-len(page.Records), min(passAtOnce, maxPassed-passed), store.PageBytes-size)
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
			after = w.spots[i]
		}
		if full {
			page.Next = cursor.Format(&q, cursor.Position{Millis: after.ms, Tie: []byte(after.place)})
			return page, nil
		}
		after = w.after
		if !w.more {
			return page, nil
		}
		passed += w.passed
		if len(page.Records) == limit || passed >= maxPassed || w.full {
			page.Next = cursor.Format(&q, cursor.Position{Millis: after.ms, Tie: []byte(after.place)})
			return page, nil
		}
	}
}

// walked is a part of a walk along a list.
type walked struct {
	records []store.Record
	spots   []position
	after   position // where it ended
	counted int
	passed  int   // how many records were looked at
	changes int64 // how many changes of records there ever were
	more    bool  // there may be more after it
	full    bool  // what comes next does not fit
}

// walk looks at records one by one, and returns or counts those that match.
func (s *Store) walk(ctx context.Context, mode string, q *store.Query, after position, limit, budget, most int) (w walked, err error) {
	m, err := s.eval(ctx, listScript, walkArgs(mode, q, after, limit, budget, most))
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
		w.spots = append(w.spots, spotOf(q, &r))
	}
	w.after.place, w.after.ms, w.after.set = a.text(), a.num(), true
	w.counted, w.passed, w.changes = int(a.num()), int(a.num()), a.num()
	w.full = w.more && w.counted < limit && w.passed < budget
	if a.err != nil {
		return w, fmt.Errorf("redisstore: %s: %w", mode, a.err)
	}
	return w, nil
}

func spotOf(q *store.Query, r *store.Record) position {
	at := position{ms: r.Time.UnixMilli(), place: r.Key.ID, set: true}
	if q.Tenant == nil {
		at.place = string(append(long(nil, r.Key.Tenant), r.Key.ID...))
	}
	return at
}

func walkArgs(mode string, q *store.Query, after position, limit, budget, most int) args {
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
		a.add(after.place)
	}
	a.len(limit)
	a.len(budget)
	a.len(most)
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

// A count looks at exactly so many records in one script, and begins anew at most
// maxRestarts times.
const (
	exactly     = 10_000
	maxRestarts = 4
)

// Count counts the records that match q, up to limit.
func (s *Store) Count(ctx context.Context, q store.Query, limit int) (int, error) {
	if err := store.ValidateCount(&q, limit); err != nil {
		return 0, err
	}
	done, err := s.begin(ctx, "count")
	if err != nil {
		return 0, err
	}
	defer done()
	if len(q.Names) == 0 && len(q.Tags) == 0 {
		return s.countIndexed(ctx, &q, limit)
	}
	return s.countOneByOne(ctx, &q, limit)
}

// countOneByOne counts what no index knows. The number must be that of one moment, and a
// script that looks at very many records keeps everybody else waiting: so it looks at some
// at a time, and begins anew if records have changed meanwhile. If they change all the
// time, others have to wait after all.
func (s *Store) countOneByOne(ctx context.Context, q *store.Query, limit int) (int, error) {
	for range maxRestarts {
		w, err := s.walk(ctx, "count", q, position{}, limit, s.exactly, 0)
		if err != nil {
			return 0, err
		}
		n, changes := w.counted, w.changes
		for w.more && n < limit && w.changes == changes {
			if w, err = s.walk(ctx, "count", q, w.after, limit-n, s.exactly, 0); err != nil {
				return 0, err
			}
			n += w.counted
		}
		if w.changes == changes {
			return n, nil
		}
	}
	w, err := s.walk(ctx, "count", q, position{}, limit, store.MaxCount, 0)
	return w.counted, err
}

func (s *Store) countIndexed(ctx context.Context, q *store.Query, limit int) (int, error) {
	a := args{q.Kind}
	a.tenant(q)
	from, to := bounds(q)
	a.num(from)
	a.num(max(from, to))
	a.len(limit)
	a.names(unique(q.Statuses))
	m, err := s.eval(ctx, countScript, a)
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
	return position{ms: p.Millis, place: string(p.Tie), set: ok}, err
}
