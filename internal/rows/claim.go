package rows

import (
	"cmp"
	"context"
	"slices"

	"github.com/abidehq/abide/store"
)

// waiter is a Claim call, guarded by claimer.mu. Its states:
//
//	begin ─┬─▶ idle ◀──────── nothing found ────────┐
//	       │    ├─ due, handed off to ─▶ served ────┤
//	       └────┼─ something may be due ──▶ served ─┼─ found, or an error ─▶ ended
//	            │                                   └─ wait over ──────────▶ ended
//	            └─ wait over, after a query found nothing; context over; closed ─▶ ended
//
// A call whose context ends while it is served ends at once. The server
// of the call notices when it has keys for it, and releases them.
type waiter struct {
	req          store.ClaimRequest // without its routes and tenants
	subscription *subscription
	stop         func() bool // the timer of its wait

	// Its place in the order of arrival, and how many queries had begun before it.
	number uint64
	since  uint64

	// The outcome: claims and err are set before done is closed.
	ended  bool
	done   chan struct{}
	claims []store.Claim
	err    error

	// served says that a task or a group in flight serves it; then it is not in the waiters of
	// its subscription. expired says that its wait is over: it ends as soon as it is not served
	// any more.
	served  bool
	expired bool

	// Keys that a group in flight leases to it, and their claims, which become its own when the
	// group is durable.
	offered int
	handoff []store.Claim
}

// end ends the call, unless it has ended.
func (w *waiter) end(claims []store.Claim, err error) {
	if !w.ended {
		w.ended = true
		w.claims, w.err = claims, err
		close(w.done)
	}
}

// setServed notes whether the call is served. One that does not wait is not counted: its
// caller may never make another one, and nothing is prefetched for it.
func (w *waiter) setServed(served bool) {
	switch {
	case w.req.Wait == 0:
	case served && !w.served:
		w.subscription.served++
		w.subscription.queue.served++
	case !served && w.served:
		w.subscription.served--
		w.subscription.queue.served--
		invariant(w.subscription.served >= 0, "%d calls of a subscription are served", w.subscription.served)
	}
	w.served = served
}

// compareWaiters compares calls in the order of arrival.
func compareWaiters(a, b *waiter) int { return cmp.Compare(a.number, b.number) }

// enter makes the call idle, in the order of arrival.
func (w *waiter) enter() {
	s := w.subscription
	i, _ := slices.BinarySearchFunc(s.waiters, w, compareWaiters)
	s.waiters = slices.Insert(s.waiters, i, w)
	s.queue.idle++
}

// leave takes the call from the idle ones, if it is one.
func (w *waiter) leave() {
	s := w.subscription
	if i, ok := slices.BinarySearchFunc(s.waiters, w, compareWaiters); ok {
		s.waiters = slices.Delete(s.waiters, i, i+1)
		s.queue.idle--
	}
}

// Claim leases keys that are ready, and waits for some if there are none.
//
// A task queries for the call, not the call itself: a call whose context ends returns at once,
// and what is leased for it after that is released.
func (f *Core) Claim(ctx context.Context, req store.ClaimRequest) ([]store.Claim, error) {
	if err := req.Validate(); err != nil {
		return nil, err
	}
	if err := f.Check(ctx, "claim"); err != nil {
		return nil, err
	}
	partitions := make([]int64, 0, len(req.Routes))
	for _, route := range req.Routes {
		partitions = append(partitions, PartitionOf(req.Queue, route))
	}
	slices.Sort(partitions)
	partitions = slices.Compact(partitions)
	tenants := tenantNumbers(req.Tenants)
	req.Routes, req.Tenants = nil, nil
	w := &waiter{req: req, done: make(chan struct{})}
	if !f.claims.begin(w, subscriptionID(partitions, tenants), partitions, tenants) {
		return nil, store.Closed("claim")
	}
	if w.req.Wait > 0 || w.req.Lax {
		f.polls.ensure()
	}
	defer f.claims.finish(w)
	select {
	case <-w.done:
	case <-ctx.Done():
		f.claims.giveUp(w, ctx.Err())
		<-w.done
	}
	return w.claims, w.err
}

// begin starts a call: it gets prefetched leases if there are some, a task queries for it if
// something may be due, and otherwise it waits. It reports false if the store is closed. It
// takes the lock.
func (c *claimer) begin(w *waiter, id ID, partitions, tenants []int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	c.arrivals++
	w.subscription, w.number, w.since = c.subscription(w.req.Queue, id, partitions, tenants), c.arrivals, c.queries
	s := w.subscription
	s.users++
	s.terms = w.req
	if w.req.Wait == 0 {
		w.expired = true
	} else {
		w.stop = c.clock.AfterFunc(w.req.Wait, func() { c.giveUp(w, nil) })
		s.queue.waiting++
	}
	switch {
	case c.fromPrefetch(w):
	case w.expired && w.req.Lax && c.knownEmpty(s):
		w.end(nil, nil)
	case w.expired || c.due(s):
		c.query(w)
	default:
		w.enter()
		c.serve(s.queue)
	}
	return true
}

