package rows

import (
	"fmt"
	"maps"
	"slices"

	"github.com/abidehq/abide/store"
)

// invariant panics if a condition that this package alone is responsible for does not hold. To
// go on would be to lose a wake-up or to lease a key twice.
func invariant(ok bool, format string, args ...any) {
	if !ok {
		panic("rows: invariant violated: " + fmt.Sprintf(format, args...))
	}
}

// inspector is implemented by databases of tests, so that what is cached can be compared with
// what is stored. It returns the tokens of keys and the versions of records, by number, that
// are durable at the moment; ok is false if other processes may have changed them unnoticed.
type inspector interface {
	inspect(keys []store.Key, records []int64) (tokens []string, versions []int64, ok bool)
}

// verify checks the invariants of all parts. It is called after each group, under no lock, if
// checkInvariants is set.
func (f *Core) verify() {
	if !checkInvariants {
		return
	}
	f.commits.verify()
	f.claims.verify()
	db, ok := f.db.(inspector)
	before, quiet := f.commits.quiet()
	if !ok || !quiet {
		return
	}
	tokens, versions := f.claims.prefetchedTokens(), f.records.cachedVersions()
	keys, numbers := slices.Collect(maps.Keys(tokens)), slices.Collect(maps.Keys(versions))
	storedTokens, storedVersions, ok := db.inspect(keys, numbers)
	if after, quiet := f.commits.quiet(); !ok || !quiet || after != before {
		return // a group may have changed what was compared
	}
	for i, key := range keys {
		invariant(storedTokens[i] == string(tokens[key]), "the prefetched lease of %v is not in the database", key)
	}
	for i, number := range numbers {
		invariant(storedVersions[i] == versions[number], "record %d is cached with version %d, and has %d", number, versions[number], storedVersions[i])
	}
}

// quiet reports whether no group is in flight, and how many have been so far.
func (c *committer) quiet() (started uint64, quiet bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.started, c.groups == 0
}

// verify checks that blocked calls hold their keys, and that nothing else does if no group is
// in flight.
func (c *committer) verify() {
	c.mu.Lock()
	defer c.mu.Unlock()
	held := newInFlight()
	for _, b := range c.blocked {
		for _, call := range b.calls {
			held.add(call.touched(), 1)
			invariant(call.aside, "a blocked call is not the side queue's")
		}
	}
	for id, n := range held.keys {
		invariant(c.inFlight.keys[id] >= n, "a blocked call does not hold its key")
	}
	if c.groups == 0 {
		invariant(c.running == 0, "%d calls are in flight without a group", c.running)
		invariant(len(c.inFlight.keys) == len(held.keys) && len(c.inFlight.records) == len(held.records), "rows are in flight without a group")
	}
}

// verify checks the states and counts of calls, and the bounds of subscriptions.
func (c *claimer) verify() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, q := range c.queues {
		idle, served := 0, 0
		for _, s := range q.subscriptions {
			idle += len(s.waiters)
			served += s.served
			c.verifySubscription(s)
		}
		invariant(idle == q.idle && served == q.served,
			"queue %s has %d idle and %d served calls, and counts %d and %d", q.name, idle, served, q.idle, q.served)
		invariant((q.orphansGone != nil) == (q.orphans > 0), "%d orphans and no channel for their release, or none and one", q.orphans)
	}
}

func (c *claimer) verifySubscription(s *subscription) {
	invariant(slices.IsSortedFunc(s.waiters, compareWaiters), "calls are not in the order of arrival")
	for _, w := range s.waiters {
		invariant(!w.ended && !w.served && w.subscription == s, "a call that is not idle is among the idle ones")
	}
	invariant(s.served >= 0 && s.leasing >= 0 && s.users >= 0, "a count of a subscription is negative")
	if s.stale {
		return
	}
	for _, p := range s.partitions {
		invariant(s.next <= p.next || c.held && p == s.queue.expiring,
			"the bound of a subscription is %d, and of one of its partitions %d", s.next, p.next)
	}
}

// prefetchedTokens returns the tokens of prefetched leases that are live, by key.
func (c *claimer) prefetchedTokens() map[store.Key]store.Token {
	c.mu.Lock()
	defer c.mu.Unlock()
	tokens := map[store.Key]store.Token{}
	for _, q := range c.queues {
		for _, s := range q.subscriptions {
			for _, k := range s.keys {
				if c.prefetched[k.claim.Token] && k.claim.Until.UnixMilli() > c.time.now() {
					tokens[k.claim.Key] = k.claim.Token
				}
			}
		}
	}
	return tokens
}

// cachedVersions returns all versions that are cached, by the number of the record.
func (w *watcher) cachedVersions() map[int64]int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	versions := maps.Clone(w.versions.young)
	for number, version := range w.versions.old {
		if _, ok := versions[number]; !ok {
			versions[number] = version
		}
	}
	return versions
}
