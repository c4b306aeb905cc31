package storetest

import (
	"fmt"
	"math"
	"time"

	"github.com/abidehq/abide/store"
)

var logTagCases = []propertyCase{
	{name: "a claim returns the tag that the log was begun with", run: func(w *world) {
		for i, tag := range []uint64{1, 127, 128, 1 << 32, math.MaxInt64, 1 << 63, math.MaxUint64} {
			k := key(fmt.Sprintf("order-%d", i))
			w.commit(begin(k, tag, "a"))
			w.put(k, "m")
			w.equal("tag of "+k.String(), w.claimKey(k, []string{"m"}).LogTag, tag)
		}
	}},

	{name: "a claim of a key without a log has tag zero", run: func(w *world) {
		w.commit(begin(key("order-2"), 7, "a"))
		w.put(key("order-1"), "m")
		w.equal("tag", w.claimKey(key("order-1"), []string{"m"}).LogTag, uint64(0))
	}},

	{name: "a log that was begun with tag zero has tag zero", run: func(w *world) {
		k := key("order-1")
		w.append(k, 0, "a")
		w.isTag(k, 0)
		w.commit(&store.Tx{Append: []store.Append{{Key: k, At: 1, Tag: 7, Entries: entries("b")}}})
		w.isTag(k, 0)
	}},

	{name: "the tag of an append to a log that exists is ignored", run: func(w *world) {
		k := key("order-1")
		w.commit(begin(k, 7, "a"))
		for at, tag := range []uint64{8, 0, math.MaxUint64} {
			w.commit(&store.Tx{Append: []store.Append{{Key: k, At: at + 1, Tag: tag, Entries: entries("b")}}})
			w.isTag(k, 7)
		}
	}},

	{name: "an append that fails leaves the tag as it is", run: func(w *world) {
		k := key("order-1")
		w.commitErr(&store.Tx{Append: []store.Append{{Key: k, At: 1, Tag: 8, Entries: entries("x")}}}, store.ErrConflict)
		w.isTag(k, 0)
		w.commit(begin(k, 7, "a"))
		w.commitErr(begin(k, 8, "x"), store.ErrConflict)
		w.isTag(k, 7)
		replace := begin(k, 8, "x")
		replace.DeleteKeys = []store.Key{k}
		replace.Trim = []store.Trim{{Key: key("order-2"), Before: 1}}
		w.commitErr(replace, store.ErrConflict)
		w.isTag(k, 7)
	}},

	{name: "the tag belongs to the log of its queue, tenant and name", run: func(w *world) {
		keys := []store.Key{keyIn("q", "t", "k"), keyIn("q", "t", "k2"), keyIn("q", "t2", "k"), keyIn("q", "", "k")}
		tx := &store.Tx{}
		for i, k := range keys {
			tx.Append = append(tx.Append, store.Append{Key: k, Tag: uint64(i + 1), Entries: entries("a")})
		}
		w.commit(tx)
		for i, k := range keys {
			w.isTag(k, uint64(i+1))
		}
	}},

	{name: "trimming keeps the tag, also to the end of the log", run: func(w *world) {
		k := key("order-1")
		w.commit(begin(k, 7, "a", "b", "c"))
		for _, before := range []int{1, 3} {
			w.trim(k, before)
			w.isTag(k, 7)
		}
		w.commit(&store.Tx{Append: []store.Append{{Key: k, At: 3, Tag: 8, Entries: entries("d")}}})
		w.isTag(k, 7)
	}},

	{name: "a new route of the key keeps the tag", run: func(w *world) {
		k := key("order-1")
		w.commit(begin(k, 7, "a"))
		w.putMessages(msg(k, "first"))
		w.putMessages(msg(k, "second", via("order@2")))
		w.equal("tag", w.claimKey(k, []string{"first", "second"}, serving("order@2")).LogTag, uint64(7))
	}},

	{name: "a key that was deleted has no tag until it has a log again, and then that of the new log", run: func(w *world) {
		k := key("order-1")
		w.commit(begin(k, 7, "a", "b"))
		w.trim(k, 1)
		w.commit(&store.Tx{DeleteKeys: []store.Key{k}})
		w.isTag(k, 0)
		w.commit(begin(k, 8, "a", "b"))
		w.isTag(k, 8)
		w.commit(&store.Tx{DeleteKeys: []store.Key{k}})
		w.append(k, 0, "a", "b")
		w.isTag(k, 0)
	}},

	{name: "a commit that replaces a key and begins its log gives it the new tag", run: func(w *world) {
		k := key("order-1")
		w.commit(begin(k, 7, "old"))
		w.put(k, "a")
		w.claimKey(k, []string{"a"})
		replace := begin(k, 8, "new")
		replace.DeleteKeys = []store.Key{k}
		replace.Put = []store.Message{msg(k, "b")}
		w.commit(replace)
		c := w.claimKey(k, []string{"b"})
		w.equal("log length", c.LogLength, 1)
		w.equal("tag", c.LogTag, uint64(8))
	}},

	{name: "a claim that begins a log finds its tag at the next one", run: func(w *world) {
		k := key("order-1")
		w.put(k, "start")
		c := w.claimKey(k, []string{"start"})
		w.equal("tag before", c.LogTag, uint64(0))
		turn := begin(k, 7, "started")
		turn.Finish = []store.Finish{finishing(c)}
		turn.Put = []store.Message{msg(k, "timer", at(w.in(time.Minute)))}
		w.commit(turn)
		w.Advance(time.Minute)
		w.equal("tag after", w.claimKey(k, []string{"timer"}).LogTag, uint64(7))
	}},

	{name: "the tag of a log outlives its process", needsReopen: true, run: func(w *world) {
		kept, trimmed, replaced, gone := key("kept"), key("trimmed"), key("replaced"), key("gone")
		for i, k := range []store.Key{kept, trimmed, replaced, gone} {
			w.commit(begin(k, math.MaxUint64-uint64(i), "a", "b"))
		}
		w.trim(trimmed, 2)
		again := begin(replaced, 8, "new")
		again.DeleteKeys = []store.Key{replaced, gone}
		w.commit(again)
		w.Reopen()
		w.isTag(kept, math.MaxUint64)
		w.isTag(trimmed, math.MaxUint64-1)
		w.isTag(replaced, 8)
		w.isTag(gone, 0)
		w.commit(&store.Tx{Append: []store.Append{{Key: trimmed, At: 2, Tag: 9, Entries: entries("c")}}})
		w.Reopen()
		w.isTag(trimmed, math.MaxUint64-1)
	}},
}

// begin returns the Tx that begins a log with a tag.
func begin(k store.Key, tag uint64, texts ...string) *store.Tx {
	return &store.Tx{Append: []store.Append{{Key: k, Tag: tag, Entries: entries(texts...)}}}
}

// isTag checks the tag of a key's log by a claim, for a message of which nothing is
// left. The key must have no other.
func (w *world) isTag(k store.Key, tag uint64) {
	w.t.Helper()
	w.put(k, "asks for the tag")
	c := w.claimKey(k, []string{"asks for the tag"}, from(k.Queue))
	w.finish(c)
	w.equal("tag of the log of "+k.String(), c.LogTag, tag)
}
