package storetest

import (
	"time"

	"github.com/abidehq/abide/store"
)

var clockCases = []propertyCase{
	{name: "a clock that was a day ahead for one commit leaves nothing behind in a store that is opened again", needsReopen: true, needsClock: true, run: func(w *world) {
		start := w.now()
		w.SetClock(24 * time.Hour)
		w.commit(putTx(store.RecordKey{Kind: theKind, ID: "r"}, 0, "on"))
		w.SetClock(-24 * time.Hour)
		w.Reopen()
		if late := w.now().Sub(start); late > store.MaxClockLead {
			w.t.Fatalf("the time is %v ahead of the clock", late)
		}
		w.sameTime("time", w.now(), start)
		w.putMessages(msg(inTenant("acme"), "m", at(start.Add(time.Hour))))
		w.claimNone()
		w.timePasses()
		w.Advance(time.Hour)
		w.claimKey(inTenant("acme"), []string{"m"})
	}},

	{name: "a clock that was a little ahead is waited for by a store that is opened again", needsReopen: true, needsClock: true, run: func(w *world) {
		w.Advance(time.Second)
		w.SetClock(5 * time.Second)
		w.commit(putTx(store.RecordKey{Kind: theKind, ID: "r"}, 0, "on"))
		told := w.now()
		w.SetClock(-5 * time.Second)
		w.Reopen()
		w.timePasses()
		w.Advance(time.Minute)
		if w.now().Before(told) {
			w.t.Errorf("the time is %v, and was %v", w.now(), told)
		}
	}},

	{name: "time advances after the clock was a day ahead for one commit", needsClock: true, run: func(w *world) {
		w.SetClock(24 * time.Hour)
		w.commit(putTx(store.RecordKey{Kind: theKind, ID: "r"}, 0, "on"))
		w.SetClock(-24 * time.Hour)
		w.timePasses()
	}},

	{name: "time does not run backwards when the clock is set back a little", needsClock: true, run: func(w *world) {
		told := w.now()
		w.SetClock(-5 * time.Second)
		w.commit(putTx(store.RecordKey{Kind: theKind, ID: "r"}, 0, "on"))
		for range 20 {
			now := w.now()
			if now.Before(told) {
				w.t.Fatalf("the time is %v, and was %v", now, told)
			}
			told = now
			w.Advance(time.Second)
		}
		w.timePasses()
	}},

	{name: "the clock behind the time is told in the stats, and caught up with", needsClock: true, run: func(w *world) {
		w.equal("lead", w.stats().ClockLead, time.Duration(0))
		w.SetClock(-5 * time.Second)
		w.stats()
		w.Advance(20 * time.Second)
		w.equal("lead", w.stats().ClockLead, time.Duration(0))
	}},
}

// timePasses checks that a message becomes visible and a lease ends, both within seconds.
func (w *world) timePasses() {
	w.t.Helper()
	k := keyIn(theQueue, "clock", "k")
	w.putMessages(msg(k, "m", at(w.in(time.Second))))
	w.Advance(30 * time.Second)
	for range 2 {
		w.claimKey(k, []string{"m"}, leaseFor(300*time.Millisecond))
		w.Advance(30 * time.Second)
	}
	w.remove(k, "m")
}
