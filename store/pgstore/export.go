package pgstore

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/abidehq/abide/internal/rows"
	"github.com/abidehq/abide/store"
)

// Each of the tables is exported in the order of its primary key, from the row after the
// first parameters on. The last parameters are how many rows there is room for, and how many
// bytes. If there is a row, one is returned.
const (
	exportKeys = `SELECT k.id, k.queue, k.tenant, k.name, k.route, k.log_tag, k.log_first, k.log_length
FROM {schema}.keys k WHERE k.id > $1::uuid ORDER BY k.id LIMIT least($2::int8, 1 + $3::int8 / 64)`

	exportEntries = `SELECT c.key, k.queue, k.tenant, k.name, k.log_first, c.at, c.n, c.data
FROM (SELECT e.*, sum(octet_length(e.data)) OVER w AS bytes, row_number() OVER w AS nth
	FROM (SELECT e.key, e.at, e.n, e.data FROM {schema}.entries e
		WHERE (e.key, e.at) > ($1::uuid, $2::int8) ORDER BY e.key, e.at LIMIT $3::int8) e
	WINDOW w AS (ORDER BY e.key, e.at)) c
JOIN {schema}.keys k ON k.id = ANY (ARRAY[c.key])
WHERE c.nth = 1 OR c.bytes <= $4::int8
ORDER BY c.key, c.at`

	exportMessages = `SELECT c.key, k.queue, k.tenant, k.name, k.route, c.seq, c.id, c.visible, c.put, c.ttl,
	c.attempt + CASE WHEN k.token IS NOT NULL AND c.seq = ANY (k.delivered) THEN 1 ELSE 0 END, c.body
FROM (SELECT m.*, sum(octet_length(m.body)) OVER w AS bytes, row_number() OVER w AS nth
	FROM (
		(SELECT * FROM {schema}.messages m
			WHERE (m.key, m.seq) > ($1::uuid, $2::int8) ORDER BY m.key, m.seq LIMIT $3::int8)
		UNION ALL
		(SELECT k.id, k.m_seq, k.m_visible, k.m_put, k.m_ttl, k.m_attempt, k.m_id, k.m_body FROM {schema}.keys k
			WHERE k.id >= $1::uuid AND (k.id > $1::uuid OR k.m_seq > $2::int8) AND k.m_id IS NOT NULL
			ORDER BY k.id LIMIT $3::int8)
		ORDER BY key, seq LIMIT $3::int8) m
	WINDOW w AS (ORDER BY m.key, m.seq)) c
JOIN {schema}.keys k ON k.id = ANY (ARRAY[c.key])
WHERE c.nth = 1 OR c.bytes <= $4::int8
ORDER BY c.key, c.seq`

	exportRecords = `SELECT ` + recordColumns + `
FROM (SELECT r.*, sum(octet_length(r.body)) OVER w AS bytes, row_number() OVER w AS nth
	FROM (SELECT * FROM {schema}.records r
		WHERE r.key > $1::uuid
		ORDER BY r.key LIMIT $2::int8) r
	WINDOW w AS (ORDER BY r.key)) r
WHERE r.nth = 1 OR r.bytes <= $3::int8
ORDER BY r.key`
)

// parcelRows is how many rows a parcel has at most.
const parcelRows = 2000

// mark is how far an export has come: all before it is exported.
type mark struct {
	Table string `json:"table"`
	Key   []byte `json:"key,omitempty"` // of the last row, if there was one
	At    int64  `json:"at,omitempty"`
}

// tables are what is exported, in order: what belongs to a key comes after it.
var tables = []string{"keys", "entries", "messages", "records"}

// Export returns a part of all that there is: the rows of one table after another.
func (s *Store) Export(ctx context.Context, cursor string) (store.Parcel, error) {
	if err := s.Check(ctx, "export"); err != nil {
		return store.Parcel{}, err
	}
	m, err := parseMark(cursor)
	if err != nil {
		return store.Parcel{}, err
	}
	e := &exporter{rows: parcelRows, bytes: store.ParcelBytes}
	for m.Table != "" && e.rows > 0 && e.bytes > 0 {
		if err := e.add(ctx, s.db, &m); err != nil {
			return store.Parcel{}, s.failed("export", err)
		}
	}
	if m.Table != "" {
		e.parcel.Next = m.String()
	}
	return e.parcel, nil
}

// exporter fills a parcel.
type exporter struct {
	parcel      store.Parcel
	rows, bytes int // for which there is room
}

// String returns the mark as a cursor.
func (m mark) String() string {
	b, err := json.Marshal(m)
	if err != nil {
		panic(err) // bytes and numbers always marshal
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

func parseMark(cursor string) (m mark, err error) {
	if cursor == "" {
		return mark{Table: tables[0]}, nil
	}
	b, err := base64.RawURLEncoding.DecodeString(cursor)
	if err == nil {
		err = json.Unmarshal(b, &m)
	}
	if err != nil || !slices.Contains(tables, m.Table) || (len(m.Key) != 0 && len(m.Key) != 16) {
		return m, fmt.Errorf("store: export: cursor %q is not from this store: %w", cursor, store.ErrInvalid)
	}
	return m, nil
}

// after returns the key and the number after which to go on, as parameters. No row is the
// first of all: a digest of zeros does not happen.
func (m *mark) after() (key [16]byte, at int64) {
	if len(m.Key) == 0 {
		return key, -1
	}
	return [16]byte(m.Key), m.At
}

// add adds rows of a table after a mark, and moves the mark: to the last of them, or to the
// beginning of the next table if there are no more.
func (e *exporter) add(ctx context.Context, d *database, m *mark) error {
	key, at := m.after()
	sql, args, scan := d.text.sql(exportKeys), []any{key}, addHead
	switch m.Table {
	case "entries":
		sql, args, scan = d.text.sql(exportEntries), []any{key, at}, addEntries
	case "messages":
		sql, args, scan = d.text.sql(exportMessages), []any{key, at}, addMessage
	case "records":
		sql, args, scan = d.text.sql(exportRecords), []any{key}, addRecord
	}
	args = append(args, e.rows, e.bytes)
	var last mark
	n, size := 0, 0
	before := e.parcel
	err := d.read(ctx, sql, args, func(r pgx.Rows) error {
		e.parcel, n, size = before, 0, 0
		for r.Next() {
			bytes, err := scan(&e.parcel, r, &last)
			if err != nil {
				return err
			}
			n++
			size += bytes
		}
		return r.Err()
	})
	if err != nil {
		return err
	}
	if n > 0 {
		last.Table = m.Table
		*m = last
		if n == e.rows || size >= e.bytes/2 {
			e.rows = 0 // it is full, or as good as that
			return nil
		}
		e.rows -= n
		e.bytes -= size
		return nil
	}
	next := slices.Index(tables, m.Table) + 1
	*m = mark{}
	if next < len(tables) {
		m.Table = tables[next]
	}
	return nil
}

func addHead(p *store.Parcel, r pgx.Rows, last *mark) (size int, err error) {
	var id [16]byte
	var queue, tenant, name, route []byte
	var h store.KeyHead
	var tag int64
	if err := r.Scan(&id, &queue, &tenant, &name, &route, &tag, &h.LogFirst, &h.LogLength); err != nil {
		return 0, err
	}
	h.Key = store.Key{Queue: string(queue), Tenant: string(tenant), Name: string(name)}
	h.Route, h.LogTag = string(route), uint64(tag)
	p.Keys = append(p.Keys, h)
	*last = mark{Key: id[:]}
	return len(queue) + len(tenant) + len(name) + len(route), nil
}

func addEntries(p *store.Parcel, r pgx.Rows, last *mark) (size int, err error) {
	var id [16]byte
	var queue, tenant, name []byte
	var first int
	var c chunk
	if err := r.Scan(&id, &queue, &tenant, &name, &first, &c.at, &c.n, &c.data); err != nil {
		return 0, err
	}
	entries, err := c.entries()
	if err != nil {
		return 0, err
	}
	if skip := min(max(first-c.at, 0), len(entries)); skip < len(entries) { // what is left of it after a trim
		key := store.Key{Queue: string(queue), Tenant: string(tenant), Name: string(name)}
		p.Entries = append(p.Entries, store.Append{Key: key, At: c.at + skip, Entries: entries[skip:]})
	}
	*last = mark{Key: id[:], At: int64(c.at)}
	return len(c.data), nil
}

func addMessage(p *store.Parcel, r pgx.Rows, last *mark) (size int, err error) {
	var m rows.MessageRow
	var queue, tenant, name, route, id []byte
	if err := r.Scan((*[16]byte)(&m.Key), &queue, &tenant, &name, &route, &m.Seq, &id, &m.Visible, &m.Put, &m.TTL, &m.Attempt, &m.Body); err != nil {
		return 0, err
	}
	m.ID = string(id)
	p.Messages = append(p.Messages, m.Message(store.Key{Queue: string(queue), Tenant: string(tenant), Name: string(name)}, string(route)))
	*last = mark{Key: m.Key[:], At: m.Seq}
	return len(m.Body), nil
}

func addRecord(p *store.Parcel, r pgx.Rows, last *mark) (size int, err error) {
	var rec recordScan
	if err := r.Scan(rec.into()...); err != nil {
		return 0, err
	}
	record, err := rec.record()
	if err != nil {
		return 0, err
	}
	p.Records = append(p.Records, record)
	id := rows.RecordIDOf(record.Key)
	*last = mark{Key: id[:]}
	return len(rec.body), nil
}
