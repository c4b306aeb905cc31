package pgstore

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/abidehq/abide/internal/rows"
	"github.com/abidehq/abide/store"
)

// Update runs one transaction in two round trips: one that begins it and loads the rows, and one
// that writes and commits. It is optimistic: rows are not locked when they are loaded, unless
// transactions have interfered just before (lockNext), and a row that is not as it was loaded
// when it is written ends the transaction with rows.ErrRetry. Rows that this process wrote last are
// not loaded at all (rowCache).
//
// A connection that turns out to be lost before anything was sent on it is replaced, so that a
// restart of the server costs its first callers nothing but time. After the commit was sent, a
// lost connection leaves the outcome unknown, and Update returns an error that does not wrap
// rows.ErrRolledBack.
func (d *database) Update(ctx context.Context, need *rows.ReadSet, decide func(now int64, s *rows.State) *rows.Changes) (err error) {
	if err := d.fit(); err != nil {
		return rolledBack(err)
	}
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	ended := d.config.servers.begin(commitCall)
	defer func() { ended(err) }()
	pool, begin := d.poolFor(need)
	for try := 1; ; try++ {
		conn, err := pool.Acquire(ctx)
		if err != nil {
			return rolledBack(err)
		}
		l, err := d.load(ctx, conn, begin, need, loading{lock: d.takeLockNext(), lookup: !need.Fresh})
		var changes *rows.Changes
		if err == nil {
			changes, err = d.decide(ctx, conn, need, l, decide)
		}
		if err == nil {
			if err = d.writeAndCommit(ctx, conn, changes, l); err == nil {
				conn.Release()
				return nil
			}
			d.interfered(err)
			if !errors.Is(err, rows.ErrRolledBack) || !isStale(err) {
				conn.Release()
				return err
			}
		}
		d.discard(ctx, conn, err)
		if ctx.Err() != nil || errors.Is(err, store.ErrInUse) || !isGone(err) || try >= d.staleTries() {
			return rolledBack(err)
		}
	}
}

// decide works out the changes. A cached row that they do not write would not be verified by the
// commit: the version because of which a commit is refused, say. Those rows are loaded, in the
// same transaction, and the changes are worked out again. So a wrong cache never decides what a
// caller is told.
func (d *database) decide(
	ctx context.Context, conn sender, need *rows.ReadSet, l *loaded, decide func(int64, *rows.State) *rows.Changes,
) (*rows.Changes, error) {
	for {
		changes := decide(l.now, l.state)
		unverified := l.unverified(need, changes)
		if unverified == nil {
			return changes, nil
		}
		more, err := d.load(ctx, conn, nil, unverified, loading{})
		if err != nil {
			return nil, err
		}
		l.replace(unverified, more)
	}
}

// discard releases a connection on which a transaction failed, after a rollback. It is closed if
// it cannot be rolled back.
func (d *database) discard(ctx context.Context, conn *pgxpool.Conn, err error) {
	defer conn.Release()
	if !isGone(err) {
		if _, err = conn.Exec(ctx, "ROLLBACK", pgx.QueryExecModeSimpleProtocol); err == nil {
			return
		}
	}
	_ = conn.Conn().Close(ctx) // it is lost either way
	d.demoted(err)
}

// demoted closes all connections if the error says that the server is read-only: it has become a
// replica, and what it returns may be out of date. New connections look for the primary.
func (d *database) demoted(err error) {
	if code(err) == codeReadOnly {
		d.commits.Reset()
		d.others.Reset()
		d.aside.Reset()
	}
}

// lockAfterConflict is how many updates lock the rows that they load after a conflict: two
// processes that write the same rows would otherwise fail each other again and again.
const lockAfterConflict = 16

// takeLockNext reports whether to lock the rows that are loaded, and counts that update.
func (d *database) takeLockNext() bool {
	if d.lockNext.Load() <= 0 {
		return false
	}
	return d.lockNext.Add(-1) >= 0
}

// interfered has the next updates lock their rows, if the error is a conflict.
func (d *database) interfered(err error) {
	if isRetry(err) {
		d.lockNext.Store(lockAfterConflict)
	}
}

// loaded is the rows of an update: loaded, or cached. revs are the revisions of keys, which each
// change of a key raises, and which the statements that write compare. first is that of new keys.
type loaded struct {
	now   int64
	state *rows.State
	revs  map[rows.ID]int64
	first int64

	cachedKeys    []rows.ID
	cachedRecords []store.RecordKey

	newKeys map[rows.ID]bool // not loaded, since callers vouch for them
}

