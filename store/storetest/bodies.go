package storetest

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	"github.com/abidehq/abide/store"
)

const mebibyte = 1 << 20

var bodyCases = []propertyCase{
	{name: "large bodies of messages, entries and records come back byte for byte", run: func(w *world) {
		w.putLarge()
		w.hasLarge()
	}},

	{name: "large bodies outlive the process", needsReopen: true, run: func(w *world) {
		w.putLarge()
		w.Reopen()
		w.hasLarge()
	}},

	{name: "bodies may be empty", run: func(w *world) {
		for i, body := range [][]byte{nil, {}} {
			k := key(fmt.Sprintf("order-%d", i))
			w.putMessages(msg(k, "m", withBody(body)))
			w.sameBytes("pending body", w.pendingOne(k).Body, nil)
			c := w.claimKey(k, []string{"m"})
			w.sameBytes("claimed body", c.Messages[0].Body, nil)
			r := store.Record{Key: recordKey(k.Name), Body: body}
			w.putRecord(r)
			w.sameBytes("body of a record", w.get(r.Key).Body, nil)
		}
	}},

	{name: "bodies of every byte come back as they were", run: func(w *world) {
		every := make([]byte, 256)
		for i := range every {
			every[i] = byte(i)
		}
		w.putMessages(msg(key("order-1"), "m", withBody(every)))
		w.sameBytes("body", w.claimOne().Messages[0].Body, every)
		w.append(key("order-1"), 0, string(every))
		w.isLog(key("order-1"), 0, string(every))
		w.putRecord(store.Record{Key: recordKey("r"), Body: every})
		w.sameBytes("body of a record", w.get(recordKey("r")).Body, every)
	}},

	{name: "the body of a message may have as many bytes as the store takes and no more", run: func(w *world) {
		most := w.limits().Body
		body := bigBytes(1, most+1)
		w.putMessages(msg(key("order-1"), "m", withBody(body[:most])))
		w.commitErr(&store.Tx{Put: []store.Message{msg(key("order-2"), "m", withBody(body))}}, store.ErrTooLarge)
		w.isPending(key("order-2"))
		w.sameBytes("body", w.claimOne().Messages[0].Body, body[:most])
	}},

	{name: "what is delivered with a key ends before it exceeds PageBytes, and continues with the next claim", run: func(w *world) {
		k := key("order-1")
		body := bigBytes(1, w.limits().Body)
		var fit []string
		for size := len(body); size <= store.PageBytes; size += len(body) {
			fit = append(fit, fmt.Sprint(len(fit)+1))
			w.putMessages(msg(k, fit[len(fit)-1], withBody(body)))
		}
		over := body[:store.PageBytes-len(fit)*len(body)+1] // by a byte
		w.putMessages(msg(k, "over", withBody(over)), msg(k, "small"))
		w.equal("pending", idsOf(w.pending(k)), fit)
		c := w.claimKey(k, fit)
		for _, m := range c.Messages {
			w.sameBytes("body", m.Body, body)
			w.sameTime("put at", m.PutAt, w.now())
		}
		w.finish(c)
		w.claimKey(k, []string{"over", "small"})
	}},

	{name: "a page of records ends before it exceeds PageBytes, and the next one continues", run: func(w *world) {
		body := bigBytes(1, w.limits().Record)
		fit := store.PageBytes / len(body)
		for i := range fit + 1 {
			r := store.Record{Key: recordKey(fmt.Sprintf("r%d", i)), Time: w.now().Add(time.Duration(i) * time.Hour), Body: body}
			w.putRecord(r)
		}
		q := store.Query{Kind: recordKey("r").Kind}
		var pages []int
		for {
			page, err := w.Store.List(w.t.Context(), q)
			if err != nil {
				w.t.Fatalf("list: %v", err)
			}
			pages = append(pages, len(page.Records))
			if q.Cursor = page.Next; q.Cursor == "" {
				break
			}
		}
		w.equal("records of each page", pages, []int{fit, 1})
	}},

	{name: "an entry may have as many bytes as the store takes and no more", run: func(w *world) {
		k, most := key("order-1"), w.limits().Body
		entry := bigText(1, most+1)
		w.append(k, 0, entry[:most])
		w.commitErr(appendTx(k, 1, entry), store.ErrTooLarge)
		w.isLog(k, 0, entry[:most])
	}},

	{name: "the body of a record may have as many bytes as the store takes and no more", run: func(w *world) {
		most := w.limits().Record
		body := bigBytes(1, most+1)
		r := store.Record{Key: recordKey("r"), Body: body[:most]}
		w.putRecord(r)
		r.Body = body
		w.commitErr(&store.Tx{PutRecords: []store.PutRecord{{Record: r, Expect: 1}}}, store.ErrTooLarge)
		w.sameBytes("body", w.isVersion(r.Key, 1).Body, body[:most])
	}},

	{name: "the largest message can go to quarantine and back", run: func(w *world) {
		body := bigBytes(1, w.limits().Body)
		w.putMessages(msg(key("order-1"), "m", withBody(body)))
		w.exhaust(key("order-1"), 1)
		w.claimNone(maxAttempts(1))
		w.redrive(w.isQuarantined("m")[0])
		w.sameBytes("body", w.claimOne().Messages[0].Body, body)
	}},

	{name: "a commit may do as much as the store takes and no more", run: func(w *world) {
		most := w.limits().TxOps
		tx := &store.Tx{}
		for i := range most {
			tx.Delete = append(tx.Delete, ref(key(fmt.Sprint("order-", i%1000)), fmt.Sprint("m", i)))
		}
		w.put(tx.Delete[0].Key, tx.Delete[0].ID)
		over := *tx
		over.Delete = append(slices.Clone(tx.Delete), ref(key("order-1"), "last"))
		w.commitErr(&over, store.ErrTooLarge)
		w.isPending(tx.Delete[0].Key, tx.Delete[0].ID)
		w.commit(tx)
		w.isPending(tx.Delete[0].Key)
	}},

	{name: "a commit may have as many bytes as the store takes and no more", run: func(w *world) {
		size, most := 0, w.limits().TxBytes
		tx := &store.Tx{}
		body := bigBytes(1, w.limits().Body)
		for i := 0; size < most; i++ {
			m := store.Message{Key: store.Key{Queue: "q", Name: fmt.Sprintf("%02d", i)}, ID: "m"}
			m.Body = body[:min(len(body), most-size-4)]
			tx.Put = append(tx.Put, m)
			size += len(m.Body) + 4
		}
		over := *tx
		over.DeleteKeys = []store.Key{{Queue: "q", Name: "k"}}
		w.commitErr(&over, store.ErrTooLarge)
		w.isPending(tx.Put[0].Key)
		w.commit(tx)
		w.equal("number of messages", w.routeStats("q", "").Pending, len(tx.Put))
		for _, m := range []store.Message{tx.Put[0], tx.Put[len(tx.Put)-1]} {
			w.sameBytes("body", w.pendingOne(m.Key).Body, m.Body)
		}
	}},

	{name: "one commit puts thousands of messages", run: func(w *world) {
		const count, keys = 8_000, 100
		tx := &store.Tx{}
		for i := range count {
			tx.Put = append(tx.Put, msg(key(fmt.Sprintf("order-%d", i%keys)), fmt.Sprint(i)))
		}
		w.commit(tx)
		claims := w.claimAll()
		w.equal("number of keys", len(claims), keys)
		for _, c := range claims {
			w.equal("number of messages", len(c.Messages), count/keys)
			for i, m := range c.Messages {
				want := fmt.Sprint(i*keys + keyNumber(c.Key))
				if m.ID != want {
					w.t.Fatalf("message %d of %v is %s, want %s", i, c.Key, m.ID, want)
				}
				w.sameBytes("body", m.Body, bodyOf(m.ID))
			}
		}
		w.finish(claims...)
		w.equal("number of rows", len(w.stats().Routes), 0)
	}},

	{name: "a store does not keep the body that it was given", run: func(w *world) {
		body := []byte("before")
		w.putMessages(msg(key("order-1"), "m", withBody(body)))
		copy(body, "AFTER!")
		w.sameBytes("body", w.pendingOne(key("order-1")).Body, []byte("before"))
		w.sameBytes("body", w.claimOne().Messages[0].Body, []byte("before"))
	}},

	{name: "the bodies that a store returns are the caller's", run: func(w *world) {
		w.putMessages(msg(key("order-1"), "m", withBody([]byte("before"))))
		copy(w.pendingOne(key("order-1")).Body, "AFTER!")
		c := w.claimOne()
		w.sameBytes("body", c.Messages[0].Body, []byte("before"))
		copy(c.Messages[0].Body, "AFTER!")
		w.release(store.Release{Lease: c.Lease()})
		w.sameBytes("body", w.claimOne().Messages[0].Body, []byte("before"))
	}},
}

