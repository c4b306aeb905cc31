package storetest

import (
	"context"
	"fmt"
	"time"

	"github.com/abidehq/abide/store"
)

var waitingCases = []propertyCase{
	{name: "a claim that finds nothing returns none when its Wait is over", run: func(w *world) {
		p := w.wait(waitFor(10 * time.Second))
		w.Advance(10 * time.Second)
		p.claimedNone()
		w.areWaiting(0)
	}},

	{name: "a claim waits until the last millisecond of its Wait", run: func(w *world) {
		p := w.wait(waitFor(10 * time.Second))
		w.Advance(10*time.Second - time.Millisecond)
		w.put(key("order-1"), "a")
		w.isClaim(p.claimed()[0], key("order-1"), "a")
	}},

	{name: "a claim that finds something does not wait", run: func(w *world) {
		w.put(key("order-1"), "a")
		w.claimKey(key("order-1"), []string{"a"}, waitFor(time.Hour))
	}},

	{name: "a waiting claim is woken by a commit that puts a message", run: func(w *world) {
		p := w.wait()
		w.put(key("order-1"), "a", "b")
		w.isClaim(p.claimed()[0], key("order-1"), "a", "b")
		w.areWaiting(0)
	}},

	{name: "a waiting claim is woken at once by a process that commits and closes", needsOpen: true, run: func(w *world) {
		if w.alwaysAlone() {
			return
		}
		for i := range 10 {
			p := w.wait()
			k := key(fmt.Sprintf("order-%d", i))
			w.commitAndClose(&store.Tx{Put: []store.Message{msg(k, "a")}})
			if w.Unhinted {
				w.Advance(time.Second)
			}
			p.endsWithin(promptly)
			w.isClaim(p.claimed()[0], k, "a")
		}
	}},

	{name: "a waiting claim is woken by a due time, and not before it", run: func(w *world) {
		due := w.in(5 * time.Second)
		w.putMessages(msg(key("order-1"), "a", at(due)))
		p := w.wait()
		w.Advance(5*time.Second - time.Millisecond)
		w.areWaiting(1)
		w.Advance(time.Millisecond)
		c := p.claimed()[0]
		w.isClaim(c, key("order-1"), "a")
		w.sameTime("time of the claim", c.Now, due)
	}},

	{name: "a waiting claim is woken by the due time of a message that is put meanwhile", run: func(w *world) {
		w.putMessages(msg(key("order-1"), "a", at(w.in(30*time.Minute))))
		p := w.wait()
		w.putMessages(msg(key("order-2"), "b", at(w.in(time.Second))))
		w.Advance(time.Second)
		w.isClaim(p.claimed()[0], key("order-2"), "b")
	}},

	{name: "a waiting claim is woken by a message that is moved to now", run: func(w *world) {
		w.putMessages(msg(key("order-1"), "a", at(w.in(2*time.Hour))))
		p := w.wait()
		w.retime(key("order-1"), "a", w.now())
		w.isClaim(p.claimed()[0], key("order-1"), "a")
	}},

	{name: "a waiting claim is woken by the due time of a message that is moved forward", run: func(w *world) {
		w.putMessages(msg(key("order-1"), "a", at(w.in(2*time.Hour))))
		p := w.wait()
		due := w.in(time.Second)
		w.retime(key("order-1"), "a", due)
		w.Advance(time.Second)
		w.sameTime("time of the claim", p.claimed()[0].Now, due)
	}},

	{name: "a waiting claim is not woken by the old time of a message that is moved back", run: func(w *world) {
		due := w.in(5 * time.Second)
		w.putMessages(msg(key("order-1"), "a", at(w.in(time.Second))))
		p := w.wait()
		w.retime(key("order-1"), "a", due)
		w.Advance(time.Second)
		w.areWaiting(1)
		w.Advance(4 * time.Second)
		w.sameTime("time of the claim", p.claimed()[0].Now, due)
	}},

	{name: "a waiting claim is woken when a lease expires, and not before", run: func(w *world) {
		w.put(key("order-1"), "a")
		until := w.claimOne().Until
		p := w.wait()
		w.Advance(theLease - time.Millisecond)
		w.areWaiting(1)
		w.Advance(time.Millisecond)
		c := p.claimed()[0]
		w.isClaim(c, key("order-1"), "a")
		w.sameTime("time of the claim", c.Now, until)
	}},

	{name: "a waiting claim is not woken by the end of a lease that was renewed", run: func(w *world) {
		w.put(key("order-1"), "a")
		c := w.claimOne()
		p := w.wait()
		w.renew(3*theLease, c.Lease())
		w.Advance(theLease)
		w.areWaiting(1)
		w.Advance(2 * theLease)
		w.sameTime("time of the claim", p.claimed()[0].Now, c.Now.Add(3*theLease))
	}},

	{name: "a waiting claim is woken by a release", run: func(w *world) {
		w.put(key("order-1"), "a")
		c := w.claimOne()
		p := w.wait()
		w.release(store.Release{Lease: c.Lease()})
		w.isClaim(p.claimed()[0], key("order-1"), "a")
	}},

	{name: "a waiting claim is woken when the delay of a release is over", run: func(w *world) {
		w.put(key("order-1"), "a")
		c := w.claimOne()
		p := w.wait()
		w.release(store.Release{Lease: c.Lease(), After: 10 * time.Second})
		w.Advance(10 * time.Second)
		w.sameTime("time of the claim", p.claimed()[0].Now, c.Now.Add(10*time.Second))
	}},

	{name: "a waiting claim is woken when a finished claim leaves messages", run: func(w *world) {
		w.put(key("order-1"), "a")
		c := w.claimOne()
		w.put(key("order-1"), "b")
		p := w.wait()
		w.finish(c)
		w.isClaim(p.claimed()[0], key("order-1"), "b")
	}},

	{name: "a waiting claim is woken when a finished claim keeps messages", run: func(w *world) {
		w.put(key("order-1"), "a", "b")
		c := w.claimOne()
		p := w.wait()
		w.commit(&store.Tx{Finish: []store.Finish{finishing(c, "a")}})
		w.isClaim(p.claimed()[0], key("order-1"), "a")
	}},

	{name: "a waiting claim is woken when a commit ends a lease", run: func(w *world) {
		w.put(key("order-1"), "a", "b")
		w.claimOne()
		p := w.wait()
		w.remove(key("order-1"), "a")
		w.isClaim(p.claimed()[0], key("order-1"), "b")
	}},

	{name: "a waiting claim is woken when its route is set", run: func(w *world) {
		k := key("order-1")
		w.putMessages(msg(k, "early", noRoute()))
		p := w.wait()
		// The message that sets the route is not visible itself.
		w.putMessages(msg(k, "start", at(w.in(2*time.Hour))))
		w.isClaim(p.claimed()[0], k, "early")
	}},

	{name: "a waiting claim is woken when a key moves to its route", run: func(w *world) {
		k := key("order-1")
		w.putMessages(msg(k, "a", via("order@0")))
		p := w.wait()
		w.putMessages(msg(k, "b", via(theRoute)))
		w.isClaim(p.claimed()[0], k, "a", "b")
	}},

	{name: "a waiting claim is not woken by what it does not serve", run: func(w *world) {
		p := w.wait()
		w.putMessages(msg(key("shipment-1"), "a", via("ship@1")), msg(keyIn("tasks", theTenant, "task-1"), "a"),
			msg(key("early"), "a", noRoute()))
		w.areWaiting(1)
		w.put(key("order-1"), "b")
		w.claimsExactly(p.claimed(), key("order-1"))
		w.claimOne(serving("ship@1"))
		w.claimOne(from("tasks"))
	}},

	{name: "a waiting claim returns the error of its context", run: func(w *world) {
		p := w.wait()
		p.cancel()
		_, err := p.result()
		w.isErr("claim", err, context.Canceled)
		w.areWaiting(0)
	}},

	{name: "two waiting claims are woken by one commit that has a key for each", run: func(w *world) {
		p, q := w.wait(upTo(1)), w.wait(upTo(1))
		w.putMessages(msg(key("order-1"), "a"), msg(key("order-2"), "a"))
		w.claimsExactly(append(p.claimed(), q.claimed()...), key("order-1"), key("order-2"))
	}},

	{name: "two waiting claims are woken by two commits", run: func(w *world) {
		p, q := w.wait(upTo(1)), w.wait(upTo(1))
		w.put(key("order-1"), "a")
		w.put(key("order-2"), "a")
		w.claimsExactly(append(p.claimed(), q.claimed()...), key("order-1"), key("order-2"))
	}},

	{name: "two waiting claims are woken by two messages that are due at the same time", run: func(w *world) {
		due := at(w.in(time.Second))
		w.putMessages(msg(key("order-1"), "a", due), msg(key("order-2"), "a", due))
		p, q := w.wait(upTo(1)), w.wait(upTo(1))
		w.Advance(time.Second)
		w.claimsExactly(append(p.claimed(), q.claimed()...), key("order-1"), key("order-2"))
	}},

	{name: "two waiting claims of different routes are both woken", run: func(w *world) {
		p, q := w.wait(serving("order@1")), w.wait(serving("ship@1"))
		w.putMessages(msg(key("order-1"), "a", via("order@1")), msg(key("shipment-1"), "b", via("ship@1")))
		w.claimsExactly(p.claimed(), key("order-1"))
		w.claimsExactly(q.claimed(), key("shipment-1"))
	}},

	{name: "many waiting claims are all woken", run: func(w *world) {
		const n = 50
		var waiters []*waiter
		var messages []store.Message
		var keys []store.Key
		for i := range n {
			waiters = append(waiters, w.startClaim(upTo(1), waitFor(time.Hour)))
			keys = append(keys, key(fmt.Sprintf("order-%d", i)))
			messages = append(messages, msg(keys[i], "a"))
		}
		w.areWaiting(n)
		w.putMessages(messages...)
		var claims []store.Claim
		for _, p := range waiters {
			claims = append(claims, p.claimed()...)
		}
		w.claimsExactly(claims, keys...)
	}},

	{name: "a waiting claim that finds its key taken keeps waiting", run: func(w *world) {
		p, q := w.wait(), w.wait()
		w.put(key("order-1"), "a")
		w.areWaiting(1)
		w.put(key("order-2"), "a")
		w.claimsExactly(append(p.claimed(), q.claimed()...), key("order-1"), key("order-2"))
	}},

	{name: "a claim that was cancelled does not keep others from being woken", run: func(w *world) {
		p, q := w.wait(), w.wait()
		p.cancel()
		_, err := p.result()
		w.isErr("claim", err, context.Canceled)
		w.put(key("order-1"), "a")
		w.isClaim(q.claimed()[0], key("order-1"), "a")
	}},

	{name: "a claim that is cancelled as it is woken does not keep others from being woken", run: func(w *world) {
		for round := range 30 {
			k := key(fmt.Sprintf("order-%d", round))
			p, q := w.wait(), w.wait()
			go p.cancel()
			w.put(k, "a")
			if claims, err := p.result(); err == nil {
				// It was woken first, so the other one waits for the next message.
				w.claimsExactly(claims, k)
				w.finish(claims...)
				w.put(k, "b")
			}
			// The cancelled call may have leased the key without an answer that says so:
			// then the lease ends in time. What must not be is that nobody has the key.
			w.eventually("the key is leased", func() bool { return w.stats().Leases == 1 })
			w.Advance(theLease)
			w.claimsExactly(q.claimed(), k)
			w.commit(&store.Tx{DeleteKeys: []store.Key{k}})
		}
	}},
}
