package storetest

import (
	"bytes"
	"fmt"
	"strings"
	"time"

	"github.com/abidehq/abide/store"
)

// What fill names, besides the usual.
const (
	fillQueue = "activities"
	fillRoute = "charge"
	fillKind  = "timer"
)

// fill puts one of everything that a store can hold into it. What it puts takes several
// parcels.
func (w *world) fill() {
	w.t.Helper()
	w.fillMessages()
	w.fillOrder()
	w.fillLogs()
	w.fillRecords()
	w.fillQuarantine()
	w.fillNames()
	w.fillLarge()
}

// fillMessages puts messages that are visible and not, with and without a route, with
// times to live, empty, and claimed in all ways.
func (w *world) fillMessages() {
	w.putMessages(
		msg(key("visible"), "a"), msg(key("visible"), "b"), msg(key("visible"), "empty", withBody(nil)),
		msg(key("later"), "a", at(w.in(time.Hour))), msg(key("later"), "b", at(w.in(24*time.Hour))),
		msg(key("no route"), "a", noRoute()), msg(key("no route"), "b", noRoute(), withTTL(3*time.Hour)),
		msg(key("no route"), "c", noRoute(), at(w.in(time.Hour)), withTTL(time.Hour+time.Millisecond)),
		msg(keyIn(fillQueue, "", "no tenant"), "a", via(fillRoute)),
		msg(key("moved"), "a", noRoute(), withTTL(time.Hour)),
	)
	w.Advance(time.Second)
	w.putMessages(msg(key("moved"), "b", via("first")))
	w.Advance(time.Second)
	w.putMessages(msg(key("moved"), "c", via(fillRoute)))

	k := keyIn(fillQueue, theTenant, "claimed")
	w.putMessages(msg(k, "kept", via(fillRoute)), msg(k, "consumed", via(fillRoute)), msg(k, "kept too", via(fillRoute)))
	claim := func() store.Claim { return w.claimOneOf(k, from(fillQueue), serving(fillRoute)) }
	w.release(store.Release{Lease: leaseOf(claim())})
	w.release(store.Release{Lease: leaseOf(claim()), Uncounted: true})
	w.commit(&store.Tx{Finish: []store.Finish{finishing(claim(), "kept", "kept too")}})
	w.release(store.Release{Lease: leaseOf(claim()), After: time.Minute})
	w.Advance(time.Minute)

	delayed := keyIn(fillQueue, theTenant, "released with a delay")
	w.putMessages(msg(delayed, "a", via(fillRoute)))
	w.release(store.Release{Lease: leaseOf(w.claimOneOf(delayed, from(fillQueue), serving(fillRoute))), After: 5 * time.Hour})

	leased := keyIn(fillQueue, "leased", "leased")
	w.putMessages(msg(leased, "a", via(fillRoute)))
	w.claimOneOf(leased, from(fillQueue), serving(fillRoute), leaseFor(2*theLease))
}

// fillOrder puts messages whose order of delivery is not that in which they were put.
func (w *world) fillOrder() {
	k := key("in order")
	due := w.in(2 * time.Hour)
	w.putMessages(msg(k, "4", at(due)), msg(k, "5", at(due)), msg(k, "1", at(due.Add(-time.Hour))))
	w.putMessages(msg(k, "6", at(due.Add(time.Hour))), msg(k, "2", at(due.Add(-time.Hour))), msg(k, "3", at(due)))
	w.retime(k, "6", due)
	w.retime(k, "3", due.Add(-time.Hour))
}

