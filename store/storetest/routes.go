package storetest

import (
	"slices"
	"time"

	"github.com/abidehq/abide/store"
)

var routeTTLCases = slices.Concat(routeCases, ttlCases, statsCases)

var routeCases = []propertyCase{
	{name: "a key without a route cannot be claimed", run: func(w *world) {
		w.putMessages(msg(key("order-1"), "a", noRoute()))
		w.claimNone()
		w.isPending(key("order-1"), "a")
	}},

	{name: "messages for a key without a route wait and come first when it gets one", run: func(w *world) {
		k := key("order-1")
		w.putMessages(msg(k, "early", noRoute()))
		w.Advance(time.Hour)
		w.putMessages(msg(k, "also early", noRoute()))
		w.claimNone()
		w.put(k, "start")
		c := w.claimKey(k, []string{"early", "also early", "start"})
		w.equal("route", c.Route, theRoute)
	}},

	{name: "a route given in the same commit counts, whatever the order of the messages", run: func(w *world) {
		k := key("order-1")
		w.putMessages(msg(k, "event", noRoute()), msg(k, "start"))
		w.claimKey(k, []string{"event", "start"})
	}},

	{name: "the route of a message that is not visible yet counts at once", run: func(w *world) {
		k := key("order-1")
		w.putMessages(msg(k, "early", noRoute()))
		w.putMessages(msg(k, "later", at(w.in(time.Hour))))
		w.claimKey(k, []string{"early"})
	}},

	{name: "the latest route wins and all messages of the key move to it", run: func(w *world) {
		k := key("order-1")
		w.putMessages(msg(k, "a", via("v1")), msg(k, "future", via("v1"), at(w.in(time.Hour))))
		w.putMessages(msg(k, "b", via("v2")))
		w.claimNone(serving("v1"))
		c := w.claimKey(k, []string{"a", "b"}, serving("v2"))
		w.equal("route", c.Route, "v2")
		w.finish(c)
		w.Advance(time.Hour)
		w.claimNone(serving("v1"))
		w.claimKey(k, []string{"future"}, serving("v2"))
	}},

	{name: "a message is not visible before the commit that gave its key the route", run: func(w *world) {
		w.putMessages(msg(key("late"), "a", noRoute()), msg(key("late"), "future", noRoute(), at(w.in(time.Hour))))
		future := w.in(time.Hour)
		w.Advance(time.Second)
		w.put(key("early"), "b")
		w.Advance(time.Second)
		w.put(key("late"), "start")
		pending := w.pending(key("late"))
		w.equal("pending", idsOf(pending), []string{"a", "start", "future"})
		w.sameTime("VisibleAt of a message that waited for a route", pending[0].VisibleAt, w.now())
		w.sameTime("VisibleAt of a message that is due later", pending[2].VisibleAt, future)
		claims := w.claimAll()
		w.equal("number of claims", len(claims), 2)
		w.isClaim(claims[0], key("early"), "b")
		w.isClaim(claims[1], key("late"), "a", "start")
	}},

	{name: "giving a key the route that it has changes no time", run: func(w *world) {
		putAt := w.now()
		w.put(key("order-1"), "a")
		w.Advance(time.Second)
		w.put(key("order-2"), "b")
		w.Advance(time.Second)
		w.put(key("order-1"), "c", "a")
		w.sameTime("VisibleAt", w.pending(key("order-1"))[0].VisibleAt, putAt)
		w.isClaim(w.claimAll()[0], key("order-1"), "a", "c")
	}},

	{name: "of two routes in one commit the later one wins", run: func(w *world) {
		w.putMessages(msg(key("order-1"), "a", via("v2")), msg(key("order-1"), "b", via("v1")))
		w.claimNone(serving("v2"))
		w.claimKey(key("order-1"), []string{"a", "b"}, serving("v1"))
	}},

	{name: "a message without a route leaves the route as it is", run: func(w *world) {
		k := key("order-1")
		w.putMessages(msg(k, "a", via("v1")))
		w.putMessages(msg(k, "b", noRoute()))
		w.claimKey(k, []string{"a", "b"}, serving("v1"))
	}},

	{name: "a key without a route gets one from a message whose ID is pending", run: func(w *world) {
		k := key("order-1")
		w.putMessages(msg(k, "a", noRoute()))
		w.put(k, "a")
		w.claimKey(k, []string{"a"})
	}},

	{name: "a route that changes during a lease leaves the lease live", run: func(w *world) {
		k := key("order-1")
		w.putMessages(msg(k, "a", via("v1")))
		c := w.claimOne(serving("v1"))
		w.putMessages(msg(k, "b", via("v2")))
		w.claimNone(serving("v1", "v2"))
		w.finish(c)
		w.claimNone(serving("v1"))
		w.claimKey(k, []string{"b"}, serving("v2"))
	}},

	{name: "a route stays while the key has a log", run: func(w *world) {
		k := key("order-1")
		w.put(k, "a")
		w.append(k, 0, "entry", "entry")
		w.finish(w.claimOne())
		w.putMessages(msg(k, "b", noRoute()))
		w.finish(w.claimKey(k, []string{"b"}))
		w.trim(k, 2) // a log without entries is still a log
		w.putMessages(msg(k, "c", noRoute()))
		w.claimKey(k, []string{"c"})
	}},

	{name: "a route stays while the key has a message that is not visible", run: func(w *world) {
		k := key("order-1")
		w.putMessages(msg(k, "a"), msg(k, "future", at(w.in(time.Hour))))
		w.finish(w.claimOne())
		w.putMessages(msg(k, "b", noRoute()))
		w.claimKey(k, []string{"b"})
	}},

	{name: "a route is forgotten with the last message of a key without a log", run: func(w *world) {
		k := key("order-1")
		for _, end := range []func(){
			func() { w.finish(w.claimOne()) },
			func() { w.remove(k, "a") },
			func() {
				w.exhaust(k, 1)
				w.claimNone(maxAttempts(1))
			},
			func() { w.commit(&store.Tx{DeleteKeys: []store.Key{k}}) },
		} {
			w.put(k, "a")
			end()
			w.isPending(k)
			w.putMessages(msg(k, "b", noRoute()))
			w.claimNone()
			w.isPending(k, "b")
			w.remove(k, "b")
		}
	}},

	{name: "deleting a key forgets its route even though it has a log", run: func(w *world) {
		k := key("order-1")
		w.put(k, "a")
		w.append(k, 0, "entry")
		w.commit(&store.Tx{DeleteKeys: []store.Key{k}})
		w.putMessages(msg(k, "b", noRoute()))
		w.append(k, 0, "entry")
		w.claimNone()
	}},

	{name: "a route outlives the process", needsReopen: true, run: func(w *world) {
		w.putMessages(msg(key("order-1"), "a", via("v1")))
		w.putMessages(msg(key("order-1"), "b", via("v2")))
		w.putMessages(msg(key("order-2"), "c", noRoute()))
		w.putMessages(msg(key("order-3"), "d", via("v3")))
		w.append(key("order-3"), 0, "entry")
		w.finish(w.claimOne(serving("v3")))
		w.Reopen()
		w.claimNone(serving("v1"))
		w.claimKey(key("order-1"), []string{"a", "b"}, serving("v2"))
		w.putMessages(msg(key("order-3"), "e", noRoute()))
		w.claimKey(key("order-3"), []string{"e"}, serving("v3"))
		w.putMessages(msg(key("order-2"), "start", via("v4")))
		w.claimKey(key("order-2"), []string{"c", "start"}, serving("v4"))
	}},
}
