package storetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/abidehq/abide/store"
)

var quarantineCases = slices.Concat(attemptCases, redriveCases)

var attemptCases = []propertyCase{
	{name: "a message that was delivered MaxAttempts times goes to quarantine and is not delivered again", run: func(w *world) {
		k := key("order-1")
		w.put(k, "a")
		for attempt := 1; attempt <= 3; attempt++ {
			c := w.claimKey(k, []string{"a"}, maxAttempts(3))
			w.equal("attempt", c.Messages[0].Attempt, attempt)
			w.equal("number of messages in quarantine", len(w.quarantined()), 0)
			w.release(store.Release{Lease: c.Lease()})
		}
		w.claimNone(maxAttempts(3))
		w.isPending(k)
		w.isQuarantined("a")
		w.claimNone()
	}},

	{name: "the record of a quarantined message says what it was, when and why", run: func(w *world) {
		k := keyIn("tasks", "beta", "charge-1")
		putAt := w.now()
		w.putMessages(msg(k, "a", via("charge"), withTTL(time.Hour)))
		w.Advance(time.Second)
		w.exhaust(k, 2, from("tasks"), serving("charge"))
		w.Advance(time.Second)
		w.claimNone(from("tasks"), serving("charge"), maxAttempts(2))

		r := w.isQuarantined("a")[0]
		w.equal("tenant", r.Key.Tenant, "beta")
		w.equal("name", r.Name, "tasks")
		w.equal("status", r.Status, store.ReasonAttempts)
		w.sameTime("time", r.Time, putAt.Add(2*time.Second))
		w.equal("version", r.Version, int64(1))
		w.equal("tags", r.Tags, map[string]string{store.TagKey: "charge-1", store.TagMessage: "a", store.TagRoute: "charge"})

		m, err := store.Quarantined(r)
		if err != nil {
			w.t.Fatal(err)
		}
		w.sameTime("PutAt", m.PutAt, putAt)
		m.PutAt = time.Time{}
		want := store.Message{Key: k, ID: "a", Route: "charge", TTL: time.Hour, Attempt: 2, Body: bodyOf("a")}
		w.equal("the message", m, want)
	}},

	{name: "a quarantined message is found by its tenant, queue, reason, key and time", run: func(w *world) {
		w.put(key("order-1"), "a")
		w.put(keyIn(theQueue, "beta", "order-1"), "b")
		w.exhaust(key("order-1"), 1)
		w.Advance(time.Second)
		w.claimAll(maxAttempts(1))
		now, beta, acme := w.now(), "beta", theTenant
		for _, q := range []store.Query{
			{Tenant: &acme}, {Names: []string{theQueue}}, {Statuses: []string{store.ReasonAttempts}}, {From: now},
			{Tags: map[string]string{store.TagKey: "order-1"}}, {Tags: map[string]string{store.TagMessage: "a"}},
		} {
			q.Kind = store.KindQuarantine
			w.equal(fmt.Sprintf("number of records in list %+v", q), len(w.walk(q)), 1)
		}
		for _, q := range []store.Query{{Tenant: &beta}, {To: now}, {Statuses: []string{store.ReasonExpired}}} {
			q.Kind = store.KindQuarantine
			w.equal(fmt.Sprintf("number of records in list %+v", q), len(w.walk(q)), 0)
		}
	}},

	{name: "the other messages of the key are delivered", run: func(w *world) {
		k := key("order-1")
		w.put(k, "a", "b")
		w.exhaust(k, 2)
		w.put(k, "c")
		w.finish(w.claimKey(k, []string{"c"}, maxAttempts(2)))
		w.isQuarantined("a", "b")
		w.isPending(k)
	}},

	{name: "only the message that reached the limit goes to quarantine", run: func(w *world) {
		k := key("order-1")
		w.put(k, "a")
		w.exhaust(k, 1)
		w.put(k, "b")
		w.exhaust(k, 1) // a is at 2 attempts now, b at 1
		c := w.claimKey(k, []string{"b"}, maxAttempts(2))
		w.equal("attempt", c.Messages[0].Attempt, 2)
		w.isQuarantined("a")
	}},

	{name: "a claim continues with other keys when all messages of one go to quarantine", run: func(w *world) {
		for i := range 50 {
			w.put(key(fmt.Sprintf("poison-%d", i)), "a", "b")
		}
		for _, c := range w.claimAll() {
			w.release(store.Release{Lease: c.Lease()})
		}
		w.Advance(time.Millisecond)
		w.put(key("good"), "c")
		w.claimKey(key("good"), []string{"c"}, upTo(1), maxAttempts(1))
		w.claimNone(maxAttempts(1))
		w.equal("number of messages in quarantine", len(w.quarantined()), 100)
	}},

	{name: "messages that go to quarantine do not use up MaxMessages", run: func(w *world) {
		k := key("order-1")
		w.put(k, "a", "b", "c")
		w.exhaust(k, 1)
		w.put(k, "d", "e")
		w.claimKey(k, []string{"d"}, maxAttempts(1), maxMessages(1))
	}},

	{name: "a claim that serves another route quarantines nothing", run: func(w *world) {
		w.put(key("order-1"), "a")
		w.exhaust(key("order-1"), 1)
		w.claimNone(serving("other"), maxAttempts(1))
		w.isPending(key("order-1"), "a")
		w.equal("number of messages in quarantine", len(w.quarantined()), 0)
	}},

	{name: "without MaxAttempts a message is delivered without end", run: func(w *world) {
		w.put(key("order-1"), "a")
		w.exhaust(key("order-1"), 100)
		w.equal("attempt", w.claimOne(maxAttempts(0)).Messages[0].Attempt, 101)
		w.equal("number of messages in quarantine", len(w.quarantined()), 0)
	}},

	{name: "an attempt whose lease expired counts", run: func(w *world) {
		w.put(key("order-1"), "a")
		w.claimOne(maxAttempts(1))
		w.Advance(theLease)
		w.claimNone(maxAttempts(1))
		w.isQuarantined("a")
	}},

	{name: "an attempt that was taken back does not count", run: func(w *world) {
		w.put(key("order-1"), "a")
		for range 3 {
			c := w.claimKey(key("order-1"), []string{"a"}, maxAttempts(1))
			w.release(store.Release{Lease: c.Lease(), Uncounted: true})
		}
		w.equal("number of messages in quarantine", len(w.quarantined()), 0)
	}},

	{name: "an attempt that killed its process counts", needsReopen: true, run: func(w *world) {
		w.put(key("order-1"), "a")
		w.claimOne()
		w.Reopen()
		w.Advance(theLease) // a lease may outlive its process
		w.claimNone(maxAttempts(1))
		w.isQuarantined("a")
	}},

	{name: "a waiting claim quarantines what it must not deliver", run: func(w *world) {
		w.put(key("order-1"), "a")
		c := w.claimOne()
		p := w.wait(maxAttempts(1))
		w.release(store.Release{Lease: c.Lease()})
		w.put(key("order-2"), "b")
		w.isClaim(p.claimed()[0], key("order-2"), "b")
		w.isQuarantined("a")
	}},

	{name: "quarantine outlives the process", needsReopen: true, run: func(w *world) {
		w.put(key("order-1"), "a")
		w.exhaust(key("order-1"), 1)
		w.claimNone(maxAttempts(1))
		w.Reopen()
		w.isPending(key("order-1"))
		w.redrive(w.isQuarantined("a")[0])
		w.claimKey(key("order-1"), []string{"a"})
	}},
}

