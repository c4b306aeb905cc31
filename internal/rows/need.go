package rows

import (
	"bytes"
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/abidehq/abide/store"
)

// need returns what must be loaded for the operations.
func need(ops []*operation) *Need {
	n := &needs{ids: map[store.Key]ID{}, messages: map[Ref]bool{}, records: map[store.RecordKey]bool{}}
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
			for _, m := range op.over.messages {
				n.ref(op.over.lease.Key, m.id)
			}
		}
	}
	byID := make(map[ID]store.Key, len(n.ids))
	for name, id := range n.ids {
		byID[id] = name
	}
	ids := slices.SortedFunc(maps.Keys(byID), compareIDs)
	names := make([]store.Key, len(ids))
	for i, id := range ids {
		names[i] = byID[id]
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
	ids      map[store.Key]ID
	messages map[Ref]bool
	records  map[store.RecordKey]bool
	bodies   bool
}

func (n *needs) key(k store.Key) ID {
	id, ok := n.ids[k]
	if !ok {
		id = IDOf(k)
		n.ids[k] = id
	}
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
