package storetest

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/abidehq/abide/store"
)

var logCases = slices.Concat(appendCases, idleCases, trimCases, logTagCases)

var appendCases = []propertyCase{
	{name: "a log that does not exist has length 0, and reading it is no error", run: func(w *world) {
		for _, from := range []int{0, 7} {
			page := w.readLog(key("order-1"), from)
			w.equal("length", page.Length, 0)
			w.equal("number of entries", len(page.Entries), 0)
		}
	}},

	{name: "an append at the length of the log adds entries at its end, in order", run: func(w *world) {
		k := key("order-1")
		w.append(k, 0, "a")
		w.append(k, 1, "b", "c")
		w.append(k, 3, "d")
		w.isLog(k, 0, "a", "b", "c", "d")
	}},

	{name: "an append at another length is a conflict and changes nothing", run: func(w *world) {
		k := key("order-1")
		w.append(k, 0, "a", "b", "c")
		for _, length := range []int{0, 2, 4, 1 << 30} {
			w.commitErr(appendTx(k, length, "x"), store.ErrConflict)
		}
		w.isLog(k, 0, "a", "b", "c")
		w.commitErr(appendTx(key("order-2"), 1, "x"), store.ErrConflict)
		w.isLog(key("order-2"), 0)
	}},

	{name: "the error of an append at another length names the log and both lengths", run: func(w *world) {
		w.append(key("order-1"), 0, "a", "b", "c")
		err := w.Store.Commit(w.ctx, appendTx(key("order-1"), 17, "x"))
		w.isErr("commit", err, store.ErrConflict)
		w.says(err, key("order-1").String(), "3", "17")
	}},

	{name: "reading from an index gives the entries from there on", run: func(w *world) {
		k := key("order-1")
		w.append(k, 0, "a", "b", "c", "d")
		for from, want := range []string{"abcd", "bcd", "cd", "d"} {
			page := w.readLog(k, from)
			w.equal("first", page.First, from)
			w.equal("entries", string(bytes.Join(page.Entries, nil)), want)
			w.equal("length", page.Length, 4)
		}
	}},

	{name: "reading at the end or beyond it gives no entries and the length", run: func(w *world) {
		w.append(key("order-1"), 0, "a", "b")
		for _, from := range []int{2, 3, 1 << 30} {
			page := w.readLog(key("order-1"), from)
			w.equal("number of entries", len(page.Entries), 0)
			w.equal("length", page.Length, 2)
		}
	}},

	{name: "a page holds as many entries as fit", run: func(w *world) {
		k := key("order-1")
		for i := range 5 {
			w.append(k, i, bigText(i, store.LogPageBytes*2/5))
		}
		w.equal("number of entries in the first page", len(w.readLog(k, 0).Entries), 2)
		w.equal("number of entries in the last page", len(w.readLog(k, 4).Entries), 1)
		for i, text := range w.logTexts(k) {
			w.equal(fmt.Sprintf("entry %d is as it was appended", i), text == bigText(i, store.LogPageBytes*2/5), true)
		}
		w.equal("number of entries in all pages", len(w.logTexts(k)), 5)
	}},

	{name: "an entry larger than a page comes alone", run: func(w *world) {
		k := key("order-1")
		big := bigText(1, 2*store.LogPageBytes)
		w.append(k, 0, "small", big, "small too")
		w.equal("number of entries before it", len(w.readLog(k, 0).Entries), 1)
		w.equal("number of entries with it", len(w.readLog(k, 1).Entries), 1)
		got := w.logTexts(k)
		w.equal("number of entries in all pages", len(got), 3)
		w.equal("the large entry is as it was appended", got[1] == big, true)
		w.equal("the entry after it", got[2], "small too")
	}},

	{name: "a log of thousands of entries is read whole and in order", run: func(w *world) {
		const count = 5000
		k := key("order-1")
		texts := make([]string, count)
		for i := range texts {
			texts[i] = fmt.Sprintf("entry %d %s", i, strings.Repeat(".", 500))
		}
		w.append(k, 0, texts...)
		w.isLog(k, 0, texts...)
	}},

	{name: "empty entries are kept", run: func(w *world) {
		k := key("order-1")
		w.commit(&store.Tx{Append: []store.Append{{Key: k, At: 0, Entries: [][]byte{nil, {}, []byte("a"), nil}}}})
		w.isLog(k, 0, "", "", "a", "")
		w.append(k, 4, "")
		w.isLog(k, 0, "", "", "a", "", "")
	}},

	{name: "entries come back byte for byte", run: func(w *world) {
		k := key("order-1")
		w.append(k, 0, hostileNames...)
		w.isLog(k, 0, hostileNames...)
	}},

	{name: "the log of a key belongs to its queue, tenant and name", run: func(w *world) {
		keys := []store.Key{
			keyIn("q", "t", "k"), keyIn("q", "t", "k2"), keyIn("q", "t2", "k"), keyIn("q2", "t", "k"), keyIn("q", "", "k"),
		}
		for i, k := range keys {
			w.append(k, 0, fmt.Sprintf("log %d", i))
		}
		for i, k := range keys {
			w.isLog(k, 0, fmt.Sprintf("log %d", i))
		}
		w.commit(&store.Tx{DeleteKeys: keys[:1]})
		w.isLog(keys[0], 0)
		for i, k := range keys[1:] {
			w.isLog(k, 0, fmt.Sprintf("log %d", i+1))
		}
	}},

	{name: "one commit appends to many logs", run: func(w *world) {
		tx := &store.Tx{}
		for i := range 50 {
			k := key(fmt.Sprintf("order-%d", i))
			tx.Append = append(tx.Append, store.Append{Key: k, Entries: entries("a", k.Name)})
		}
		w.commit(tx)
		for _, a := range tx.Append {
			w.isLog(a.Key, 0, "a", a.Key.Name)
		}
	}},

	{name: "deleting a key makes its log empty, and the next append is at 0", run: func(w *world) {
		k := key("order-1")
		w.append(k, 0, "a", "b")
		w.commit(&store.Tx{DeleteKeys: []store.Key{k}})
		w.isLog(k, 0)
		w.commitErr(appendTx(k, 2, "x"), store.ErrConflict)
		w.append(k, 0, "new")
		w.isLog(k, 0, "new")
	}},

	{name: "an append does not make a key ready", run: func(w *world) {
		w.append(key("order-1"), 0, "a")
		w.claimNone()
	}},

	{name: "a claim tells the length of the log", run: func(w *world) {
		k := key("order-1")
		w.append(k, 0, "a", "b", "c")
		w.trim(k, 2)
		w.put(k, "m")
		w.equal("log length", w.claimOne().LogLength, 3)
	}},

	{name: "a store does not keep the entries that it was given", run: func(w *world) {
		k := key("order-1")
		mine := entries("before", "other")
		w.commit(&store.Tx{Append: []store.Append{{Key: k, Entries: mine}}})
		copy(mine[0], "AFTER!")
		mine[1] = []byte("gone")
		w.isLog(k, 0, "before", "other")
	}},

	{name: "the entries that a store returns are the caller's", run: func(w *world) {
		k := key("order-1")
		w.append(k, 0, "before", "other")
		page := w.readLog(k, 0)
		copy(page.Entries[0], "AFTER!")
		page.Entries[1] = nil
		_ = append(page.Entries[0], "more than there was"...) // must not reach into the next entry
		w.isLog(k, 0, "before", "other")
	}},

	{name: "a log outlives its process", needsReopen: true, run: func(w *world) {
		k := key("order-1")
		w.append(k, 0, "a", "b", "", "d")
		w.append(key("order-2"), 0, "x")
		w.trim(k, 1)
		w.append(key("order-3"), 0, "y")
		w.commit(&store.Tx{DeleteKeys: []store.Key{key("order-3")}})
		w.Reopen()
		w.isLog(k, 1, "b", "", "d")
		w.isLog(key("order-2"), 0, "x")
		w.isLog(key("order-3"), 0)
		w.commitErr(appendTx(k, 3, "x"), store.ErrConflict)
		w.append(k, 4, "e")
		w.isLog(k, 1, "b", "", "d", "e")
	}},
}