// knownEmpty reports whether nothing can be claimed, for a lax call that does not wait. Such a
// call is made again and again: until Options.Poll after the last one, the partitions are
// polled as if it waited.
func (c *claimer) knownEmpty(s *subscription) bool {
	s.asked = c.clock.Now()
	return !c.due(s) && c.db.Hinted()
}

// repeated reports whether lax calls for the subscription are made again and again.
func (c *claimer) repeated(s *subscription) bool {
	return !s.asked.IsZero() && c.clock.Now().Sub(s.asked) < c.o.Poll
}

// finish removes a call that is over. It takes the lock.
func (c *claimer) finish(w *waiter) {
	c.mu.Lock()
	defer c.mu.Unlock()
	w.subscription.users--
	if w.req.Wait > 0 {
		w.stop()
		w.subscription.queue.waiting--
	}
}

// giveUp ends a call: with err if its context has ended, without if its wait is over. In the
// second case a call that is served still gets what is leased for it; and it does not end
// before a query that began after it has ended, or what another process put before the call
// might be missed. It takes the lock.
func (c *claimer) giveUp(w *waiter, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case w.ended:
	case err != nil:
		w.leave()
		w.end(nil, err)
	case w.served:
		w.expired = true
	case c.due(w.subscription) || w.subscription.queried <= w.since || !c.db.Hinted():
		w.leave()
		w.expired = true
		c.query(w)
	default:
		w.leave()
		w.end(nil, nil)
	}
}

// query starts a task that queries for a call which is not idle.
func (c *claimer) query(w *waiter) {
	w.setServed(true)
	if !c.life.spawn(func() { c.queryFor(w) }) {
		w.setServed(false)
		w.end(nil, store.Closed("claim"))
	}
}

// queryFor leases keys for a call that is not idle, and makes it idle if there are none. One
// whose wait is over ends, unless there is more that it does not know of. It is called under
// no lock.
func (c *claimer) queryFor(w *waiter) {
	for {
		orphans := c.awaitOrphans(w)
		claims, err := c.pick(&w.req, w.subscription)
		c.mu.Lock()
		if len(claims) == 0 && err == nil && !w.ended && !c.closed && c.queryAgain(w, orphans) {
			c.mu.Unlock()
			continue
		}
		c.settle(w, claims, err)
		c.mu.Unlock()
		return
	}
}

// queryAgain reports whether to query again for a call for which nothing was found: one that
// waits, if something has come meanwhile, which is older than prefetched leases; and one
// that is about to end, if orphaned leases were released meanwhile. Otherwise the call gets
// prefetched leases.
func (c *claimer) queryAgain(w *waiter, orphans uint64) bool {
	if w.req.Wait > 0 && c.due(w.subscription) {
		return true
	}
	return !c.takePrefetched(w) && w.expired && w.subscription.queue.orphansTotal != orphans
}

// awaitOrphans waits, for a call that is about to end, until orphaned leases of the queue are
// released: their keys are ready, and a call must not return none while a key is ready. It
// returns how many there were so far. It is called under no lock.
func (c *claimer) awaitOrphans(w *waiter) uint64 {
	c.mu.Lock()
	q := w.subscription.queue
	expired, gone, total := w.expired, q.orphansGone, q.orphansTotal
	c.mu.Unlock()
	if expired && gone != nil {
		select {
		case <-gone:
		case <-c.life.querying.Done():
		}
	}
	return total
}

// settle gives a served call what was leased for it, or makes it idle.
func (c *claimer) settle(w *waiter, claims []store.Claim, err error) {
	w.setServed(false)
	w.offered, w.handoff = 0, nil
	switch {
	case w.ended || c.closed:
		for i := range claims {
			c.releaseOrphan(claims[i].Lease())
		}
		w.end(nil, store.Closed("claim"))
	case len(claims) > 0 || err != nil || w.expired:
		w.end(claims, err)
	case c.takePrefetched(w):
	default:
		w.enter()
		c.serve(w.subscription.queue)
	}
}

// releaseOrphan releases a lease that no caller knows of, and does not count the attempt.
// Nobody waits for it; a store that is being closed still does it.
func (c *claimer) releaseOrphan(l store.Lease) {
	release := newCall(c.life.ctx, operation{release: &store.Release{Lease: l, Uncounted: true}}, opSize)
	if q := c.queues[l.Key.Queue]; q != nil {
		if q.orphans == 0 {
			q.orphansGone = make(chan struct{})
		}
		q.orphans++
		q.orphansTotal++
		release.then = func() { c.orphanReleased(q) }
	}
	c.commits.enqueueInternal(release)
}

// orphanReleased notes the end of a release. It takes the lock.
func (c *claimer) orphanReleased(q *queue) {
	c.mu.Lock()
	defer c.mu.Unlock()
	q.orphans--
	invariant(q.orphans >= 0, "%d orphaned leases of queue %s are being released", q.orphans, q.name)
	if q.orphans == 0 {
		close(q.orphansGone)
		q.orphansGone = nil
	}
}
