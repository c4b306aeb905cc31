package storetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/abidehq/abide/store"
)

var claimCases = []propertyCase{
	{name: "a key is claimed by one caller at a time", run: func(w *world) {
		w.put(key("order-1"), "a")
		w.claimKey(key("order-1"), []string{"a"})
		w.claimNone()
	}},

	{name: "of many callers at once one gets the key", run: func(w *world) {
		for round := range 20 {
			k := key(fmt.Sprintf("order-%d", round))
			w.put(k, "a")
			winners := 0
			for _, got := range together(8, w.tryClaim()) {
				winners += len(got)
			}
			w.equal("number of callers that got the key", winners, 1)
		}
	}},

	{name: "none means that nothing was ready and not that a race was lost", run: func(w *world) {
		const callers = 8
		for round := range 10 {
			for i := range callers {
				w.put(key(fmt.Sprintf("order-%d-%d", round, i)), "a")
			}
			// There is a key for each of them, in whichever order they come.
			for i, got := range together(callers, w.tryClaim(upTo(1))) {
				if len(got) != 1 {
					w.t.Fatalf("caller %d of %d claimed %v, want one of the %d ready keys", i, callers, describe(got), callers)
				}
			}
		}
	}},

	{name: "callers at once share the ready keys and leave none", run: func(w *world) {
		const keys = 200
		var messages []store.Message
		for i := range keys {
			messages = append(messages, msg(key(fmt.Sprintf("order-%d", i)), "a"))
		}
		w.putMessages(messages...)
		claim := w.tryClaim(upTo(7))
		shares := together(8, func(i int) (mine []store.Claim) {
			for {
				got := claim(i)
				if len(got) == 0 {
					return mine
				}
				mine = append(mine, got...)
			}
		})
		seen := map[store.Key]bool{}
		for _, c := range slices.Concat(shares...) {
			if seen[c.Key] {
				w.t.Fatalf("%v was claimed twice", c.Key)
			}
			seen[c.Key] = true
		}
		w.equal("number of claimed keys", len(seen), keys)
	}},

	{name: "messages put at the same time are delivered in the order in which they were put", run: func(w *world) {
		w.put(key("order-1"), "d", "b")
		w.put(key("order-1"), "c")
		w.put(key("order-1"), "a", "e")
		w.claimKey(key("order-1"), []string{"d", "b", "c", "a", "e"})
	}},

	{name: "messages with different times are delivered in the order of their times", run: func(w *world) {
		k := key("order-1")
		w.putMessages(msg(k, "c", at(w.in(3*time.Second))), msg(k, "a", at(w.in(time.Second))))
		w.putMessages(msg(k, "b", at(w.in(2*time.Second))))
		w.Advance(3 * time.Second)
		w.claimKey(k, []string{"a", "b", "c"})
	}},

	{name: "the time of a message is not before the commit that put it", run: func(w *world) {
		k := key("order-1")
		w.put(k, "first")
		w.Advance(time.Second)
		w.putMessages(msg(k, "second", at(w.in(-time.Hour))))
		w.claimKey(k, []string{"first", "second"})
	}},

	{name: "a message that arrives during a lease waits for the next claim", run: func(w *world) {
		k := key("order-1")
		w.put(k, "a")
		c := w.claimKey(k, []string{"a"})
		w.put(k, "b")
		w.claimNone()
		w.finish(c)
		w.claimKey(k, []string{"b"})
	}},

	{name: "a message that arrives during a lease is not consumed when it is finished", run: func(w *world) {
		k := key("order-1")
		w.put(k, "a")
		c := w.claimOne()
		w.put(k, "b")
		w.finish(c)
		w.isPending(k, "b")
		w.equal("attempt of the message that arrived", w.pendingOne(k).Attempt, 0)
	}},

	{name: "a message that arrives during a lease comes with those that are redelivered", run: func(w *world) {
		k := key("order-1")
		w.put(k, "a")
		w.claimOne()
		w.put(k, "b")
		w.Advance(theLease)
		c := w.claimKey(k, []string{"a", "b"})
		w.equal("attempts", attemptsOf(c), []int{2, 1})
	}},

	{name: "a message put by the commit that finishes a claim is claimed next", run: func(w *world) {
		k := key("order-1")
		w.put(k, "a")
		c := w.claimOne()
		w.commit(&store.Tx{Finish: []store.Finish{finishing(c)}, Put: []store.Message{msg(k, "b")}})
		w.claimKey(k, []string{"b"})
	}},

	{name: "a consumed message is never delivered again", run: func(w *world) {
		k := key("order-1")
		w.put(k, "a", "b")
		w.finish(w.claimOne())
		w.claimNone()
		w.Advance(2 * store.MaxLease)
		w.claimNone()
		w.isPending(k)
	}},

	{name: "a key whose route the caller does not serve is not touched", run: func(w *world) {
		k := key("order-1")
		w.putMessages(msg(k, "a", via("ship@1")))
		w.claimNone()
		w.equal("attempt after a claim that does not serve the route", w.pendingOne(k).Attempt, 0)
		w.equal("leases after a claim that does not serve the route", w.stats().Leases, 0)
		c := w.claimKey(k, []string{"a"}, serving("ship@1"))
		w.equal("attempt at the first claim that does", c.Attempt(), 1)
	}},

	{name: "keys of other routes do not use up Max", run: func(w *world) {
		for i := range 20 {
			w.putMessages(msg(key(fmt.Sprintf("shipment-%d", i)), "a", via("ship@1")))
		}
		w.Advance(time.Second)
		w.put(key("order-1"), "a")
		w.claimKey(key("order-1"), []string{"a"}, upTo(1))
	}},

	{name: "a caller gets the keys of all routes that it serves", run: func(w *world) {
		w.putMessages(msg(key("order-1"), "a", via("order@1")), msg(key("order-2"), "a", via("order@2")),
			msg(key("order-3"), "a", via("order@3")))
		claims := w.claimAll(serving("order@1", "order@3"))
		w.claimsExactly(claims, key("order-1"), key("order-3"))
		w.claimKey(key("order-2"), []string{"a"}, serving("order@1", "order@2", "order@3"))
	}},

	{name: "a route must match as a whole", run: func(w *world) {
		w.putMessages(msg(key("order-1"), "a", via("order@1")))
		w.claimNone(serving("order@", "order@11", "order", "ORDER@1", "order@1 "))
		w.claimOne(serving("order@1"))
	}},

	{name: "a route that is named twice counts once", run: func(w *world) {
		w.put(key("order-1"), "a")
		w.claimKey(key("order-1"), []string{"a"}, serving(theRoute, theRoute))
	}},

	{name: "a caller may serve as many routes as are allowed", run: func(w *world) {
		routes := make([]string, store.MaxRoutes)
		for i := range routes {
			routes[i] = fmt.Sprintf("order@%d", i)
		}
		w.putMessages(msg(key("order-1"), "a", via(routes[0])), msg(key("order-2"), "a", via(routes[len(routes)-1])))
		w.claimsExactly(w.claimAll(serving(routes...)), key("order-1"), key("order-2"))
	}},

	{name: "all ready keys are claimed at once", run: func(w *world) {
		w.put(key("order-1"), "a")
		w.put(key("order-2"), "a")
		w.put(key("order-3"), "a")
		w.claimsExactly(w.claimAll(upTo(3)), key("order-1"), key("order-2"), key("order-3"))
	}},

	{name: "no more than Max keys are claimed and the others stay ready", run: func(w *world) {
		for i := range 5 {
			w.put(key(fmt.Sprintf("order-%d", i)), "a")
		}
		var all []store.Claim
		for _, want := range []int{2, 2, 1, 0} {
			got := w.claimAll(upTo(2))
			w.equal("number of claimed keys", len(got), want)
			all = append(all, got...)
		}
		w.claimsExactly(all, key("order-0"), key("order-1"), key("order-2"), key("order-3"), key("order-4"))
	}},

	{name: "no more than MaxMessages are delivered and the others come next", run: func(w *world) {
		k := key("order-1")
		w.put(k, "a", "b", "c", "d", "e")
		w.finish(w.claimKey(k, []string{"a", "b"}, maxMessages(2)))
		c := w.claimKey(k, []string{"c", "d"}, maxMessages(2))
		w.claimNone() // the rest waits, as the key is leased
		w.finish(c)
		c = w.claimKey(k, []string{"e"}, maxMessages(2))
		w.equal("attempt of a message that waited for the others", c.Attempt(), 1)
	}},

	{name: "DefaultMessages are delivered if the request does not say", run: func(w *world) {
		messages := w.putSeries(key("order-1"), store.DefaultMessages)
		w.claimKey(key("order-1"), idsOf(messages))
	}},

	{name: "more than DefaultMessages are delivered over several claims, in order", run: func(w *world) {
		ids := idsOf(w.putSeries(key("order-1"), store.DefaultMessages+1))
		for len(ids) > 0 {
			c := w.claimOne()
			n := len(c.Messages)
			if n < 1 || n > store.DefaultMessages {
				w.t.Fatalf("delivered %d messages, want 1 to %d", n, store.DefaultMessages)
			}
			w.isClaim(c, key("order-1"), ids[:min(n, len(ids))]...)
			w.finish(c)
			ids = ids[n:]
		}
		w.claimNone()
	}},

	{name: "the key with the oldest visible message is claimed first", run: func(w *world) {
		for _, name := range []string{"order-3", "order-1", "order-4", "order-2"} {
			w.put(key(name), "a")
			w.Advance(time.Millisecond)
		}
		w.put(key("order-3"), "b") // a younger message does not change the place of a key
		w.claimKey(key("order-3"), []string{"a", "b"}, upTo(1))
		w.claimsExactly(w.claimAll(upTo(2)), key("order-1"), key("order-4"))
		w.claimKey(key("order-2"), []string{"a"}, upTo(1))
	}},

	{name: "a key that became due earlier is claimed before one that was put earlier", run: func(w *world) {
		w.putMessages(msg(key("late"), "a", at(w.in(2*time.Second))))
		w.putMessages(msg(key("early"), "a", at(w.in(time.Second))))
		w.Advance(3 * time.Second)
		w.claimKey(key("early"), []string{"a"}, upTo(1))
		w.claimKey(key("late"), []string{"a"}, upTo(1))
	}},

	{name: "a key moves back when its oldest message is moved", run: func(w *world) {
		w.put(key("moved"), "a")
		w.Advance(time.Second)
		w.put(key("stays"), "a")
		w.retime(key("moved"), "a", w.in(time.Second))
		w.Advance(2 * time.Second)
		w.claimKey(key("stays"), []string{"a"}, upTo(1))
		w.claimKey(key("moved"), []string{"a"}, upTo(1))
	}},

	{name: "a key that got its route later is claimed later", run: func(w *world) {
		w.putMessages(msg(key("early"), "a", noRoute()))
		w.Advance(time.Second)
		w.put(key("order-1"), "a")
		w.Advance(time.Second)
		w.putMessages(msg(key("early"), "start", at(w.in(time.Hour))))
		w.claimKey(key("order-1"), []string{"a"}, upTo(1))
		w.claimKey(key("early"), []string{"a"}, upTo(1))
	}},

	{name: "a claim says what it holds", run: func(w *world) {
		k := key("order-1")
		w.append(k, 0, "one", "two", "three")
		w.commit(&store.Tx{Trim: []store.Trim{{Key: k, Before: 2}}})
		putAt := w.now()
		w.put(k, "a")
		w.Advance(5 * time.Second)
		c := w.claimKey(k, []string{"a"}, leaseFor(42*time.Second))
		w.equal("route", c.Route, theRoute)
		w.equal("log length", c.LogLength, 3)
		w.sameTime("now", c.Now, putAt.Add(5*time.Second))
		w.sameTime("until", c.Until, c.Now.Add(42*time.Second))
		w.equal("has a token", c.Token != "", true)
		m := c.Messages[0]
		w.equal("key of the message", m.Key, k)
		w.equal("body of the message", string(m.Body), string(bodyOf("a")))
		w.equal("attempt of the message", m.Attempt, 1)
		w.sameTime("put at", m.PutAt, putAt)
	}},

	{name: "a claim of a key without a log has log length zero", run: func(w *world) {
		w.put(key("order-1"), "a")
		w.append(key("order-2"), 0, "one")
		w.equal("log length", w.claimOne().LogLength, 0)
	}},

	{name: "queues are separate", run: func(w *world) {
		tasks := keyIn("tasks", theTenant, "order-1")
		w.put(key("order-1"), "a")
		w.put(tasks, "b")
		w.claimNone(from("timers"))
		w.claimKey(key("order-1"), []string{"a"})
		// A lease on a key is none on its namesake in another queue.
		w.claimKey(tasks, []string{"b"}, from("tasks"))
	}},

	{name: "a key that has only future messages is not claimed", run: func(w *world) {
		w.putMessages(msg(key("order-1"), "a", at(w.in(time.Hour))), msg(key("order-1"), "b", at(w.in(time.Minute))))
		w.claimNone()
		w.equal("leases", w.stats().Leases, 0)
	}},

	{name: "future messages do not come with visible ones", run: func(w *world) {
		k := key("order-1")
		w.putMessages(msg(k, "later", at(w.in(10*time.Second))), msg(k, "now"))
		c := w.claimKey(k, []string{"now"})
		w.Advance(10 * time.Second)
		w.claimNone() // it is visible now, but its key is leased
		w.finish(c)
		c = w.claimKey(k, []string{"later"})
		w.equal("attempt of the later message", c.Attempt(), 1)
	}},
}

