package rows

import (
	"bytes"
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/abidehq/abide/store"
)

// operation is something that is asked of the rows and done under lock. Exactly one of
// its first fields is set.
type operation struct {
	tx      *store.Tx
	release *store.Release
	renew   *renewal
	expire  *expiry
	over    *overrun

	// What became of it.
	err     error
	changed []store.RecordKey // records that it put or deleted
}

// renewal makes leases last longer.
type renewal struct {
	leases []store.Lease
	d      time.Duration
	lost   []store.Lease
}

// expiry puts messages of keys without a route into quarantine, if their time to live
// has ended.
type expiry struct {
	keys []store.Key
	refs []Ref
}

// overrun puts messages of a key that was just leased into quarantine, and ends the lease
// if nothing was delivered with it.
type overrun struct {
	lease store.Lease
	ids   []string
}

// need returns what must be loaded for the operations.
func need(ops []*operation) *Need {
	n := &needs{keys: map[ID]store.Key{}, messages: map[Ref]bool{}, records: map[store.RecordKey]bool{}}
	for _, op := range ops {
		switch {
		case op.tx != nil:
			n.tx(op.tx)
		case op.release != nil:
			n.key(op.release.Lease.Key)
		case op.renew != nil:
			for _, l := range op.renew.leases {
				n.key(l.Key)
			}
		case op.expire != nil:
			n.bodies = true
			for i, key := range op.expire.keys {
				n.ref(key, op.expire.refs[i].ID)
			}
		case op.over != nil:
			n.bodies = true
			for _, id := range op.over.ids {
				n.ref(op.over.lease.Key, id)
			}
		}
	}
	ids := slices.SortedFunc(maps.Keys(n.keys), compareIDs)
	names := make([]store.Key, len(ids))
	for i, id := range ids {
		names[i] = n.keys[id]
	}
	return &Need{
		Keys:     ids,
		Names:    names,
		Messages: slices.SortedFunc(maps.Keys(n.messages), compareRefs),
		Bodies:   n.bodies,
		Records:  slices.SortedFunc(maps.Keys(n.records), CompareRecordKeys),
	}
}

// needs gathers what is needed.
type needs struct {
	keys     map[ID]store.Key
	messages map[Ref]bool
	records  map[store.RecordKey]bool
	bodies   bool
}

func (n *needs) key(k store.Key) ID {
	id := IDOf(k)
	n.keys[id] = k
	return id
}

func (n *needs) ref(k store.Key, id string) { n.messages[Ref{n.key(k), id}] = true }

func (n *needs) tx(tx *store.Tx) {
	for i := range tx.Finish {
		f := &tx.Finish[i]
		n.key(f.Lease.Key)
		for _, id := range f.Keep {
			n.ref(f.Lease.Key, id)
		}
	}
	for _, key := range tx.DeleteKeys {
		n.key(key)
	}
	for _, t := range tx.Trim {
		n.key(t.Key)
	}
	for i := range tx.Append {
		n.key(tx.Append[i].Key)
	}
	for i := range tx.Put {
		n.ref(tx.Put[i].Key, tx.Put[i].ID)
	}
	for _, r := range tx.Retime {
		n.ref(r.Ref.Key, r.Ref.ID)
	}
	for _, r := range tx.Delete {
		n.ref(r.Key, r.ID)
	}
	for i := range tx.PutRecords {
		n.records[tx.PutRecords[i].Record.Key] = true
	}
	for _, d := range tx.DeleteRecords {
		n.records[d.Key] = true
	}
}

func compareIDs(a, b ID) int { return bytes.Compare(a[:], b[:]) }

func compareRefs(a, b Ref) int { return cmp.Or(compareIDs(a.Key, b.Key), strings.Compare(a.ID, b.ID)) }

// CompareRecordKeys is the order in which records are locked.
func CompareRecordKeys(a, b store.RecordKey) int {
	return cmp.Or(strings.Compare(a.Kind, b.Kind), strings.Compare(a.Tenant, b.Tenant), strings.Compare(a.ID, b.ID))
}

