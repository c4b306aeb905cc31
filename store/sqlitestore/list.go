package sqlitestore

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"

	"zombiezen.com/go/sqlite"

	"github.com/abidehq/abide/internal/cursor"
	"github.com/abidehq/abide/store"
)

// errEnd ends a walk over rows early, without being an error.
var errEnd = errors.New("enough")

func ignoreEnd(err error) error {
	if errors.Is(err, errEnd) {
		return nil
	}
	return err
}

// position is where a list continues: after a record with this time and number.
type position struct {
	ms, num int64
}

func formatCursor(q *store.Query, at position) string {
	return cursor.Format(q, cursor.Numbered(at.ms, uint64(at.num)))
}

// start returns where a list begins.
func start(q *store.Query) (position, error) {
	p, ok, err := cursor.Parse(q, 8)
	switch {
	case err != nil:
		return startOfOld(q, err)
	case !ok && q.Descending:
		return position{math.MaxInt64, math.MaxInt64}, nil
	case !ok:
		return position{-1, math.MaxInt64}, nil
	}
	return position{p.Millis, int64(p.Number())}, nil
}

// startOfOld reads a cursor of the form that this store gave out at first, which is still
// valid. It returns err if it is not one.
func startOfOld(q *store.Query, err error) (position, error) {
	var c struct {
		MS   int64  `json:"ms"`
		Num  int64  `json:"num"`
		Desc bool   `json:"desc"`
		Kind string `json:"kind"`
	}
	kind := base64.RawURLEncoding.EncodeToString([]byte(q.Kind)) // JSON does not keep all text as it is
	b, decodeErr := base64.RawURLEncoding.DecodeString(q.Cursor)
	if decodeErr != nil || json.Unmarshal(b, &c) != nil || c.Desc != q.Descending || c.Kind != kind {
		return position{}, err
	}
	return position{c.MS, c.Num}, nil
}

// maxPassed is how many records a list skips before it returns what it has: the time for a
// page is bounded, and a query that few records match continues with the next page.
const maxPassed = 10_000

// lister is a List call in its read transaction.
type lister struct {
	*conn
	q      *store.Query
	from   int64 // the time that records have at least
	to     int64 // and that they do not reach
	filter bool  // tenant and status are to be looked at too
	bad    error // what is wrong with a record that was looked at
}

func newLister(c *conn, q *store.Query) *lister {
	l := &lister{conn: c, q: q, to: math.MaxInt64}
	if !q.From.IsZero() {
		l.from = store.Millis(q.From)
	}
	if !q.To.IsZero() {
		l.to = store.Millis(q.To)
	}
	return l
}

// List returns records that match q. There is an index by time, and one by status and
// tenant; names and tags are looked at record by record.
func (s *Store) List(ctx context.Context, q store.Query) (page store.Page, err error) {
	if err := q.Validate(); err != nil {
		return store.Page{}, err
	}
	at, err := start(&q)
	if err != nil {
		return store.Page{}, err
	}
	err = s.scan(ctx, "list", func(c *conn) error {
		var err error
		page, err = newLister(c, &q).list(at)
		return err
	})
	return page, err
}

func (l *lister) list(at position) (page store.Page, err error) {
	streams, err := l.streams(at)
	if err != nil {
		return page, err
	}
	limit := l.q.Limit
	if limit == 0 {
		limit = store.DefaultPage
	}
	size, passed := 0, 0
	for {
		st, err := l.first(streams)
		if err != nil || st == nil {
			return page, err
		}
		next := st.ahead[0]
		if len(page.Records) == limit || passed == maxPassed {
			page.Next = formatCursor(l.q, at)
			return page, nil
		}
		r, fits, err := l.look(next.num, store.PageBytes-size, len(page.Records) == 0)
		switch {
		case err != nil:
			return page, err
		case !fits:
			page.Next = formatCursor(l.q, at)
			return page, nil
		case r == nil:
			passed++
		default:
			size += len(r.Body)
			page.Records = append(page.Records, *r)
		}
		at = next
		st.ahead = st.ahead[1:]
	}
}

// look returns a record if it matches, and whether it fits; the first one always does.
func (l *lister) look(num int64, room int, first bool) (r *store.Record, fits bool, err error) {
	fits = true
	_, err = l.one(`SELECT tenant, status, id, name, tags, length(body), `+recordColumns+` FROM records WHERE num = ?`, func(s *sqlite.Stmt) {
		tenant, status, id, name := s.ColumnText(0), s.ColumnText(1), s.ColumnText(2), s.ColumnText(3)
		if l.filter && !l.among(tenant, status) {
			return
		}
		tags, bad := parseTags(s.ColumnText(4))
		if bad == nil && !matches(l.q, id, name, tags) {
			return
		}
		if fits = first || s.ColumnInt(5) <= room; fits {
			var found store.Record
			found, bad = scanRecord(s, 6)
			r = &found
		}
		if bad != nil {
			l.bad = bad
		}
	}, num)
	if err == nil {
		err = l.bad
	}
	return r, fits, err
}

// among reports whether tenant and status are among those that are asked for.
func (l *lister) among(tenant, status string) bool {
	return (l.q.Tenant == nil || *l.q.Tenant == tenant) && (len(l.q.Statuses) == 0 || slices.Contains(l.q.Statuses, status))
}

// matches reports whether ID, name and tags are as they are asked for.
func matches(q *store.Query, id, name string, tags map[string]string) bool {
	if !strings.HasPrefix(id, q.Prefix) {
		return false
	}
	if len(q.Names) > 0 && !slices.Contains(q.Names, name) {
		return false
	}
	for tag, value := range q.Tags {
		if v, ok := tags[tag]; !ok || v != value {
			return false
		}
	}
	return true
}
