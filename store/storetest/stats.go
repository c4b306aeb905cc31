package storetest

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/abidehq/abide/store"
)

var statsCases = []propertyCase{
	{name: "an empty store has nothing", run: func(w *world) {
		stats := w.stats()
		w.equal("number of routes", len(stats.Routes), 0)
		w.equal("leases", stats.Leases, 0)
		w.equal("waiting", stats.Waiting, 0)
	}},

	{name: "there is a row for each queue and route with pending messages, in order", run: func(w *world) {
		w.putMessages(
			msg(keyIn("q2", "t", "k"), "a", via("r1")), msg(keyIn("q1", "t", "k"), "a", via("r2")),
			msg(keyIn("q1", "t", "k2"), "a", via("r1")), msg(keyIn("q1", "u", "k2"), "a", via("r1")),
			msg(keyIn("q1", "t", "k3"), "a", noRoute()),
		)
		w.append(keyIn("q3", "t", "only a log"), 0, "entry")
		w.append(keyIn("q1", "t", "k"), 0, "entry") // it keeps the key, but not the row
		got := []string{}
		for _, row := range w.stats().Routes {
			got = append(got, fmt.Sprintf("%s/%s: %d pending, %d ready", row.Queue, row.Route, row.Pending, row.Ready))
		}
		w.equal("rows", got, []string{
			"q1/: 1 pending, 0 ready", "q1/r1: 2 pending, 2 ready", "q1/r2: 1 pending, 1 ready", "q2/r1: 1 pending, 1 ready",
		})
		for _, c := range w.claimAll(from("q1"), serving("r1", "r2")) {
			w.finish(c)
		}
		w.equal("number of rows when some are consumed", len(w.stats().Routes), 2)
	}},

	{name: "messages whose keys have no route are in a row without a route", run: func(w *world) {
		w.putMessages(msg(key("order-1"), "a", noRoute()), msg(key("order-1"), "b", noRoute()), msg(key("order-2"), "a", noRoute()))
		row := w.routeStats(theQueue, "")
		w.equal("pending", row.Pending, 3)
		w.equal("ready", row.Ready, 0)
		w.equal("oldest is zero", row.Oldest.IsZero(), true)
		w.put(key("order-1"), "start")
		w.equal("pending without a route", w.routeStats(theQueue, "").Pending, 1)
		w.equal("pending with a route", w.routeStats(theQueue, theRoute).Pending, 3)
	}},

	{name: "a route that nobody serves shows its messages and their age", run: func(w *world) {
		putAt := w.now()
		w.putMessages(msg(key("order-1"), "a", via("unserved")))
		w.Advance(time.Hour)
		row := w.routeStats(theQueue, "unserved")
		w.equal("pending", row.Pending, 1)
		w.equal("ready", row.Ready, 1)
		w.sameTime("oldest", row.Oldest, putAt)
	}},

	{name: "messages move to the row of the new route of their key", run: func(w *world) {
		w.putMessages(msg(key("order-1"), "a", via("v1")), msg(key("order-1"), "b", via("v1"), at(w.in(time.Hour))))
		w.Advance(time.Second)
		w.putMessages(msg(key("order-1"), "c", via("v2")))
		w.equal("number of rows", len(w.stats().Routes), 1)
		row := w.routeStats(theQueue, "v2")
		w.equal("pending", row.Pending, 3)
		w.equal("ready", row.Ready, 2)
		w.sameTime("oldest", row.Oldest, w.now()) // it is not visible under the new route any earlier
	}},

	{name: "pending counts messages that are not visible and messages that are delivered", run: func(w *world) {
		k := key("order-1")
		w.putMessages(msg(k, "a"), msg(k, "b", at(w.in(time.Hour))))
		w.isRow(2, 1)
		c := w.claimOne()
		w.isRow(2, 1)
		w.put(k, "c")
		w.isRow(3, 2)
		w.finish(c)
		w.isRow(2, 1)
		w.Advance(time.Hour)
		w.isRow(2, 2)
		w.remove(k, "b")
		w.isRow(1, 1)
		w.commit(&store.Tx{DeleteKeys: []store.Key{k}})
		w.equal("number of rows", len(w.stats().Routes), 0)
	}},

	{name: "ready follows messages that are re-timed or released with a delay", run: func(w *world) {
		k := key("order-1")
		w.put(k, "a", "b")
		w.retime(k, "a", w.in(time.Hour))
		w.isRow(2, 1)
		w.release(store.Release{Lease: leaseOf(w.claimOne()), After: time.Minute})
		w.isRow(2, 0)
		w.sameTime("oldest", w.routeStats(theQueue, theRoute).Oldest, w.in(time.Minute))
		w.Advance(time.Minute)
		w.isRow(2, 1)
		w.retime(k, "a", time.Time{})
		w.isRow(2, 2)
	}},

	{name: "a put of a message that is pending counts it once", run: func(w *world) {
		w.put(key("order-1"), "a")
		w.put(key("order-1"), "a", "a")
		w.isRow(1, 1)
	}},

	{name: "a quarantined message is no longer counted", run: func(w *world) {
		w.put(key("order-1"), "a")
		w.exhaust(key("order-1"), 1)
		w.claimNone(maxAttempts(1))
		w.equal("number of rows", len(w.stats().Routes), 0)
	}},

	{name: "oldest is when the oldest pending message is visible", run: func(w *world) {
		start := w.now()
		oldest := func(want time.Time) {
			w.t.Helper()
			w.sameTime("oldest", w.routeStats(theQueue, theRoute).Oldest, want)
		}
		w.putMessages(msg(key("order-1"), "a", at(start.Add(time.Hour))))
		oldest(start.Add(time.Hour))
		w.putMessages(msg(key("order-2"), "b", at(start.Add(time.Minute))))
		oldest(start.Add(time.Minute))
		w.Advance(2 * time.Minute)
		oldest(start.Add(time.Minute))
		c := w.claimOne()
		oldest(start.Add(time.Minute)) // it is delivered, and still pending
		w.finish(c)
		oldest(start.Add(time.Hour))
		w.putMessages(msg(key("order-3"), "c", at(start))) // in the past means now
		oldest(start.Add(2 * time.Minute))
		w.remove(key("order-3"), "c")
		oldest(start.Add(time.Hour))
	}},

	{name: "ready is counted up to ReadyCap, and pending to the end", run: func(w *world) {
		const more = 100
		var messages []store.Message
		for i := range store.ReadyCap + more {
			messages = append(messages, msg(key(fmt.Sprintf("order-%d", i%500)), fmt.Sprint(i), withBody(nil)))
		}
		for part := range slices.Chunk(messages, 2500) {
			w.putMessages(part...)
		}
		w.isRow(store.ReadyCap+more, store.ReadyCap)
		claims := w.claimAll(upTo(50))
		w.finish(claims...)
		consumed := 0
		for _, c := range claims {
			consumed += len(c.Messages)
		}
		w.isRow(store.ReadyCap+more-consumed, min(store.ReadyCap, store.ReadyCap+more-consumed))
	}},

	{name: "leases counts those that are live", run: func(w *world) {
		for _, name := range []string{"a", "b", "c", "d", "e"} {
			w.put(key(name), "m")
		}
		claims := w.claimAll()
		w.equal("leases", w.stats().Leases, 5)
		w.finish(claims[0])
		w.release(store.Release{Lease: claims[1].Lease()})
		w.remove(claims[2].Key, "m")
		w.equal("leases when some ended", w.stats().Leases, 2)
		w.Advance(theLease - time.Millisecond)
		w.equal("leases before they expire", w.stats().Leases, 2)
		w.Advance(time.Millisecond)
		w.equal("leases when they expired", w.stats().Leases, 0)
	}},

	{name: "waiting counts the claims that wait", run: func(w *world) {
		first := w.wait()
		second := w.wait(serving("other"))
		w.equal("waiting", w.stats().Waiting, 2)
		w.put(key("order-1"), "a")
		first.claimed()
		w.areWaiting(1)
		second.cancel()
		w.areWaiting(0)
		_, err := second.result()
		w.isErr("claim", err, context.Canceled)
	}},

	{name: "now is the time of the store", run: func(w *world) {
		start := w.stats().Now
		w.sameTime("now", w.stats().Now, start)
		w.Advance(90 * time.Second)
		w.sameTime("now", w.stats().Now, start.Add(90*time.Second))
		w.put(key("order-1"), "a")
		w.sameTime("the time of a claim", w.claimOne().Now, start.Add(90*time.Second))
	}},

	{name: "what is counted outlives the process", needsReopen: true, run: func(w *world) {
		w.putMessages(msg(key("order-1"), "a"), msg(key("order-1"), "b", at(w.in(time.Hour))), msg(key("order-2"), "c"))
		w.putMessages(msg(key("order-3"), "d", noRoute()))
		w.finish(w.claimAll(upTo(1))...)
		oldest := w.routeStats(theQueue, theRoute).Oldest
		w.Reopen()
		w.isRow(2, 1)
		w.sameTime("oldest", w.routeStats(theQueue, theRoute).Oldest, oldest)
		w.equal("pending without a route", w.routeStats(theQueue, "").Pending, 1)
	}},
}

// isRow checks the row of the usual queue and route.
func (w *world) isRow(pending, ready int) {
	w.t.Helper()
	row := w.routeStats(theQueue, theRoute)
	if row.Pending != pending || row.Ready != ready {
		w.t.Fatalf("%d pending and %d ready, want %d and %d", row.Pending, row.Ready, pending, ready)
	}
}
