package storetest

import (
	"fmt"
	"time"

	"github.com/abidehq/abide/store"
)

// lastTime is the latest time that a message may have.
var lastTime = time.Date(9999, 12, 31, 23, 59, 59, 999_999_999, time.UTC)

var visibilityCases = []propertyCase{
	{name: "a message is visible in the millisecond of its time and not before", run: func(w *world) {
		k := key("order-1")
		w.putMessages(msg(k, "a", at(w.in(1500*time.Millisecond))))
		w.claimNone()
		w.Advance(1499 * time.Millisecond)
		w.claimNone()
		w.Advance(time.Millisecond)
		w.claimKey(k, []string{"a"})
	}},

	{name: "messages a millisecond apart become visible one by one", run: func(w *world) {
		start := w.now()
		for i := 1; i <= 5; i++ {
			w.putMessages(msg(key(fmt.Sprintf("order-%d", i)), "a", at(start.Add(time.Duration(i)*time.Millisecond))))
		}
		for i := 1; i <= 5; i++ {
			w.claimNone()
			w.Advance(time.Millisecond)
			w.claimKey(key(fmt.Sprintf("order-%d", i)), []string{"a"})
		}
	}},

	{name: "a time is rounded up to the millisecond and so never early", run: func(w *world) {
		k := key("order-1")
		for _, excess := range []time.Duration{1, time.Microsecond, time.Millisecond / 2, time.Millisecond - 1} {
			w.putMessages(msg(k, "a", at(w.in(time.Millisecond+excess))))
			w.Advance(time.Millisecond)
			w.claimNone()
			w.Advance(time.Millisecond)
			w.finish(w.claimKey(k, []string{"a"}))
		}
	}},

	{name: "a message that is due within the millisecond is not visible at once", run: func(w *world) {
		w.putMessages(msg(key("order-1"), "a", at(w.in(time.Nanosecond))))
		w.claimNone()
		w.Advance(time.Millisecond)
		w.claimOne()
	}},

	{name: "a time counts as an instant whatever its zone", run: func(w *world) {
		due := w.in(time.Second)
		west := time.FixedZone("west", -8*60*60)
		w.putMessages(msg(key("order-1"), "a", at(due.In(west))))
		w.sameTime("visible at", w.pendingOne(key("order-1")).VisibleAt, due)
		w.Advance(time.Second - time.Millisecond)
		w.claimNone()
		w.Advance(time.Millisecond)
		w.claimOne()
	}},

	{name: "a time in the past means now", run: func(w *world) {
		for i, past := range []time.Time{
			{}, w.now(), w.in(-time.Nanosecond), w.in(-time.Millisecond), w.in(-100 * 365 * 24 * time.Hour),
			time.Unix(0, 0), time.Unix(0, -1), time.Unix(-1, 0),
			time.Date(1969, 12, 31, 23, 59, 59, 999_999_999, time.UTC),
			time.Date(1, 1, 1, 0, 0, 0, 1, time.UTC), time.Date(-5000, 1, 1, 0, 0, 0, 0, time.UTC),
		} {
			k := key(fmt.Sprintf("order-%d", i))
			w.putMessages(msg(k, "a", at(past)))
			w.sameTime(fmt.Sprintf("time of a message put at %v", past), w.pendingOne(k).VisibleAt, w.now())
			w.finish(w.claimKey(k, []string{"a"}))
		}
	}},

	{name: "times up to the end of the year 9999 are accepted", run: func(w *world) {
		k := key("order-1")
		w.putMessages(msg(k, "last", at(lastTime)), msg(k, "a", at(lastTime.Truncate(time.Millisecond))))
		w.putMessages(msg(k, "soon", at(w.in(time.Second))))
		w.isPending(k, "soon", "a", "last")
		w.retime(k, "soon", lastTime.Add(-time.Hour))
		w.isPending(k, "soon", "a", "last")
		w.Advance(100 * 365 * 24 * time.Hour)
		w.claimNone()
	}},

	{name: "times from the year 10000 on are invalid", run: func(w *world) {
		k := key("order-1")
		w.put(k, "kept")
		for _, late := range []time.Time{
			lastTime.Add(time.Nanosecond), lastTime.Add(time.Hour), time.Date(20_000, 1, 1, 0, 0, 0, 0, time.UTC),
		} {
			w.commitErr(&store.Tx{Put: []store.Message{msg(k, "a", at(late))}}, store.ErrInvalid)
			w.commitErr(&store.Tx{Retime: []store.Retime{{Ref: ref(k, "kept"), VisibleAt: late}}}, store.ErrInvalid)
		}
		w.claimKey(k, []string{"kept"})
	}},

	{name: "thousands of messages are delivered in the order of their times as time advances", run: func(w *world) {
		w.deliversInOrder(func() {})
	}},

	{name: "thousands of messages are delivered in order by stores that are opened again and again", needsReopen: true,
		run: func(w *world) {
			w.deliversInOrder(w.Reopen)
		}},

	{name: "a due time survives the process", needsReopen: true, run: func(w *world) {
		k := key("order-1")
		due := w.in(10 * time.Second)
		w.putMessages(msg(k, "a", at(due)))
		w.Reopen()
		w.sameTime("visible at", w.pendingOne(k).VisibleAt, due)
		w.Advance(10*time.Second - time.Millisecond)
		w.claimNone()
		w.Advance(time.Millisecond)
		w.claimKey(k, []string{"a"})
	}},

	{name: "a message that was due before the store was opened is visible at once", needsReopen: true, run: func(w *world) {
		k := key("order-1")
		w.putMessages(msg(k, "b", at(w.in(2*time.Hour))), msg(k, "a", at(w.in(time.Hour))))
		w.Advance(3 * time.Hour)
		w.Reopen()
		w.claimKey(k, []string{"a", "b"})
	}},

	{name: "a due time wakes a claim that waits in a store that was opened again", needsReopen: true, run: func(w *world) {
		due := w.in(10 * time.Second)
		w.putMessages(msg(key("order-1"), "a", at(due)))
		w.Reopen()
		p := w.wait()
		w.Advance(10 * time.Second)
		w.sameTime("time of the claim", p.claimed()[0].Now, due)
	}},

	{name: "a due time wakes only claims that serve its route", run: func(w *world) {
		w.putMessages(msg(key("shipment-1"), "a", via("ship@1"), at(w.in(time.Second))),
			msg(key("order-1"), "a", via("order@1"), at(w.in(2*time.Second))))
		order, ship := w.wait(serving("order@1")), w.wait(serving("ship@1"))
		w.Advance(time.Second)
		w.claimsExactly(ship.claimed(), key("shipment-1"))
		w.areWaiting(1)
		w.Advance(time.Second)
		w.claimsExactly(order.claimed(), key("order-1"))
	}},

	{name: "a due time that nobody serves does not hide a later one", run: func(w *world) {
		w.putMessages(msg(key("shipment-1"), "a", via("ship@1"), at(w.in(time.Second))))
		w.putMessages(msg(key("order-1"), "a", at(w.in(2*time.Second))))
		p := w.wait()
		w.Advance(time.Second)
		w.areWaiting(1)
		w.Advance(time.Second)
		w.isClaim(p.claimed()[0], key("order-1"), "a")
	}},

	{name: "a message that became due comes before those put later", run: func(w *world) {
		k := key("order-1")
		w.putMessages(msg(k, "delayed", at(w.in(10*time.Second))))
		w.Advance(10 * time.Second)
		w.put(k, "same time")
		w.Advance(time.Second)
		w.put(k, "later")
		w.claimKey(k, []string{"delayed", "same time", "later"})
	}},

	{name: "a message comes before one that became due after it was put", run: func(w *world) {
		k := key("order-1")
		w.putMessages(msg(k, "delayed", at(w.in(10*time.Second))))
		w.Advance(10*time.Second - time.Millisecond)
		w.put(k, "immediate")
		w.Advance(time.Millisecond)
		w.claimKey(k, []string{"immediate", "delayed"})
	}},

	{name: "messages due at the same time come in the order in which they were put", run: func(w *world) {
		k := key("order-1")
		due := w.in(10 * time.Second)
		w.putMessages(msg(k, "c", at(due)), msg(k, "a", at(due.Add(-time.Millisecond/2))))
		w.Advance(time.Second)
		w.putMessages(msg(k, "b", at(due)))
		w.Advance(9 * time.Second)
		w.claimKey(k, []string{"c", "a", "b"})
	}},

	{name: "a message stays invisible while other messages of its key come and go", run: func(w *world) {
		k := key("order-1")
		w.putMessages(msg(k, "timeout", at(w.in(time.Hour))))
		for i := range 10 {
			id := fmt.Sprintf("event-%d", i)
			w.put(k, id)
			w.finish(w.claimKey(k, []string{id}))
			w.Advance(time.Second)
		}
		w.Advance(time.Hour - 10*time.Second - time.Millisecond)
		w.claimNone()
		w.Advance(time.Millisecond)
		w.claimKey(k, []string{"timeout"})
	}},
}

