package storetest

import "github.com/abidehq/abide/store"

var trimCases = []propertyCase{
	{name: "trimming removes the entries before an index and keeps the length", run: func(w *world) {
		k := key("order-1")
		w.append(k, 0, "a", "b", "c", "d")
		w.trim(k, 2)
		w.isLog(k, 2, "c", "d")
	}},

	{name: "reading below what was trimmed begins at the first entry that is left", run: func(w *world) {
		k := key("order-1")
		w.append(k, 0, "a", "b", "c", "d")
		w.trim(k, 2)
		for from, first := range []int{2, 2, 2, 3} {
			page := w.readLog(k, from)
			w.equal("first", page.First, first)
			w.equal("number of entries", len(page.Entries), 4-first)
			w.equal("length", page.Length, 4)
		}
	}},

	{name: "an append after a trim is at the length of the whole log", run: func(w *world) {
		k := key("order-1")
		w.append(k, 0, "a", "b", "c")
		w.trim(k, 2)
		w.commitErr(appendTx(k, 1, "x"), store.ErrConflict)
		w.append(k, 3, "d")
		w.isLog(k, 2, "c", "d")
	}},

	{name: "a log can be trimmed to its end and continues from there", run: func(w *world) {
		k := key("order-1")
		w.append(k, 0, "a", "b", "c")
		w.trim(k, 3)
		w.isLog(k, 3)
		w.commitErr(appendTx(k, 0, "x"), store.ErrConflict)
		w.append(k, 3, "d")
		w.isLog(k, 3, "d")
	}},

	{name: "trimming again, or less, changes nothing", run: func(w *world) {
		k := key("order-1")
		w.append(k, 0, "a", "b", "c")
		for _, before := range []int{2, 2, 1, 0} {
			w.trim(k, before)
			w.isLog(k, 2, "c")
		}
		w.trim(key("order-2"), 0) // there is no such log
		w.isLog(key("order-2"), 0)
	}},

	{name: "trimming further removes more", run: func(w *world) {
		k := key("order-1")
		w.append(k, 0, "a", "b", "c", "d")
		w.trim(k, 1)
		w.trim(k, 3)
		w.isLog(k, 3, "d")
	}},

	{name: "trimming beyond the length is a conflict and changes nothing", run: func(w *world) {
		k := key("order-1")
		w.append(k, 0, "a", "b", "c")
		w.commitErr(trimTx(k, 4), store.ErrConflict)
		w.isLog(k, 0, "a", "b", "c")
		w.commitErr(trimTx(key("order-2"), 1), store.ErrConflict)

		// The length that counts is that before the Tx.
		both := appendTx(k, 3, "d", "e")
		both.Trim = []store.Trim{{Key: k, Before: 4}}
		w.commitErr(both, store.ErrConflict)
		w.isLog(k, 0, "a", "b", "c")

		gone := trimTx(k, 1)
		gone.DeleteKeys = []store.Key{k}
		w.commitErr(gone, store.ErrConflict)
		w.isLog(k, 0, "a", "b", "c")
	}},

	{name: "one commit trims a log twice", run: func(w *world) {
		k := key("order-1")
		w.append(k, 0, "a", "b", "c")
		w.commit(&store.Tx{Trim: []store.Trim{{Key: k, Before: 2}, {Key: k, Before: 1}}})
		w.isLog(k, 2, "c")
	}},

	{name: "a trimmed log begins at 0 again after its key was deleted", run: func(w *world) {
		k := key("order-1")
		w.append(k, 0, "a", "b", "c")
		w.trim(k, 2)
		w.commit(&store.Tx{DeleteKeys: []store.Key{k}})
		w.append(k, 0, "new")
		w.isLog(k, 0, "new")
	}},
}