// plan works out what a group of operations changes. Each operation sees what those
// before it did, and has a verdict of its own: one that fails changes nothing.
type plan struct {
	now     int64
	state   *State
	keys    map[ID]*keyWork
	records map[store.RecordKey]*recordWork
	upserts []store.Record
}

// recordWork is a record while a group is worked out.
type recordWork struct {
	stored  int64 // its version in the database; 0 if it is not there
	version int64 // as it is now; 0 if it is not there
	record  *store.Record
	dirty   bool
}

func newPlan(now int64, state *State) *plan {
	p := &plan{now: now, state: state, keys: map[ID]*keyWork{}, records: map[store.RecordKey]*recordWork{}}
	return p
}

// key returns the work on a key.
func (p *plan) key(key store.Key) *keyWork {
	id := IDOf(key)
	k := p.keys[id]
	if k == nil {
		k = newKeyWork(key, id, p.state.Keys[id])
		p.keys[id] = k
	}
	return k
}

// keyFor is key, with one message known if it is there.
func (p *plan) keyFor(key store.Key, id string) *keyWork {
	k := p.key(key)
	if m := p.state.Messages[Ref{k.row.ID, id}]; m != nil && k.exists && k.bySeq[m.Seq] == nil && !k.wiped {
		gone := slices.Contains(k.remove, m.Seq)
		k.know(m)
		k.bySeq[m.Seq].gone = gone
	}
	return k
}

func (p *plan) record(key store.RecordKey) *recordWork {
	r := p.records[key]
	if r == nil {
		version := p.state.Records[key]
		r = &recordWork{stored: version, version: version}
		p.records[key] = r
	}
	return r
}

// do works out one operation.
func (p *plan) do(op *operation) {
	switch {
	case op.tx != nil:
		if op.err = p.check(op.tx); op.err == nil {
			p.apply(op)
		}
	case op.release != nil:
		op.err = p.release(op.release)
	case op.renew != nil:
		p.renew(op.renew)
	case op.expire != nil:
		for i, key := range op.expire.keys {
			k := p.keyFor(key, op.expire.refs[i].ID)
			if m := k.find(op.expire.refs[i].ID); m != nil && k.row.Route == "" && m.Expires() <= p.now {
				p.quarantine(op, k, m, store.ReasonExpired)
				k.forgetIfGone()
			}
		}
	case op.over != nil:
		p.over(op)
	}
}

func (p *plan) quarantine(op *operation, k *keyWork, m *messageWork, reason string) {
	k.drop(m)
	record := store.Quarantine(m.Message(k.row.Key, k.row.Route), k.row.Route, reason, store.FromMillis(p.now)).Record
	p.upserts = append(p.upserts, record)
	op.changed = append(op.changed, record.Key)
}

func (p *plan) over(op *operation) {
	k := p.key(op.over.lease.Key)
	if !k.live(op.over.lease.Token, p.now) {
		return
	}
	for _, id := range op.over.ids {
		if m := p.keyFor(op.over.lease.Key, id).find(id); m != nil {
			p.quarantine(op, k, m, store.ReasonAttempts)
		}
	}
	if len(k.row.Delivered) == 0 {
		k.endLease(true)
	}
	k.forgetIfGone()
}

func (p *plan) release(r *store.Release) error {
	k := p.key(r.Lease.Key)
	if !k.live(r.Lease.Token, p.now) {
		return store.ClaimLost("release", r.Lease)
	}
	for _, seq := range k.endLease(!r.Uncounted) {
		if r.After > 0 {
			k.moveSeq(seq, p.now+millis(r.After))
		}
	}
	return nil
}

func (p *plan) renew(r *renewal) {
	for _, l := range r.leases {
		k := p.key(l.Key)
		if !k.live(l.Token, p.now) {
			r.lost = append(r.lost, l)
			continue
		}
		if until := p.now + millis(r.d); until > k.row.Until {
			k.row.Until, k.dirty = until, true
		}
	}
}

