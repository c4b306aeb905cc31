package storetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"pgregory.net/rapid"

	"github.com/abidehq/abide/store"
)

// pairedTx is a Tx for both sides: what it finishes has a token for each.
type pairedTx struct {
	store.Tx
	finish []pairedFinish
}

type pairedFinish struct {
	lease *pairedLease
	keep  []string
}

// txs returns the Tx for each side.
func (p *pairedTx) txs() (onBackend, onModel *store.Tx) {
	b, m := p.Tx, p.Tx
	for _, f := range p.finish {
		b.Finish = append(b.Finish, store.Finish{Lease: f.lease.onBackend(), Keep: f.keep})
		m.Finish = append(m.Finish, store.Finish{Lease: f.lease.onModel(), Keep: f.keep})
	}
	return &b, &m
}

// drawTx draws any mixture. What must not be in it twice seldom is.
func (c *comparison) drawTx(t *rapid.T) pairedTx {
	p := pairedTx{
		finish: some(t, func(t *rapid.T) pairedFinish { return c.drawKeep(t, c.drawLease(t)) }),
		Tx: store.Tx{
			Trim:          some(t, c.drawTrim),
			Append:        some(t, c.drawAppend),
			Put:           some(t, c.drawMessage),
			Retime:        some(t, c.drawRetime),
			Delete:        some(t, c.drawRef),
			PutRecords:    some(t, c.drawPutRecord),
			DeleteRecords: some(t, c.drawDeleteRecord),
		},
	}
	if !often(t) {
		p.DeleteKeys = some(t, c.drawKey)
	}
	if seldom(t) {
		return p
	}
	p.finish = distinct(p.finish, func(f pairedFinish) string { return f.lease.key.String() })
	p.Append = distinct(p.Append, func(a store.Append) string { return a.Key.String() })
	p.PutRecords = distinct(p.PutRecords, func(r store.PutRecord) string { return r.Record.Key.String() })
	p.DeleteRecords = distinct(p.DeleteRecords, func(d store.DeleteRecord) string { return d.Key.String() })
	p.DeleteRecords = slices.DeleteFunc(p.DeleteRecords, func(d store.DeleteRecord) bool {
		return slices.ContainsFunc(p.PutRecords, func(r store.PutRecord) bool { return r.Record.Key == d.Key })
	})
	return p
}

// drawKeep draws which of the messages of a claim are kept, and perhaps another.
func (c *comparison) drawKeep(t *rapid.T, l *pairedLease) pairedFinish {
	f := pairedFinish{lease: l}
	if often(t) {
		return f
	}
	for _, id := range l.delivered {
		if rapid.Bool().Draw(t, "keep") {
			f.keep = append(f.keep, id)
		}
	}
	if seldom(t) {
		f.keep = append(f.keep, pick(t, modelIDs))
	}
	return f
}

func (c *comparison) drawAppend(t *rapid.T) store.Append {
	a := store.Append{Key: c.drawKey(t), Entries: c.drawEntries(t)}
	a.At = c.logLength(a.Key)
	if seldom(t) {
		a.At = max(0, a.At+pick(t, []int{1, -1}))
	}
	return a
}

// drawTrim draws a trim within the log, or to its very end, and seldom beyond it.
func (c *comparison) drawTrim(t *rapid.T) store.Trim {
	trim := store.Trim{Key: c.drawKey(t)}
	n := c.logLength(trim.Key)
	if trim.Before = rapid.IntRange(0, n).Draw(t, "before"); seldom(t) {
		trim.Before = n + 1
	}
	return trim
}

func (c *comparison) drawRecordKey(t *rapid.T) store.RecordKey {
	if len(c.past) > 0 && seldom(t) {
		return pick(t, c.past).Key // quarantined messages are records like any other
	}
	return pick(t, modelRecords)
}

func (c *comparison) drawPutRecord(t *rapid.T) store.PutRecord {
	r := store.Record{
		Key: c.drawRecordKey(t), Status: pick(t, modelStatuses), Name: pick(t, modelLabels), Body: c.drawBody(t),
	}
	if often(t) {
		r.Time = c.drawTime(t)
	}
	r.Tags = pick(t, []map[string]string{nil, {"color": "red"}, {"color": "blue", "": ""}, {}})
	if seldom(t) { // what must be ignored
		r.Version = 7
	}
	expect := pick(t, []int64{c.version(r.Key), store.AnyVersion})
	if seldom(t) {
		expect = c.wrongVersion(t, r.Key)
	}
	return store.PutRecord{Record: r, Expect: expect}
}

func (c *comparison) drawDeleteRecord(t *rapid.T) store.DeleteRecord {
	key := c.drawRecordKey(t)
	expect := pick(t, []int64{c.version(key), store.AnyVersion})
	if seldom(t) {
		expect = c.wrongVersion(t, key)
	}
	if expect == 0 && !seldom(t) { // or it is invalid
		expect = store.AnyVersion
	}
	return store.DeleteRecord{Key: key, Expect: expect}
}

func (c *comparison) wrongVersion(t *rapid.T, key store.RecordKey) int64 {
	return max(0, c.version(key)+pick(t, []int64{1, -1}))
}

// What the model holds.

func (c *comparison) pending(k store.Key) []store.Message {
	messages, err := c.model.Pending(c.ctx, k, 0)
	if err != nil {
		c.t.Fatalf("pending: %v", err)
	}
	return messages
}

func (c *comparison) logLength(k store.Key) int {
	page, err := c.model.ReadLog(c.ctx, k, 0)
	if err != nil {
		c.t.Fatalf("read log: %v", err)
	}
	return page.Length
}

// version returns 0 for a record that does not exist.
func (c *comparison) version(k store.RecordKey) int64 {
	r, err := c.model.Get(c.ctx, k)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		c.t.Fatalf("get: %v", err)
	}
	return r.Version
}

// describeTx returns a Tx for people, in the order in which it takes effect.
func (c *comparison) describeTx(p *pairedTx) string {
	var parts []string
	add := func(format string, args ...any) { parts = append(parts, fmt.Sprintf(format, args...)) }
	for _, f := range p.finish {
		add("finish %s keep %v", f.lease.text(), f.keep)
	}
	for _, k := range p.DeleteKeys {
		add("delete key %v", k)
	}
	for _, t := range p.Trim {
		add("trim %v before %d", t.Key, t.Before)
	}
	for _, a := range p.Append {
		add("append %d to %v at %d", len(a.Entries), a.Key, a.At)
	}
	for i := range p.Put {
		m := &p.Put[i]
		add("put %v route %q %s ttl %v", m.Ref(), m.Route, c.when(m.VisibleAt), m.TTL)
	}
	for _, r := range p.Retime {
		add("retime %v to %s", r.Ref, c.when(r.VisibleAt))
	}
	for _, r := range p.Delete {
		add("delete %v", r)
	}
	for i := range p.PutRecords {
		r := &p.PutRecords[i].Record
		add("put record %v expect %d status %q name %q %s tags %v", r.Key, p.PutRecords[i].Expect, r.Status, r.Name, c.when(r.Time), r.Tags)
	}
	for _, d := range p.DeleteRecords {
		add("delete record %v expect %d", d.Key, d.Expect)
	}
	return strings.Join(parts, "; ")
}
