package storetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/abidehq/abide/store"
)

var tenantCases = slices.Concat(isolationCases, fairnessCases)

var isolationCases = []propertyCase{
	{name: "the same key and message in two tenants are two", run: func(w *world) {
		w.putMessages(
			msg(inTenant("acme"), "m", withBody([]byte("of acme"))),
			msg(inTenant("beta"), "m", withBody([]byte("of beta"))),
			msg(inTenant(""), "m", withBody([]byte("of nobody"))),
		)
		want := map[string]string{"acme": "of acme", "beta": "of beta", "": "of nobody"}
		for tenant, body := range want {
			m := w.pendingOne(inTenant(tenant))
			w.sameBytes("pending body", m.Body, []byte(body))
			w.equal("tenant", m.Key.Tenant, tenant)
		}
		claims := w.claimAll()
		w.equal("number of claims", len(claims), 3)
		for _, c := range claims {
			w.equal("number of messages", len(c.Messages), 1)
			w.sameBytes("body", c.Messages[0].Body, []byte(want[c.Key.Tenant]))
		}
	}},

	{name: "a lease, a route and an end in one tenant leave the key of another alone", run: func(w *world) {
		acme, beta := inTenant("acme"), inTenant("beta")
		w.putMessages(msg(acme, "m", via("v1")), msg(beta, "m", via("v2")))
		c := w.claimKey(acme, []string{"m"}, serving("v1"))
		w.claimKey(beta, []string{"m"}, serving("v2"))
		forged := c.Lease()
		forged.Key = beta
		w.commitErr(&store.Tx{Finish: []store.Finish{{Lease: forged}}}, store.ErrClaimLost)
		w.finish(c)
		w.isPending(acme)
		w.isPending(beta, "m")
	}},

	{name: "what is deleted, re-timed or trimmed in one tenant stays in another", run: func(w *world) {
		acme, beta := inTenant("acme"), inTenant("beta")
		for _, k := range []store.Key{acme, beta} {
			w.put(k, "a", "b", "c")
			w.append(k, 0, "x", "y")
		}
		w.remove(acme, "a")
		w.retime(acme, "b", w.in(time.Hour))
		w.trim(acme, 1)
		w.isPending(beta, "a", "b", "c")
		w.isLog(beta, 0, "x", "y")
		w.commit(&store.Tx{DeleteKeys: []store.Key{acme}})
		w.isPending(acme)
		w.isPending(beta, "a", "b", "c")
		w.isLog(acme, 0)
		w.isLog(beta, 0, "x", "y")
		w.claimKey(beta, []string{"a", "b", "c"})
	}},

	{name: "the same record in two tenants is two, also in lists and waits", run: func(w *world) {
		acme := store.RecordKey{Kind: theKind, Tenant: "acme", ID: "r"}
		beta := store.RecordKey{Kind: theKind, Tenant: "beta", ID: "r"}
		w.commit(putTx(acme, 0, "of acme"))
		w.commit(putTx(beta, 0, "of beta"))
		p := w.await(acme, 1)
		w.commit(putTx(beta, 1, "of beta"))
		p.stillWaits()
		for tenant, version := range map[string]int64{"acme": 1, "beta": 2} {
			page := w.list(store.Query{Tenant: &tenant})
			w.equal("number of records", len(page.Records), 1)
			w.equal("status", page.Records[0].Status, "of "+tenant)
			w.equal("version", page.Records[0].Version, version)
		}
		w.commit(dropTx(beta, 2))
		w.isVersion(acme, 1)
		w.commit(putTx(acme, 1, "of acme too"))
		w.equal("status", p.record().Status, "of acme too")
	}},

	{name: "the same message quarantined in two tenants is two", run: func(w *world) {
		w.put(inTenant("acme"), "m")
		w.put(inTenant("beta"), "m")
		for _, c := range w.claimAll() {
			w.release(store.Release{Lease: c.Lease()})
		}
		w.claimNone(maxAttempts(1))
		records := w.quarantined()
		w.equal("number of messages in quarantine", len(records), 2)
		tenant := records[0].Key.Tenant
		w.redrive(records[0])
		w.claimKey(inTenant(tenant), []string{"m"})
		w.equal("number of messages in quarantine", len(w.quarantined()), 1)
	}},
}

