package rows

import (
	"time"

	"github.com/abidehq/abide/store"
)

// operation is one unit of a group, with a verdict of its own. Exactly one of its first fields
// is set. It is worked out by a plan, perhaps several times; the last verdict counts.
type operation struct {
	tx        *store.Tx
	release   *store.Release
	renew     *renewal
	expire    *expiry
	exhausted *exhaustion

	footprint *footprint // the rows that it touches; see touched
	err       error      // the verdict
}

// renewal extends a lease to d from now, never shortens it. lost is its verdict.
type renewal struct {
	lease store.Lease
	d     time.Duration
	lost  bool
}

// expiry moves messages to quarantine whose keys still have no route and whose time to live
// has ended.
type expiry struct {
	keys []store.Key
	refs []Ref
}

// exhaustion moves messages of a key that was just leased to quarantine because they have been
// delivered too often, and ends the lease if nothing was delivered with it.
type exhaustion struct {
	lease    store.Lease
	messages []exhaustedMessage
}

// exhaustedMessage is a message that has been delivered too often. seq tells it from another
// message that was put under its ID since.
type exhaustedMessage struct {
	id  string
	seq int64
}

// plan works out what a group of operations changes. It does no I/O: it is a function of the
// time, the loaded rows and the operations, in order.
//
// Each operation sees what those before it did, as if each were a transaction of its own, and
// has a verdict of its own. An operation that fails changes nothing: it is checked as a whole
// before anything is applied. The puts of a Tx come before its deletes.
//
// What the operations of a group may assume of one another follows from that: a message that one
// of them puts can be finished, moved or deleted by a later one, and is then never written; a
// version that one of them raises fails a later one that expects the old version; two appends to
// one log are in order. Only hand-off is decided after all of them, since a later operation might
// delete what an earlier one has put.
type plan struct {
	now   int64
	state *State

	// The keys and records that operations have touched so far, with what becomes of them.
	keys    map[store.Key]*keyWork
	records map[store.RecordKey]*recordWork

	// Records of messages in quarantine. They were not loaded: their names are known only when
	// the messages are.
	upserts []store.Record
}

// recordWork is the state of a record within a plan.
type recordWork struct {
	stored  int64 // the version in the database; 0 if it does not exist
	version int64 // the version after the operations so far; 0 if it does not exist
	record  *store.Record
	dirty   bool
}

func newPlan(now int64, state *State) *plan {
	return &plan{now: now, state: state, keys: map[store.Key]*keyWork{}, records: map[store.RecordKey]*recordWork{}}
}

// key returns the state of a key.
func (p *plan) key(key store.Key) *keyWork {
	k := p.keys[key]
	if k == nil {
		id := IDOf(key)
		k = newKeyWork(key, id, p.state.Keys[id])
		p.keys[key] = k
	}
	return k
}

// keyFor returns the state of a key, after adding one of its messages if that was loaded and is
// not there yet.
func (p *plan) keyFor(key store.Key, id string) *keyWork {
	k := p.key(key)
	if m := p.state.Messages[Ref{k.row.ID, id}]; m != nil && k.exists && k.messages.numbered(m.Seq) == nil && !k.wiped {
		k.know(m)
	}
	return k
}

// record returns the state of a record.
func (p *plan) record(key store.RecordKey) *recordWork {
	r := p.records[key]
	if r == nil {
		version := p.state.Records[key]
		r = &recordWork{stored: version, version: version}
		p.records[key] = r
	}
	return r
}

// do works out one operation, and sets its verdict.
func (p *plan) do(op *operation) {
	switch {
	case op.tx != nil:
		if op.err = p.check(op.tx); op.err == nil {
			p.apply(op.tx)
		}
	case op.release != nil:
		op.err = p.release(op.release)
	case op.renew != nil:
		p.renew(op.renew)
	case op.expire != nil:
		for i, key := range op.expire.keys {
			k := p.keyFor(key, op.expire.refs[i].ID)
			if m := k.find(op.expire.refs[i].ID); m != nil && k.row.Route == "" && m.Expires() <= p.now {
				p.quarantine(k, m, store.ReasonExpired)
				k.forgetIfGone()
			}
		}
	case op.exhausted != nil:
		p.exhaust(op.exhausted)
	}
}

// quarantine removes a message and puts the record of its quarantine.
func (p *plan) quarantine(k *keyWork, m *messageWork, reason string) {
	k.drop(m)
	p.upserts = append(p.upserts, store.Quarantine(m.Message(k.row.Key, k.row.Route), k.row.Route, reason, store.FromMillis(p.now)).Record)
}

// exhaust applies an exhaustion as long as the key has the same lease, live or expired: with a
// short lease that had to be live it might never succeed.
func (p *plan) exhaust(o *exhaustion) {
	k := p.key(o.lease.Key)
	if k.row.Token != string(o.lease.Token) {
		return
	}
	for _, over := range o.messages {
		if m := p.keyFor(o.lease.Key, over.id).find(over.id); m != nil && m.Seq == over.seq {
			p.quarantine(k, m, store.ReasonAttempts)
		}
	}
	if len(k.row.Delivered) == 0 {
		k.endLease(true)
	}
	k.forgetIfGone()
}

// release ends a lease, and moves what was delivered with it by r.After.
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

// renew extends a lease. One that has expired is lost, also if nobody else has the key: its
// messages may have been seen as ready.
func (p *plan) renew(r *renewal) {
	k := p.key(r.lease.Key)
	if r.lost = !k.live(r.lease.Token, p.now); r.lost {
		return
	}
	if until := p.now + millis(r.d); until > k.row.Until {
		k.row.Until, k.dirty = until, true
	}
}

// check returns the error with which tx cannot be applied: store.ErrClaimLost if a lease is not
// live, store.ErrConflict if a length or a version is not the expected one. It changes nothing.
// A key that tx deletes counts as having an empty log.
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
		if a.Idle && !deleted[a.Key] && !p.key(a.Key).idle(p.now) {
			return store.BusyConflict(a.Key)
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

// apply applies a tx that was checked, in the order of the contract.
func (p *plan) apply(tx *store.Tx) {
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
		p.key(tx.Append[i].Key).append(&tx.Append[i], p.now)
	}
	for i := range tx.Put {
		m := &tx.Put[i]
		if k := p.keyFor(m.Key, m.ID); !m.IfRouted || k.row.Route != "" {
			k.put(m, p.now)
		}
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
	p.putRecords(tx)
	for i := range tx.Finish {
		p.key(tx.Finish[i].Lease.Key).forgetIfGone()
	}
	for _, r := range tx.Delete {
		p.key(r.Key).forgetIfGone()
	}
}

// finish ends a lease, and removes the delivered messages but for those that are kept. Messages
// that were put since the claim are not touched.
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

// putRecords applies puts, then deletes of records. A record that is put and deleted in one Tx is
// gone.
func (p *plan) putRecords(tx *store.Tx) {
	for i := range tx.PutRecords {
		put := &tx.PutRecords[i].Record
		r := p.record(put.Key)
		r.version++
		record := *put
		record.Version = r.version
		record.Time = store.FromMillis(store.RecordMillis(record.Time))
		r.record, r.dirty = &record, true
	}
	for _, d := range tx.DeleteRecords {
		r := p.record(d.Key)
		if r.version == 0 {
			continue
		}
		r.version, r.record, r.dirty = 0, nil, true
	}
}

// millis rounds a duration up to milliseconds: a lease must not end early, nor a message be visible
// early.
func millis(d time.Duration) int64 { return int64((d + time.Millisecond - 1) / time.Millisecond) }

func milliseconds(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }
