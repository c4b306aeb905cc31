package storetest

import (
	"time"

	"github.com/abidehq/abide/store"
)

// releaseCases are about giving up a lease, and about what is counted then.
var releaseCases = []propertyCase{
	{name: "a released key can be claimed at once", run: func(w *world) {
		k := key("order-1")
		w.put(k, "a", "b")
		w.release(store.Release{Lease: leaseOf(w.claimOne())})
		w.claimKey(k, []string{"a", "b"})
	}},

	{name: "a released lease is not live", run: func(w *world) {
		w.put(key("order-1"), "a")
		c := w.claimOne()
		w.release(store.Release{Lease: c.Lease()})
		w.isLost(c)
		w.commitErr(finishTx(c), store.ErrClaimLost)
		w.releaseErr(store.Release{Lease: c.Lease()}, store.ErrClaimLost)
		w.isPending(key("order-1"), "a")
	}},

	{name: "a lease that expired cannot be released", run: func(w *world) {
		k := key("order-1")
		w.put(k, "a")
		c := w.claimOne()
		w.Advance(theLease)
		w.releaseErr(store.Release{Lease: c.Lease(), After: time.Hour, Uncounted: true}, store.ErrClaimLost)
		w.equal("attempts", attemptsOf(w.claimKey(k, []string{"a"})), []int{2})
	}},

	{name: "a message released with a delay is visible after it, to the millisecond", run: func(w *world) {
		k := key("order-1")
		w.put(k, "a")
		c := w.claimOne()
		w.Advance(time.Second)
		w.release(store.Release{Lease: c.Lease(), After: 10 * time.Second})
		w.sameTime("visible at", w.pendingOne(k).VisibleAt, w.in(10*time.Second))
		w.Advance(10*time.Second - time.Millisecond)
		w.claimNone()
		w.Advance(time.Millisecond)
		w.claimKey(k, []string{"a"})
	}},

	{name: "a delay of less than a millisecond is not cut short", run: func(w *world) {
		w.put(key("order-1"), "a")
		w.release(store.Release{Lease: leaseOf(w.claimOne()), After: time.Nanosecond})
		w.claimNone()
		w.Advance(time.Millisecond)
		w.claimOne()
	}},

	{name: "the longest delay of a release is accepted", run: func(w *world) {
		w.put(key("order-1"), "a")
		w.release(store.Release{Lease: leaseOf(w.claimOne()), After: store.MaxDelay})
		w.Advance(store.MaxDelay - time.Millisecond)
		w.claimNone()
		w.Advance(time.Millisecond)
		w.claimOne()
	}},

	{name: "a release with a delay moves the delivered messages only", run: func(w *world) {
		k := key("order-1")
		w.put(k, "a", "b")
		c := w.claimOne(maxMessages(1))
		w.put(k, "c")
		w.release(store.Release{Lease: c.Lease(), After: 10 * time.Second})
		w.finish(w.claimKey(k, []string{"b", "c"}))
		w.Advance(10 * time.Second)
		w.claimKey(k, []string{"a"})
	}},

	{name: "messages released with a delay come after those that are visible before", run: func(w *world) {
		k := key("order-1")
		w.put(k, "a", "b")
		w.release(store.Release{Lease: leaseOf(w.claimOne()), After: 10 * time.Second})
		w.Advance(5 * time.Second)
		w.put(k, "c")
		w.Advance(5 * time.Second)
		w.put(k, "d")
		w.claimKey(k, []string{"c", "a", "b", "d"})
	}},

	{name: "a release without a delay leaves the order as it was", run: func(w *world) {
		k := key("order-1")
		w.put(k, "a")
		w.Advance(time.Second)
		w.put(k, "b")
		c := w.claimOne()
		w.Advance(time.Second)
		w.put(k, "c")
		w.Advance(time.Second)
		w.release(store.Release{Lease: c.Lease()})
		w.claimKey(k, []string{"a", "b", "c"})
	}},

	{name: "each claim counts as an attempt", run: func(w *world) {
		k := key("order-1")
		w.put(k, "a")
		w.equal("attempts before", w.pendingOne(k).Attempt, 0)
		for attempt := 1; attempt <= 5; attempt++ {
			c := w.claimOne()
			w.equal("attempt of the delivered message", c.Attempt(), attempt)
			w.equal("attempt of the pending message", w.pendingOne(k).Attempt, attempt)
			w.Advance(theLease) // an expired lease does not take the attempt back
			w.equal("attempt after the lease", w.pendingOne(k).Attempt, attempt)
		}
	}},

	{name: "a release keeps the attempt", run: func(w *world) {
		k := key("order-1")
		w.put(k, "a")
		w.release(store.Release{Lease: leaseOf(w.claimOne())})
		w.equal("attempt after a release", w.pendingOne(k).Attempt, 1)
		w.release(store.Release{Lease: leaseOf(w.claimOne()), After: time.Second})
		w.equal("attempt after a release with a delay", w.pendingOne(k).Attempt, 2)
		w.Advance(time.Second)
		w.equal("attempt of the next claim", attemptsOf(w.claimOne()), []int{3})
	}},

	{name: "an uncounted release takes the attempt back", run: func(w *world) {
		k := key("order-1")
		w.put(k, "a")
		w.Advance(time.Second)
		w.claimOne()
		w.Advance(theLease)
		w.put(k, "b")
		w.release(store.Release{Lease: leaseOf(w.claimOne()), Uncounted: true})
		c := w.claimOne()
		w.equal("attempts after an uncounted release", attemptsOf(c), []int{2, 1})
		w.release(store.Release{Lease: c.Lease(), Uncounted: true, After: time.Second})
		w.Advance(time.Second)
		w.equal("attempts after an uncounted release with a delay", attemptsOf(w.claimOne()), []int{2, 1})
	}},

	{name: "attempts survive the process that claimed", needsReopen: true, run: func(w *world) {
		k := key("order-1")
		w.put(k, "a")
		w.claimOne()
		w.Reopen()
		w.Advance(theLease) // a store of many processes does not know that this one is gone
		c := w.claimKey(k, []string{"a"})
		w.equal("attempts", attemptsOf(c), []int{2})
	}},

	{name: "attempts survive the process that released", needsReopen: true, run: func(w *world) {
		k := key("order-1")
		w.put(k, "a")
		w.release(store.Release{Lease: leaseOf(w.claimOne())})
		w.Reopen()
		w.Advance(theLease) // only a release with a delay must be durable
		w.equal("attempts", attemptsOf(w.claimKey(k, []string{"a"})), []int{2})
	}},

	{name: "a release with a delay survives the process that released", needsReopen: true, run: func(w *world) {
		k := key("order-1")
		w.put(k, "a")
		w.release(store.Release{Lease: leaseOf(w.claimOne()), After: 10 * time.Second})
		w.Reopen()
		w.Advance(10*time.Second - time.Millisecond)
		w.claimNone()
		w.Advance(time.Millisecond)
		w.equal("attempts", attemptsOf(w.claimKey(k, []string{"a"})), []int{2})
	}},

	{name: "an uncounted release with a delay survives the process that released", needsReopen: true, run: func(w *world) {
		k := key("order-1")
		w.put(k, "a")
		w.release(store.Release{Lease: leaseOf(w.claimOne()), After: time.Second, Uncounted: true})
		w.Reopen()
		w.Advance(time.Second)
		w.equal("attempts", attemptsOf(w.claimKey(k, []string{"a"})), []int{1})
	}},

	{name: "what a finish kept survives the process that finished", needsReopen: true, run: func(w *world) {
		k := key("order-1")
		w.put(k, "a", "b")
		w.commit(&store.Tx{Finish: []store.Finish{finishing(w.claimOne(), "b")}})
		w.Reopen()
		w.equal("attempts", attemptsOf(w.claimKey(k, []string{"b"})), []int{2})
	}},

	{name: "a claim of a process that is gone cannot be finished once it expired", needsReopen: true, run: func(w *world) {
		k := key("order-1")
		w.put(k, "a")
		old := w.claimOne()
		w.Reopen()
		w.Advance(theLease)
		w.commitErr(finishTx(old), store.ErrClaimLost)
		c := w.claimKey(k, []string{"a"})
		w.commitErr(finishTx(old), store.ErrClaimLost)
		w.isLive(c)
	}},
}