// keyNumber returns the number in the name of a key like order-7.
func keyNumber(k store.Key) (n int) {
	if _, err := fmt.Sscanf(k.Name, "order-%d", &n); err != nil {
		return -1
	}
	return n
}

// putLarge puts a mebibyte into everything that has a body, in one commit.
func (w *world) putLarge() {
	w.t.Helper()
	w.commit(&store.Tx{
		Put: []store.Message{
			msg(key("order-1"), "a", withBody(bigBytes(1, mebibyte))),
			msg(key("order-1"), "b", withBody(bigBytes(2, mebibyte))),
		},
		Append:     []store.Append{{Key: key("order-1"), Entries: [][]byte{bigBytes(3, mebibyte), bigBytes(4, mebibyte)}}},
		PutRecords: []store.PutRecord{{Record: store.Record{Key: recordKey("r"), Body: bigBytes(5, mebibyte)}}},
	})
}

// hasLarge checks that all that putLarge put is there.
func (w *world) hasLarge() {
	w.t.Helper()
	w.isLog(key("order-1"), 0, bigText(3, mebibyte), bigText(4, mebibyte))
	w.sameBytes("body of a record", w.get(recordKey("r")).Body, bigBytes(5, mebibyte))
	page := w.list(store.Query{})
	w.equal("number of records", len(page.Records), 1)
	w.sameBytes("body in a list", page.Records[0].Body, bigBytes(5, mebibyte))
	for i, m := range w.pending(key("order-1")) {
		w.sameBytes("pending body", m.Body, bigBytes(i+1, mebibyte))
	}
	c := w.claimKey(key("order-1"), []string{"a", "b"})
	for i, m := range c.Messages {
		w.sameBytes("claimed body", m.Body, bigBytes(i+1, mebibyte))
	}
}

// sameBytes checks that two bodies are the same; nil is the same as empty.
func (w *world) sameBytes(what string, got, want []byte) {
	w.t.Helper()
	if !bytes.Equal(got, want) {
		w.t.Fatalf("%s: got %d bytes, %.60q; want %d bytes, %.60q", what, len(got), got, len(want), want)
	}
}
