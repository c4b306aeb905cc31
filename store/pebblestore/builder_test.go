package pebblestore

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/abidehq/abide/store"
)

// builder makes the Tx of a step: a mix of everything that a Tx can do, in which
// each part carries the number of the step.
type builder struct {
	w         *worker
	tx        *store.Tx
	delivered map[string][]string // of the claims that are finished
	ended     map[string]bool     // keys whose claims have ended when it is committed
	deleted   map[string]bool     // keys that are deleted
	appended  map[string]bool     // keys whose logs are appended to
	recorded  map[string]bool     // records that are put or deleted

	shared   bool // it appends to the log that all share
	sharedAt int
	parts    int
}

func newBuilder(w *worker) *builder {
	return &builder{
		w: w, tx: &store.Tx{}, delivered: map[string][]string{},
		ended: map[string]bool{}, deleted: map[string]bool{}, appended: map[string]bool{}, recorded: map[string]bool{},
	}
}

// fill puts in a log entry, a record and a message, which every step has, and some
// of the rest.
func (b *builder) fill() {
	w := b.w
	for name := range w.held {
		if w.rnd.IntN(2) == 0 {
			b.finish(name)
		}
	}
	for _, part := range []struct {
		add func()
		in  int // one of so many steps has it
	}{
		{b.deleteKey, 12},
		{b.trim, 4},
		{b.append, 1},
		{b.append, 3},
		{b.appendShared, 8},
		{b.put, 1},
		{b.put, 2},
		{b.put, 2},
		{b.retime, 3},
		{b.delete, 3},
		{b.putRecord, 1},
		{b.deleteRecord, 6},
	} {
		if w.rnd.IntN(part.in) == 0 {
			part.add()
		}
	}
}

// body returns a text with the number of the step, now and then a long one.
func (b *builder) body() []byte {
	b.parts++
	size := 0
	if b.w.rnd.IntN(4) == 0 {
		size = b.w.rnd.IntN(3000)
	}
	return []byte(text(fmt.Sprintf("%s-%d-%d", b.w.name, b.w.number, b.parts), size))
}

func (b *builder) anyKey() store.Key { return b.w.key(b.w.pick(keyNames)) }

func (b *builder) finish(name string) {
	c := b.w.held[name]
	f := store.Finish{Lease: c.Lease()}
	for _, id := range ids(c) {
		if b.w.rnd.IntN(5) == 0 {
			f.Keep = append(f.Keep, id)
		}
	}
	b.delivered[name] = ids(c)
	b.ended[name] = true
	b.tx.Finish = append(b.tx.Finish, f)
}

func (b *builder) deleteKey() {
	k := b.anyKey()
	b.deleted[k.Name], b.ended[k.Name] = true, true
	b.tx.DeleteKeys = append(b.tx.DeleteKeys, k)
}

// logLen returns how long a key's log is when this Tx appends to it.
func (b *builder) logLen(k store.Key) int {
	h := b.w.now().keys[k.Name]
	if h == nil || b.deleted[k.Name] {
		return 0
	}
	return len(h.log)
}

func (b *builder) trim() {
	k := b.anyKey()
	if n := b.logLen(k); n > 0 {
		b.tx.Trim = append(b.tx.Trim, store.Trim{Key: k, Before: b.w.rnd.IntN(n + 1)})
	}
}

func (b *builder) append() {
	k := b.anyKey()
	if b.appended[k.Name] {
		return
	}
	b.appended[k.Name] = true
	a := store.Append{Key: k, At: b.logLen(k), Tag: b.w.rnd.Uint64()}
	for range 1 + b.w.rnd.IntN(3) {
		a.Entries = append(a.Entries, b.body())
	}
	b.tx.Append = append(b.tx.Append, a)
}

// appendShared appends to the log that all workers share. Its length is a guess.
func (b *builder) appendShared() {
	b.sharedAt = int(b.w.load.sharedLen.Load())
	if b.sharedAt < 0 {
		return // it must be read again
	}
	b.shared = true
	b.tx.Append = append(b.tx.Append, store.Append{Key: sharedKey, At: b.sharedAt, Entries: [][]byte{b.number()}})
}

func (b *builder) number() []byte { return []byte(b.w.name + "-" + strconv.Itoa(b.w.number)) }

func (b *builder) put() {
	w := b.w
	m := store.Message{Key: b.anyKey(), ID: fmt.Sprintf("m%d-%d", w.number, len(b.tx.Put)), Body: b.body()}
	// Whether a key keeps its route when a Tx takes its last message and puts another
	// is not asked here.
	if m.Key != w.key(noRoute) || b.delivered[m.Key.Name] != nil || w.rnd.IntN(6) == 0 {
		m.Route = w.routes()[0]
		if w.rnd.IntN(5) == 0 {
			m.Route = w.routes()[1]
		}
	}
	if k := w.now().keys[m.Key.Name]; k != nil && len(k.messages) > 0 && w.rnd.IntN(10) == 0 {
		m.ID = k.messages[0].id // it may be pending, or consumed by this Tx
	}
	if w.rnd.IntN(3) == 0 {
		m.VisibleAt = fixedTimes[w.rnd.IntN(len(fixedTimes))]
	}
	b.tx.Put = append(b.tx.Put, m)
}

// anyMessage returns a message that is pending before this Tx, or that it puts. A
// claim of its key ends, to be sure.
func (b *builder) anyMessage() (store.MessageRef, bool) {
	var refs []store.MessageRef
	for _, name := range slices.Sorted(maps.Keys(b.w.now().keys)) {
		for _, m := range b.w.now().keys[name].messages {
			refs = append(refs, store.MessageRef{Key: store.Key{Queue: turns, Tenant: b.w.tenant, Name: name}, ID: m.id})
		}
	}
	for i := range b.tx.Put {
		refs = append(refs, b.tx.Put[i].Ref())
	}
	if len(refs) == 0 {
		return store.MessageRef{}, false
	}
	ref := refs[b.w.rnd.IntN(len(refs))]
	if c, ok := b.w.held[ref.Key.Name]; ok && slices.Contains(ids(c), ref.ID) {
		b.ended[ref.Key.Name] = true
	}
	return ref, true
}

func (b *builder) retime() {
	if ref, ok := b.anyMessage(); ok {
		r := store.Retime{Ref: ref}
		if b.w.rnd.IntN(2) == 0 {
			r.VisibleAt = fixedTimes[b.w.rnd.IntN(len(fixedTimes))]
		}
		b.tx.Retime = append(b.tx.Retime, r)
	}
}

func (b *builder) delete() {
	if ref, ok := b.anyMessage(); ok {
		b.tx.Delete = append(b.tx.Delete, ref)
	}
}

func (b *builder) putRecord() {
	name := b.w.pick(recordNames)
	if b.recorded[name] {
		return
	}
	b.recorded[name] = true
	k := b.w.recordKey(name)
	p := store.PutRecord{Expect: b.w.now().records[k.ID].version, Record: store.Record{
		Key: k, Status: b.w.pick([]string{"running", "done"}), Time: start, Body: b.body(),
	}}
	if b.w.rnd.IntN(4) == 0 {
		p.Expect = store.AnyVersion
	}
	b.tx.PutRecords = append(b.tx.PutRecords, p)
}

func (b *builder) deleteRecord() {
	name := b.w.pick(recordNames)
	k := b.w.recordKey(name)
	v := b.w.now().records[k.ID].version
	if b.recorded[name] || v == 0 {
		return
	}
	b.recorded[name] = true
	b.tx.DeleteRecords = append(b.tx.DeleteRecords, store.DeleteRecord{Key: k, Expect: v})
}
