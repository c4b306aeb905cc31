package storetest

import (
	"time"

	"github.com/abidehq/abide/store"
)

// orderingCases are about the order in which the parts of a Tx take effect.
var orderingCases = []propertyCase{
	{name: "a message that the commit consumes can be put again by it", run: func(w *world) {
		k := key("order-1")
		w.put(k, "a")
		w.Advance(time.Second)
		w.commit(&store.Tx{
			Finish: []store.Finish{finishing(w.claimOne())},
			Put:    []store.Message{msg(k, "a", withBody([]byte("again")))},
		})
		m := w.claimKey(k, []string{"a"}).Messages[0]
		w.equal("body", string(m.Body), "again")
		w.equal("attempt", m.Attempt, 1)
		w.sameTime("put at", m.PutAt, w.now())
	}},

	{name: "a message that the commit keeps stays as it is when it is put again by it", run: func(w *world) {
		k := key("order-1")
		w.put(k, "a")
		w.commit(&store.Tx{
			Finish: []store.Finish{finishing(w.claimOne(), "a")},
			Put:    []store.Message{msg(k, "a", withBody([]byte("again")), at(w.in(time.Hour)))},
		})
		m := w.claimKey(k, []string{"a"}).Messages[0]
		w.equal("body", string(m.Body), string(bodyOf("a")))
		w.equal("attempt", m.Attempt, 2)
	}},

	{name: "a commit replaces a key by a fresh one", run: func(w *world) {
		k := key("order-1")
		w.append(k, 0, "old 0", "old 1")
		w.put(k, "a", "b")
		w.commit(&store.Tx{
			DeleteKeys: []store.Key{k},
			Append:     []store.Append{{Key: k, At: 0, Entries: entries("new 0")}},
			Put:        []store.Message{msg(k, "a", withBody([]byte("new")))},
		})
		w.equal("log", w.logTexts(k), []string{"new 0"})
		c := w.claimKey(k, []string{"a"})
		w.equal("body", string(c.Messages[0].Body), "new")
		w.equal("log length", c.LogLength, 1)
	}},

	{name: "the log of a key that the commit deletes has length zero for it", run: func(w *world) {
		k := key("order-1")
		w.append(k, 0, "one", "two")
		w.put(k, "a")
		w.commitErr(&store.Tx{
			DeleteKeys: []store.Key{k},
			Append:     []store.Append{{Key: k, At: 2, Entries: entries("three")}},
		}, store.ErrConflict)
		w.commitErr(&store.Tx{
			DeleteKeys: []store.Key{k},
			Trim:       []store.Trim{{Key: k, Before: 1}},
		}, store.ErrConflict)
		w.equal("log", w.logTexts(k), []string{"one", "two"})
		w.isPending(k, "a")
	}},

	{name: "a key is without a route after the commit that replaces it by one without", run: func(w *world) {
		k := key("order-1")
		w.put(k, "a")
		w.commit(&store.Tx{DeleteKeys: []store.Key{k}, Put: []store.Message{msg(k, "b", noRoute())}})
		w.isPending(k, "b")
		w.claimNone()
		w.equal("messages without a route", w.routeStats(theQueue, "").Pending, 1)
	}},

	{name: "a key keeps its route when a commit consumes its last message and appends to its log", run: func(w *world) {
		k := key("order-1")
		w.put(k, "a")
		tx := finishTx(w.claimOne())
		tx.Append = []store.Append{{Key: k, Entries: entries("one")}}
		w.commit(tx)
		w.putMessages(msg(k, "b", noRoute()))
		w.claimKey(k, []string{"b"})
	}},

	{name: "a key keeps its route when a commit consumes its last message and puts another", run: func(w *world) {
		k := key("order-1")
		w.put(k, "a")
		tx := finishTx(w.claimOne())
		tx.Put = []store.Message{msg(k, "b", noRoute())}
		w.commit(tx)
		w.claimKey(k, []string{"b"})
	}},

	{name: "a key that a commit puts to and empties again has no route", run: func(w *world) {
		k := key("order-1")
		w.commit(&store.Tx{Put: []store.Message{msg(k, "a")}, Delete: []store.MessageRef{ref(k, "a")}})
		w.putMessages(msg(k, "b", noRoute()))
		w.claimNone()
		w.isPending(k, "b")
	}},

	{name: "deleting a key twice in one commit is deleting it", run: func(w *world) {
		k := key("order-1")
		w.put(k, "a")
		w.put(key("order-2"), "a")
		w.commit(&store.Tx{DeleteKeys: []store.Key{k, k, key("unknown")}})
		w.isPending(k)
		w.claimKey(key("order-2"), []string{"a"})
	}},

	{name: "a commit appends to the log that it trims", run: func(w *world) {
		k := key("order-1")
		w.append(k, 0, "one", "two", "three")
		w.commit(&store.Tx{
			Trim:   []store.Trim{{Key: k, Before: 3}},
			Append: []store.Append{{Key: k, At: 3, Entries: entries("four")}},
		})
		page := w.readLog(k, 0)
		w.equal("index of the first entry", page.First, 3)
		w.equal("entries", page.Entries, entries("four"))
		w.equal("length", page.Length, 4)
	}},

	{name: "a commit cannot trim what it appends", run: func(w *world) {
		k := key("order-1")
		w.append(k, 0, "one")
		w.commitErr(&store.Tx{
			Trim:   []store.Trim{{Key: k, Before: 2}},
			Append: []store.Append{{Key: k, At: 1, Entries: entries("two")}},
		}, store.ErrConflict)
		w.equal("log", w.logTexts(k), []string{"one"})
	}},

	{name: "scheduling and cancelling in one commit is a no-op", run: func(w *world) {
		k := key("order-1")
		w.commit(&store.Tx{
			Put:    []store.Message{msg(k, "a"), msg(k, "timeout", at(w.in(time.Second)))},
			Delete: []store.MessageRef{ref(k, "a"), ref(k, "timeout")},
		})
		w.isPending(k)
		w.claimNone()
		w.Advance(time.Second)
		w.claimNone()
		w.equal("rows of stats", len(w.stats().Routes), 0)
	}},

	{name: "a message pending before is deleted by a commit that puts and deletes its ID", run: func(w *world) {
		k := key("order-1")
		w.put(k, "a", "b")
		w.commit(&store.Tx{Put: []store.Message{msg(k, "a")}, Delete: []store.MessageRef{ref(k, "a")}})
		w.claimKey(k, []string{"b"})
	}},

	{name: "a commit re-times the message that it puts", run: func(w *world) {
		k := key("order-1")
		due := w.in(time.Second)
		w.commit(&store.Tx{
			Put:    []store.Message{msg(k, "a"), msg(k, "b", at(w.in(time.Hour)))},
			Retime: []store.Retime{{Ref: ref(k, "a"), VisibleAt: due}, {Ref: ref(k, "b"), VisibleAt: due}},
		})
		w.claimNone()
		w.Advance(time.Second)
		w.claimKey(k, []string{"a", "b"})
	}},

	{name: "a message that the commit re-times and deletes is gone", run: func(w *world) {
		k := key("order-1")
		w.put(k, "a", "b")
		w.commit(&store.Tx{
			Retime: []store.Retime{{Ref: ref(k, "a"), VisibleAt: w.in(time.Second)}},
			Delete: []store.MessageRef{ref(k, "a")},
		})
		w.finish(w.claimKey(k, []string{"b"}))
		w.Advance(time.Second)
		w.claimNone()
	}},

	{name: "a message that the commit puts, re-times and deletes never was", run: func(w *world) {
		k := key("order-1")
		w.commit(&store.Tx{
			Put:    []store.Message{msg(k, "a")},
			Retime: []store.Retime{{Ref: ref(k, "a"), VisibleAt: w.in(time.Second)}},
			Delete: []store.MessageRef{ref(k, "a")},
		})
		w.isPending(k)
		w.Advance(time.Second)
		w.claimNone()
	}},

	{name: "a commit moves a claim's work on in one step", run: func(w *world) {
		// What a turn does: history grows, a task and a timer are put, one is cancelled.
		k, task := key("order-1"), keyIn("tasks", theTenant, "order-1/charge")
		w.putMessages(msg(k, "start"), msg(k, "timeout", at(w.in(time.Hour))))
		c := w.claimKey(k, []string{"start"})
		w.commit(&store.Tx{
			Finish:     []store.Finish{finishing(c)},
			Append:     []store.Append{{Key: k, At: c.LogLength, Entries: entries("started", "scheduled")}},
			Put:        []store.Message{msg(task, "charge", via("charge")), msg(k, "reminder", at(w.in(time.Minute)))},
			Delete:     []store.MessageRef{ref(k, "timeout")},
			PutRecords: []store.PutRecord{{Record: store.Record{Key: recordKey("order-1"), Status: "running"}}},
		})
		w.isPending(k, "reminder")
		w.claimKey(task, []string{"charge"}, from("tasks"), serving("charge"))
		w.equal("status", w.get(recordKey("order-1")).Status, "running")
		w.Advance(time.Minute)
		w.equal("log length", w.claimKey(k, []string{"reminder"}).LogLength, 2)
	}},
}