// check reports whether tx can be applied. It changes nothing.
func (p *plan) check(tx *store.Tx) error {
	for i := range tx.Finish {
		l := tx.Finish[i].Lease
		if !p.key(l.Key).live(l.Token, p.now) {
			return store.ClaimLost("commit", l)
		}
	}
	deleted := make(map[store.Key]bool, len(tx.DeleteKeys))
	for _, key := range tx.DeleteKeys {
		deleted[key] = true
	}
	length := func(key store.Key) int {
		if deleted[key] {
			return 0
		}
		return p.key(key).row.LogLength
	}
	for _, t := range tx.Trim {
		if n := length(t.Key); t.Before > n {
			return store.LengthConflict(t.Key, t.Before, n)
		}
	}
	for i := range tx.Append {
		a := &tx.Append[i]
		if n := length(a.Key); a.At != n {
			return store.LengthConflict(a.Key, a.At, n)
		}
	}
	for i := range tx.PutRecords {
		r := &tx.PutRecords[i]
		if v := p.record(r.Record.Key).version; r.Expect != store.AnyVersion && r.Expect != v {
			return store.VersionConflict(r.Record.Key, r.Expect, v)
		}
	}
	for _, d := range tx.DeleteRecords {
		if v := p.record(d.Key).version; d.Expect != store.AnyVersion && d.Expect != v {
			return store.VersionConflict(d.Key, d.Expect, v)
		}
	}
	return nil
}

// apply applies a checked tx, in the order that the contract gives.
func (p *plan) apply(op *operation) {
	tx := op.tx
	for i := range tx.Finish {
		p.finish(&tx.Finish[i])
	}
	for _, key := range tx.DeleteKeys {
		p.key(key).wipe()
	}
	for _, t := range tx.Trim {
		if k := p.key(t.Key); k.alive {
			k.trimBefore(t.Before)
		}
	}
	for i := range tx.Append {
		p.key(tx.Append[i].Key).append(&tx.Append[i])
	}
	for i := range tx.Put {
		m := &tx.Put[i]
		p.keyFor(m.Key, m.ID).put(m, p.now)
	}
	for _, r := range tx.Retime {
		k := p.keyFor(r.Ref.Key, r.Ref.ID)
		if m := k.find(r.Ref.ID); m != nil {
			k.moveTo(m, max(p.now, store.Millis(r.VisibleAt)))
		}
	}
	for _, r := range tx.Delete {
		k := p.keyFor(r.Key, r.ID)
		if m := k.find(r.ID); m != nil {
			k.drop(m)
		}
	}
	p.putRecords(op)
	for i := range tx.Finish {
		p.key(tx.Finish[i].Lease.Key).forgetIfGone()
	}
	for i := range tx.Put {
		p.key(tx.Put[i].Key).forgetIfGone()
	}
	for _, r := range tx.Delete {
		p.key(r.Key).forgetIfGone()
	}
}

func (p *plan) finish(f *store.Finish) {
	k := p.key(f.Lease.Key)
	keep := make(map[int64]bool, len(f.Keep))
	for _, id := range f.Keep {
		if m := p.keyFor(f.Lease.Key, id).find(id); m != nil {
			keep[m.Seq] = true
		}
	}
	var kept []int64
	for _, seq := range k.row.Delivered {
		if keep[seq] {
			kept = append(kept, seq)
			continue
		}
		k.removeSeq(seq)
	}
	k.row.Delivered = kept
	k.endLease(true)
}

func (p *plan) putRecords(op *operation) {
	for i := range op.tx.PutRecords {
		put := &op.tx.PutRecords[i].Record
		r := p.record(put.Key)
		r.version++
		record := *put
		record.Version = r.version
		record.Time = store.FromMillis(store.RecordMillis(record.Time))
		r.record, r.dirty = &record, true
		op.changed = append(op.changed, put.Key)
	}
	for _, d := range op.tx.DeleteRecords {
		r := p.record(d.Key)
		if r.version == 0 {
			continue
		}
		r.version, r.record, r.dirty = 0, nil, true
		op.changed = append(op.changed, d.Key)
	}
}

func millis(d time.Duration) int64 { return int64((d + time.Millisecond - 1) / time.Millisecond) }

func milliseconds(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }
