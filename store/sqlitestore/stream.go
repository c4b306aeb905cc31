package sqlitestore

import (
	"math"
	"slices"

	"zombiezen.com/go/sqlite"
)

// stream is one range of an index, in the order of a list: the records of one status and tenant, or
// all of a kind. A list is a merge of streams.
type stream struct {
	all            bool // of the kind
	status, tenant string

	at    position   // how far it was read
	ahead []position // what comes next
	done  bool       // and then nothing
}

// maxStreams is the most streams of a list. If there would be more, the list reads all records of
// the kind and filters them.
const maxStreams = 256

// streamAhead is how many records of a stream are read at once.
const streamAhead = 128

// streams returns the streams of the list.
func (l *lister) streams(at position) ([]*stream, error) {
	all := []*stream{{all: true, at: at}}
	if l.q.Tenant == nil && len(l.q.Statuses) == 0 {
		return all, nil
	}
	statuses := slices.Compact(slices.Sorted(slices.Values(l.q.Statuses)))
	var err error
	if len(statuses) == 0 {
		if statuses, err = l.distinct(nextStatus, maxStreams+1, l.q.Kind); err != nil {
			return nil, err
		}
	}
	var list []*stream
	for _, status := range statuses {
		if len(list) > maxStreams {
			break
		}
		tenants := []string{}
		if l.q.Tenant != nil {
			tenants = append(tenants, *l.q.Tenant)
		} else if tenants, err = l.distinct(nextTenant, maxStreams+1-len(list), l.q.Kind, status); err != nil {
			return nil, err
		}
		for _, tenant := range tenants {
			list = append(list, &stream{status: status, tenant: tenant, at: at})
		}
	}
	if len(list) > maxStreams {
		l.filter = true
		return all, nil
	}
	return list, nil
}

const (
	firstStatus = `SELECT status FROM records INDEXED BY records_status WHERE kind = ? ORDER BY status LIMIT 1`
	nextStatus  = `SELECT status FROM records INDEXED BY records_status WHERE kind = ? AND status > ? ORDER BY status LIMIT 1`
	firstTenant = `SELECT tenant FROM records INDEXED BY records_status WHERE kind = ? AND status = ? ORDER BY tenant LIMIT 1`
	nextTenant  = `SELECT tenant FROM records INDEXED BY records_status WHERE kind = ? AND status = ? AND tenant > ? ORDER BY tenant LIMIT 1`
)

// distinct returns the values of a column, each found by one seek beyond the last.
func (c *conn) distinct(query string, limit int, args ...any) (values []string, err error) {
	first := map[string]string{nextStatus: firstStatus, nextTenant: firstTenant}[query]
	for len(values) < limit {
		var value string
		scan := func(s *sqlite.Stmt) { value = s.ColumnText(0) }
		var found bool
		if len(values) == 0 {
			found, err = c.one(first, scan, args...)
		} else {
			found, err = c.one(query, scan, append(slices.Clone(args), values[len(values)-1])...)
		}
		if err != nil || !found {
			return values, err
		}
		values = append(values, value)
	}
	return values, nil
}

// first returns the stream whose next record comes first, or nil if there is none.
func (l *lister) first(streams []*stream) (best *stream, err error) {
	for _, st := range streams {
		if len(st.ahead) == 0 && !st.done {
			if err := l.fill(st); err != nil {
				return nil, err
			}
		}
		if len(st.ahead) > 0 && (best == nil || l.before(st.ahead[0], best.ahead[0])) {
			best = st
		}
	}
	return best, nil
}

func (l *lister) before(a, b position) bool {
	if l.q.Descending {
		a, b = b, a
	}
	return a.ms < b.ms || (a.ms == b.ms && a.num < b.num)
}

// fill reads the next records of a stream: first the rest of those with the same time, of which
// there may be any number, then those beyond.
func (l *lister) fill(st *stream) error {
	from := `SELECT time, num FROM records INDEXED BY records_status WHERE kind = ? AND status = ? AND tenant = ?`
	args := []any{l.q.Kind, st.status, st.tenant}
	if st.all {
		from = `SELECT time, num FROM records INDEXED BY records_time WHERE kind = ?`
		args = args[:1]
	}
	scan := func(s *sqlite.Stmt) error {
		st.ahead = append(st.ahead, position{s.ColumnInt64(0), s.ColumnInt64(1)})
		return nil
	}
	same, beyond := sameUp, beyondUp
	at, end := st.at, l.to
	if l.q.Descending {
		same, beyond = sameDown, beyondDown
		if end = l.from; at.ms >= l.to {
			at = position{l.to, -1}
		}
	} else if at.ms < l.from {
		at = position{l.from - 1, math.MaxInt64}
	}
	if at.ms >= l.from && at.ms < l.to {
		if err := l.each(from+same, scan, append(slices.Clone(args), at.ms, at.num, streamAhead)...); err != nil {
			return err
		}
	}
	if n := streamAhead - len(st.ahead); n > 0 {
		if err := l.each(from+beyond, scan, append(slices.Clone(args), at.ms, end, n)...); err != nil {
			return err
		}
	}
	if n := len(st.ahead); n > 0 {
		st.at = st.ahead[n-1]
	}
	st.done = len(st.ahead) < streamAhead
	return nil
}

// What follows a position in a stream: at the same time, and beyond it.
const (
	sameUp     = ` AND time = ? AND num > ? ORDER BY num LIMIT ?`
	beyondUp   = ` AND time > ? AND time < ? ORDER BY time, num LIMIT ?`
	sameDown   = ` AND time = ? AND num < ? ORDER BY num DESC LIMIT ?`
	beyondDown = ` AND time < ? AND time >= ? ORDER BY time DESC, num DESC LIMIT ?`
)
