package sqlitestore

import (
	"context"
	"slices"

	"zombiezen.com/go/sqlite"

	"github.com/abidehq/abide/store"
)

// Count counts the records that match q, up to limit. All but names and tags is in the
// indexes.
func (s *Store) Count(ctx context.Context, q store.Query, limit int) (n int, err error) {
	if err := store.ValidateCount(&q, limit); err != nil {
		return 0, err
	}
	err = s.scan(ctx, "count", func(c *conn) error {
		l := newLister(c, &q)
		var err error
		n, err = l.count(limit)
		return err
	})
	return n, err
}

func (l *lister) count(limit int) (n int, err error) {
	if l.q.Tenant == nil && len(l.q.Statuses) == 0 {
		return l.countOf(limit, `records INDEXED BY records_time WHERE kind = ?`, l.q.Kind)
	}
	statuses := slices.Compact(slices.Sorted(slices.Values(l.q.Statuses)))
	if len(statuses) == 0 {
		if statuses, err = l.distinct(nextStatus, store.MaxCount, l.q.Kind); err != nil {
			return 0, err
		}
	}
	for _, status := range statuses {
		if n == limit {
			break
		}
		var more int
		if l.q.Tenant != nil {
			more, err = l.countOf(limit-n, `records INDEXED BY records_status WHERE kind = ? AND status = ? AND tenant = ?`, l.q.Kind, status, *l.q.Tenant)
		} else {
			more, err = l.countOf(limit-n, `records INDEXED BY records_status WHERE kind = ? AND status = ?`, l.q.Kind, status)
		}
		if err != nil {
			return 0, err
		}
		n += more
	}
	return n, nil
}

// countOf counts records of a part of an index.
func (l *lister) countOf(limit int, from string, args ...any) (n int, err error) {
	args = append(args, l.from, l.to)
	from += ` AND time >= ? AND time < ?`
	if l.q.ByFields() {
		found, err := l.number(`SELECT count(*) FROM (SELECT 1 FROM `+from+` LIMIT ?)`, append(args, limit)...)
		return int(found), err
	}
	err = l.each(`SELECT id, name, tags FROM `+from, func(s *sqlite.Stmt) error {
		tags, err := parseTags(s.ColumnText(2))
		if err != nil {
			return err
		}
		if matches(l.q, s.ColumnText(0), s.ColumnText(1), tags) {
			n++
		}
		if n == limit {
			return errEnd
		}
		return nil
	}, args...)
	return n, ignoreEnd(err)
}
