package storetest

import (
	"fmt"

	"github.com/abidehq/abide/store"
)

// newTx returns a Tx that vouches for a key and a record.
func newTx(k store.Key, r store.RecordKey) *store.Tx {
	return &store.Tx{
		Append:     []store.Append{{Key: k, Tag: 7, Route: theRoute, New: true, Entries: entries("a")}},
		Put:        []store.Message{{Key: k, ID: "m", Body: []byte("m"), New: true}},
		PutRecords: []store.PutRecord{{Record: store.Record{Key: r, Body: []byte("r")}, New: true}},
	}
}

var newCases = []propertyCase{
	{name: "what is vouched for as new is there like anything else", run: func(w *world) {
		k, r := key("order-1"), recordKey("r")
		w.commit(newTx(k, r))
		c := w.claimKey(k, []string{"m"})
		w.equal("length of the log", c.LogLength, 1)
		w.equal("tag of the log", c.LogTag, uint64(7))
		w.equal("version of the record", w.get(r).Version, int64(1))
		tx := finishTx(c)
		tx.Append = []store.Append{{Key: k, At: 1, Entries: entries("b")}}
		tx.PutRecords = []store.PutRecord{{Record: store.Record{Key: r}, Expect: 1}}
		w.commit(tx)
		w.isLog(k, 0, "a", "b")
		w.isPending(k)
	}},

	{name: "what was vouched for as new is not new to the next commit", run: func(w *world) {
		k, r := key("order-1"), recordKey("r")
		w.commit(newTx(k, r))
		w.put(k, "m") // an ID that is pending changes nothing
		w.isPending(k, "m")
		w.commitErr(appendTx(k, 0, "b"), store.ErrConflict)
		w.commitErr(putTx(r, 0, "x"), store.ErrConflict)
	}},

	{name: "a commit that is refused leaves nothing of what it vouched for", run: func(w *world) {
		k, r := key("order-1"), recordKey("r")
		w.putRecord(store.Record{Key: recordKey("other")})
		tx := newTx(k, r)
		tx.PutRecords = append(tx.PutRecords, store.PutRecord{Record: store.Record{Key: recordKey("other")}, Expect: 7})
		w.commitErr(tx, store.ErrConflict)
		w.isPending(k)
		w.isLog(k, 0)
		_, err := w.Store.Get(w.ctx, r)
		w.isErr("get", err, store.ErrNotFound)
		w.commit(newTx(k, r))
		w.isPending(k, "m")
	}},

	{name: "many new keys and records in one commit", run: func(w *world) {
		tx := &store.Tx{}
		for i := range 300 {
			one := newTx(key(fmt.Sprint("order-", i)), recordKey(fmt.Sprint("r-", i)))
			tx.Append = append(tx.Append, one.Append...)
			tx.Put = append(tx.Put, one.Put...)
			tx.PutRecords = append(tx.PutRecords, one.PutRecords...)
		}
		w.commit(tx)
		w.equal("claims", len(w.claimAll()), 300)
	}},
}
