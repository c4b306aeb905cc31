package pgstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/abidehq/abide/internal/rows"
	"github.com/abidehq/abide/store"
)

const (
	// A page of a log: the row of the key, and the rows of entries that are on it. There are
	// at most $4 of them; where they are small, another statement continues.
	readEntries = `SELECT k.log_first, k.log_length, k.log_tag, e.at, e.n, e.data
FROM {schema}.keys k LEFT JOIN LATERAL (
	SELECT c.at, c.n, c.data FROM (
		SELECT e.at, e.n, e.data, sum(octet_length(e.data)) OVER (ORDER BY e.at) - octet_length(e.data) AS before
		FROM (SELECT e.at, e.n, e.data FROM {schema}.entries e
			WHERE e.key = k.id AND e.at >= coalesce((SELECT b.at FROM {schema}.entries b
				WHERE b.key = k.id AND b.at <= greatest($2::int8, k.log_first) ORDER BY b.at DESC LIMIT 1), 0)
			ORDER BY e.at LIMIT $4::int8) e) c
	WHERE c.before <= $3::int8 ORDER BY c.at) e ON true
WHERE k.id = $1::uuid`

	readPending = `SELECT k.route, m.seq, m.id, m.visible, m.put, m.ttl,
	m.attempt + CASE WHEN k.token IS NOT NULL AND m.seq = ANY (k.delivered) THEN 1 ELSE 0 END, m.body
FROM {schema}.keys k CROSS JOIN LATERAL (
	SELECT p.* FROM (
		SELECT m.*, sum(octet_length(m.body)) OVER w AS bytes, row_number() OVER w AS n
		FROM (
			(SELECT * FROM {schema}.messages m WHERE m.key = k.id ORDER BY m.visible, m.seq LIMIT $2::int8)
			UNION ALL
			SELECT k.id, k.m_seq, k.m_visible, k.m_put, k.m_ttl, k.m_attempt, k.m_id, k.m_body WHERE k.m_id IS NOT NULL
			ORDER BY visible, seq LIMIT $2::int8) m
		WINDOW w AS (ORDER BY m.visible, m.seq)) p
	WHERE p.n = 1 OR p.bytes <= $3::int8) m
WHERE k.id = $1::uuid
ORDER BY m.visible, m.seq`
)

// logRows is how many rows of entries one statement reads.
const logRows = 4096

// ReadLog returns entries of a log.
func (s *Store) ReadLog(ctx context.Context, key store.Key, from int) (store.LogPage, error) {
	if err := store.ValidateReadLog(key, from); err != nil {
		return store.LogPage{}, err
	}
	if err := s.Check(ctx, "read log"); err != nil {
		return store.LogPage{}, err
	}
	p := logReader{page: store.LogPage{First: from}}
	for more := true; more; {
		var err error
		if more, err = p.next(ctx, s.db, key); err != nil {
			return store.LogPage{}, s.failed("read log", err)
		}
	}
	return p.page, nil
}

// logReader reads a page.
type logReader struct {
	page  store.LogPage
	size  int
	begun bool
	tag   int64
}

// next reads on, and reports whether there is more for the page.
func (p *logReader) next(ctx context.Context, d *database, key store.Key) (more bool, err error) {
	at := p.page.First + len(p.page.Entries)
	var found []chunk
	there := false
	var first, length, tag int64
	args := []any{uuid(rows.IDOf(key)), at, max(store.LogPageBytes-p.size, 0), logRows}
	err = d.read(ctx, d.text.sql(readEntries), args, func(r pgx.Rows) error {
		found, there = nil, false
		var start pgtype.Int8
		var n pgtype.Int4
		var data []byte
		_, err := pgx.ForEachRow(r, []any{&first, &length, &tag, &start, &n, &data}, func() error {
			there = true
			if start.Valid {
				found = append(found, chunk{at: int(start.Int64), n: int(n.Int32), data: data})
			}
			return nil
		})
		return err
	})
	switch {
	case err != nil || !there:
		return false, err
	case p.begun && (tag != p.tag || int(first) > at || int(length) < p.page.Length):
		return false, nil // it is another log by now, or was trimmed: the page ends before that
	case !p.begun:
		p.begun, p.tag = true, tag
		p.page.First = max(at, int(first))
		at = p.page.First
	}
	p.page.Length = int(length)
	full, err := p.add(found, at)
	return err == nil && !full && len(found) == logRows, err
}

// add puts what was found on the page, from index at on, and reports whether it is full.
func (p *logReader) add(found []chunk, at int) (full bool, err error) {
	for i := range found {
		entries, err := found[i].entries()
		if err != nil {
			return false, err
		}
		for j, e := range entries {
			index := found[i].at + j
			if index < at || index >= p.page.Length {
				continue
			}
			if index != at {
				return false, fmt.Errorf("entry %d is missing: %w", at, store.ErrCorrupt)
			}
			if p.size += len(e); p.size > store.LogPageBytes && len(p.page.Entries) > 0 {
				return true, nil
			}
			p.page.Entries = append(p.page.Entries, e)
			at++
		}
	}
	return false, nil
}

// Pending returns the messages of a key.
func (s *Store) Pending(ctx context.Context, key store.Key, limit int) ([]store.Message, error) {
	if err := store.ValidatePending(key, limit); err != nil {
		return nil, err
	}
	if err := s.Check(ctx, "pending"); err != nil {
		return nil, err
	}
	if limit == 0 {
		limit = store.MaxPage
	}
	var found []store.Message
	err := s.db.read(ctx, s.db.text.sql(readPending), []any{uuid(rows.IDOf(key)), limit, store.PageBytes}, func(r pgx.Rows) error {
		found = nil
		for r.Next() {
			var route, id []byte
			var m rows.MessageRow
			if err := r.Scan(&route, &m.Seq, &id, &m.Visible, &m.Put, &m.TTL, &m.Attempt, &m.Body); err != nil {
				return err
			}
			m.ID = string(id)
			found = append(found, m.Message(key, string(route)))
		}
		return r.Err()
	})
	return found, s.failed("pending", err)
}

// Get returns a record.
func (s *Store) Get(ctx context.Context, key store.RecordKey) (store.Record, error) {
	if err := store.ValidateGet(key); err != nil {
		return store.Record{}, err
	}
	if err := s.Check(ctx, "get"); err != nil {
		return store.Record{}, err
	}
	r, err := s.db.Record(ctx, key)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return store.Record{}, s.failed("get", err)
	}
	return r, err
}