// newRevision returns the revision of new keys: a random number, to which no update will ever have raised the
// revision of a row of the same key that was deleted.
func newRevision() int64 {
	var b [8]byte
	_, _ = rand.Read(b[:])                              // never fails
	return int64(binary.LittleEndian.Uint64(b[:]) >> 2) //nolint:gosec // it is less than 1<<62
}

// errExcluded is the error of what is not done while another process excludes this one.
var errExcluded = fmt.Errorf("another process has the store for itself: %w", store.ErrInUse)

// loading is how to load: with locks, and without what is remembered to be there.
type loading struct{ lock, lookup bool }

// load loads the rows of a need, and locks them in the common order if how.lock is set. Each
// statement sees what was committed before it began, so that rows may be of different moments.
// That does no harm: a change of a key, its messages or its entries raises the revision of the
// key, and rows are written only if their revision is the loaded one.
func (d *database) load(ctx context.Context, to sender, begin []string, need *rows.ReadSet, how loading) (*loaded, error) {
	keysText, recordsText := d.text.sql(loadKeys), d.text.sql(loadRecords)
	if how.lock {
		keysText, recordsText = d.text.sql(lockKeys), d.text.sql(lockRecords)
	}
	l := &loaded{first: newRevision(), revs: make(map[rows.ID]int64, len(need.Keys)), state: &rows.State{
		Keys:     make(map[rows.ID]*rows.KeyRow, len(need.Keys)),
		Messages: make(map[rows.Ref]*rows.MessageRow, len(need.Messages)),
		Records:  make(map[store.RecordKey]int64, len(need.Records)),
	}}
	keys, records := l.leaveNew(need)
	if how.lookup && !how.lock {
		keys, records = d.cache.lookup(keys, records, l)
	}
	b := &pgx.Batch{}
	queue(b, begin)
	if len(keys) > 0 {
		b.Queue(keysText, uuids(keys)).Query(func(r pgx.Rows) error { return l.readKeys(r) })
	}
	if len(records) > 0 {
		b.Queue(recordsText, recordIDs(records)).Query(func(r pgx.Rows) error { return l.readVersions(r, records) })
	}
	if keys, ids := l.unknown(need.Messages); len(keys) > 0 {
		b.Queue(d.text.sql(loadMessages), uuids(keys), ids, need.Bodies).Query(func(r pgx.Rows) error { return l.readMessages(r) })
	}
	excluded, others := false, peersMark{}
	b.Queue(d.text.sql(readClock), d.process, d.presence.gone.Milliseconds()).QueryRow(func(r pgx.Row) error {
		return r.Scan(&l.now, &excluded, &others.count, &others.opened)
	})
	q := d.time.Ask()
	if err := to.SendBatch(ctx, b).Close(); err != nil {
		return nil, err
	}
	if excluded {
		return nil, errExcluded
	}
	d.peers.note(others)
	if d.clock != nil {
		l.now = d.clock.Now().UnixMilli()
	}
	if lead := time.Duration(q.Floor-l.now) * time.Millisecond; lead <= store.MaxClockLead { // more is followed
		d.behind.Note(lead)
	}
	l.now = d.answer(q, l.now)
	return l, nil
}

// leaveNew returns the keys and records to load: all but those that are vouched for as new, of which
// the insert would be refused (unique_violation) if they existed.
func (l *loaded) leaveNew(need *rows.ReadSet) ([]rows.ID, []store.RecordKey) {
	if need.Fresh || !slices.Contains(need.NewKeys, true) && !slices.Contains(need.NewRecords, true) {
		return need.Keys, need.Records
	}
	keys := make([]rows.ID, 0, len(need.Keys))
	l.newKeys = map[rows.ID]bool{}
	for i, id := range need.Keys {
		if need.NewKeys[i] {
			l.newKeys[id] = true
		} else {
			keys = append(keys, id)
		}
	}
	records := make([]store.RecordKey, 0, len(need.Records))
	for i, key := range need.Records {
		if !need.NewRecords[i] {
			records = append(records, key)
		}
	}
	return keys, records
}

// unknown returns those messages of which it is not known yet that they have no rows: where a
// key is new or is remembered to have none with rows, there is nothing to look for.
func (l *loaded) unknown(refs []rows.Ref) (keys []rows.ID, ids blobs) {
	for _, ref := range refs {
		if row := l.state.Keys[ref.Key]; !l.newKeys[ref.Key] && (row == nil || row.Rows() > 0) {
			keys, ids = append(keys, ref.Key), append(ids, []byte(ref.ID))
		}
	}
	return keys, ids
}

