package storetest

import (
	"fmt"
	"time"

	"github.com/abidehq/abide/store"
)

var messageCases = []propertyCase{
	{name: "a message moved to an earlier time is visible then", run: func(w *world) {
		k := key("order-1")
		w.putMessages(msg(k, "a", at(w.in(time.Hour))))
		w.retime(k, "a", w.in(time.Second))
		w.sameTime("visible at", w.pendingOne(k).VisibleAt, w.in(time.Second))
		w.Advance(time.Second - time.Millisecond)
		w.claimNone()
		w.Advance(time.Millisecond)
		w.finish(w.claimKey(k, []string{"a"}))
		w.Advance(time.Hour) // nothing is left at the old time
		w.claimNone()
	}},

	{name: "a message moved to a later time is visible then", run: func(w *world) {
		k := key("order-1")
		w.putMessages(msg(k, "a", at(w.in(time.Second))))
		w.retime(k, "a", w.in(time.Minute))
		w.Advance(time.Minute - time.Millisecond)
		w.claimNone()
		w.Advance(time.Millisecond)
		w.claimKey(k, []string{"a"})
	}},

	{name: "a visible message moved to a later time is visible no more", run: func(w *world) {
		k := key("order-1")
		w.put(k, "a")
		w.retime(k, "a", w.in(time.Second))
		w.claimNone()
		w.Advance(time.Second)
		w.claimKey(k, []string{"a"})
	}},

	{name: "a message moved to the past is visible at once, and its time is now", run: func(w *world) {
		k := key("order-1")
		w.putMessages(msg(k, "a", at(w.in(time.Hour))), msg(k, "b", at(w.in(time.Hour))))
		w.Advance(time.Second)
		w.put(k, "c")
		w.Advance(time.Second)
		w.retime(k, "a", w.in(-time.Minute))
		w.retime(k, "b", time.Time{})
		w.sameTime("visible at", w.pending(k)[1].VisibleAt, w.now())
		w.claimKey(k, []string{"c", "a", "b"})
	}},

	{name: "a time to move to is rounded up to the millisecond", run: func(w *world) {
		k := key("order-1")
		w.put(k, "a")
		w.retime(k, "a", w.in(time.Millisecond+time.Nanosecond))
		w.Advance(time.Millisecond)
		w.claimNone()
		w.Advance(time.Millisecond)
		w.claimKey(k, []string{"a"})
	}},

	{name: "a moved message keeps its body, its attempts and the time it was put", run: func(w *world) {
		k := key("order-1")
		putAt := w.now()
		w.put(k, "a")
		w.Advance(time.Second)
		w.release(store.Release{Lease: leaseOf(w.claimOne())})
		w.retime(k, "a", w.in(time.Minute))
		w.Advance(time.Minute)
		m := w.claimKey(k, []string{"a"}).Messages[0]
		w.equal("body", string(m.Body), string(bodyOf("a")))
		w.equal("attempt", m.Attempt, 2)
		w.sameTime("put at", m.PutAt, putAt)
	}},

	{name: "a moved message stays before those put after it that have the same time", run: func(w *world) {
		k := key("order-1")
		due := w.in(time.Minute)
		w.put(k, "a", "b")
		w.putMessages(msg(k, "c", at(due)))
		w.retime(k, "b", due)
		w.retime(k, "a", due)
		w.isPending(k, "a", "b", "c")
		w.Advance(time.Minute)
		w.claimKey(k, []string{"a", "b", "c"})
	}},

	{name: "messages are delivered in the order of the times that they were moved to", run: func(w *world) {
		k := key("order-1")
		w.put(k, "a", "b", "c")
		w.retime(k, "a", w.in(3*time.Second))
		w.retime(k, "b", w.in(time.Second))
		w.retime(k, "c", w.in(2*time.Second))
		w.isPending(k, "b", "c", "a")
		w.Advance(3 * time.Second)
		w.claimKey(k, []string{"b", "c", "a"})
	}},

	{name: "of two moves in one commit the last one counts", run: func(w *world) {
		k := key("order-1")
		w.put(k, "a")
		w.commit(&store.Tx{Retime: []store.Retime{
			{Ref: ref(k, "a"), VisibleAt: w.in(time.Hour)}, {Ref: ref(k, "a"), VisibleAt: w.in(time.Second)},
		}})
		w.Advance(time.Second)
		w.claimKey(k, []string{"a"})
	}},

	{name: "a move survives the process", needsReopen: true, run: func(w *world) {
		k := key("order-1")
		w.putMessages(msg(k, "a", at(w.in(time.Second))), msg(k, "b", at(w.in(time.Hour))))
		w.retime(k, "a", w.in(time.Hour))
		w.retime(k, "b", w.in(time.Second))
		w.Reopen()
		w.Advance(time.Second)
		w.finish(w.claimKey(k, []string{"b"}))
		w.Advance(time.Hour)
		w.claimKey(k, []string{"a"})
	}},

	{name: "moving a message that is not pending does nothing", run: func(w *world) {
		k := key("order-1")
		w.put(k, "consumed")
		w.finish(w.claimOne())
		w.put(k, "a")
		w.retime(k, "consumed", w.now())
		w.retime(k, "unknown", w.now())
		w.retime(key("order-2"), "a", w.in(time.Hour))
		w.retime(keyIn("nowhere", theTenant, "order-1"), "a", w.in(time.Hour))
		w.isPending(key("order-2"))
		w.finish(w.claimKey(k, []string{"a"}))
		w.claimNone()
	}},

	{name: "a deleted message is not delivered", run: func(w *world) {
		k := key("order-1")
		w.put(k, "a", "b", "c")
		w.putMessages(msg(k, "timeout", at(w.in(time.Second))))
		w.remove(k, "b", "timeout")
		w.isPending(k, "a", "c")
		w.Advance(time.Second)
		w.claimKey(k, []string{"a", "c"})
	}},

	{name: "a key whose last message is deleted is not claimed", run: func(w *world) {
		w.put(key("order-1"), "a")
		w.remove(key("order-1"), "a")
		w.claimNone()
		w.equal("rows of stats", len(w.stats().Routes), 0)
	}},

	{name: "deleting a message that is not pending does nothing", run: func(w *world) {
		k := key("order-1")
		w.put(k, "consumed")
		w.finish(w.claimOne())
		w.put(k, "a")
		w.remove(k, "consumed", "unknown", "unknown")
		w.remove(key("order-2"), "a")
		w.remove(keyIn("nowhere", theTenant, "order-1"), "a")
		w.claimKey(k, []string{"a"})
	}},

	{name: "the ID of a deleted message is free", run: func(w *world) {
		k := key("order-1")
		w.put(k, "a")
		w.release(store.Release{Lease: leaseOf(w.claimOne())})
		w.remove(k, "a")
		w.putMessages(msg(k, "a", withBody([]byte("new"))))
		c := w.claimKey(k, []string{"a"})
		w.equal("body", string(c.Messages[0].Body), "new")
		w.equal("attempts", attemptsOf(c), []int{1})
	}},

	{name: "an ID put twice in one commit is one message, the first", run: func(w *world) {
		k := key("order-1")
		w.putMessages(msg(k, "a"), msg(k, "b"), msg(k, "a", withBody([]byte("second")), at(w.in(time.Hour))))
		c := w.claimKey(k, []string{"a", "b"})
		w.equal("body", string(c.Messages[0].Body), string(bodyOf("a")))
		w.equal("messages that are pending", w.routeStats(theQueue, theRoute).Pending, 2)
	}},

	{name: "an ID put by two commits is one message, the first", run: func(w *world) {
		k := key("order-1")
		putAt := w.now()
		w.put(k, "a", "b")
		w.Advance(time.Second)
		w.putMessages(msg(k, "a", withBody([]byte("second"))))
		c := w.claimKey(k, []string{"a", "b"})
		w.equal("body", string(c.Messages[0].Body), string(bodyOf("a")))
		w.sameTime("put at", c.Messages[0].PutAt, putAt)
		w.finish(c)
		w.claimNone()
	}},

	{name: "putting an ID again does not make it visible sooner or later", run: func(w *world) {
		k := key("order-1")
		w.putMessages(msg(k, "a", at(w.in(time.Minute))), msg(k, "b"))
		w.putMessages(msg(k, "a"), msg(k, "b", at(w.in(time.Hour))))
		w.finish(w.claimKey(k, []string{"b"}))
		w.Advance(time.Minute - time.Millisecond)
		w.claimNone()
		w.Advance(time.Millisecond)
		w.claimKey(k, []string{"a"})
	}},

	{name: "a route on an ID that is put again counts", run: func(w *world) {
		k := key("order-1")
		w.putMessages(msg(k, "a", via("order@1")))
		w.putMessages(msg(k, "a", via("order@2"), withBody([]byte("second"))))
		w.claimNone(serving("order@1"))
		c := w.claimKey(k, []string{"a"}, serving("order@2"))
		w.equal("route", c.Route, "order@2")
		w.equal("body", string(c.Messages[0].Body), string(bodyOf("a")))
	}},

	{name: "an ID put while it is delivered changes nothing", run: func(w *world) {
		k := key("order-1")
		w.put(k, "a")
		c := w.claimOne()
		w.putMessages(msg(k, "a", withBody([]byte("second"))))
		w.equal("body", string(w.pendingOne(k).Body), string(bodyOf("a")))
		w.finish(c)
		w.isPending(k)
		w.claimNone()
	}},

	{name: "an ID put after it was consumed is a new message", run: func(w *world) {
		k := key("order-1")
		w.put(k, "a")
		w.finish(w.claimOne())
		w.Advance(time.Second)
		putAt := w.now()
		w.putMessages(msg(k, "a", withBody([]byte("new"))))
		c := w.claimKey(k, []string{"a"})
		w.equal("body", string(c.Messages[0].Body), "new")
		w.equal("attempts", attemptsOf(c), []int{1})
		w.sameTime("put at", c.Messages[0].PutAt, putAt)
	}},

	{name: "an ID put again survives as one message", needsReopen: true, run: func(w *world) {
		k := key("order-1")
		w.put(k, "a")
		w.Reopen()
		w.putMessages(msg(k, "a", withBody([]byte("second"))))
		w.Reopen()
		c := w.claimKey(k, []string{"a"})
		w.equal("body", string(c.Messages[0].Body), string(bodyOf("a")))
	}},

	{name: "the same ID under other keys, tenants and queues is another message", run: func(w *world) {
		keys := []store.Key{
			key("order-1"), key("order-2"), keyIn(theQueue, "globex", "order-1"), keyIn(theQueue, "", "order-1"),
			keyIn("tasks", theTenant, "order-1"),
		}
		for i, k := range keys {
			w.putMessages(msg(k, "a", withBody(fmt.Appendf(nil, "body %d", i))))
		}
		w.remove(keys[1], "a")
		w.isPending(keys[1])
		w.claimsExactly(w.claimAll(), keys[0], keys[2], keys[3])
		w.claimsExactly(w.claimAll(from("tasks")), keys[4])
		for i, k := range keys {
			if i != 1 {
				w.equal("body of "+k.String(), string(w.pendingOne(k).Body), fmt.Sprintf("body %d", i))
			}
		}
	}},

	{name: "attempts and put time that a caller gives are ignored", run: func(w *world) {
		k := key("order-1")
		m := msg(k, "a")
		m.Attempt, m.PutAt = 7, w.in(-time.Hour)
		w.putMessages(m)
		c := w.claimKey(k, []string{"a"})
		w.equal("attempts", attemptsOf(c), []int{1})
		w.sameTime("put at", c.Messages[0].PutAt, w.now())
	}},

	{name: "pending lists everything in the order of delivery", run: func(w *world) {
		k := key("order-1")
		w.put(k, "delivered")
		w.claimOne()
		w.putMessages(msg(k, "much later", at(w.in(time.Hour))), msg(k, "later", at(w.in(time.Second))), msg(k, "arrived"))
		w.put(key("order-2"), "other")
		w.isPending(k, "delivered", "arrived", "later", "much later")
	}},

	{name: "pending lists no more than its limit, the first", run: func(w *world) {
		k := key("order-1")
		w.putMessages(msg(k, "d", at(w.in(time.Hour))), msg(k, "a"), msg(k, "b"), msg(k, "c"))
		for limit, want := range [][]string{{"a", "b", "c", "d"}, {"a"}, {"a", "b"}, {"a", "b", "c"}, {"a", "b", "c", "d"}, {"a", "b", "c", "d"}} {
			messages, err := w.Store.Pending(w.ctx, k, limit)
			if err != nil {
				w.t.Fatalf("pending: %v", err)
			}
			w.equal(fmt.Sprintf("pending with limit %d", limit), idsOf(messages), want)
		}
	}},

	{name: "pending says what it knows of a message", run: func(w *world) {
		k := key("order-1")
		putAt, due := w.now(), w.in(time.Hour)
		w.putMessages(msg(k, "a", at(due)))
		w.Advance(time.Second)
		m := w.pendingOne(k)
		w.equal("key", m.Key, k)
		w.equal("body", string(m.Body), string(bodyOf("a")))
		w.equal("attempt", m.Attempt, 0)
		w.sameTime("visible at", m.VisibleAt, due)
		w.sameTime("put at", m.PutAt, putAt)
	}},

	{name: "a key that does not exist has nothing pending", run: func(w *world) {
		w.put(key("order-1"), "a")
		w.isPending(key("order-2"))
		w.isPending(keyIn("nowhere", theTenant, "order-1"))
	}},
}
