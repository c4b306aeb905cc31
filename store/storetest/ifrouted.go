package storetest

import (
	"time"

	"github.com/abidehq/abide/store"
)

var ifRoutedCases = []propertyCase{
	{name: "a message with IfRouted is put to a key with a route", run: func(w *world) {
		k := key("order-1")
		w.put(k, "start")
		w.append(k, 0, "entry")
		w.finish(w.claimOne())
		w.putMessages(msg(k, "answer", ifRouted()))
		c := w.claimKey(k, []string{"answer"})
		w.equal("route", c.Route, theRoute)
		w.equal("flag of a message that a store returns", c.Messages[0].IfRouted, false)
		w.sameTime("PutAt", c.Messages[0].PutAt, w.now())
	}},

	{name: "a message with IfRouted for a key that does not exist is dropped and the rest is committed", run: func(w *world) {
		gone, other := key("gone"), key("order-1")
		w.commit(&store.Tx{
			Put:        []store.Message{msg(gone, "answer", ifRouted()), msg(other, "a")},
			PutRecords: []store.PutRecord{{Record: store.Record{Key: recordKey("r")}}},
		})
		w.isPending(gone)
		w.isPending(other, "a")
		w.equal("version of the record", w.get(recordKey("r")).Version, int64(1))
		w.put(gone, "start")
		w.equal("claims", len(w.claimAll()), 2)
		w.isPending(gone, "start")
	}},

	{name: "a message with IfRouted that is dropped leaves nothing to quarantine", run: func(w *world) {
		w.putMessages(msg(key("gone"), "answer", ifRouted()))
		w.Advance(store.DefaultTTL + time.Second)
		w.claimNone()
		w.equal("quarantined", len(w.quarantined()), 0)
	}},

	{name: "a message with IfRouted for a key that has messages but no route is dropped", run: func(w *world) {
		k := key("order-1")
		w.putMessages(msg(k, "early", noRoute()))
		w.putMessages(msg(k, "answer", ifRouted()))
		w.isPending(k, "early")
	}},

	{name: "a message with IfRouted for a key that has a log but no route is dropped", run: func(w *world) {
		k := key("order-1")
		w.append(k, 0, "entry")
		w.putMessages(msg(k, "answer", ifRouted()))
		w.isPending(k)
	}},

	{name: "a route that an earlier message of the Tx sets counts for IfRouted", run: func(w *world) {
		k := key("order-1")
		w.putMessages(msg(k, "dropped", ifRouted()), msg(k, "start"), msg(k, "kept", ifRouted()))
		w.isPending(k, "start", "kept")
	}},

	{name: "a key that the Tx deletes has no route for IfRouted", run: func(w *world) {
		k := key("order-1")
		w.put(k, "start")
		w.append(k, 0, "entry")
		w.commit(&store.Tx{DeleteKeys: []store.Key{k}, Put: []store.Message{msg(k, "answer", ifRouted())}})
		w.isPending(k)
		w.equal("log", len(w.logTexts(k)), 0)
	}},

	{name: "a key keeps its route for IfRouted while the Tx consumes its last message", run: func(w *world) {
		k := key("order-1")
		w.put(k, "start")
		c := w.claimOne()
		w.commit(&store.Tx{
			Finish: []store.Finish{{Lease: c.Lease()}},
			Put:    []store.Message{msg(k, "answer", ifRouted())},
		})
		w.claimKey(k, []string{"answer"})
	}},

	{name: "a message with IfRouted for a key that was consumed to its end is dropped", run: func(w *world) {
		k := key("order-1")
		w.put(k, "start")
		w.finish(w.claimOne())
		w.putMessages(msg(k, "answer", ifRouted()))
		w.isPending(k)
		w.claimNone()
	}},

	{name: "a message with IfRouted whose ID is pending changes nothing", run: func(w *world) {
		k := key("order-1")
		w.put(k, "a")
		w.putMessages(msg(k, "a", ifRouted(), withBody([]byte("another"))))
		w.equal("body", string(w.claimKey(k, []string{"a"}).Messages[0].Body), string(bodyOf("a")))
	}},

	{name: "a message with IfRouted keeps its time", run: func(w *world) {
		k := key("order-1")
		w.put(k, "start")
		later := w.in(time.Hour)
		w.putMessages(msg(k, "answer", ifRouted(), at(later)))
		w.claimKey(k, []string{"start"})
		w.sameTime("VisibleAt", w.pending(k)[1].VisibleAt, later)
	}},

	{name: "a commit that is refused puts no message with IfRouted", run: func(w *world) {
		k := key("order-1")
		w.put(k, "start")
		w.commitErr(&store.Tx{
			Append: []store.Append{{Key: k, At: 7, Entries: entries("x")}},
			Put:    []store.Message{msg(k, "answer", ifRouted())},
		}, store.ErrConflict)
		w.isPending(k, "start")
	}},

	{name: "IfRouted goes by the state that a reopened store has", needsReopen: true, run: func(w *world) {
		k := key("order-1")
		w.put(k, "start")
		w.append(k, 0, "entry")
		w.finish(w.claimOne())
		w.Reopen()
		w.putMessages(msg(k, "answer", ifRouted()), msg(key("gone"), "answer", ifRouted()))
		w.isPending(k, "answer")
		w.isPending(key("gone"))
	}},
}