var idleCases = []propertyCase{
	{name: "an append gives the key its route", run: func(w *world) {
		k := key("order-1")
		w.commit(&store.Tx{Append: []store.Append{{Key: k, Route: "order", Entries: entries("a")}}})
		w.putMessages(store.Message{Key: k, ID: "m", Body: bodyOf("m")})
		w.isClaim(w.claimOne(serving("order")), k, "m")
	}},

	{name: "a route of an append makes messages that wait for one claimable", run: func(w *world) {
		k := key("order-1")
		w.putMessages(store.Message{Key: k, ID: "m", Body: bodyOf("m")}, store.Message{Key: k, ID: "n", Body: bodyOf("n")})
		w.claimNone(serving("order"))
		w.commit(&store.Tx{Append: []store.Append{{Key: k, Route: "order", Entries: entries("a")}}})
		c := w.claimOne(serving("order"))
		w.isClaim(c, k, "m", "n")
		w.equal("length of the log", c.LogLength, 1)
	}},

	{name: "an append gives the key another route, also while it is leased", run: func(w *world) {
		k := key("order-1")
		w.putMessages(store.Message{Key: k, ID: "m", Route: "order", Body: bodyOf("m")})
		c := w.claimOne(serving("order"))
		w.commit(&store.Tx{Append: []store.Append{{Key: k, Route: "order@2", Entries: entries("a")}}})
		w.isLive(c)
		w.release(store.Release{Lease: c.Lease()})
		w.claimNone(serving("order"))
		w.isClaim(w.claimOne(serving("order@2")), k, "m")
	}},

	{name: "an append gives another route to what its commit puts, after the messages that it finishes", run: func(w *world) {
		k := key("order-1")
		w.putMessages(store.Message{Key: k, ID: "m", Route: "order", Body: bodyOf("m")})
		c := w.claimOne(serving("order"))
		w.commit(&store.Tx{
			Finish: []store.Finish{{Lease: c.Lease()}},
			Append: []store.Append{{Key: k, Route: "order@2", Entries: entries("a")}},
			Put:    []store.Message{{Key: k, ID: "m", Body: bodyOf("m")}},
		})
		w.claimNone(serving("order"))
		w.isClaim(w.claimOne(serving("order@2")), k, "m")
	}},

	{name: "an idle append is a conflict while the key is leased, and changes nothing", run: func(w *world) {
		k := key("order-1")
		w.put(k, "m")
		c := w.claimOne()
		w.commitErr(idleTx(k, 0, "a"), store.ErrConflict)
		w.isLog(k, 0)
		w.finish(c)
		w.commit(idleTx(k, 0, "a"))
		w.isLog(k, 0, "a")
	}},

	{name: "an idle append is a conflict while a message is visible", run: func(w *world) {
		k := key("order-1")
		w.put(k, "m")
		err := w.Store.Commit(w.ctx, idleTx(k, 0, "a"))
		w.isErr("commit", err, store.ErrConflict)
		w.says(err, k.String())
		w.remove(k, "m")
		w.commit(idleTx(k, 0, "a"))
	}},

	{name: "an idle append is a conflict after a lease has expired, and once a message is due", run: func(w *world) {
		k := key("order-1")
		w.putMessages(store.Message{Key: k, ID: "m", Route: msg(k, "").Route, VisibleAt: w.in(time.Minute)})
		w.commit(idleTx(k, 0, "a")) // it is not visible yet
		w.Advance(time.Minute)
		w.commitErr(idleTx(k, 1, "b"), store.ErrConflict)
		w.claimOne()
		w.Advance(time.Hour)
		w.commitErr(idleTx(k, 1, "b"), store.ErrConflict)
	}},

	{name: "an idle append is a conflict while a message waits for a route", run: func(w *world) {
		k := key("order-1")
		w.putMessages(store.Message{Key: k, ID: "m"})
		w.commitErr(idleTx(k, 0, "a"), store.ErrConflict)
		w.isLog(k, 0)
	}},

	{name: "an idle append looks at the key before what its commit puts, and after its deletion", run: func(w *world) {
		k := key("order-1")
		tx := idleTx(k, 0, "a")
		tx.Put = []store.Message{msg(k, "m")}
		w.commit(tx)
		tx = idleTx(k, 0, "b")
		tx.DeleteKeys = []store.Key{k}
		w.commit(tx)
		w.isLog(k, 0, "b")
	}},
}

