package storetest

import (
	"errors"
	"time"

	"github.com/abidehq/abide/store"
)

var redriveCases = []propertyCase{
	{name: "a redriven message is delivered with attempt 1, and its record is gone", run: func(w *world) {
		k := key("order-1")
		w.put(k, "a")
		w.exhaust(k, 2)
		w.claimNone(maxAttempts(2))
		w.redrive(w.isQuarantined("a")[0])
		w.equal("number of messages in quarantine", len(w.quarantined()), 0)
		c := w.claimKey(k, []string{"a"}, maxAttempts(2))
		w.equal("attempt", c.Messages[0].Attempt, 1)
		w.sameBytes("body", c.Messages[0].Body, bodyOf("a"))
		w.finish(c)
		w.isPending(k)
	}},

	{name: "of two that redrive a message one gets a conflict, and the message is there once", run: func(w *world) {
		k := key("order-1")
		w.put(k, "a")
		w.exhaust(k, 1)
		w.claimNone(maxAttempts(1))
		r := w.isQuarantined("a")[0]
		w.redrive(r)
		w.finish(w.claimKey(k, []string{"a"})) // now the ID is free again
		w.commitErr(w.redriveTx(r), store.ErrConflict)
		w.isPending(k)
	}},

	{name: "of many that redrive a message at once one succeeds", run: func(w *world) {
		k := key("order-1")
		w.put(k, "a")
		w.exhaust(k, 1)
		w.claimNone(maxAttempts(1))
		r := w.isQuarantined("a")[0]
		won := 0
		for _, err := range together(16, func(int) error { return w.Store.Commit(w.ctx, w.redriveTx(r)) }) {
			if err == nil {
				won++
			} else if !errors.Is(err, store.ErrConflict) {
				w.t.Fatalf("redrive: %v", err)
			}
		}
		w.equal("number of redrives that succeeded", won, 1)
		w.isPending(k, "a")
	}},

	{name: "a redriven message that fails again is in quarantine again", run: func(w *world) {
		k := key("order-1")
		w.put(k, "a")
		var first store.Record
		for round := range 2 {
			w.exhaust(k, 2)
			w.Advance(time.Millisecond)
			w.claimNone(maxAttempts(2))
			r := w.isQuarantined("a")[0]
			if round == 0 {
				first = r
				w.redrive(r)
			} else if r.Key == first.Key {
				w.t.Fatalf("the second record replaces the first: %v", r.Key)
			}
		}
	}},

	{name: "a redriven message sets the route that its key had", run: func(w *world) {
		k := key("order-1")
		w.putMessages(msg(k, "a", via("charge")))
		w.exhaust(k, 1, serving("charge"))
		w.claimNone(serving("charge"), maxAttempts(1))
		w.putMessages(msg(k, "b", noRoute())) // the key was gone, and so was its route
		w.claimNone(serving("charge"))
		w.redrive(w.isQuarantined("a")[0])
		w.claimKey(k, []string{"b", "a"}, serving("charge"))
	}},

	{name: "a waiting claim is woken by a redrive", run: func(w *world) {
		w.put(key("order-1"), "a")
		w.exhaust(key("order-1"), 1)
		w.claimNone(maxAttempts(1))
		p := w.wait(maxAttempts(1))
		w.redrive(w.isQuarantined("a")[0])
		w.isClaim(p.claimed()[0], key("order-1"), "a")
	}},

	{name: "a quarantined message can be deleted for good", run: func(w *world) {
		k := key("order-1")
		w.put(k, "a")
		w.exhaust(k, 1)
		w.claimNone(maxAttempts(1))
		r := w.isQuarantined("a")[0]
		w.commit(dropTx(r.Key, r.Version))
		w.equal("number of messages in quarantine", len(w.quarantined()), 0)
		w.commitErr(w.redriveTx(r), store.ErrConflict)
		w.isPending(k)
	}},

	{name: "a caller can quarantine a message in the commit that consumes it", run: func(w *world) {
		k := key("order-1")
		w.put(k, "a", "b")
		c := w.claimOne()
		tx := &store.Tx{
			Finish:     []store.Finish{finishing(c, "b")},
			PutRecords: []store.PutRecord{store.Quarantine(c.Messages[0], c.Route, "unreadable", c.Now)},
		}
		w.commit(tx)
		w.isPending(k, "b")
		r := w.isQuarantined("a")[0]
		w.equal("status", r.Status, "unreadable")
		w.redrive(r)
		w.claimKey(k, []string{"b", "a"})
	}},

	{name: "a caller that lost its claim quarantines nothing", run: func(w *world) {
		w.put(key("order-1"), "a")
		c := w.claimOne()
		w.Advance(theLease)
		tx := finishTx(c)
		tx.PutRecords = []store.PutRecord{store.Quarantine(c.Messages[0], c.Route, "unreadable", c.Now)}
		w.commitErr(tx, store.ErrClaimLost)
		w.equal("number of messages in quarantine", len(w.quarantined()), 0)
		w.isPending(key("order-1"), "a")
	}},

	{name: "messages whose names run into each other have a record each", run: func(w *world) {
		w.put(keyIn(theQueue, theTenant, "a\x00b"), "c")
		w.put(keyIn(theQueue, theTenant, "a"), "b\x00c")
		for _, c := range w.claimAll() {
			w.release(store.Release{Lease: c.Lease()})
		}
		w.claimNone(maxAttempts(1))
		w.equal("number of messages in quarantine", len(w.quarantined()), 2)
	}},
}

// redriveTx returns the Tx that redrives a quarantined message. It may be called by
// any goroutine.
func (w *world) redriveTx(r store.Record) *store.Tx {
	tx, err := store.Redrive(r)
	if err != nil {
		w.t.Error(err)
		return &store.Tx{}
	}
	return tx
}

// redrive puts a quarantined message back into its queue.
func (w *world) redrive(r store.Record) {
	w.t.Helper()
	w.commit(w.redriveTx(r))
}
