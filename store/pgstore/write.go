package pgstore

import (
	"strconv"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/abidehq/abide/internal/rows"
	"github.com/abidehq/abide/store"
)

// writer adds the statements that write changes to a batch: one for each list of the changes that
// is not empty, with its rows as arrays. So a group costs as many statements whether it has one
// commit or five hundred.
type writer struct {
	text    *statements
	batch   *pgx.Batch
	loaded  *loaded
	err     error
	reached bool // all statements were answered but the commit: from here on an error leaves the outcome unknown
}

// write queues the changes. Rows of new keys come first: another transaction that inserts the same
// key waits there, and holds no lock that anybody else would wait for.
func (d *database) write(b *pgx.Batch, c *rows.Changes, l *loaded) *writer {
	w := &writer{text: d.text, batch: b, loaded: l}
	w.insertKeys(c.Insert)
	w.messages(c)
	w.entries(c)
	w.keys(c)
	w.records(c)
	w.tally(c.Tally)
	d.fence(b)
	if n := len(b.QueuedQueries); n > 0 {
		b.QueuedQueries[n-1].Exec(func(pgconn.CommandTag) error {
			w.reached = true
			return nil
		})
	}
	w.reached = len(b.QueuedQueries) == 0
	return w
}

func (w *writer) messages(c *rows.Changes) {
	if len(c.Wipe) > 0 {
		w.batch.Queue(w.text.sql(wipeMessages), uuids(c.Wipe))
		w.batch.Queue(w.text.sql(wipeEntries), uuids(c.Wipe))
	}
	if n := len(c.Raise); n > 0 {
		ids, visible := make([]rows.ID, n), make([]int64, n)
		for i, r := range c.Raise {
			ids[i], visible[i] = r.Key, r.Visible
		}
		w.batch.Queue(w.text.sql(raiseMessages), uuids(ids), visible)
	}
	w.bySeq(w.text.sql(removeMessages), c.Remove)
	w.bySeq(w.text.sql(countMessages), c.Count)
	if n := len(c.Move); n > 0 {
		// The last one counts, if a message is moved twice.
		ids, seqs, visible := make([]rows.ID, n), make([]int64, n), make([]int64, n)
		for i, m := range c.Move {
			ids[i], seqs[i], visible[i] = m.Key, m.Seq, m.Visible
		}
		w.batch.Queue(w.text.sql(moveMessages), uuids(ids), seqs, visible)
	}
	w.put(c.Put)
}

// bySeq queues a statement for messages that are named by their numbers.
func (w *writer) bySeq(sql string, list []rows.Seqs) {
	var ids pgtype.FlatArray[pgtype.UUID]
	var seqs []int64
	for _, s := range list {
		for _, seq := range s.Seqs {
			ids, seqs = append(ids, uuid(s.Key)), append(seqs, seq)
		}
	}
	if len(ids) > 0 {
		w.batch.Queue(sql, ids, seqs)
	}
}

func (w *writer) put(list []rows.MessageRow) {
	n := len(list)
	if n == 0 {
		return
	}
	keys, seqs, visible, put, ttl := make(pgtype.FlatArray[pgtype.UUID], n), make([]int64, n), make([]int64, n), make([]int64, n), make([]int64, n)
	attempts, ids, bodies := make([]int32, n), make(blobs, n), make(blobs, n)
	for i := range list {
		m := &list[i]
		keys[i], seqs[i], visible[i], put[i], ttl[i] = uuid(m.Key), m.Seq, m.Visible, m.Put, m.TTL
		attempts[i], ids[i], bodies[i] = int32(m.Attempt), []byte(m.ID), solid(m.Body)
	}
	w.batch.Queue(w.text.sql(putMessages), keys, seqs, visible, put, ttl, attempts, ids, bodies)
}

func (w *writer) entries(c *rows.Changes) {
	if n := len(c.Trim); n > 0 {
		ids, before := make([]rows.ID, n), make([]int64, n)
		for i, t := range c.Trim {
			ids[i], before[i] = t.Key, int64(t.Before)
		}
		w.batch.Queue(w.text.sql(trimEntries), uuids(ids), before)
	}
	var keys pgtype.FlatArray[pgtype.UUID]
	var at []int64
	var ns []int32
	var data blobs
	for _, e := range c.Append {
		for _, c := range chunks(e.At, e.Entries) {
			keys, at, ns, data = append(keys, uuid(e.Key)), append(at, int64(c.at)), append(ns, int32(c.n)), append(data, c.data)
		}
	}
	if len(keys) > 0 {
		w.batch.Queue(w.text.sql(appendEntries), keys, at, ns, data)
	}
}

