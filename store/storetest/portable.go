package storetest

import (
	"context"
	"slices"
	"time"

	"github.com/abidehq/abide/store"
)

var portableCases = slices.Concat(exportCases, importCases, excludeCases)

var exportCases = []propertyCase{
	{name: "an empty store exports nothing, and verifies", needsPortable: true, run: func(w *world) {
		p := w.export("")
		if len(p.Keys)+len(p.Entries)+len(p.Messages)+len(p.Records) > 0 || p.Next != "" {
			w.t.Fatalf("exported %+v", p)
		}
		w.verifies()
	}},

	{name: "parcels hold everything exactly once, heads first, and are not much larger than they should be", needsPortable: true, run: func(w *world) {
		w.fill()
		w.isWholeExport(w.exportAll())
	}},

	{name: "the same parcels come again for another caller", needsPortable: true, run: func(w *world) {
		w.fill()
		first := w.exportAll()
		w.sameParcels(w.exportAll(), first)
		for i, p := range slices.Backward(first[1:]) { // in any order
			w.sameParcels([]store.Parcel{w.export(first[i].Next)}, []store.Parcel{p})
		}
		if w.Reopen != nil {
			w.Reopen()
			w.sameParcels(w.exportAll(), first)
		}
	}},

	{name: "exporting and verifying change nothing", needsPortable: true, run: func(w *world) {
		w.fill()
		before := w.lookAtAll()
		w.exportAll()
		w.verifies()
		w.sameLook("after the export", w.lookAtAll(), before)
	}},

	{name: "a healthy store verifies, whatever happened to it", needsPortable: true, run: func(w *world) {
		w.fill()
		w.verifies()
		w.Advance(2 * theLease)
		w.drain()
		w.verifies()
		if w.Reopen != nil {
			w.Reopen()
			w.verifies()
		}
	}},

	{name: "a cursor that is no cursor is invalid", needsPortable: true, run: func(w *world) {
		w.put(key("order-1"), "a")
		for _, cursor := range []string{"nonsense", "-1", "\x00", "{}"} {
			_, err := w.portable().Export(w.ctx, cursor)
			w.isErr("export from "+cursor, err, store.ErrInvalid)
		}
	}},

	{name: "a context that has ended, and a store that is closed, are errors", needsPortable: true, run: func(w *world) {
		s := w.portable()
		ended, cancel := context.WithCancel(w.ctx)
		cancel()
		calls := func(ctx context.Context, want error) {
			_, err := s.Export(ctx, "")
			w.isErr("export", err, want)
			w.isErr("import", s.Import(ctx, store.Parcel{Records: []store.Record{{Key: recordKey("a"), Version: 1}}}), want)
			w.isErr("verify", s.Verify(ctx, func(string) {}), want)
			_, err = s.Exclude(ctx)
			w.isErr("exclude", err, want)
		}
		calls(ended, context.Canceled)
		w.hasNoRecord(recordKey("a"))
		w.close()
		calls(w.ctx, store.ErrClosed)
	}},
}

var importCases = []propertyCase{
	{name: "all that can be observed is the same in another store", needsPortable: true, run: func(w *world) {
		w.fill()
		to := w.another()
		to.importAll(w.exportAll())
		w.isCopy(to)
	}},

	{name: "all is the same in the model", needsPortable: true, run: func(w *world) {
		w.fill()
		to := w.model()
		to.importAll(w.exportAll())
		w.isCopy(to)
	}},

	{name: "all is the same after a way through the model", needsPortable: true, run: func(w *world) {
		w.fill()
		model, to := w.model(), w.another()
		model.importAll(w.exportAll())
		to.importAll(model.exportAll())
		w.isCopy(to)
	}},

	{name: "a copy that is interrupted after each parcel continues where it was", needsPortable: true, run: func(w *world) {
		w.fill()
		to := w.another()
		for cursor, more := "", true; more; more = cursor != "" {
			p := w.export(cursor)
			to.importParcel(p)
			if to.Reopen != nil {
				to.Reopen()
			}
			to.importParcel(w.export(cursor)) // as after an unknown outcome
			cursor = p.Next
		}
		w.isCopy(to)
	}},

	{name: "a parcel imported again changes nothing", needsPortable: true, run: func(w *world) {
		w.fill()
		parcels := w.exportAll()
		to := w.another()
		to.importAll(parcels)
		before := to.lookAtAll()
		to.importAll(parcels)
		to.sameLook("after all parcels again", to.lookAtAll(), before)
		to.verifies()
	}},

	{name: "messages that are moved to the same time come in the order in which they were put", needsPortable: true, run: func(w *world) {
		k := key("order-1")
		w.putMessages(msg(k, "c", at(w.in(3*time.Minute))), msg(k, "a", at(w.in(time.Minute))), msg(k, "b", at(w.in(2*time.Minute))))
		for _, to := range []*world{w.another(), w.model()} {
			to.importAll(w.exportAll())
			to.isPending(k, "a", "b", "c")
			due := to.in(time.Hour)
			for _, id := range []string{"a", "b", "c"} {
				to.retime(k, id, due)
			}
			to.isPending(k, "c", "a", "b")
		}
	}},

	{name: "what is imported can be gone on with", needsPortable: true, run: func(w *world) {
		k := key("order-1")
		w.commit(&store.Tx{
			Put:        []store.Message{msg(k, "a")},
			Append:     []store.Append{{Key: k, Entries: entries("one", "two"), Tag: 7}},
			PutRecords: []store.PutRecord{{Record: store.Record{Key: recordKey("order-1"), Status: "running"}}},
		})
		w.putRecord(store.Record{Key: recordKey("order-1"), Status: "waiting"})
		to := w.another()
		to.importAll(w.exportAll())
		c := to.claimKey(k, []string{"a"})
		to.equal("length and tag of the log", [2]int{c.LogLength, int(c.LogTag)}, [2]int{2, 7})
		to.commit(&store.Tx{
			Finish:     []store.Finish{finishing(c)},
			Append:     []store.Append{{Key: k, At: 2, Entries: entries("three")}},
			PutRecords: []store.PutRecord{{Record: store.Record{Key: recordKey("order-1"), Status: "done"}, Expect: 2}},
			Put:        []store.Message{msg(k, "a", at(to.in(time.Hour)), noRoute())},
		})
		to.isLog(k, 0, "one", "two", "three")
		to.equal("listed", len(to.list(store.Query{Kind: theKind, Statuses: []string{"waiting"}}).Records), 0)
		to.equal("version", to.get(recordKey("order-1")).Version, int64(3))
		to.Advance(time.Hour)
		to.claimKey(k, []string{"a"})
		to.verifies()
	}},

	{name: "a lease stays behind, and its attempt does not", needsPortable: true, run: func(w *world) {
		w.put(key("order-1"), "a")
		c := w.claimOne()
		to := w.another()
		to.importAll(w.exportAll())
		to.equal("leases", to.stats().Leases, 0)
		to.equal("attempt", to.claimKey(key("order-1"), []string{"a"}).Messages[0].Attempt, 2)
		w.isLive(c)
	}},

	{name: "what has waited too long for a route goes to quarantine when it is imported", needsPortable: true, run: func(w *world) {
		w.putMessages(msg(key("order-1"), "a", noRoute(), withTTL(time.Minute)), msg(key("order-1"), "b", noRoute()))
		parcels := w.exportAll()
		to := w.another()
		to.Advance(time.Minute)
		to.importAll(parcels)
		to.claimNone()
		to.isPending(key("order-1"), "b")
		to.isQuarantined("a")
	}},
}

