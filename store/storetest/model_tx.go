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

// touches notes what the Tx is about.
func (p *pairedTx) touches(keys map[store.Key]bool, records map[store.RecordKey]bool) {
	for _, f := range p.finish {
		keys[f.lease.key] = true
	}
	for _, k := range p.DeleteKeys {
		keys[k] = true
	}
	for _, t := range p.Trim {
		keys[t.Key] = true
	}
	for _, a := range p.Append {
		keys[a.Key] = true
	}
	for i := range p.Put {
		keys[p.Put[i].Key] = true
	}
	for _, r := range p.Retime {
		keys[r.Ref.Key] = true
	}
	for _, r := range p.Delete {
		keys[r.Key] = true
	}
	for i := range p.PutRecords {
		records[p.PutRecords[i].Record.Key] = true
	}
	for _, d := range p.DeleteRecords {
		records[d.Key] = true
	}
}

// vouch vouches for the keys and records that no commit has named before.
func (c *comparison) vouch(p *pairedTx) {
	p.Append, p.Put, p.PutRecords = slices.Clone(p.Append), slices.Clone(p.Put), slices.Clone(p.PutRecords)
	for i := range p.Append {
		p.Append[i].New = !c.named[p.Append[i].Key]
	}
	for i := range p.Put {
		p.Put[i].New = !c.named[p.Put[i].Key]
	}
	for i := range p.PutRecords {
		r := &p.PutRecords[i]
		// A store makes the records of its quarantine itself.
		r.New = r.Expect == 0 && r.Record.Key.Kind != store.KindQuarantine && !c.namedRecords[r.Record.Key]
	}
}

// drawTx draws any mixture. What must not be in it twice seldom is.
func (c *comparison) drawTx(t *rapid.T) pairedTx {
	p := pairedTx{
		finish: some(t, func(t *rapid.T) pairedFinish { return c.drawKeep(t, c.drawLease(t)) }),
		Tx: store.Tx{
			DeleteKeys:    between(t, 0, 1, c.drawKey),
			Trim:          some(t, c.drawTrim),
			Append:        some(t, c.drawAppend),
			Put:           some(t, c.drawMessage),
			Retime:        some(t, c.drawRetime),
			Delete:        between(t, 0, 1, c.drawRef),
			PutRecords:    some(t, c.drawPutRecord),
			DeleteRecords: some(t, c.drawDeleteRecord),
		},
	}
	if rapid.Bool().Draw(t, "deletes") {
		p.DeleteKeys = nil // or nothing would ever grow old
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
	bits, other := rapid.IntRange(0, 255).Draw(t, "keep"), pick(t, modelIDs)
	if often(t) {
		return f
	}
	for i, id := range l.delivered {
		if bits>>i&1 == 1 {
			f.keep = append(f.keep, id)
		}
	}
	f.keep = append(f.keep, other)
	return f
}

// slip is what a number that is expected is wrong by: most often nothing.
func slip(t *rapid.T) int { return pick(t, []int{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, -1}) }

func (c *comparison) drawAppend(t *rapid.T) store.Append {
	key := c.drawKey(t)
	a := store.Append{
		Key: key, At: max(0, c.logLength(key)+slip(t)), Tag: rapid.Uint64().Draw(t, "tag"), Entries: c.drawEntries(t),
	}
	if route := pick(t, modelRoutes); seldom(t) {
		a.Route = route
	}
	if idle := rapid.Bool().Draw(t, "idle"); len(c.pending(key)) < 2 { // of more a store need not know
		a.Idle = idle
	}
	return a
}

// drawTrim draws a trim within a log, or to its very end, and seldom beyond it.
func (c *comparison) drawTrim(t *rapid.T) store.Trim {
	key := c.drawKey(t)
	before := min(rapid.IntRange(0, 5).Draw(t, "before"), c.logLength(key))
	return store.Trim{Key: key, Before: max(0, before+slip(t))}
}

// drawRecordKey draws few keys often. Quarantined messages are records like any other.
func (c *comparison) drawRecordKey(t *rapid.T) store.RecordKey {
	key := store.RecordKey{
		Kind:   pick(t, []string{modelKinds[0], modelKinds[0], modelKinds[1]}),
		Tenant: pick(t, []string{modelTenants[0], modelTenants[0], modelTenants[1]}),
		ID:     pick(t, []string{modelRecordIDs[0], modelRecordIDs[0], modelRecordIDs[1], modelRecordIDs[2]}),
	}
	if past := pickAny(t, c.past, store.Record{Key: key}); seldom(t) {
		return past.Key
	}
	return key
}

func (c *comparison) drawPutRecord(t *rapid.T) store.PutRecord {
	r := store.Record{
		Key: c.drawRecordKey(t), Status: pick(t, modelStatuses), Name: pick(t, modelLabels), Body: c.drawBody(t),
		Tags:    pick(t, []map[string]string{nil, {"color": "red"}, {"color": "blue", "": ""}, {}}),
		Version: 7, // what must be ignored
	}
	if at := c.drawTime(t); often(t) {
		r.Time = at
		c.times = append(c.times, at)
	}
	return store.PutRecord{Record: r, Expect: c.drawVersion(t, r.Key)}
}

func (c *comparison) drawDeleteRecord(t *rapid.T) store.DeleteRecord {
	key := c.drawRecordKey(t)
	d := store.DeleteRecord{Key: key, Expect: c.drawVersion(t, key)}
	if !seldom(t) && d.Expect == 0 { // which is invalid
		d.Expect = store.AnyVersion
	}
	return d
}

// drawVersion draws what a record's version is expected to be.
func (c *comparison) drawVersion(t *rapid.T, key store.RecordKey) int64 {
	version := max(0, c.version(key)+int64(slip(t)))
	return pick(t, []int64{version, store.AnyVersion})
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

func (c *comparison) keysWithLogs() (keys []store.Key) {
	for _, k := range modelKeys {
		if c.logLength(k) > 0 {
			keys = append(keys, k)
		}
	}
	return keys
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
func (c *comparison) describeTx(p pairedTx) string {
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
		add("append %d to %v at %d tag %d route %q idle %t", len(a.Entries), a.Key, a.At, a.Tag, a.Route, a.Idle)
	}
	for i := range p.Put {
		m := &p.Put[i]
		add("put %v route %q %s ttl %v if routed %t", m.Ref(), m.Route, c.when(m.VisibleAt), m.TTL, m.IfRouted)
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
