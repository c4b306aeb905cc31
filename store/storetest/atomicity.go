package storetest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/abidehq/abide/store"
)

var atomicityCases = []propertyCase{
	{name: "every kind of operation takes effect in one commit", run: func(w *world) {
		s := newScene(w)
		w.commit(s.everything())
		w.sceneIsChanged(s)
	}},

	{name: "a commit is there as a whole after the process was killed", needsReopen: true, run: func(w *world) {
		s := newScene(w)
		w.commit(s.everything())
		w.Reopen()
		w.sceneIsChanged(s)
	}},

	{name: "a commit that failed is not there after the process was killed", needsReopen: true, run: func(w *world) {
		s := newScene(w)
		before := w.observe()
		w.commitErr(s.with(s.everything(), "log length"), store.ErrConflict)
		w.Reopen()
		w.Advance(theLease) // whether a lease outlives its process is the backend's
		after := w.observe()
		w.equal("what is stored", after.stored, before.stored)
	}},

	{name: "nothing is changed if a log has another length", run: nothingChangesAfter("log length", store.ErrConflict)},
	{name: "nothing is changed if a log does not exist yet", run: nothingChangesAfter("no log", store.ErrConflict)},
	{name: "nothing is changed if a record has another version", run: nothingChangesAfter("record version", store.ErrConflict)},
	{name: "nothing is changed if a record exists already", run: nothingChangesAfter("record exists", store.ErrConflict)},
	{name: "nothing is changed if a record does not exist", run: nothingChangesAfter("no record", store.ErrConflict)},
	{name: "nothing is changed if a record to delete has another version", run: nothingChangesAfter("delete version", store.ErrConflict)},
	{name: "nothing is changed if a record to delete does not exist", run: nothingChangesAfter("delete nothing", store.ErrConflict)},
	{name: "nothing is changed if a log is trimmed beyond its length", run: nothingChangesAfter("trim", store.ErrConflict)},
	{name: "nothing is changed if a claim expired", run: nothingChangesAfter("claim expired", store.ErrClaimLost)},
	{name: "nothing is changed if a claim was released", run: nothingChangesAfter("claim released", store.ErrClaimLost)},
	{name: "nothing is changed if a message has no ID", run: nothingChangesAfter("invalid message", store.ErrInvalid)},
	{name: "nothing is changed if the last record is too large", run: nothingChangesAfter("large record", store.ErrTooLarge)},

	{name: "an empty commit does nothing", run: func(w *world) {
		s := newScene(w)
		before := w.observe()
		w.commit(&store.Tx{})
		w.commit(&store.Tx{Finish: []store.Finish{}, Put: []store.Message{}, PutRecords: []store.PutRecord{}})
		w.sameAs(before, "an empty commit")
		w.isLive(s.claim)
	}},

	{name: "a commit of many messages that fails at its end puts none", run: func(w *world) {
		tx := &store.Tx{PutRecords: []store.PutRecord{{Record: store.Record{Key: recordKey("r")}, Expect: 1}}}
		for i := range 2000 {
			tx.Put = append(tx.Put, msg(key(fmt.Sprintf("order-%d", i%100)), fmt.Sprintf("m%d", i)))
		}
		w.commitErr(tx, store.ErrConflict)
		w.claimNone()
		w.equal("rows of stats", len(w.stats().Routes), 0)
	}},

	{name: "a commit that failed can be repeated once its cause is gone", run: func(w *world) {
		s := newScene(w)
		w.commitErr(s.with(s.everything(), "log length"), store.ErrConflict)
		w.commit(s.everything())
		w.sceneIsChanged(s)
	}},

	{name: "a claim is kept by a commit that fails for another reason", run: func(w *world) {
		w.put(key("order-1"), "a")
		c := w.claimOne()
		tx := finishTx(c)
		tx.Append = []store.Append{{Key: c.Key, At: 5, Entries: entries("one")}}
		w.commitErr(tx, store.ErrConflict)
		w.isLive(c)
		w.claimNone()
		tx.Append[0].At = 0
		w.commit(tx)
		w.isPending(c.Key)
		w.equal("log", w.logTexts(c.Key), []string{"one"})
	}},

	{name: "if one of two claims is lost neither is finished", run: func(w *world) {
		w.put(key("order-1"), "a")
		w.put(key("order-2"), "a")
		claims := w.claimAll()
		w.release(store.Release{Lease: claims[1].Lease()})
		w.commitErr(finishTx(claims...), store.ErrClaimLost)
		w.commitErr(finishTx(claims[1], claims[0]), store.ErrClaimLost)
		w.isLive(claims[0])
		w.isPending(key("order-1"), "a")
		w.isPending(key("order-2"), "a")
	}},

	{name: "a commit spans keys, queues, tenants and kinds", needsTogether: true, run: func(w *world) {
		keys := []store.Key{key("order-1"), key("order-2"), keyIn("tasks", theTenant, "charge"), keyIn("timers", "globex", "t")}
		records := []store.RecordKey{
			recordKey("r"), {Kind: "timer", Tenant: theTenant, ID: "r"}, {Kind: theKind, Tenant: "globex", ID: "r"},
		}
		tx := &store.Tx{}
		for _, k := range keys {
			tx.Put = append(tx.Put, msg(k, "a"))
			tx.Append = append(tx.Append, store.Append{Key: k, Entries: entries("of " + k.String())})
		}
		for _, k := range records {
			tx.PutRecords = append(tx.PutRecords, store.PutRecord{Record: store.Record{Key: k, Name: k.String()}})
		}
		w.commit(tx)
		for _, k := range keys {
			w.isPending(k, "a")
			w.equal("log", w.logTexts(k), []string{"of " + k.String()})
		}
		for _, k := range records {
			w.equal("name of a record", w.get(k).Name, k.String())
		}
		// If one of the logs has moved on, none of it happens again.
		for i := range keys {
			tx.Append[i].At = 1
		}
		for i := range records {
			tx.PutRecords[i].Expect = 1
		}
		w.append(keys[3], 1, "more")
		w.commitErr(tx, store.ErrConflict)
		w.equal("log of the first key", len(w.logTexts(keys[0])), 1)
		w.equal("version of the first record", w.get(records[0]).Version, int64(1))
	}},
}