// deliversInOrder puts messages with thousands of due times in a scrambled order, lets
// time go on in steps, and checks that each step delivers what became due in it, in
// order. It calls pause a few times on the way.
func (w *world) deliversInOrder(pause func()) {
	w.t.Helper()
	const (
		messages = 3000
		keys     = 30
		step     = 100 * time.Millisecond
		steps    = 40
	)
	start := w.now()
	dueAt := map[store.MessageRef]time.Time{}
	for i, batch := 0, []store.Message(nil); i < messages; i++ {
		// Multiples of a prime scramble the times, and the same way in every run.
		due := start.Add(time.Duration(1+i*7919%int(steps*step/time.Millisecond)) * time.Millisecond)
		m := msg(key(fmt.Sprintf("order-%d", i%keys)), fmt.Sprintf("m%d", i), at(due))
		dueAt[m.Ref()] = due
		if batch = append(batch, m); len(batch) == 100 {
			w.putMessages(batch...)
			batch = batch[:0]
		}
	}
	for i := range steps {
		if i%(steps/4) == 1 {
			pause()
		}
		last := w.now()
		w.Advance(step)
		claims := w.claimAll()
		for _, c := range claims {
			previous := last.Add(time.Millisecond)
			for _, m := range c.Messages {
				due := dueAt[m.Ref()]
				if due.Before(previous) || due.After(c.Now) {
					w.t.Fatalf("message %v, due at %v, was delivered at %v after one that was due at %v", m.Ref(), due, c.Now, previous)
				}
				previous = due
				delete(dueAt, m.Ref())
			}
		}
		w.finish(claims...)
	}
	w.equal("number of messages that were not delivered", len(dueAt), 0)
}