var excludeCases = []propertyCase{
	{name: "a store that is excluded works as before, and can be released twice", needsPortable: true, run: func(w *world) {
		release := w.exclude()
		w.put(key("order-1"), "a")
		w.finish(w.claimKey(key("order-1"), []string{"a"}))
		w.verifies()
		for range 2 {
			if err := release(); err != nil {
				w.t.Fatalf("release: %v", err)
			}
		}
		w.put(key("order-1"), "b")
		w.claimKey(key("order-1"), []string{"b"})
	}},

	{name: "nothing goes to quarantine by itself while a store is excluded", needsPortable: true, run: func(w *world) {
		k := key("order-1")
		w.putMessages(msg(k, "a", noRoute(), withTTL(time.Minute)))
		release := w.exclude()
		w.putMessages(msg(keyIn("other", theTenant, "b"), "b", noRoute(), withTTL(time.Minute)))
		w.Advance(time.Hour)
		w.equal("number of records", len(w.quarantined()), 0)
		w.isPending(k, "a")
		w.equal("messages that are exported", len(w.export("").Messages), 2)
		if err := release(); err != nil {
			w.t.Fatalf("release: %v", err)
		}
		w.claimNone()
		w.claimNone(from("other"))
		w.isQuarantined("a", "b")
		w.isPending(k)
	}},

	{name: "a store that is excluded cannot be opened elsewhere", needsPortable: true, needsOpen: true, run: func(w *world) {
		if w.alwaysAlone() {
			return
		}
		release := w.exclude()
		w.isOpenErr(store.ErrInUse)
		w.put(key("order-1"), "a")
		if err := release(); err != nil {
			w.t.Fatalf("release: %v", err)
		}
		other := w.open()
		if m, err := other.Pending(w.ctx, key("order-1"), 0); err != nil || len(m) != 1 {
			w.t.Fatalf("pending elsewhere: %v, error %v", idsOf(m), err)
		}
	}},

	{name: "a store that is open elsewhere cannot be excluded", needsPortable: true, needsOpen: true, run: func(w *world) {
		if w.alwaysAlone() {
			return
		}
		other := w.open()
		_, err := w.portable().Exclude(w.ctx)
		w.isErr("exclude", err, store.ErrInUse)
		if err := other.Commit(w.ctx, &store.Tx{Put: []store.Message{msg(key("order-1"), "a")}}); err != nil {
			w.t.Fatalf("commit elsewhere after an exclusion that failed: %v", err)
		}
		if err := other.Close(); err != nil {
			w.t.Fatalf("close: %v", err)
		}
		w.exclude()
		w.isOpenErr(store.ErrInUse)
	}},

	{name: "closing a store that is excluded lets others in", needsPortable: true, needsOpen: true, run: func(w *world) {
		w.exclude()
		w.put(key("order-1"), "a")
		w.close()
		if m, err := w.open().Pending(w.ctx, key("order-1"), 0); err != nil || len(m) != 1 {
			w.t.Fatalf("pending elsewhere: %v, error %v", idsOf(m), err)
		}
	}},
}