// fillLogs makes logs with and without messages, routes, tags and entries.
func (w *world) fillLogs() {
	log := func(name string, tag uint64, texts ...string) store.Key {
		w.commit(&store.Tx{Append: []store.Append{{Key: key(name), Tag: tag, Entries: entries(texts...)}}})
		return key(name)
	}
	log("only a log", 0, "one", "", "three")
	w.append(log("trimmed", 1<<63+5, "one", "two", "three", "four"), 4, "five", "six")
	w.trim(key("trimmed"), 3)
	w.append(log("trimmed wholly", 9, "one", "two"), 2, "three")
	w.trim(key("trimmed wholly"), 3)
	log("log and messages", 17, "one")
	w.put(key("log and messages"), "a", "b")
	consumed := log("log and route", 18, "one")
	w.put(consumed, "a")
	w.finish(w.claimOneOf(consumed))
	w.putMessages(msg(log("log without a route", 19, "one", "two"), "a", noRoute()))
	w.trim(key("log without a route"), 1)
}

// fillRecords puts records of several kinds, tenants, statuses and times, some of them
// several times.
func (w *world) fillRecords() {
	now := w.now()
	for i := range 6 {
		w.putRecord(store.Record{Key: recordKey(fmt.Sprint(i)), Status: "running", Name: "order", Time: now.Add(time.Duration(i/2) * time.Second), Body: bodyOf(fmt.Sprint(i))})
	}
	for i := range 3 {
		w.putRecord(store.Record{Key: recordKey("0"), Status: "waiting", Name: fmt.Sprintf("order %d", i), Time: now, Tags: map[string]string{"step": fmt.Sprint(i), "": "", "empty": ""}})
	}
	w.putRecord(store.Record{Key: store.RecordKey{Kind: fillKind, ID: "no tenant"}, Time: now.Add(time.Hour)})
	w.putRecord(store.Record{Key: store.RecordKey{Kind: fillKind, Tenant: theTenant, ID: "bare"}})
	w.putRecord(store.Record{Key: recordKey("deleted")})
	w.commit(&store.Tx{DeleteRecords: []store.DeleteRecord{{Key: recordKey("deleted"), Expect: 1}}})
	w.putRecord(store.Record{Key: recordKey("deleted"), Status: "again"})
}

// fillQuarantine has messages go to quarantine, for both reasons.
func (w *world) fillQuarantine() {
	k := keyIn("quarantined", theTenant, "too often")
	w.putMessages(msg(k, "a", via(fillRoute)), msg(k, "b", via(fillRoute), at(w.in(10*time.Hour))))
	w.exhaust(k, 2, from("quarantined"), serving(fillRoute))
	w.claimNone(from("quarantined"), serving(fillRoute), maxAttempts(2))
	w.putMessages(msg(keyIn("quarantined", theTenant, "too long"), "a", noRoute(), withTTL(time.Second)))
	w.Advance(time.Second)
	w.claimNone(from("quarantined"))
}

// fillNames uses names of any bytes wherever there is one.
func (w *world) fillNames() {
	tx := &store.Tx{}
	for _, name := range hostileNames {
		k := keyIn("names", name, name)
		tx.Put = append(tx.Put, msg(k, name, via(name), withBody([]byte(name))))
		tx.Append = append(tx.Append, store.Append{Key: k, Entries: [][]byte{[]byte(name)}})
		tx.PutRecords = append(tx.PutRecords, store.PutRecord{Record: store.Record{
			Key: store.RecordKey{Kind: "names", Tenant: name, ID: name}, Status: name, Name: name,
			Tags: map[string]string{name: name}, Body: []byte(name),
		}})
	}
	w.commit(tx)
}

// fillLarge puts a log and messages of a key that take more than a parcel each, and a
// record that is larger than a parcel should be.
func (w *world) fillLarge() {
	k := key("large")
	const parts, size = 6, store.ParcelBytes/5 + 1
	for i := range parts {
		body := bytes.Repeat([]byte{byte(i)}, size)
		w.commit(&store.Tx{
			Put:    []store.Message{msg(k, fmt.Sprint("m", i), at(w.in(time.Duration(parts-i)*time.Minute)), withBody(body))},
			Append: []store.Append{{Key: k, At: 2 * i, Tag: 99, Entries: [][]byte{body, nil}}},
		})
	}
	w.trim(k, 1)
	w.putRecord(store.Record{Key: recordKey("largest"), Body: []byte(strings.Repeat("y", store.ParcelBytes+1))})
}