// keyColumns are rows of keys, column by column.
type keyColumns struct {
	ids                                    pgtype.FlatArray[pgtype.UUID]
	partitions, turns, firsts, seqs, count []int64
	logFirst, logLength, logTag            []int64
	at, holders                            pgtype.FlatArray[pgtype.Int8]
	tokens, delivered                      pgtype.FlatArray[pgtype.Text]
	routes                                 blobs
	refresh                                []bool
	inline                                 inlineColumns
}

// inlineColumns are the messages that are kept in rows of keys, column by column: null
// where there is none.
type inlineColumns struct {
	seqs, visible, put, ttl pgtype.FlatArray[pgtype.Int8]
	attempts                pgtype.FlatArray[pgtype.Int4]
	ids, bodies             blobs
}

func newInlineColumns(n int) inlineColumns {
	return inlineColumns{
		seqs: make(pgtype.FlatArray[pgtype.Int8], n), visible: make(pgtype.FlatArray[pgtype.Int8], n),
		put: make(pgtype.FlatArray[pgtype.Int8], n), ttl: make(pgtype.FlatArray[pgtype.Int8], n),
		attempts: make(pgtype.FlatArray[pgtype.Int4], n), ids: make(blobs, n), bodies: make(blobs, n),
	}
}

func (c *inlineColumns) set(i int, m *rows.MessageRow) {
	c.seqs[i], c.visible[i] = pgtype.Int8{Int64: m.Seq, Valid: true}, pgtype.Int8{Int64: m.Visible, Valid: true}
	c.put[i], c.ttl[i] = pgtype.Int8{Int64: m.Put, Valid: true}, pgtype.Int8{Int64: m.TTL, Valid: true}
	c.attempts[i] = pgtype.Int4{Int32: int32(m.Attempt), Valid: true}
	c.ids[i], c.bodies[i] = []byte(m.ID), solid(m.Body)
}

func newKeyColumns(list []*rows.KeyRow, refresh map[rows.ID]bool) *keyColumns {
	n := len(list)
	c := &keyColumns{
		ids: make(pgtype.FlatArray[pgtype.UUID], n), partitions: make([]int64, n), turns: make([]int64, n), firsts: make([]int64, n),
		seqs: make([]int64, n), count: make([]int64, n), logFirst: make([]int64, n), logLength: make([]int64, n), logTag: make([]int64, n),
		at: make(pgtype.FlatArray[pgtype.Int8], n), holders: make(pgtype.FlatArray[pgtype.Int8], n), tokens: make(pgtype.FlatArray[pgtype.Text], n), delivered: make(pgtype.FlatArray[pgtype.Text], n),
		routes: make(blobs, n), refresh: make([]bool, n), inline: newInlineColumns(n),
	}
	for i, k := range list {
		c.ids[i], c.partitions[i], c.turns[i] = uuid(k.ID), k.Partition(), rows.TenantOf(k.Key.Tenant)
		c.at[i], c.firsts[i], c.seqs[i], c.count[i] = never(k.At()), k.First, k.Seq, int64(k.Count)
		c.logFirst[i], c.logLength[i], c.logTag[i] = int64(k.LogFirst), int64(k.LogLength), int64(k.LogTag)
		c.tokens[i], c.delivered[i] = pgtype.Text{String: k.Token, Valid: k.Token != ""}, deliveredText(k.Delivered)
		c.routes[i], c.refresh[i] = []byte(k.Route), refresh[k.ID]
		c.holders[i] = pgtype.Int8{Int64: k.Holder, Valid: k.Holder != 0}
		if k.Inline != nil {
			c.inline.set(i, k.Inline)
		}
	}
	return c
}

// deliveredText returns numbers as the text of an array: arrays of different lengths cannot
// be elements of one.
func deliveredText(seqs []int64) pgtype.Text {
	if len(seqs) == 0 {
		return pgtype.Text{}
	}
	b := []byte{'{'}
	for i, seq := range seqs {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, seq, 10)
	}
	return pgtype.Text{String: string(append(b, '}')), Valid: true}
}

func (w *writer) insertKeys(list []*rows.KeyRow) {
	if len(list) == 0 {
		return
	}
	c := newKeyColumns(list, nil)
	queues, tenants, names := make(blobs, len(list)), make(blobs, len(list)), make(blobs, len(list))
	for i, k := range list {
		queues[i], tenants[i], names[i] = []byte(k.Key.Queue), []byte(k.Key.Tenant), []byte(k.Key.Name)
	}
	w.batch.Queue(w.text.sql(insertKeys), c.ids, c.partitions, c.turns, c.at, c.firsts, c.seqs, c.count, c.logFirst, c.logLength, c.logTag,
		c.tokens, c.delivered, c.routes, c.inline.seqs, c.inline.visible, c.inline.put, c.inline.ttl, c.inline.attempts, c.inline.ids, c.inline.bodies,
		queues, tenants, names, c.holders, w.loaded.first)
}