var fairnessCases = []propertyCase{
	{name: "a key of another tenant is among the next claims, however many are ready", run: func(w *world) {
		w.putBacklog("acme", 1000, time.Time{})
		w.claimAll(upTo(5))
		w.Advance(time.Second)
		w.put(inTenant("beta"), "m")
		w.turnsUntil("beta", 3, upTo(1))
	}},

	{name: "a key of another tenant is among the next batches, however many are ready", run: func(w *world) {
		w.putBacklog("acme", 1000, time.Time{})
		w.claimAll(upTo(5))
		w.Advance(time.Second)
		w.put(inTenant("beta"), "m")
		w.turnsUntil("beta", 2, upTo(10))
	}},

	{name: "a large batch has keys of every tenant", run: func(w *world) {
		for _, tenant := range []string{"acme", "beta", "gamma"} {
			w.putBacklog(tenant, 500, time.Time{})
		}
		w.put(inTenant(""), "m")
		w.put(inTenant("delta"), "m")
		turns := map[string]int{}
		for _, k := range keysOf(w.claimAll(upTo(400))) {
			turns[k.Tenant]++
		}
		for _, tenant := range []string{"acme", "beta", "gamma", "", "delta"} {
			if turns[tenant] == 0 {
				w.t.Fatalf("a batch of 400 has no key of tenant %q: %v", tenant, turns)
			}
		}
	}},

	{name: "a key of another tenant and another route is among the next claims", run: func(w *world) {
		w.putBacklog("acme", 1000, time.Time{})
		w.Advance(time.Second)
		w.putMessages(msg(inTenant("beta"), "m", via("other")))
		w.turnsUntil("beta", 3, upTo(1), serving(theRoute, "other"))
	}},

	{name: "a tenant that is before all others in every order does not starve them", run: func(w *world) {
		for i, tenant := range []string{"", "\x00", "zz", "\xff\xff"} {
			queue := fmt.Sprintf("queue-%d", i)
			var backlog []store.Message
			for j := range 200 {
				backlog = append(backlog, msg(keyIn(queue, tenant, fmt.Sprint(j)), "m"))
			}
			w.putMessages(backlog...)
			w.put(keyIn(queue, "m", "k"), "m")
			w.turnsUntil("m", 3, upTo(1), from(queue))
		}
	}},

	{name: "many tenants each get a turn", run: func(w *world) {
		const tenants = 20
		for i := range tenants {
			w.putBacklog(fmt.Sprintf("tenant-%02d", i), 20+i, time.Time{})
			w.Advance(time.Millisecond)
		}
		turns := map[string]int{}
		for range 3 * tenants {
			turns[w.claimOne(upTo(1)).Key.Tenant]++
		}
		for i := range tenants {
			if tenant := fmt.Sprintf("tenant-%02d", i); turns[tenant] == 0 {
				w.t.Fatalf("%s got no turn in %d claims: %v", tenant, 3*tenants, turns)
			}
		}
	}},

	{name: "a tenant with few keys is served in every round while another has no end of them", run: func(w *world) {
		w.putBacklog("acme", 300, time.Time{})
		for round := range 10 {
			k := keyIn(theQueue, "beta", fmt.Sprint(round))
			w.put(k, "m")
			w.turnsUntil("beta", 3, upTo(1))
		}
	}},

	{name: "a large batch of one tenant that is due in the same millisecond does not starve others", run: func(w *world) {
		due := w.in(time.Hour)
		w.putBacklog("acme", 3000, due)
		w.putMessages(msg(inTenant("beta"), "m", at(due)))
		w.putMessages(msg(inTenant(""), "m", at(due)))
		w.claimNone()
		w.Advance(time.Hour)
		seen := map[string]int{}
		for range 2 {
			for _, c := range w.claimAll(upTo(100)) {
				seen[c.Key.Tenant]++
			}
		}
		if seen["beta"] != 1 || seen[""] != 1 || seen["acme"] == 0 {
			w.t.Fatalf("two batches of 100 had %v keys by tenant, want every tenant in them", seen)
		}
		for batch := 100; batch > 0; {
			batch = len(w.claimAll())
			seen["acme"] += batch
		}
		w.equal("number of keys of the large batch", seen["acme"], 3000)
	}},

	{name: "a key of another tenant is among the next claims although thousands of tenants have something for later", run: func(w *world) {
		w.putBacklog("noisy", 1000, time.Time{})
		later := w.in(time.Hour)
		var pending []store.Message
		for i := range 20_000 {
			pending = append(pending, msg(inTenant(fmt.Sprintf("later-%05d", i)), "m", at(later)))
		}
		for some := range slices.Chunk(pending, 5_000) {
			w.putMessages(some...)
		}
		const few = 6
		for i := range few {
			w.put(inTenant(fmt.Sprintf("ready-%d", i)), "m")
		}
		const calls = 300
		seen := map[string]int{}
		for i := 0; i < calls && len(seen) < few+1; i++ {
			seen[w.claimOne(upTo(1)).Key.Tenant]++
		}
		if len(seen) != few+1 {
			w.t.Fatalf("%d claims had %v keys by tenant, want all %d tenants with a ready key", calls, seen, few+1)
		}
	}},

	{name: "the keys of one tenant are claimed in the order of their oldest message while others have turns", run: func(w *world) {
		for i := range 10 {
			w.put(keyIn(theQueue, "acme", fmt.Sprintf("%d", 9-i)), "m")
			w.put(keyIn(theQueue, "beta", fmt.Sprintf("%d", 9-i)), "m")
			w.Advance(time.Millisecond)
		}
		names := map[string][]string{}
		for range 20 {
			k := w.claimOne(upTo(1)).Key
			names[k.Tenant] = append(names[k.Tenant], k.Name)
		}
		want := letters("9876543210")
		w.equal("order of acme", names["acme"], want)
		w.equal("order of beta", names["beta"], want)
	}},
}

// inTenant returns the same key of the usual queue in any tenant.
func inTenant(tenant string) store.Key { return keyIn(theQueue, tenant, "order-1") }

// putBacklog puts n keys of a tenant, each with one message that is visible at t.
func (w *world) putBacklog(tenant string, n int, t time.Time) {
	w.t.Helper()
	messages := make([]store.Message, 0, n)
	for i := range n {
		messages = append(messages, msg(keyIn(theQueue, tenant, fmt.Sprintf("backlog-%04d", i)), "m", at(t)))
	}
	w.putMessages(messages...)
}

// turnsUntil claims until it gets a key of the tenant, which it must within so many
// calls, each of which must get something.
func (w *world) turnsUntil(tenant string, calls int, options ...requestOption) {
	w.t.Helper()
	for range calls {
		claims := w.claimAll(options...)
		if len(claims) == 0 {
			w.t.Fatalf("claimed nothing while keys are ready")
		}
		for _, k := range keysOf(claims) {
			if k.Tenant == tenant {
				return
			}
		}
	}
	w.t.Fatalf("no key of tenant %q in %d claims", tenant, calls)
}