// scene is a store that has something for every kind of operation, and a claim.
type scene struct {
	claim    store.Claim // of "held"
	expired  store.Claim // of "lost", with two tokens that are not live
	released store.Claim
	changes  map[string]func(tx *store.Tx) // by kind of operation
	failures map[string]func(tx *store.Tx) // what makes a commit fail, and changes nothing itself
}

func newScene(w *world) *scene {
	w.t.Helper()
	w.put(key("lost"), "a")
	expired := w.claimOne()
	w.Advance(theLease)
	released := w.claimOne()
	w.release(store.Release{Lease: released.Lease()})
	w.remove(key("lost"), "a")

	w.put(key("held"), "a", "b")
	s := &scene{claim: w.claimOne(), expired: expired, released: released}
	w.put(key("held"), "arrived")
	w.commit(&store.Tx{
		Append: []store.Append{
			{Key: key("gone"), Entries: entries("g0", "g1")},
			{Key: key("trimmed"), Entries: entries("t0", "t1", "t2")},
			{Key: key("logged"), Entries: entries("l0")},
		},
		Put: []store.Message{
			msg(key("gone"), "a"), msg(key("pending"), "deleted"), msg(key("pending"), "retimed", at(w.in(time.Hour))),
		},
		PutRecords: []store.PutRecord{{Record: sceneRecord("changed", "old")}, {Record: sceneRecord("deleted", "old")}},
	})
	s.changes = s.changesAt(w.now())
	s.failures = s.allFailures()
	return s
}

func sceneRecord(id, status string) store.Record {
	return store.Record{Key: recordKey(id), Status: status, Tags: map[string]string{"status": status}, Body: []byte(status)}
}

// changesAt returns one operation of each kind, that would be seen.
func (s *scene) changesAt(now time.Time) map[string]func(tx *store.Tx) {
	return map[string]func(tx *store.Tx){
		"finish":     func(tx *store.Tx) { tx.Finish = append(tx.Finish, finishing(s.claim, "b")) },
		"delete key": func(tx *store.Tx) { tx.DeleteKeys = append(tx.DeleteKeys, key("gone")) },
		"trim":       func(tx *store.Tx) { tx.Trim = append(tx.Trim, store.Trim{Key: key("trimmed"), Before: 2}) },
		"append": func(tx *store.Tx) {
			tx.Append = append(tx.Append, store.Append{Key: key("logged"), At: 1, Entries: entries("l1", "l2")})
		},
		"put": func(tx *store.Tx) {
			tx.Put = append(tx.Put, msg(key("new"), "a", via("ship@1")), msg(key("pending"), "put"))
		},
		"retime": func(tx *store.Tx) {
			tx.Retime = append(tx.Retime, store.Retime{Ref: ref(key("pending"), "retimed"), VisibleAt: now})
		},
		"delete": func(tx *store.Tx) { tx.Delete = append(tx.Delete, ref(key("pending"), "deleted")) },
		"put record": func(tx *store.Tx) {
			tx.PutRecords = append(tx.PutRecords, store.PutRecord{Record: sceneRecord("changed", "new"), Expect: 1},
				store.PutRecord{Record: sceneRecord("created", "new")})
		},
		"delete record": func(tx *store.Tx) {
			tx.DeleteRecords = append(tx.DeleteRecords, store.DeleteRecord{Key: recordKey("deleted"), Expect: 1})
		},
	}
}

// allFailures returns all that makes a commit fail.
func (s *scene) allFailures() map[string]func(tx *store.Tx) {
	put := func(r store.Record, expect int64) func(*store.Tx) {
		return func(tx *store.Tx) { tx.PutRecords = append(tx.PutRecords, store.PutRecord{Record: r, Expect: expect}) }
	}
	remove := func(id string, expect int64) func(*store.Tx) {
		return func(tx *store.Tx) {
			tx.DeleteRecords = append(tx.DeleteRecords, store.DeleteRecord{Key: recordKey(id), Expect: expect})
		}
	}
	extend := func(name string, length int) func(*store.Tx) {
		return func(tx *store.Tx) {
			tx.Append = append(tx.Append, store.Append{Key: key(name), At: length, Entries: entries("never")})
		}
	}
	finish := func(c store.Claim) func(*store.Tx) {
		return func(tx *store.Tx) { tx.Finish = append(tx.Finish, finishing(c)) }
	}
	large := sceneRecord("large", "new")
	large.Body = make([]byte, store.MaxRecord+1)
	return map[string]func(tx *store.Tx){
		"log length":      extend("trimmed", 2),
		"no log":          extend("absent", 1),
		"record version":  put(sceneRecord("bystander", "new"), 2),
		"record exists":   put(sceneRecord("bystander", "new"), 0),
		"no record":       put(sceneRecord("absent", "new"), 1),
		"delete version":  remove("bystander", 2),
		"delete nothing":  remove("absent", 1),
		"trim":            func(tx *store.Tx) { tx.Trim = append(tx.Trim, store.Trim{Key: key("logged"), Before: 2}) },
		"claim expired":   finish(s.expired),
		"claim released":  finish(s.released),
		"invalid message": func(tx *store.Tx) { tx.Put = append(tx.Put, msg(key("new"), "")) },
		"large record":    put(large, store.AnyVersion),
	}
}

// everything returns the Tx that has all changes.
func (s *scene) everything() *store.Tx {
	tx := &store.Tx{}
	for _, change := range s.changes {
		change(tx)
	}
	return tx
}

// with returns tx with one more thing, that makes it fail.
func (s *scene) with(tx *store.Tx, failure string) *store.Tx {
	s.failures[failure](tx)
	return tx
}

