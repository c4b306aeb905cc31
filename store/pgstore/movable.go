package pgstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/jackc/pgx/v5"

	"github.com/abidehq/abide/internal/rows"
	"github.com/abidehq/abide/store"
)

var _ store.Movable = (*Store)(nil)

// What a move reads and writes. A revision is that of the key, or the version of the record, and the
// transaction that wrote the row: a key that was deleted and made again has another one.
const (
	allTenants = `SELECT DISTINCT k.tenant FROM {schema}.keys k UNION SELECT DISTINCT r.tenant FROM {schema}.records r`

	outlineKeys = `SELECT k.queue, k.tenant, k.name, k.rev, k.xmin::text FROM {schema}.keys k WHERE k.tenant = ANY ($1::bytea[])`

	outlineRecords = `WITH RECURSIVE kinds (kind) AS (
	(SELECT r.kind FROM {schema}.records r ORDER BY r.kind LIMIT 1)
	UNION ALL
	SELECT n.kind FROM kinds k CROSS JOIN LATERAL (
		SELECT r.kind FROM {schema}.records r WHERE r.kind > k.kind ORDER BY r.kind LIMIT 1) n
)
SELECT r.kind, r.tenant, r.id, r.version, r.xmin::text
FROM kinds k JOIN {schema}.records r ON r.kind = k.kind AND r.tenant = ANY ($1::bytea[])`

	marksOfKeys    = `SELECT k.queue, k.tenant, k.name, k.rev, k.xmin::text FROM {schema}.keys k WHERE k.id = ANY ($1::uuid[])`
	marksOfRecords = `SELECT r.kind, r.tenant, r.id, r.version, r.xmin::text FROM {schema}.records r WHERE r.key = ANY ($1::uuid[])`

	takeMessages = `SELECT m.key, m.seq, m.id, m.visible, m.put, m.ttl, m.attempt, m.body
FROM {schema}.messages m WHERE m.key = ANY ($1::uuid[]) ORDER BY m.key, m.seq`
	takeEntries = `SELECT e.key, e.at, e.n, e.data FROM {schema}.entries e WHERE e.key = ANY ($1::uuid[]) ORDER BY e.key, e.at`
	takeRecords = `SELECT ` + recordColumns + ` FROM {schema}.records r WHERE r.key = ANY ($1::uuid[])`

	guardVersion = `SELECT r.version FROM {schema}.records r WHERE r.key = $1::uuid FOR SHARE`

	// What is removed is taken from the tally first.
	untally = `INSERT INTO {schema}.tally (lane, queue, route, n)
SELECT k.lane, k.queue, k.route, -sum(k.count) FROM {schema}.keys k
WHERE k.id = ANY ($1::uuid[]) GROUP BY k.lane, k.queue, k.route HAVING sum(k.count) <> 0`

	dropKeys    = `DELETE FROM {schema}.keys k WHERE k.id = ANY ($1::uuid[])`
	dropRecords = `DELETE FROM {schema}.records r WHERE r.key = ANY ($1::uuid[])`
)

// Tenants calls yield with each tenant.
func (s *Store) Tenants(ctx context.Context, yield func(tenant string) error) error {
	if err := s.Check(ctx, "tenants"); err != nil {
		return err
	}
	return s.failed("tenants", s.db.read(ctx, s.db.text.translate.Replace(allTenants), nil, func(r pgx.Rows) error {
		var tenant []byte
		_, err := pgx.ForEachRow(r, []any{&tenant}, func() error { return yield(string(tenant)) })
		return err
	}))
}

// Outline calls yield with each key and record of the tenants.
func (s *Store) Outline(ctx context.Context, tenants []string, yield func(store.Mark) error) error {
	if err := s.Check(ctx, "outline"); err != nil {
		return err
	}
	list := make([][]byte, 0, len(tenants))
	for _, tenant := range tenants {
		list = append(list, []byte(tenant))
	}
	for _, text := range []string{outlineKeys, outlineRecords} {
		err := s.db.read(ctx, s.db.text.translate.Replace(text), []any{list}, func(r pgx.Rows) error {
			return scanMarks(r, text == outlineKeys, yield)
		})
		if err != nil {
			return s.failed("outline", err)
		}
	}
	return nil
}

