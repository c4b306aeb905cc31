package storetest

import (
	"time"

	"github.com/abidehq/abide/store"
)

var ttlCases = []propertyCase{
	{name: "a message whose key has no route for its TTL goes to quarantine, and not before", run: func(w *world) {
		k := key("order-1")
		putAt := w.now()
		w.putMessages(msg(k, "a", noRoute(), withTTL(time.Hour)))
		w.Advance(time.Hour - time.Millisecond)
		w.claimNone() // by the next claim on the queue it is done
		w.isPending(k, "a")
		w.isQuarantined()

		w.Advance(time.Millisecond)
		w.claimNone()
		w.isPending(k)
		r := w.isQuarantined("a")[0]
		w.equal("status", r.Status, store.ReasonExpired)
		w.equal("name", r.Name, theQueue)
		w.equal("tags", r.Tags, map[string]string{store.TagKey: "order-1", store.TagMessage: "a", store.TagRoute: ""})
		w.sameTime("time", r.Time, putAt.Add(time.Hour))
		m, err := store.Quarantined(r)
		if err != nil {
			w.t.Fatal(err)
		}
		w.equal("attempt", m.Attempt, 0)
		w.equal("TTL", m.TTL, time.Hour)
		w.sameBytes("body", m.Body, bodyOf("a"))
		w.sameTime("PutAt", m.PutAt, putAt)
	}},

	{name: "without a TTL a message waits for DefaultTTL", run: func(w *world) {
		w.putMessages(msg(key("order-1"), "a", noRoute()))
		w.Advance(store.DefaultTTL - time.Millisecond)
		w.claimNone()
		w.isQuarantined()
		w.Advance(time.Millisecond)
		w.claimNone()
		w.isQuarantined("a")
	}},

	{name: "each message has its own TTL", run: func(w *world) {
		k := key("order-1")
		w.putMessages(msg(k, "long", noRoute(), withTTL(3*time.Hour)), msg(k, "short", noRoute(), withTTL(time.Hour)))
		w.Advance(time.Hour)
		w.putMessages(msg(k, "late", noRoute(), withTTL(time.Hour)))
		w.claimNone()
		w.isQuarantined("short")
		w.isPending(k, "long", "late")
		w.Advance(time.Hour)
		w.claimNone()
		w.isQuarantined("short", "late")
		w.put(k, "start")
		w.claimKey(k, []string{"long", "start"})
	}},

	{name: "the TTL counts from the commit, also for a message that is not visible yet", run: func(w *world) {
		k := key("order-1")
		w.putMessages(msg(k, "a", noRoute(), withTTL(time.Hour), at(w.in(24*time.Hour))))
		w.Advance(time.Hour)
		w.claimNone()
		w.isQuarantined("a")
		w.isPending(k)
	}},

	{name: "a TTL means nothing once the key has a route", run: func(w *world) {
		w.putMessages(msg(key("routed"), "a", withTTL(time.Hour)))
		w.Advance(time.Millisecond) // so that it is the older one
		w.putMessages(msg(key("later"), "b", noRoute(), withTTL(time.Hour)))
		w.putMessages(msg(key("later"), "start", at(w.in(100*time.Hour))))
		w.Advance(2 * time.Hour)
		claims := w.claimAll()
		w.equal("number of claims", len(claims), 2)
		w.isClaim(claims[0], key("routed"), "a")
		w.isClaim(claims[1], key("later"), "b")
		w.isQuarantined()
	}},

	{name: "a TTL means nothing for a message that joins a key with a route", run: func(w *world) {
		k := key("order-1")
		w.putMessages(msg(k, "start", via("nobody serves this")), msg(k, "a", noRoute(), withTTL(time.Hour)))
		w.Advance(2 * time.Hour)
		w.claimNone()
		w.isQuarantined()
		w.claimKey(k, []string{"start", "a"}, serving("nobody serves this"))
	}},

	{name: "a message whose TTL has just ended is delivered or in quarantine, and never both", run: func(w *world) {
		k := key("order-1")
		w.putMessages(msg(k, "a", noRoute(), withTTL(time.Hour)))
		w.Advance(2 * time.Hour)
		w.put(k, "start") // before any claim
		c := w.claimOne()
		delivered := len(c.Messages) == 2
		if delivered {
			w.isClaim(c, k, "a", "start")
			w.isQuarantined()
		} else {
			w.isClaim(c, k, "start")
			w.isQuarantined("a")
		}
	}},

	{name: "the log of a key stays when its messages expire", run: func(w *world) {
		k := key("order-1")
		w.append(k, 0, "entry")
		w.putMessages(msg(k, "a", noRoute(), withTTL(time.Hour)))
		w.Advance(time.Hour)
		w.claimNone()
		w.isQuarantined("a")
		w.isLog(k, 0, "entry")
	}},

	{name: "a message that is put again after it expired waits again", run: func(w *world) {
		k := key("order-1")
		for range 2 {
			w.putMessages(msg(k, "a", noRoute(), withTTL(time.Hour)))
			w.Advance(time.Hour)
			w.claimNone()
			w.isPending(k)
		}
		w.equal("number of messages in quarantine", len(w.quarantined()), 2)
	}},

	{name: "a redriven message that had expired waits for a route again", run: func(w *world) {
		k := key("order-1")
		w.putMessages(msg(k, "a", noRoute(), withTTL(time.Hour)))
		w.Advance(time.Hour)
		w.claimNone()
		w.redrive(w.isQuarantined("a")[0])
		w.Advance(time.Hour - time.Millisecond)
		w.claimNone()
		w.isPending(k, "a")
		w.isQuarantined()
		w.put(k, "start")
		w.claimKey(k, []string{"a", "start"})
	}},

	{name: "messages expire in every queue by itself", run: func(w *world) {
		for _, queue := range []string{"q1", "q2"} {
			w.putMessages(msg(keyIn(queue, theTenant, "k"), queue, noRoute(), withTTL(time.Hour)))
		}
		w.Advance(time.Hour)
		w.claimNone(from("q1"))
		w.claimNone(from("q2"))
		w.isQuarantined("q1", "q2")
	}},

	{name: "a TTL keeps running when the process ends", needsReopen: true, run: func(w *world) {
		w.putMessages(msg(key("order-1"), "a", noRoute(), withTTL(time.Hour)))
		w.Advance(30 * time.Minute)
		w.Reopen()
		w.Advance(30*time.Minute - time.Millisecond)
		w.claimNone()
		w.isQuarantined()
		w.Advance(time.Millisecond)
		w.claimNone()
		w.isQuarantined("a")
	}},

	{name: "a message whose TTL ends while the store is closed expires", needsReopen: true, run: func(w *world) {
		w.putMessages(msg(key("order-1"), "a", noRoute(), withTTL(time.Hour)))
		if err := w.Store.Close(); err != nil {
			w.t.Fatalf("close: %v", err)
		}
		w.Advance(time.Hour)
		w.Reopen()
		w.claimNone()
		w.isQuarantined("a")
	}},
}