// sceneIsChanged checks that everything was committed.
func (w *world) sceneIsChanged(s *scene) {
	w.t.Helper()
	w.isLost(s.claim)
	w.isPending(key("held"), "b", "arrived")
	w.isPending(key("gone"))
	w.equal("log of the deleted key", w.readLog(key("gone"), 0).Length, 0)
	page := w.readLog(key("trimmed"), 0)
	w.equal("first entry of the trimmed log", page.First, 2)
	w.equal("length of the trimmed log", page.Length, 3)
	w.equal("appended log", w.logTexts(key("logged")), []string{"l0", "l1", "l2"})
	w.isPending(key("new"), "a")
	w.isPending(key("pending"), "retimed", "put")
	w.equal("status of the changed record", w.get(recordKey("changed")).Status, "new")
	w.equal("version of the changed record", w.get(recordKey("changed")).Version, int64(2))
	w.equal("version of the new record", w.get(recordKey("created")).Version, int64(1))
	w.hasNoRecord(recordKey("deleted"))
	claims := w.claimAll(serving(theRoute, "ship@1"))
	got := describe(claims)
	slices.Sort(got)
	w.equal("claimed keys", got, []string{
		"turns/acme/held[b arrived]", "turns/acme/new[a]", "turns/acme/pending[retimed put]",
	})
}

// nothingChangesAfter returns a case that commits what fails: alone, with each kind of
// operation, and with all of them.
func nothingChangesAfter(failure string, target error) func(w *world) {
	return func(w *world) {
		s := newScene(w)
		w.putRecord(sceneRecord("bystander", "old"))
		before := w.observe()
		attempt := func(what string, tx *store.Tx) {
			w.t.Helper()
			w.commitErr(s.with(tx, failure), target)
			w.sameAs(before, what)
		}
		attempt("a commit that does nothing else", &store.Tx{})
		for name, change := range s.changes {
			tx := &store.Tx{}
			change(tx)
			attempt("a commit with "+name, tx)
		}
		attempt("a commit with everything", s.everything())
		w.isLive(s.claim)
		got := describe(w.claimAll(serving(theRoute, "ship@1")))
		slices.Sort(got)
		w.equal("claimed keys", got, []string{"turns/acme/gone[a]", "turns/acme/pending[deleted]"})
		w.finish(s.claim)
	}
}

// observation is what can be seen of a scene, as text that a person can compare.
type observation struct {
	stored string // what outlives the process
	leases int
}

// observe looks at everything in a scene without changing it.
func (w *world) observe() observation {
	w.t.Helper()
	var text strings.Builder
	for _, name := range []string{"held", "lost", "gone", "trimmed", "logged", "pending", "new", "absent"} {
		for _, m := range w.pending(key(name)) {
			fmt.Fprintf(&text, "message %v: visible at %d, put at %d, attempt %d, %q\n",
				m.Ref(), m.VisibleAt.UnixMilli(), m.PutAt.UnixMilli(), m.Attempt, m.Body)
		}
		page := w.readLog(key(name), 0)
		fmt.Fprintf(&text, "log %s: %d entries from %d of %d: %q\n", name, len(page.Entries), page.First, page.Length, page.Entries)
	}
	page, err := w.Store.List(w.ctx, store.Query{Kind: theKind})
	if err != nil {
		w.t.Fatalf("list: %v", err)
	}
	for _, r := range page.Records {
		fmt.Fprintf(&text, "record %v: version %d, %s, %v, %q\n", r.Key, r.Version, r.Status, r.Tags, r.Body)
	}
	stats := w.stats()
	for _, row := range stats.Routes {
		fmt.Fprintf(&text, "route %s %s: %d pending, oldest %d\n", row.Queue, row.Route, row.Pending, row.Oldest.UnixMilli())
	}
	return observation{stored: text.String(), leases: stats.Leases}
}

// sameAs checks that nothing has changed since an observation.
func (w *world) sameAs(before observation, what string) {
	w.t.Helper()
	if after := w.observe(); after != before {
		w.t.Fatalf("%s changed something.\nBefore, with %d leases:\n%sAfter, with %d leases:\n%s",
			what, before.leases, before.stored, after.leases, after.stored)
	}
}