// keys queues what is left to do with rows of keys, now that their messages are as they
// are to be.
func (w *writer) keys(c *rows.Changes) {
	refresh := make(map[rows.ID]bool, len(c.Refresh))
	for _, id := range c.Refresh {
		refresh[id] = true
	}
	if len(c.Update) > 0 {
		k := newKeyColumns(c.Update, refresh)
		w.batch.Queue(w.text.sql(updateKeys), k.ids, k.partitions, k.at, k.firsts, k.seqs, k.count, k.logFirst, k.logLength, k.logTag,
			k.tokens, k.delivered, k.routes, k.inline.seqs, k.inline.visible, k.inline.put, k.inline.ttl, k.inline.attempts, k.inline.ids, k.inline.bodies,
			k.refresh, w.revs(c.Update), k.holders)
	}
	var inserted []rows.ID
	for _, k := range c.Insert {
		if refresh[k.ID] {
			inserted = append(inserted, k.ID)
		}
	}
	if len(inserted) > 0 {
		w.batch.Queue(w.text.sql(refreshKeys), uuids(inserted))
	}
	if len(c.Delete) > 0 {
		revs := make([]int64, len(c.Delete))
		for i, id := range c.Delete {
			revs[i] = w.loaded.revs[id]
		}
		w.batch.Queue(w.text.sql(deleteKeys), uuids(c.Delete), revs)
	}
}

// revs returns the revs that keys had when they were loaded.
func (w *writer) revs(list []*rows.KeyRow) []int64 {
	revs := make([]int64, len(list))
	for i, k := range list {
		revs[i] = w.loaded.revs[k.ID]
	}
	return revs
}

func (w *writer) records(c *rows.Changes) {
	w.putRecords(w.text.sql(insertRecords), c.InsertRecords)
	w.putRecords(w.text.sql(updateRecords), c.UpdateRecords)
	if n := len(c.DeleteRecords); n > 0 {
		versions := make([]int64, n)
		for i, key := range c.DeleteRecords {
			versions[i] = w.loaded.state.Records[key]
		}
		w.batch.Queue(w.text.sql(deleteRecords), recordIDs(c.DeleteRecords), versions)
	}
	for i := range c.UpsertRecords { // one by one: two of them may be the same
		w.putRecords(w.text.sql(upsertRecords), c.UpsertRecords[i:i+1])
	}
}

func (w *writer) putRecords(sql string, list []store.Record) {
	n := len(list)
	if n == 0 {
		return
	}
	keys := make(pgtype.FlatArray[pgtype.UUID], n)
	kinds, tenants, ids := make(blobs, n), make(blobs, n), make(blobs, n)
	versions, times := make([]int64, n), make([]int64, n)
	statuses, names, bodies := make(blobs, n), make(blobs, n), make(blobs, n)
	tags := make([]string, n)
	for i := range list {
		r := &list[i]
		keys[i] = uuid(rows.RecordIDOf(r.Key))
		kinds[i], tenants[i], ids[i] = []byte(r.Key.Kind), []byte(r.Key.Tenant), []byte(r.Key.ID)
		versions[i], times[i] = r.Version, store.RecordMillis(r.Time)
		statuses[i], names[i], bodies[i] = []byte(r.Status), []byte(r.Name), solid(r.Body)
		tags[i] = tagsText(r.Tags)
	}
	if sql == w.text.sql(updateRecords) {
		old := make([]int64, n)
		for i := range list {
			old[i] = w.loaded.state.Records[list[i].Key]
		}
		w.batch.Queue(sql, keys, versions, times, statuses, names, tags, bodies, old)
		return
	}
	w.batch.Queue(sql, keys, kinds, tenants, ids, versions, times, statuses, names, tags, bodies)
}

func (w *writer) tally(list []rows.Tally) {
	n := len(list)
	if n == 0 {
		return
	}
	partitions, more := make([]int64, n), make([]int64, n)
	queues, routes := make(blobs, n), make(blobs, n)
	for i := range list {
		t := &list[i]
		partitions[i], more[i], queues[i], routes[i] = t.Partition, int64(t.More), []byte(t.Queue), []byte(t.Route)
	}
	w.batch.Queue(w.text.sql(addTally), partitions, queues, routes, more)
}
