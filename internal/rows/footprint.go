package rows

import (
	"bytes"
	"cmp"
	"slices"
	"strings"

	"github.com/abidehq/abide/store"
)

// footprint is the rows that an operation reads or writes. A row may be in it several times. A
// group loads the union of the footprints of its calls, and groups in flight have disjoint
// footprints, messages aside: they belong to their keys.
type footprint struct {
	keys     []footprintKey
	messages []Ref
	bodies   bool // of the messages
	records  []footprintRecord
}

type footprintRecord struct {
	key   store.RecordKey
	isNew bool
}

type footprintKey struct {
	id    ID
	key   store.Key
	isNew bool // a Tx vouches for it
}

// touched returns the footprint of an operation. It is computed once.
func (op *operation) touched() *footprint {
	if op.footprint != nil {
		return op.footprint
	}
	w := &footprint{}
	switch {
	case op.tx != nil:
		w.tx(op.tx)
	case op.release != nil:
		w.key(op.release.Lease.Key, false)
	case op.renew != nil:
		w.key(op.renew.lease.Key, false)
	case op.expire != nil:
		w.bodies = true
		for i, key := range op.expire.keys {
			w.ref(key, op.expire.refs[i].ID, false)
		}
	case op.exhausted != nil:
		w.bodies = true
		for _, m := range op.exhausted.messages {
			w.ref(op.exhausted.lease.Key, m.id, false)
		}
	}
	op.footprint = w
	return w
}

// key adds a key, and returns its ID. A Tx names the same key several times in a row: the last
// few are compared, which saves most of the hashing.
func (w *footprint) key(k store.Key, isNew bool) ID {
	for i := len(w.keys) - 1; i >= max(len(w.keys)-4, 0); i-- {
		if w.keys[i].key == k {
			w.keys[i].isNew = w.keys[i].isNew || isNew
			return w.keys[i].id
		}
	}
	id := IDOf(k)
	w.keys = append(w.keys, footprintKey{id, k, isNew})
	return id
}

// ref adds a message, and its key.
func (w *footprint) ref(k store.Key, id string, isNew bool) {
	w.messages = append(w.messages, Ref{w.key(k, isNew), id})
}

// tx adds everything that a Tx names. A message that is put is loaded too: one with its ID may be
// pending.
func (w *footprint) tx(tx *store.Tx) {
	w.keys = make([]footprintKey, 0, len(tx.Finish)+len(tx.DeleteKeys)+len(tx.Trim)+len(tx.Append)+len(tx.Put)+len(tx.Retime)+len(tx.Delete))
	w.messages = make([]Ref, 0, len(tx.Put)+len(tx.Retime)+len(tx.Delete))
	w.records = make([]footprintRecord, 0, len(tx.PutRecords)+len(tx.DeleteRecords))
	for i := range tx.Finish {
		f := &tx.Finish[i]
		w.key(f.Lease.Key, false)
		for _, id := range f.Keep {
			w.ref(f.Lease.Key, id, false)
		}
	}
	for _, key := range tx.DeleteKeys {
		w.key(key, false)
	}
	for _, t := range tx.Trim {
		w.key(t.Key, false)
	}
	for i := range tx.Append {
		w.key(tx.Append[i].Key, tx.Append[i].New)
	}
	for i := range tx.Put {
		w.ref(tx.Put[i].Key, tx.Put[i].ID, tx.Put[i].New)
	}
	for _, r := range tx.Retime {
		w.ref(r.Ref.Key, r.Ref.ID, false)
	}
	for _, r := range tx.Delete {
		w.ref(r.Key, r.ID, false)
	}
	for i := range tx.PutRecords {
		w.records = append(w.records, footprintRecord{tx.PutRecords[i].Record.Key, tx.PutRecords[i].New})
	}
	for _, d := range tx.DeleteRecords {
		w.records = append(w.records, footprintRecord{key: d.Key})
	}
}

// need returns the rows to load for operations of one group: the union of their footprints, in
// order. A row is new if all operations that name it vouch for it.
func need(ops []*operation) *ReadSet {
	n := &ReadSet{}
	var keys []footprintKey
	var records []footprintRecord
	for _, op := range ops {
		w := op.touched()
		keys = append(keys, w.keys...)
		n.Messages = append(n.Messages, w.messages...)
		n.Bodies = n.Bodies || w.bodies
		records = append(records, w.records...)
	}
	slices.SortFunc(keys, func(a, b footprintKey) int { return compareIDs(a.id, b.id) })
	keys = merge(keys, func(a, b *footprintKey) bool {
		if a.id != b.id {
			return false
		}
		a.isNew = a.isNew && b.isNew
		return true
	})
	n.Keys, n.Names, n.NewKeys = make([]ID, len(keys)), make([]store.Key, len(keys)), make([]bool, len(keys))
	for i, k := range keys {
		n.Keys[i], n.Names[i], n.NewKeys[i] = k.id, k.key, k.isNew
	}
	slices.SortFunc(n.Messages, compareRefs)
	n.Messages = slices.Compact(n.Messages)
	slices.SortFunc(records, func(a, b footprintRecord) int { return CompareRecordKeys(a.key, b.key) })
	records = merge(records, func(a, b *footprintRecord) bool {
		if a.key != b.key {
			return false
		}
		a.isNew = a.isNew && b.isNew
		return true
	})
	n.Records, n.NewRecords = make([]store.RecordKey, len(records)), make([]bool, len(records))
	for i, r := range records {
		n.Records[i], n.NewRecords[i] = r.key, r.isNew
	}
	return n
}

// merge drops each element that into has merged with the one kept before it.
func merge[E any](s []E, into func(kept, next *E) bool) []E {
	n := 0
	for i := range s {
		if n > 0 && into(&s[n-1], &s[i]) {
			continue
		}
		s[n] = s[i]
		n++
	}
	return s[:n]
}

// inFlight counts, for each key and record, the operations in flight that touch it.
type inFlight struct {
	keys    map[ID]int
	records map[store.RecordKey]int
}

func newInFlight() inFlight { return inFlight{keys: map[ID]int{}, records: map[store.RecordKey]int{}} }

// add counts one more operation with a footprint, or, with n = -1, one less.
func (b *inFlight) add(w *footprint, n int) {
	for _, k := range w.keys {
		count(b.keys, k.id, n)
	}
	for _, r := range w.records {
		count(b.records, r.key, n)
	}
}

func count[K comparable](counts map[K]int, key K, n int) {
	counts[key] += n
	invariant(counts[key] >= 0, "%d operations in flight touch %v", counts[key], key)
	if counts[key] == 0 {
		delete(counts, key)
	}
}

// any reports whether any operation is counted.
func (b *inFlight) any() bool { return len(b.keys)+len(b.records) > 0 }

// overlaps reports whether a counted operation touches a row of a footprint.
func (b *inFlight) overlaps(w *footprint) bool {
	return slices.ContainsFunc(w.keys, func(k footprintKey) bool { return b.keys[k.id] > 0 }) ||
		slices.ContainsFunc(w.records, func(r footprintRecord) bool { return b.records[r.key] > 0 })
}

func compareIDs(a, b ID) int { return bytes.Compare(a[:], b[:]) }

func compareRefs(a, b Ref) int { return cmp.Or(compareIDs(a.Key, b.Key), strings.Compare(a.ID, b.ID)) }

// CompareRecordKeys compares records in the order in which they are locked.
func CompareRecordKeys(a, b store.RecordKey) int {
	return cmp.Or(strings.Compare(a.Kind, b.Kind), strings.Compare(a.Tenant, b.Tenant), strings.Compare(a.ID, b.ID))
}