// scanMarks reads the marks of keys, or of records.
func scanMarks(r pgx.Rows, keys bool, yield func(store.Mark) error) error {
	var first, tenant, last []byte
	var rev int64
	var xmin string
	_, err := pgx.ForEachRow(r, []any{&first, &tenant, &last, &rev, &xmin}, func() error {
		m := store.Mark{Revision: strconv.FormatInt(rev, 36) + "." + xmin}
		if keys {
			m.Key = store.Key{Queue: string(first), Tenant: string(tenant), Name: string(last)}
		} else {
			m.Record = store.RecordKey{Kind: string(first), Tenant: string(tenant), ID: string(last)}
		}
		return yield(m)
	})
	return err
}

// identified returns the IDs of keys and records, as parameters.
func identified(things []store.Thing) (keys, records []rows.ID) {
	for i := range things {
		if t := &things[i]; t.Key.Name != "" {
			keys = append(keys, rows.IDOf(t.Key))
		} else {
			records = append(records, rows.RecordIDOf(t.Record))
		}
	}
	return keys, records
}

// Take returns all that things have.
func (s *Store) Take(ctx context.Context, things []store.Thing) (c store.Cargo, err error) {
	if err := s.Check(ctx, "take"); err != nil {
		return c, err
	}
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	err = pgx.BeginTxFunc(ctx, s.db.others, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		c, err = s.db.take(ctx, tx, things)
		return err
	})
	return c, s.failed("take", err)
}

// take reads all that things have, in a transaction.
func (d *database) take(ctx context.Context, tx pgx.Tx, things []store.Thing) (c store.Cargo, err error) {
	keys, records := identified(things)
	l := &loaded{revs: map[rows.ID]int64{}, state: &rows.State{Keys: map[rows.ID]*rows.KeyRow{}}}
	messages := map[rows.ID][]rows.MessageRow{}
	b := &pgx.Batch{}
	b.Queue(d.text.sql(loadKeys), uuids(keys)).Query(l.readKeys)
	b.Queue(d.text.translate.Replace(takeMessages), uuids(keys)).Query(func(r pgx.Rows) error { return scanMessages(r, messages) })
	b.Queue(d.text.translate.Replace(takeEntries), uuids(keys)).Query(func(r pgx.Rows) error { return scanCargoEntries(r, l.state, &c) })
	b.Queue(d.text.translate.Replace(takeRecords), uuids(records)).Query(func(r pgx.Rows) (err error) {
		c.Records, err = scanRecords(r)
		return err
	})
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return c, err
	}
	for _, id := range keys {
		if row := l.state.Keys[id]; row != nil {
			addKey(&c, row, messages[id])
		}
	}
	return c, nil
}

// scanMessages reads rows of messages.
func scanMessages(r pgx.Rows, into map[rows.ID][]rows.MessageRow) error {
	for r.Next() {
		var m rows.MessageRow
		var id []byte
		if err := r.Scan((*[16]byte)(&m.Key), &m.Seq, &id, &m.Visible, &m.Put, &m.TTL, &m.Attempt, &m.Body); err != nil {
			return err
		}
		m.ID = string(id)
		into[m.Key] = append(into[m.Key], m)
	}
	return r.Err()
}

// scanCargoEntries reads rows of entries, without what was trimmed.
func scanCargoEntries(r pgx.Rows, s *rows.State, into *store.Cargo) error {
	for r.Next() {
		var id rows.ID
		var c chunk
		if err := r.Scan((*[16]byte)(&id), &c.at, &c.n, &c.data); err != nil {
			return err
		}
		entries, err := c.entries()
		if err != nil {
			return err
		}
		row := s.Keys[id]
		if row == nil {
			continue // its key is not there: Verify reports it
		}
		if skip := min(max(row.LogFirst-c.at, 0), len(entries)); skip < len(entries) {
			into.Entries = append(into.Entries, store.Append{Key: row.Key, At: c.at + skip, Entries: entries[skip:]})
		}
	}
	return r.Err()
}

// addKey adds a key with its messages, and its lease, to a cargo. That the key is reserved for a process, or
// held by one, means nothing elsewhere.
func addKey(c *store.Cargo, row *rows.KeyRow, messages []rows.MessageRow) {
	leased := row.Token != "" && !rows.IsReservation(row.Token)
	c.Keys = append(c.Keys, store.KeyHead{Key: row.Key, Route: row.Route, LogTag: row.LogTag, LogFirst: row.LogFirst, LogLength: row.LogLength})
	if row.Inline != nil {
		messages = append(messages, *row.Inline)
		slices.SortFunc(messages, func(a, b rows.MessageRow) int { return int(a.Seq - b.Seq) })
	}
	lease := store.CargoLease{Lease: store.Lease{Key: row.Key, Token: store.Token(row.Token)}, Until: store.FromMillis(row.Until)}
	for i := range messages {
		m := &messages[i]
		if leased && slices.Contains(row.Delivered, m.Seq) {
			m.Attempt++
			lease.Delivered = append(lease.Delivered, m.ID)
		}
		c.Messages = append(c.Messages, m.Message(row.Key, row.Route))
	}
	if leased {
		c.Leases = append(c.Leases, lease)
	}
}

// errMoved is the error of a cargo that is not read back as it was written.
var errMoved = fmt.Errorf("what was written is read back as something else: %w", store.ErrCorrupt)

// Replace makes the store hold, of the named things, what the cargo holds. Other processes may lock the
// same rows in another order, to claim a key or to move an expired message: what ends in a deadlock is
// done again.
func (s *Store) Replace(ctx context.Context, guard store.Guard, things []store.Thing, c store.Cargo) (marks []store.Mark, err error) {
	if err := s.Check(ctx, "replace"); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	var changes *rows.Changes
	for try := 1; ; try++ {
		changes = unload(&c)
		err = pgx.BeginFunc(ctx, s.db.commits, func(tx pgx.Tx) error {
			marks, err = s.db.replace(ctx, tx, guard, things, &c, changes)
			return err
		})
		if try == txTries || !slices.Contains(codesRetry, code(err)) && code(err) != codeLocked {
			break
		}
	}
	s.db.cache.clear() // rows were written past it
	if err != nil {
		if errors.Is(err, store.ErrConflict) {
			return nil, err
		}
		if isFenced(err) {
			return nil, store.Fenced("replace")
		}
		return nil, s.failed("replace", err)
	}
	partitions := map[int64]int64{}
	for _, row := range changes.Insert {
		if at, ok := partitions[row.Partition()]; row.Count > 0 && (!ok || row.At() < at) {
			partitions[row.Partition()] = row.At()
		}
	}
	if len(partitions) > 0 {
		s.Hint(rows.Hint{})
		s.db.Announce(&rows.Announcement{Due: partitions})
	}
	return marks, nil
}

// replace removes the things, adds the cargo, and reads it back, in a transaction.
func (d *database) replace(ctx context.Context, tx pgx.Tx, guard store.Guard, things []store.Thing, c *store.Cargo, changes *rows.Changes) (marks []store.Mark, err error) {
	keys, records := identified(things)
	if err := d.guarded(ctx, tx, guard); err != nil {
		return nil, err
	}
	text := d.text.translate.Replace
	b := &pgx.Batch{}
	b.Queue(fmt.Sprintf("SET LOCAL lock_timeout = %d", lockWait.Milliseconds()))
	b.Queue(text(untally), uuids(keys))
	b.Queue(d.text.sql(wipeMessages), uuids(keys))
	b.Queue(d.text.sql(wipeEntries), uuids(keys))
	b.Queue(text(dropKeys), uuids(keys))
	b.Queue(text(dropRecords), uuids(records))
	if w := d.write(b, changes, &loaded{first: newRevision()}); w.err != nil {
		return nil, w.err
	}
	add := func(m store.Mark) error { //nolint:unparam // as scanMarks wants it
		marks = append(marks, m)
		return nil
	}
	b.Queue(text(marksOfKeys), uuids(keys)).Query(func(r pgx.Rows) error { return scanMarks(r, true, add) })
	b.Queue(text(marksOfRecords), uuids(records)).Query(func(r pgx.Rows) error { return scanMarks(r, false, add) })
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return nil, err
	}
	written, err := d.take(ctx, tx, things)
	if err == nil && written.Sum() != c.Sum() {
		err = errMoved
	}
	return marks, err
}

// guarded checks the version of a record, which nobody changes until the transaction ends.
func (d *database) guarded(ctx context.Context, tx pgx.Tx, guard store.Guard) error {
	version := int64(0)
	err := tx.QueryRow(ctx, d.text.translate.Replace(guardVersion), uuid(rows.RecordIDOf(guard.Record))).Scan(&version)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return err
	}
	if version != guard.Version {
		return store.VersionConflict(guard.Record, guard.Version, version)
	}
	return nil
}

// unload returns the rows of a cargo.
func unload(c *store.Cargo) *rows.Changes {
	u := &unloader{changes: &rows.Changes{InsertRecords: c.Records}, keys: map[store.Key]*rows.KeyRow{}, seqs: map[rows.Ref]int64{}, delivered: map[rows.Ref]bool{}}
	for _, h := range c.Keys {
		row := &rows.KeyRow{
			ID: rows.IDOf(h.Key), Key: h.Key, Route: h.Route, First: rows.Never,
			LogTag: h.LogTag, LogFirst: h.LogFirst, LogLength: h.LogLength,
		}
		u.keys[h.Key] = row
		u.changes.Insert = append(u.changes.Insert, row)
	}
	for _, l := range c.Leases {
		for _, id := range l.Delivered {
			u.delivered[rows.Ref{Key: rows.IDOf(l.Key), ID: id}] = true
		}
	}
	for _, a := range c.Entries {
		u.changes.Append = append(u.changes.Append, rows.Entries{Key: rows.IDOf(a.Key), At: a.At, Entries: a.Entries})
	}
	for i := range c.Messages {
		u.message(&c.Messages[i])
	}
	for _, l := range c.Leases {
		u.lease(&l)
	}
	for _, row := range u.changes.Insert {
		if row.Count > 0 {
			u.changes.Tally = append(u.changes.Tally, rows.Tally{Queue: row.Key.Queue, Route: row.Route, Partition: row.Partition(), More: row.Count})
		}
	}
	return u.changes
}

// unloader makes rows of a cargo.
type unloader struct {
	changes   *rows.Changes
	keys      map[store.Key]*rows.KeyRow
	seqs      map[rows.Ref]int64
	delivered map[rows.Ref]bool // with a lease: the attempt is counted when that ends
}

func (u *unloader) message(m *store.Message) {
	row := u.keys[m.Key]
	if row == nil {
		return // a cargo has the heads of its messages
	}
	added := rows.MessageRow{
		Key: row.ID, Seq: row.Seq, ID: m.ID, Visible: store.Millis(m.VisibleAt), Put: store.Millis(m.PutAt),
		TTL: m.TTL.Milliseconds(), Attempt: m.Attempt, Body: m.Body,
	}
	ref := rows.Ref{Key: row.ID, ID: m.ID}
	if u.delivered[ref] {
		added.Attempt--
	}
	u.seqs[ref] = row.Seq
	if !row.Take(&added) {
		u.changes.Put = append(u.changes.Put, added)
	}
}

func (u *unloader) lease(l *store.CargoLease) {
	row := u.keys[l.Key]
	if row == nil {
		return
	}
	row.Token, row.Until = string(l.Token), store.Millis(l.Until)
	for _, id := range l.Delivered {
		row.Delivered = append(row.Delivered, u.seqs[rows.Ref{Key: row.ID, ID: id}])
	}
}
