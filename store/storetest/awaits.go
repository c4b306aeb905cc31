package storetest

import (
	"context"
	"fmt"
	"sync"

	"github.com/abidehq/abide/store"
)

var awaitCases = []propertyCase{
	{name: "a record that is past the version is returned at once", run: func(w *world) {
		r := fullRecord("order-1")
		for range 3 {
			w.putRecord(r)
		}
		r.Version = 3
		for _, after := range []int64{0, 1, 2} {
			w.sameRecord(w.await(r.Key, after).record(), r)
		}
	}},

	{name: "a wait with version 0 ends when the record is put", run: func(w *world) {
		r := fullRecord("order-1")
		p := w.await(r.Key, 0)
		w.putRecord(r)
		r.Version = 1
		w.sameRecord(p.record(), r)
	}},

	{name: "a wait ends when the record changes", run: func(w *world) {
		r := fullRecord("order-1")
		w.putRecord(r)
		p := w.await(r.Key, 1)
		r.Status, r.Body = "done", []byte("another body")
		w.putRecord(r)
		r.Version = 2
		w.sameRecord(p.record(), r)
	}},

	{name: "a wait for a later version does not end before it", run: func(w *world) {
		k := recordKey("order-1")
		w.commit(putTx(k, 0, "running"))
		p := w.await(k, 3)
		for version := int64(1); version < 4; version++ {
			p.stillWaits()
			w.commit(putTx(k, version, "running"))
		}
		w.equal("version", p.record().Version, int64(4))
	}},

	{name: "with a version, a record that does not exist is not found", run: func(w *world) {
		w.await(recordKey("order-1"), 1).failed(store.ErrNotFound)
		w.commit(putTx(recordKey("order-2"), 0, "running"))
		w.commit(dropTx(recordKey("order-2"), 1))
		w.await(recordKey("order-2"), 1).failed(store.ErrNotFound)
	}},

	{name: "with a version, a record that is deleted during the wait is not found", run: func(w *world) {
		k := recordKey("order-1")
		w.commit(putTx(k, 0, "running"))
		p := w.await(k, 1)
		w.commit(dropTx(k, 1))
		p.failed(store.ErrNotFound)
	}},

	{name: "a wait with version 0 outlasts a deletion", run: func(w *world) {
		k := recordKey("order-1")
		w.commit(putTx(k, 0, "old"))
		w.commit(dropTx(k, 1))
		p := w.await(k, 0)
		p.stillWaits()
		w.commit(putTx(k, 0, "new"))
		w.equal("status", p.record().Status, "new")
	}},

	{name: "a wait is not ended by other records", run: func(w *world) {
		k := recordKey("order-1")
		w.commit(putTx(k, 0, "mine"))
		p := w.await(k, 1)
		for _, other := range []store.RecordKey{
			recordKey("order-2"), {Kind: theKind, ID: k.ID}, {Kind: theKind, Tenant: "beta", ID: k.ID}, {Kind: "other", Tenant: theTenant, ID: k.ID},
		} {
			w.commit(putTx(other, 0, "other"))
			w.commit(putTx(other, 1, "other"))
			w.commit(dropTx(other, 2))
			p.stillWaits()
		}
		w.commit(putTx(k, 1, "mine too"))
		w.equal("status", p.record().Status, "mine too")
	}},

	{name: "a wait is not ended by a commit that fails", run: func(w *world) {
		k := recordKey("order-1")
		w.commit(putTx(k, 0, "running"))
		p := w.await(k, 1)
		w.commitErr(putTx(k, 7, "never"), store.ErrConflict)
		tx := putTx(k, 1, "never")
		tx.Append = appendTx(key("order-1"), 9, "x").Append
		w.commitErr(tx, store.ErrConflict)
		p.stillWaits()
		w.commit(putTx(k, 1, "done"))
		w.equal("status", p.record().Status, "done")
	}},

	{name: "a wait ends with the error of its context", run: func(w *world) {
		for _, exists := range []bool{false, true} {
			k := recordKey(fmt.Sprintf("order-%v", exists))
			after := int64(0)
			if exists {
				w.commit(putTx(k, 0, "running"))
				after = 1
			}
			p := w.await(k, after)
			p.stillWaits()
			p.cancel()
			p.failed(context.Canceled)
		}
	}},

	{name: "many waits for one record all end", run: func(w *world) {
		k := recordKey("order-1")
		w.commit(putTx(k, 0, "running"))
		var waits []*awaiter
		for range 50 {
			waits = append(waits, w.await(k, 1))
		}
		w.commit(putTx(k, 1, "done"))
		for _, p := range waits {
			w.equal("status", p.record().Status, "done")
		}
	}},

	{name: "many waits each end with their own record", run: func(w *world) {
		var waits []*awaiter
		tx := &store.Tx{}
		for i := range 50 {
			k := recordKey(fmt.Sprintf("order-%d", i))
			waits = append(waits, w.await(k, 0))
			tx.PutRecords = append(tx.PutRecords, putTx(k, 0, k.ID).PutRecords...)
		}
		w.commit(tx)
		for i, p := range waits {
			w.equal("status", p.record().Status, fmt.Sprintf("order-%d", i))
		}
	}},

	{name: "a wait that was cancelled does not keep others from ending", run: func(w *world) {
		k := recordKey("order-1")
		first, second := w.await(k, 0), w.await(k, 0)
		first.cancel()
		first.failed(context.Canceled)
		w.commit(putTx(k, 0, "running"))
		w.equal("status", second.record().Status, "running")
	}},

	{name: "a wait ends when the store quarantines a message", run: func(w *world) {
		w.put(key("order-1"), "a")
		w.release(store.Release{Lease: leaseOf(w.claimOne())})
		m := w.pendingOne(key("order-1"))
		p := w.await(store.Quarantine(m, theRoute, store.ReasonAttempts, w.now()).Record.Key, 0)
		p.stillWaits()
		w.claimNone(maxAttempts(1))
		w.equal("status", p.record().Status, store.ReasonAttempts)
	}},
}