// tryClaim returns a function that claims and may be called by any goroutine. A claim
// that fails counts as none, so that the case finds that something is missing.
func (w *world) tryClaim(options ...requestOption) func(int) []store.Claim {
	return func(int) []store.Claim {
		claims, err := w.Store.Claim(w.ctx, request(options...))
		if err != nil {
			w.t.Errorf("claim: %v", err)
		}
		return claims
	}
}

// putSeries puts n messages to a key in one commit, and returns them.
func (w *world) putSeries(k store.Key, n int) []store.Message {
	w.t.Helper()
	messages := make([]store.Message, 0, n)
	for i := range n {
		messages = append(messages, msg(k, fmt.Sprintf("m%05d", i)))
	}
	w.putMessages(messages...)
	return messages
}

// claimsExactly checks which keys were claimed, in whatever order.
func (w *world) claimsExactly(claims []store.Claim, keys ...store.Key) {
	w.t.Helper()
	got := map[store.Key]int{}
	for _, c := range claims {
		got[c.Key]++
	}
	want := map[store.Key]int{}
	for _, k := range keys {
		want[k]++
	}
	w.equal("claimed keys", got, want)
}

// attemptsOf returns the attempt counts of the messages of a claim, in their order.
func attemptsOf(c store.Claim) []int {
	attempts := make([]int, 0, len(c.Messages))
	for i := range c.Messages {
		attempts = append(attempts, c.Messages[i].Attempt)
	}
	return attempts
}
