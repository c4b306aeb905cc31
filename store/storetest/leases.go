package storetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/abidehq/abide/store"
)

var leaseCases = []propertyCase{
	{name: "a lease ends in the millisecond of Until and not before", run: func(w *world) {
		k := key("order-1")
		w.put(k, "a")
		c := w.claimOne(leaseFor(10 * time.Second))
		w.Advance(10*time.Second - time.Millisecond)
		w.claimNone()
		w.isLive(c)
		w.Advance(time.Millisecond)
		w.sameTime("now", w.now(), c.Until)
		w.isLost(c)
		w.claimKey(k, []string{"a"})
	}},

	{name: "the shortest lease lasts a millisecond", run: func(w *world) {
		w.put(key("order-1"), "a")
		c := w.claimOne(leaseFor(store.MinLease))
		w.isLive(c)
		w.claimNone()
		w.Advance(time.Millisecond)
		w.isLost(c)
		w.claimOne()
	}},

	{name: "live leases are counted", run: func(w *world) {
		w.put(key("order-1"), "a")
		w.put(key("order-2"), "a")
		w.put(key("order-3"), "a")
		claims := w.claimAll()
		w.equal("leases after three claims", w.stats().Leases, 3)
		w.finish(claims[0])
		w.equal("leases after a finish", w.stats().Leases, 2)
		w.release(store.Release{Lease: claims[1].Lease()})
		w.equal("leases after a release", w.stats().Leases, 1)
		w.Advance(theLease)
		w.equal("leases after all expired", w.stats().Leases, 0)
	}},

	{name: "a claim that expired cannot be finished even if nobody else has it", run: func(w *world) {
		k := key("order-1")
		w.put(k, "a")
		c := w.claimOne()
		w.Advance(theLease)
		w.commitErr(&store.Tx{
			Finish: []store.Finish{finishing(c)},
			Append: []store.Append{{Key: k, Entries: entries("one")}},
			Put:    []store.Message{msg(k, "b")},
		}, store.ErrClaimLost)
		w.isPending(k, "a")
		w.equal("log", w.logTexts(k), []string{})
	}},

	{name: "a claim that expired cannot be finished when another claimer has it", run: func(w *world) {
		k := key("order-1")
		w.put(k, "a")
		old := w.claimOne()
		w.Advance(theLease)
		c := w.claimOne()
		w.commitErr(finishTx(old), store.ErrClaimLost)
		w.releaseErr(store.Release{Lease: old.Lease()}, store.ErrClaimLost)
		w.isLost(old)
		w.isLive(c)
		w.finish(c)
		w.isPending(k)
	}},

	{name: "a claim is finished once", run: func(w *world) {
		k := key("order-1")
		w.put(k, "a")
		c := w.claimOne()
		w.finish(c)
		w.put(k, "a")
		w.commitErr(finishTx(c), store.ErrClaimLost)
		w.isPending(k, "a")
	}},

	{name: "a token is good for its key only", run: func(w *world) {
		w.put(key("order-1"), "a")
		w.put(key("order-2"), "a")
		claims := w.claimAll()
		swapped := store.Lease{Key: claims[0].Key, Token: claims[1].Token}
		w.commitErr(&store.Tx{Finish: []store.Finish{{Lease: swapped}}}, store.ErrClaimLost)
		w.releaseErr(store.Release{Lease: swapped}, store.ErrClaimLost)
		w.equal("lost leases", w.renew(theLease, swapped), []store.Lease{swapped})
		w.isLive(claims[0])
		w.isLive(claims[1])
	}},

	{name: "a token that the store did not give is lost", run: func(w *world) {
		w.put(key("order-1"), "a")
		c := w.claimOne()
		for _, token := range []store.Token{"", "0", "made up", c.Token + "0", "\x00\xff"} {
			forged := store.Lease{Key: c.Key, Token: token}
			w.commitErr(&store.Tx{Finish: []store.Finish{{Lease: forged}}}, store.ErrClaimLost)
			w.releaseErr(store.Release{Lease: forged}, store.ErrClaimLost)
			w.equal("lost leases", w.renew(theLease, forged), []store.Lease{forged})
		}
		w.isLive(c)
	}},

	{name: "no token is used twice", run: func(w *world) { w.tokensDiffer(func() {}) }},

	{name: "no token is used twice by a store that is opened again", needsReopen: true, run: func(w *world) {
		w.tokensDiffer(w.Reopen)
	}},

	{name: "a renewed lease lasts from now on", run: func(w *world) {
		w.put(key("order-1"), "a")
		c := w.claimOne(leaseFor(10 * time.Second))
		w.Advance(7 * time.Second)
		w.equal("lost leases", len(w.renew(20*time.Second, c.Lease())), 0)
		w.Advance(20*time.Second - time.Millisecond)
		w.isLive(c)
		w.claimNone()
		w.Advance(time.Millisecond)
		w.isLost(c)
		w.claimOne()
	}},

	{name: "a renewal never shortens a lease", run: func(w *world) {
		w.put(key("order-1"), "a")
		c := w.claimOne(leaseFor(10 * time.Second))
		w.equal("lost leases", len(w.renew(time.Second, c.Lease())), 0)
		w.Advance(10*time.Second - time.Millisecond)
		w.isLive(c)
		w.claimNone()
	}},

	{name: "a renewed claim can be finished", run: func(w *world) {
		w.put(key("order-1"), "a")
		c := w.claimOne()
		w.renew(2*theLease, c.Lease())
		w.Advance(theLease)
		w.finish(c)
		w.isPending(key("order-1"))
	}},

	{name: "a renewal reports the leases that are lost and renews the others", run: func(w *world) {
		for i := range 4 {
			w.put(key(fmt.Sprintf("order-%d", i)), "a")
			w.Advance(time.Millisecond)
		}
		var c []store.Claim
		for range 4 {
			c = append(c, w.claimOne(upTo(1), leaseFor(10*time.Second)))
		}
		w.finish(c[0])
		w.release(store.Release{Lease: c[2].Lease()})
		lost := w.renew(theLease, c[0].Lease(), c[1].Lease(), c[2].Lease(), c[3].Lease())
		w.equal("number of lost leases", len(lost), 2)
		w.equal("the finished one is lost", slices.Contains(lost, c[0].Lease()), true)
		w.equal("the released one is lost", slices.Contains(lost, c[2].Lease()), true)
		w.Advance(theLease - time.Millisecond)
		w.isLive(c[1])
		w.isLive(c[3])
	}},

	{name: "a lease that expired cannot be renewed", run: func(w *world) {
		w.put(key("order-1"), "a")
		c := w.claimOne()
		w.Advance(theLease)
		w.equal("lost leases", w.renew(theLease, c.Lease()), []store.Lease{c.Lease()})
		w.claimOne()
	}},

	{name: "a renewal of nothing loses nothing", run: func(w *world) {
		w.equal("number of lost leases", len(w.renew(theLease)), 0)
	}},

	{name: "a renewal does not count as an attempt", run: func(w *world) {
		w.put(key("order-1"), "a")
		c := w.claimOne()
		w.renew(2*theLease, c.Lease())
		w.equal("attempt", w.pendingOne(key("order-1")).Attempt, 1)
	}},

	{name: "a commit may finish several claims", run: func(w *world) {
		w.put(key("order-1"), "a")
		w.put(key("order-2"), "a", "b")
		claims := w.claimAll()
		w.finish(claims...)
		w.isPending(key("order-1"))
		w.isPending(key("order-2"))
		w.isLost(claims[0])
		w.isLost(claims[1])
	}},

	{name: "a finish keeps the messages that it names", run: func(w *world) {
		k := key("order-1")
		w.put(k, "a", "b", "c")
		w.commit(&store.Tx{Finish: []store.Finish{finishing(w.claimOne(), "c", "a")}})
		w.isPending(k, "a", "c")
		c := w.claimKey(k, []string{"a", "c"})
		w.equal("attempts of what was kept", attemptsOf(c), []int{2, 2})
	}},

	{name: "a finish that keeps everything consumes nothing and ends the lease", run: func(w *world) {
		k := key("order-1")
		w.put(k, "a", "b")
		c := w.claimOne()
		w.commit(&store.Tx{Finish: []store.Finish{finishing(c, "a", "b")}})
		w.isLost(c)
		w.claimKey(k, []string{"a", "b"})
	}},

	{name: "a finish ignores names to keep that were not delivered", run: func(w *world) {
		k := key("order-1")
		w.put(k, "a", "b")
		c := w.claimOne(maxMessages(1))
		w.commit(&store.Tx{Finish: []store.Finish{finishing(c, "b", "unknown", "")}})
		w.isPending(k, "b")
	}},

	{name: "a message put to a leased key does not end the lease", run: func(w *world) {
		k := key("order-1")
		w.put(k, "a")
		c := w.claimOne()
		w.putMessages(msg(k, "b"), msg(k, "a", withBody([]byte("again"))), msg(k, "c", via("order@2")))
		w.isLive(c)
		w.finish(c)
		w.isPending(k, "b", "c")
	}},

	{name: "an entry appended to the log of a leased key does not end the lease", run: func(w *world) {
		k := key("order-1")
		w.put(k, "a")
		c := w.claimOne()
		w.append(k, 0, "one", "two")
		w.commit(&store.Tx{Trim: []store.Trim{{Key: k, Before: 1}}})
		w.isLive(c)
		w.finish(c)
		w.isPending(k)
	}},

	{name: "deleting a delivered message ends the lease", run: func(w *world) {
		k := key("order-1")
		w.put(k, "a", "b")
		c := w.claimOne()
		w.remove(k, "a")
		w.isLost(c)
		w.commitErr(finishTx(c), store.ErrClaimLost)
		w.claimKey(k, []string{"b"})
	}},

	{name: "re-timing a delivered message ends the lease", run: func(w *world) {
		k := key("order-1")
		w.put(k, "a", "b")
		c := w.claimOne()
		w.retime(k, "a", w.in(time.Second))
		w.isLost(c)
		w.commitErr(finishTx(c), store.ErrClaimLost)
		w.finish(w.claimKey(k, []string{"b"}))
		w.Advance(time.Second)
		w.claimKey(k, []string{"a"})
	}},

	{name: "deleting or re-timing a message that was not delivered does not end the lease", run: func(w *world) {
		k := key("order-1")
		w.put(k, "a", "b", "c")
		c := w.claimOne(maxMessages(1))
		w.remove(k, "b", "unknown")
		w.retime(k, "c", w.in(time.Second))
		w.isLive(c)
		w.finish(c)
		w.isPending(k, "c")
	}},

	{name: "a commit may delete what it consumes", run: func(w *world) {
		k := key("order-1")
		w.put(k, "a", "b")
		c := w.claimOne()
		w.commit(&store.Tx{Finish: []store.Finish{finishing(c, "b")}, Delete: []store.MessageRef{ref(k, "a"), ref(k, "b")}})
		w.isPending(k)
	}},

	{name: "a commit may re-time what it keeps", run: func(w *world) {
		k := key("order-1")
		w.put(k, "a", "b")
		w.commit(&store.Tx{
			Finish: []store.Finish{finishing(w.claimOne(), "b")},
			Retime: []store.Retime{{Ref: ref(k, "b"), VisibleAt: w.in(time.Second)}, {Ref: ref(k, "a"), VisibleAt: w.now()}},
		})
		w.isPending(k, "b")
		w.claimNone()
		w.Advance(time.Second)
		w.equal("attempts", attemptsOf(w.claimKey(k, []string{"b"})), []int{2})
	}},

	{name: "deleting a leased key ends the lease", run: func(w *world) {
		k := key("order-1")
		w.put(k, "a")
		c := w.claimOne()
		w.commit(&store.Tx{DeleteKeys: []store.Key{k}})
		w.isLost(c)
		w.commitErr(finishTx(c), store.ErrClaimLost)
		w.put(k, "a") // a fresh key of that name has nothing to do with the old lease
		w.isLost(c)
		w.equal("attempts", attemptsOf(w.claimKey(k, []string{"a"})), []int{1})
	}},

	{name: "a commit may delete the key of a claim that it finishes", run: func(w *world) {
		k := key("order-1")
		w.put(k, "a")
		c := w.claimOne()
		w.put(k, "b")
		w.commit(&store.Tx{Finish: []store.Finish{finishing(c)}, DeleteKeys: []store.Key{k}})
		w.isPending(k)
	}},
}

// tokensDiffer claims in all ways that there are, with pause in between, and checks
// that no two tokens are the same.
func (w *world) tokensDiffer(pause func()) {
	w.t.Helper()
	seen := map[store.Token]bool{}
	for round := range 20 {
		w.put(key("order-1"), "a")
		w.put(key(fmt.Sprintf("other-%d", round)), "a")
		claims := w.claimAll()
		for _, c := range claims {
			if seen[c.Token] {
				w.t.Fatalf("token %q of %v was used before", c.Token, c.Key)
			}
			seen[c.Token] = true
		}
		switch round % 3 {
		case 0:
			w.finish(claims...)
		case 1:
			w.release(store.Release{Lease: claims[0].Lease()})
		}
		pause()
		w.Advance(theLease)
	}
}