// awaiter is an Await call that runs in a goroutine of its own.
type awaiter struct {
	w      *world
	cancel context.CancelFunc
	done   chan struct{}
	got    store.Record
	err    error
}

// await starts an Await, and returns when it has ended or looks as if it waited.
func (w *world) await(k store.RecordKey, after int64) *awaiter {
	w.t.Helper()
	ctx, cancel := context.WithCancel(w.ctx)
	w.t.Cleanup(cancel)
	watched := &watchedContext{Context: ctx, looked: make(chan struct{})}
	p := &awaiter{w: w, cancel: cancel, done: make(chan struct{})}
	backend := w.Store
	go func() {
		defer close(p.done)
		p.got, p.err = backend.Await(watched, k, after)
	}()
	deadline, stop := context.WithTimeout(w.ctx, patience)
	defer stop()
	select {
	case <-watched.looked:
	case <-p.done:
	case <-deadline.Done():
		w.t.Fatalf("await of %v neither returned nor waited for its context", k)
	}
	return p
}

// stillWaits checks that the call has not returned.
func (p *awaiter) stillWaits() {
	p.w.t.Helper()
	select {
	case <-p.done:
		p.w.t.Fatalf("await returned %v, %v too early", p.got, p.err)
	default:
	}
}

// record returns the record that the call returned.
func (p *awaiter) record() store.Record {
	p.w.t.Helper()
	p.w.finishes("an await", p.done)
	if p.err != nil {
		p.w.t.Fatalf("await: %v", p.err)
	}
	return p.got
}

// failed checks that the call ended with an error.
func (p *awaiter) failed(target error) {
	p.w.t.Helper()
	p.w.finishes("an await", p.done)
	p.w.isErr("await", p.err, target)
}

// watchedContext reports when its Done channel is asked for, which a call does
// when it is about to wait. It only makes it likely that a call waits: no case
// depends on it.
type watchedContext struct {
	context.Context
	once   sync.Once
	looked chan struct{}
}

// Done returns the channel that is closed when the context ends.
func (c *watchedContext) Done() <-chan struct{} {
	c.once.Do(func() { close(c.looked) })
	return c.Context.Done()
}
