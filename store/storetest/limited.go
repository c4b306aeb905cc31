package storetest

import (
	"fmt"
	"time"

	"github.com/abidehq/abide/store"
)

// of limits a claim to tenants.
func of(tenants ...string) requestOption {
	return func(r *store.ClaimRequest) { r.Tenants = tenants }
}

// limitedCases are about claims that are limited to tenants.
var limitedCases = []propertyCase{
	{name: "a claim limited to tenants returns keys of these and no others", run: func(w *world) {
		for _, tenant := range []string{"", "acme", "beta", "gamma"} {
			w.put(inTenant(tenant), "m")
		}
		w.claimNone(of("delta"))
		w.claimKey(inTenant("beta"), []string{"m"}, of("beta"))
		w.claimNone(of("beta"))
		got := map[string]bool{}
		for _, c := range w.claimAll(of("gamma", "", "delta", "", "gamma")) {
			got[c.Key.Tenant] = true
		}
		w.equal("tenants", fmt.Sprint(got), fmt.Sprint(map[string]bool{"": true, "gamma": true}))
		w.claimKey(inTenant("acme"), []string{"m"})
	}},

	{name: "a claim limited to a tenant finds its key behind the backlog of another, on every route", run: func(w *world) {
		w.putBacklog("acme", 1000, time.Time{})
		w.Advance(time.Second)
		w.put(keyIn(theQueue, "beta", "b-1"), "m")
		w.putMessages(msg(keyIn(theQueue, "beta", "b-2"), "m", via("other")), msg(keyIn(theQueue, "gamma", "c"), "m", via("other")))
		claims := w.claimAll(of("beta"), serving(theRoute, "other", "nobody"), upTo(10))
		w.equal("number of claims", len(claims), 2)
		for _, c := range claims {
			w.equal("tenant", c.Key.Tenant, "beta")
		}
		w.claimNone(of("beta"), serving(theRoute, "other", "nobody"))
	}},

	{name: "a claim limited to tenants returns as many keys as it asks for, the oldest of each first", run: func(w *world) {
		w.putBacklog("acme", 300, time.Time{})
		w.putBacklog("beta", 300, time.Time{})
		w.put(inTenant("gamma"), "m")
		claims := w.claimAll(of("beta", "gamma", "delta"), upTo(250))
		w.equal("number of claims", len(claims), 250)
		turns := map[string]int{}
		for _, c := range claims {
			turns[c.Key.Tenant]++
		}
		w.equal("keys by tenant", fmt.Sprint(turns), fmt.Sprint(map[string]int{"beta": 249, "gamma": 1}))
		w.equal("number of claims", len(w.claimAll(of("acme", "beta"))), 351)
	}},

	{name: "the tenants of a limited claim take turns, whatever other claims do", run: func(w *world) {
		for _, tenant := range []string{"acme", "beta", "gamma", "delta"} {
			w.putBacklog(tenant, 100, time.Time{})
		}
		turns := map[string]int{}
		for range 20 {
			turns[w.claimOne(of("acme", "delta"), upTo(1)).Key.Tenant]++
			turns[w.claimOne(of("beta", "gamma"), upTo(1)).Key.Tenant]++
		}
		for _, tenant := range []string{"acme", "beta", "gamma", "delta"} {
			if turns[tenant] < 5 {
				w.t.Fatalf("20 claims of each pair had %v keys by tenant, want about 10 of each", turns)
			}
		}
	}},

	{name: "limited claims do not starve the tenants of others", run: func(w *world) {
		tenants := []string{"acme", "beta", "gamma", "delta"}
		for _, tenant := range tenants {
			w.putBacklog(tenant, 100, time.Time{})
		}
		turns := map[string]int{}
		for i := range 32 {
			w.claimOne(of(tenants[i/8]), upTo(1))
			turns[w.claimOne(upTo(1)).Key.Tenant]++
		}
		for _, tenant := range tenants {
			if turns[tenant] < 4 {
				w.t.Fatalf("32 claims of all tenants had %v keys by tenant, want about 8 of each", turns)
			}
		}
	}},

	{name: "a claim limited to a tenant quarantines nothing of another", run: func(w *world) {
		w.put(inTenant("acme"), "m")
		w.put(inTenant("beta"), "m")
		for _, c := range w.claimAll() {
			w.release(store.Release{Lease: c.Lease()})
		}
		w.claimNone(of("acme"), maxAttempts(1))
		records := w.quarantined()
		w.equal("number of messages in quarantine", len(records), 1)
		w.equal("tenant", records[0].Key.Tenant, "acme")
		w.claimKey(inTenant("beta"), []string{"m"})
	}},

	{name: "a limited claim waits while another tenant has ready keys, and is woken by a message of its own", run: func(w *world) {
		w.putBacklog("acme", 50, time.Time{})
		p := w.wait(of("beta", "gamma"))
		w.put(keyIn(theQueue, "acme", "late"), "m")
		w.areWaiting(1)
		w.put(inTenant("beta"), "m")
		w.isClaim(p.claimed()[0], inTenant("beta"), "m")
		w.equal("number of claims", len(w.claimAll()), 51)
	}},

	{name: "a message wakes a claim that may take it, however many others wait before it", run: func(w *world) {
		tenants := []string{"acme", "beta", "gamma"}
		for round := range 5 {
			waiting := map[string]*waiter{}
			for i := range tenants {
				tenant := tenants[(i+round)%len(tenants)]
				waiting[tenant] = w.wait(of(tenant), upTo(1))
			}
			for i := range tenants {
				tenant := tenants[(i*2+round)%len(tenants)]
				k := keyIn(theQueue, tenant, fmt.Sprint(round))
				w.put(k, "m")
				c := waiting[tenant].claimed()[0]
				w.isClaim(c, k, "m")
				w.finish(c)
			}
		}
	}},

	{name: "a commit that puts messages of several tenants wakes the claims of each, and one of all for the rest", run: func(w *world) {
		acme, beta := w.wait(of("acme")), w.wait(of("beta"))
		w.putMessages(msg(inTenant("gamma"), "m"), msg(inTenant("acme"), "m"), msg(inTenant("beta"), "m"))
		w.isClaim(acme.claimed()[0], inTenant("acme"), "m")
		w.isClaim(beta.claimed()[0], inTenant("beta"), "m")
		w.claimKey(inTenant("gamma"), []string{"m"})
	}},

	{name: "a limited claim is woken by the due time of its tenant, and not by that of another", run: func(w *world) {
		due := w.in(5 * time.Second)
		w.putMessages(msg(inTenant("acme"), "m", at(w.in(time.Second))), msg(inTenant("beta"), "m", at(due)))
		p := w.wait(of("beta"))
		w.Advance(time.Second)
		w.areWaiting(1)
		w.Advance(4*time.Second - time.Millisecond)
		w.areWaiting(1)
		w.Advance(time.Millisecond)
		c := p.claimed()[0]
		w.isClaim(c, inTenant("beta"), "m")
		w.sameTime("time of the claim", c.Now, due)
		w.claimKey(inTenant("acme"), []string{"m"})
	}},

	{name: "a limited claim is woken by the due time of a message that is put meanwhile", run: func(w *world) {
		w.putMessages(msg(inTenant("beta"), "m", at(w.in(30*time.Minute))))
		p := w.wait(of("beta"))
		w.putMessages(msg(keyIn(theQueue, "acme", "x"), "m", at(w.in(time.Second))))
		w.putMessages(msg(keyIn(theQueue, "beta", "x"), "m", at(w.in(2*time.Second))))
		w.Advance(2 * time.Second)
		w.isClaim(p.claimed()[0], keyIn(theQueue, "beta", "x"), "m")
	}},

	{name: "a limited claim is woken when a lease of its tenant expires, and not by that of another", run: func(w *world) {
		w.put(inTenant("acme"), "m")
		w.claimOne()
		w.Advance(time.Second)
		w.put(inTenant("beta"), "m")
		until := w.claimOne().Until
		p := w.wait(of("beta"))
		w.Advance(theLease - time.Second)
		w.areWaiting(1)
		w.Advance(time.Second)
		c := p.claimed()[0]
		w.isClaim(c, inTenant("beta"), "m")
		w.sameTime("time of the claim", c.Now, until)
		w.equal("attempt", c.Attempt(), 2)
		other := w.claimKey(inTenant("acme"), []string{"m"})
		w.equal("attempt", other.Attempt(), 2)
	}},

	{name: "expired leases of another tenant, however many, do not hide a key of the tenant", run: func(w *world) {
		w.putBacklog("acme", 700, time.Time{})
		w.equal("number of claims", len(w.claimAll()), 700)
		w.put(inTenant("beta"), "m")
		w.claimOne(of("beta"))
		w.Advance(theLease)
		c := w.claimKey(inTenant("beta"), []string{"m"}, of("beta"), upTo(1))
		w.equal("attempt", c.Attempt(), 2)
		w.claimNone(of("beta"))
		for _, c := range w.claimAll(upTo(700)) {
			w.equal("attempt", c.Attempt(), 2)
		}
	}},

	{name: "a limited claim is woken by a release of a key of its tenant", run: func(w *world) {
		w.put(inTenant("acme"), "m")
		w.put(inTenant("beta"), "m")
		leases := map[string]store.Lease{}
		for _, c := range w.claimAll() {
			leases[c.Key.Tenant] = c.Lease()
		}
		p := w.wait(of("beta"))
		w.release(store.Release{Lease: leases["acme"]})
		w.areWaiting(1)
		w.release(store.Release{Lease: leases["beta"]})
		w.isClaim(p.claimed()[0], inTenant("beta"), "m")
		w.claimKey(inTenant("acme"), []string{"m"})
	}},

	{name: "a limited claim whose wait is over returns none, although another tenant has ready keys", run: func(w *world) {
		w.put(inTenant("acme"), "m")
		p := w.wait(of("beta"), waitFor(10*time.Second))
		w.Advance(10 * time.Second)
		p.claimedNone()
		w.areWaiting(0)
		w.claimKey(inTenant("acme"), []string{"m"})
	}},

	{name: "a limited claim is woken at once by a process that commits and closes", needsOpen: true, run: func(w *world) {
		if w.alwaysAlone() {
			return
		}
		for i := range 3 {
			p := w.wait(of("beta"))
			w.commitAndClose(&store.Tx{Put: []store.Message{msg(keyIn(theQueue, "acme", fmt.Sprint(i)), "m")}})
			k := keyIn(theQueue, "beta", fmt.Sprint(i))
			w.commitAndClose(&store.Tx{Put: []store.Message{msg(k, "m")}})
			if w.Unhinted {
				w.Advance(time.Second)
			}
			p.endsWithin(promptly)
			w.isClaim(p.claimed()[0], k, "m")
		}
		w.equal("number of claims", len(w.claimAll()), 3)
	}},
}