// exhaust claims the only ready key and gives it back, n times.
func (w *world) exhaust(k store.Key, n int, options ...requestOption) {
	w.t.Helper()
	for range n {
		c := w.claimOneOf(k, options...)
		w.release(store.Release{Lease: c.Lease()})
	}
}

// claimOneOf claims this key, and gives back what else it gets without counting it.
func (w *world) claimOneOf(k store.Key, options ...requestOption) (found store.Claim) {
	w.t.Helper()
	for _, c := range w.claimAll(options...) {
		if c.Key == k {
			found = c
			continue
		}
		w.release(store.Release{Lease: c.Lease(), Uncounted: true})
	}
	if found.Token == "" {
		w.t.Fatalf("%v was not ready", k)
	}
	return found
}

// quarantined returns the records of all quarantined messages.
func (w *world) quarantined() (records []store.Record) {
	w.t.Helper()
	q := store.Query{Kind: store.KindQuarantine, Limit: store.MaxPage}
	for {
		page := w.list(q)
		records = append(records, page.Records...)
		if page.Next == "" {
			return records
		}
		q.Cursor = page.Next
	}
}

// isQuarantined checks that exactly the messages with these IDs are in quarantine,
// and returns their records in that order.
func (w *world) isQuarantined(ids ...string) []store.Record {
	w.t.Helper()
	all := w.quarantined()
	byID := map[string]store.Record{}
	for _, r := range all {
		byID[r.Tags[store.TagMessage]] = r
	}
	records := make([]store.Record, 0, len(ids))
	for _, id := range ids {
		r, ok := byID[id]
		if !ok {
			w.t.Fatalf("message %q is not among the %d in quarantine", id, len(all))
		}
		records = append(records, r)
	}
	w.equal("number of messages in quarantine", len(all), len(ids))
	return records
}
