package storetest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/abidehq/abide/store"
)

// ownerCases are about who holds which lease, and how many messages are delivered with one.
var ownerCases = []propertyCase{
	{name: "a lease tells its key, route, owner and end", run: func(w *world) {
		w.putMessages(msg(keyIn(theQueue, "acme", "order-1"), "a", via("order@2")))
		c := w.claimOne(serving("order@2"), ownedBy("till on shop/42"))
		want := store.LeaseInfo{Key: c.Key, Route: "order@2", Owner: "till on shop/42", Until: c.Until}
		w.areLeases(store.LeaseQuery{}, want)
		w.areLeases(store.LeaseQuery{Key: c.Key}, want)
		w.areLeases(store.LeaseQuery{Queue: theQueue}, want)
		w.areLeases(store.LeaseQuery{Queue: "other"})
		w.areLeases(store.LeaseQuery{Key: keyIn(theQueue, "other", "order-1")})
		w.areLeases(store.LeaseQuery{Key: keyIn("other", "acme", "order-1")})
	}},

	{name: "an owner of any text comes back as it was, and none as none", run: func(w *world) {
		for i, owner := range []string{"", " ", "a\u00a0b", "läufer-1", "a|b-c:d/e#f,g", `"`, strings.Repeat("x", store.MaxOwner)} {
			k := key(fmt.Sprintf("order-%d", i))
			w.put(k, "a")
			c := w.claimKey(k, []string{"a"}, ownedBy(owner))
			w.areLeases(store.LeaseQuery{Key: k}, store.LeaseInfo{Key: k, Route: theRoute, Owner: owner, Until: c.Until})
			w.isLive(c)
			w.finish(c)
		}
	}},

	{name: "leases are listed by their end, up to a limit", run: func(w *world) {
		var all []store.LeaseInfo
		for i, d := range []time.Duration{3 * time.Minute, time.Minute, 4 * time.Minute, 2 * time.Minute} {
			k := keyIn(fmt.Sprintf("q%d", i%2), "t", fmt.Sprintf("k%d", i))
			w.putMessages(msg(k, "a"))
			c := w.claimKey(k, []string{"a"}, from(k.Queue), leaseFor(d), ownedBy(fmt.Sprintf("owner %d", i)))
			all = append(all, store.LeaseInfo{Key: k, Route: theRoute, Owner: fmt.Sprintf("owner %d", i), Until: c.Until})
		}
		w.areLeases(store.LeaseQuery{}, all[1], all[3], all[0], all[2])
		w.areLeases(store.LeaseQuery{Limit: 2}, all[1], all[3])
		w.areLeases(store.LeaseQuery{Queue: "q0"}, all[0], all[2])
		w.areLeases(store.LeaseQuery{Queue: "q1", Limit: 1}, all[1])
	}},

	{name: "without a limit there are DefaultPage leases", run: func(w *world) {
		const more = 7
		for i := range store.DefaultPage + more {
			w.put(key(fmt.Sprintf("order-%d", i)), "a")
		}
		w.equal("claims", len(w.claimAll(upTo(store.MaxClaim), ownedBy("o"))), store.DefaultPage+more)
		w.equal("leases without a limit", len(w.leases(store.LeaseQuery{})), store.DefaultPage)
		w.equal("leases of the queue", len(w.leases(store.LeaseQuery{Queue: theQueue})), store.DefaultPage)
		w.equal("leases with a limit", len(w.leases(store.LeaseQuery{Limit: store.MaxPage})), store.DefaultPage+more)
	}},

	{name: "only live leases are listed", run: func(w *world) {
		for _, name := range []string{"finished", "released", "deleted", "key deleted", "renewed", "left"} {
			w.put(key(name), "a")
		}
		for _, c := range w.claimAll(ownedBy("o")) {
			switch c.Key.Name {
			case "finished":
				w.finish(c)
			case "released":
				w.release(store.Release{Lease: c.Lease()})
			case "deleted":
				w.remove(c.Key, "a")
			case "key deleted":
				w.commit(&store.Tx{DeleteKeys: []store.Key{c.Key}})
			case "renewed":
				w.equal("lost", len(w.renew(2*theLease, c.Lease())), 0)
			}
		}
		start := w.now()
		renewed := store.LeaseInfo{Key: key("renewed"), Route: theRoute, Owner: "o", Until: start.Add(2 * theLease)}
		left := store.LeaseInfo{Key: key("left"), Route: theRoute, Owner: "o", Until: start.Add(theLease)}
		w.areLeases(store.LeaseQuery{}, left, renewed)
		w.Advance(theLease - time.Millisecond)
		w.areLeases(store.LeaseQuery{Key: left.Key}, left)
		w.Advance(time.Millisecond)
		w.areLeases(store.LeaseQuery{Key: left.Key})
		w.areLeases(store.LeaseQuery{}, renewed)
		w.Advance(theLease)
		w.areLeases(store.LeaseQuery{})
	}},

	{name: "a lease belongs to its last claimer", run: func(w *world) {
		k := key("order-1")
		w.put(k, "a")
		w.claimOne(ownedBy("first"))
		w.Advance(theLease)
		c := w.claimOne(ownedBy("second"))
		w.areLeases(store.LeaseQuery{}, store.LeaseInfo{Key: k, Route: theRoute, Owner: "second", Until: c.Until})
	}},

	{name: "a key that is handed to a claim that waits has the owner of that", run: func(w *world) {
		first, second := w.wait(ownedBy("first"), serving("r1")), w.wait(ownedBy("second"), serving("r2"))
		w.putMessages(msg(key("k2"), "a", via("r2")))
		c2 := second.claimed()[0]
		w.areLeases(store.LeaseQuery{}, store.LeaseInfo{Key: c2.Key, Route: "r2", Owner: "second", Until: c2.Until})
		w.putMessages(msg(key("k1"), "a", via("r1")))
		c1 := first.claimed()[0]
		w.areLeases(store.LeaseQuery{Key: c1.Key}, store.LeaseInfo{Key: c1.Key, Route: "r1", Owner: "first", Until: c1.Until})
	}},

	{name: "a lease has the new route of its key", run: func(w *world) {
		k := key("order-1")
		w.putMessages(msg(k, "a", via("v1")))
		c := w.claimOne(serving("v1"), ownedBy("o"))
		w.putMessages(msg(k, "b", via("v2")))
		w.areLeases(store.LeaseQuery{}, store.LeaseInfo{Key: k, Route: "v2", Owner: "o", Until: c.Until})
		w.equal("leased of the new route", w.routeStats(theQueue, "v2").Leased, 1)
	}},

	{name: "another process sees a lease and its owner", needsOpen: true, run: func(w *world) {
		if w.alwaysAlone() {
			return
		}
		k := key("order-1")
		w.put(k, "a")
		c := w.claimOne(ownedBy("first"))
		other := w.open()
		leases, err := other.Leases(w.ctx, store.LeaseQuery{Key: k})
		if err != nil || len(leases) != 1 {
			w.t.Fatalf("leases: %v, error %v; want one", leases, err)
		}
		w.equal("owner", leases[0].Owner, "first")
		w.sameTime("until", leases[0].Until, c.Until)
	}},

	{name: "leased counts messages that are delivered with a live lease", run: func(w *world) {
		k := key("order-1")
		w.put(k, "a", "b", "c")
		w.Advance(time.Millisecond) // the next one is younger
		w.put(key("order-2"), "d")
		w.isLeased(0)
		c := w.claimKey(k, []string{"a", "b"}, maxMessages(2), upTo(1))
		w.isLeased(2)
		w.put(k, "e") // it comes too late for the lease
		w.isLeased(2)
		w.equal("ready", w.routeStats(theQueue, theRoute).Ready, 5)
		other := w.claimOne(maxMessages(5))
		w.isLeased(3)
		w.finish(c)
		w.isLeased(1)
		w.release(store.Release{Lease: other.Lease()})
		w.isLeased(0)
		w.claimAll()
		w.isLeased(3)
		w.Advance(theLease)
		w.isLeased(0)
		w.equal("ready", w.routeStats(theQueue, theRoute).Ready, 3)
	}},

	{name: "leased is counted by queue and route", run: func(w *world) {
		w.putMessages(msg(keyIn("q1", "t", "a"), "m", via("r1")), msg(keyIn("q1", "t", "b"), "m", via("r2")), msg(keyIn("q2", "t", "c"), "m", via("r1")))
		w.equal("claims", len(w.claimAll(from("q1"), serving("r2"))), 1)
		got := []string{}
		for _, row := range w.stats().Routes {
			got = append(got, fmt.Sprintf("%s/%s: %d of %d", row.Queue, row.Route, row.Leased, row.Ready))
		}
		w.equal("rows", got, []string{"q1/r1: 0 of 1", "q1/r2: 1 of 1", "q2/r1: 0 of 1"})
	}},

	{name: "a lease of many messages counts each of them", run: func(w *world) {
		const many = 70 // more than fit a short list of any encoding
		k := key("order-1")
		ids := make([]string, many)
		for i := range ids {
			ids[i] = fmt.Sprintf("m%02d", i)
		}
		w.put(k, ids...)
		w.claimOne()
		w.isLeased(many)
	}},
}

func ownedBy(owner string) requestOption { return func(r *store.ClaimRequest) { r.Owner = owner } }

// leases returns the leases that match a query.
func (w *world) leases(q store.LeaseQuery) []store.LeaseInfo {
	w.t.Helper()
	leases, err := w.Store.Leases(w.ctx, q)
	if err != nil {
		w.t.Fatalf("leases: %v", err)
	}
	return leases
}

// areLeases checks the leases that match a query, in order.
func (w *world) areLeases(q store.LeaseQuery, want ...store.LeaseInfo) {
	w.t.Helper()
	w.equal(fmt.Sprintf("leases of %+v", q), leaseLines(w.leases(q)), leaseLines(want))
}

// leaseLines returns leases as text, so that times are compared by what they say.
func leaseLines(leases []store.LeaseInfo) []string {
	lines := []string{}
	for _, l := range leases {
		lines = append(lines, fmt.Sprintf("%v route %q owner %q until %d", l.Key, l.Route, l.Owner, l.Until.UnixMilli()))
	}
	return lines
}

// isLeased checks how many messages of the usual queue and route are delivered.
func (w *world) isLeased(want int) {
	w.t.Helper()
	w.equal("leased", w.routeStats(theQueue, theRoute).Leased, want)
}

// renderStoreLeases returns all live leases, in an order of their own: those with the same end
// come in any.
func (c *comparison) renderStoreLeases(s store.Store) []string {
	leases, err := s.Leases(c.ctx, store.LeaseQuery{Limit: store.MaxPage})
	if err != nil {
		return []string{"error: " + errorKind(err)}
	}
	if !slices.IsSortedFunc(leases, func(a, b store.LeaseInfo) int { return a.Until.Compare(b.Until) }) {
		c.t.Fatalf("leases are not in the order of their ends: %v", leaseLines(leases))
	}
	lines := leaseLines(leases)
	slices.Sort(lines)
	return lines
}