// idleTx returns the Tx that appends texts to the log of an idle key.
func idleTx(k store.Key, length int, texts ...string) *store.Tx {
	tx := appendTx(k, length, texts...)
	tx.Append[0].Idle = true
	return tx
}

// appendTx returns the Tx that appends texts to a log.
func appendTx(k store.Key, length int, texts ...string) *store.Tx {
	return &store.Tx{Append: []store.Append{{Key: k, At: length, Entries: entries(texts...)}}}
}

// trim trims a log in a commit of its own.
func (w *world) trim(k store.Key, before int) {
	w.t.Helper()
	w.commit(trimTx(k, before))
}

func trimTx(k store.Key, before int) *store.Tx {
	return &store.Tx{Trim: []store.Trim{{Key: k, Before: before}}}
}

// isLog checks that a log holds exactly these entries, the first of them at index
// first.
func (w *world) isLog(k store.Key, first int, texts ...string) {
	w.t.Helper()
	page := w.readLog(k, 0)
	if len(texts) > 0 {
		w.equal("index of the first entry of "+k.String(), page.First, first)
	}
	w.equal("length of the log of "+k.String(), page.Length, first+len(texts))
	got := w.logTexts(k)
	w.equal("number of entries of "+k.String(), len(got), len(texts))
	for i := range texts {
		if got[i] != texts[i] {
			w.t.Fatalf("entry %d of %v: got %.100q, want %.100q", first+i, k, got[i], texts[i])
		}
	}
}

// says checks that the text of an error has all of parts.
func (w *world) says(err error, parts ...string) {
	w.t.Helper()
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			w.t.Fatalf("error %q does not say %q", err, part)
		}
	}
}

// bigText returns a text of size bytes that no other seed has.
func bigText(seed, size int) string { return string(bigBytes(seed, size)) }

// bigBytes returns size bytes, of every value, that no other seed has. They do not
// compress to nothing.
func bigBytes(seed, size int) []byte {
	b := make([]byte, size)
	state := uint32(seed)*2654435761 + 1
	for i := range b {
		state = state*1664525 + 1013904223
		b[i] = byte(state >> 24)
	}
	return b
}