func (l *loaded) readKeys(r pgx.Rows) error {
	for r.Next() {
		row := &rows.KeyRow{}
		var rev int64
		if err := scanKey(r, row, &rev); err != nil {
			return err
		}
		l.state.Keys[row.ID], l.revs[row.ID] = row, rev
	}
	return r.Err()
}

// scanKey reads a row of the table of keys, in the order of keyColumns, and what follows
// it.
func scanKey(r pgx.Rows, row *rows.KeyRow, more ...any) error {
	var at *int64
	var token *string
	var tag int64
	var holder pgtype.Int8
	var queue, tenant, name, route, id, body []byte
	var seq, visible, put, ttl pgtype.Int8
	var attempt pgtype.Int4
	into := append([]any{
		(*[16]byte)(&row.ID), &at, &row.First, &row.Seq, &row.Count, &row.LogFirst, &row.LogLength, &tag, &token, &row.Delivered,
		&queue, &tenant, &name, &route, &seq, &visible, &put, &ttl, &attempt, &id, &body, &holder,
	}, more...)
	if err := r.Scan(into...); err != nil {
		return err
	}
	if seq.Valid {
		row.Inline = &rows.MessageRow{
			Key: row.ID, Seq: seq.Int64, ID: string(id), Visible: visible.Int64, Put: put.Int64, TTL: ttl.Int64,
			Attempt: int(attempt.Int32), Body: body,
		}
	}
	row.LogTag, row.Holder = uint64(tag), holder.Int64
	row.Key = store.Key{Queue: string(queue), Tenant: string(tenant), Name: string(name)}
	row.Route = string(route)
	if token != nil {
		row.Token = *token
		if at != nil {
			row.Until = *at
		}
	}
	return nil
}

func (l *loaded) readVersions(r pgx.Rows, names []store.RecordKey) error {
	var n, version int64
	_, err := pgx.ForEachRow(r, []any{&n, &version}, func() error {
		l.state.Records[names[n-1]] = version
		return nil
	})
	return err
}

func (l *loaded) readMessages(r pgx.Rows) error {
	for r.Next() {
		m := &rows.MessageRow{}
		var id []byte
		if err := r.Scan((*[16]byte)(&m.Key), &m.Seq, &id, &m.Visible, &m.Put, &m.TTL, &m.Attempt, &m.Body); err != nil {
			return err
		}
		m.ID = string(id)
		l.state.Messages[rows.Ref{Key: m.Key, ID: m.ID}] = m
	}
	return r.Err()
}

// writeAndCommit writes the changes and commits them. An error that the server reports
// before it has come to the commit, or with which it refuses it, says that nothing was
// changed; one that comes from anywhere else leaves that open.
func (d *database) writeAndCommit(ctx context.Context, conn *pgxpool.Conn, changes *rows.Changes, l *loaded) error {
	b := &pgx.Batch{}
	w := d.write(b, changes, l)
	committed := false
	b.Queue("COMMIT").Exec(func(tag pgconn.CommandTag) error {
		committed = tag.String() == "COMMIT"
		return nil
	})
	err := w.err
	if err == nil {
		err = conn.SendBatch(ctx, b).Close()
	}
	switch reported, ok := errors.AsType[*pgconn.PgError](err); {
	case err == nil && committed && isUnreplicated(conn.Conn().PgConn()):
		d.cache.clear()
		err = fmt.Errorf("pgstore: update: the outcome is unknown: %w", errUnreplicated)
	case err == nil && committed:
		d.wroteTally(len(changes.Tally))
		d.cache.written(changes, l)
		return nil
	case err == nil:
		err = rolledBack(errors.New("the server rolled the transaction back"))
	case ok && !fatal(reported) && isGone(err):
		d.cache.evict(l)
		return rolledBack(err) // the caller closes the connection
	case ok && (!fatal(reported) || !w.reached):
		_, _ = conn.Exec(ctx, "ROLLBACK", pgx.QueryExecModeSimpleProtocol) // what fails here was rolled back
		d.cache.evict(l)
		return rolledBack(err)
	case !ok && w.err == nil && pgconn.SafeToRetry(err):
		err = rolledBack(err)
	case w.err != nil:
		err = rolledBack(err)
	default:
		d.cache.clear()
		err = fmt.Errorf("pgstore: update: the outcome is unknown: %w", err)
	}
	_ = conn.Conn().Close(ctx) // in whatever state it is, it is not used again
	return err
}
