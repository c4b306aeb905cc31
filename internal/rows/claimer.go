package rows

import (
	"crypto/sha256"
	"encoding/binary"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/abidehq/abide/store"
)

// claimer serves Claim calls: with a query if there may be something due, with the leases that
// a group of this process makes for them (handoff.go, prefetch.go), and otherwise by waiting
// for the next due time.
//
// What it caches about the database is, for each partition, a lower bound of the time at
// which something can be claimed there (partition.next). A bound that is too low costs a
// query; one that is too high would lose a wake-up, so whatever may bring something forward
// lowers it: a commit of this process, an announcement, a poll, the end of a lease.
//
// Invariants, all under mu:
//
//   - A waiter is in exactly one state: idle (in the waiters of its subscription), served (a
//     task queries for it, or a group in flight has leased keys to it), or ended.
//   - queue.idle is the number of idle waiters of its subscriptions, and queue.served that of
//     served ones that wait.
//   - subscription.next is the least bound of its partitions, unless stale is set.
//   - A change that arrives while a query is under way is noted in the query, which must not
//     raise the bound above it: it may not have seen the change.
//   - A prefetched lease is in keys of one subscription, and its token in prefetched as long as
//     the lease is known to be live.
//   - While a queue has idle waiters, a task serves it, or its timer is set for the least
//     bound of their subscriptions.
//
// Lock order: poller.mu, claimer.mu, committer.mu, lifecycle.mu and storeTime.mu. Methods
// that query or submit are called under no lock, and say so.
type claimer struct {
	*env
	commits *committer

	mu             sync.Mutex
	closed         bool
	held           bool // expired messages stay: see Core.Hold
	queues         map[string]*queue
	partitions     map[int64]*partition
	partitionLimit int                  // at so many of them, unused ones are forgotten
	arrivals       uint64               // calls so far
	queries        uint64               // begun so far
	prefetched     map[store.Token]bool // live prefetched leases

	viewed atomic.Int64 // views of partitions: see limited.go. It is read without the lock, too
}

// queue is the Claim calls of a queue.
type queue struct {
	name          string
	subscriptions map[ID]*subscription

	// Calls that wait: idle ones, served ones, and both.
	idle, served, waiting int

	// The tenant of the key that was leased last: the next query begins after it.
	lastTenant int64

	// Keys that other processes have reserved for this one and announced, with when their
	// reservations end: the next query asks for them.
	reserved map[ID]reserved

	// Leases that no caller knows of, because their caller went away, and that are being
	// released: how many there are, how many there were so far, and a channel that is closed
	// when there are none any more (nil if there are none).
	orphans      int
	orphansTotal uint64
	orphansGone  chan struct{}

	// The partition of the keys without a route, whose messages expire; the sweep of it that is
	// under way, as a channel that is closed at its end, or nil; and the least time that was
	// noted for the partition during that sweep, which may not have seen it.
	expiring *partition
	sweeping chan struct{}
	arrived  int64

	// How idle calls are served: by a task, or a timer that starts one. timerAt is when it fires
	// by the database's clock, Never if it is not set.
	serving bool
	stop    func() bool
	timerAt int64
}

// reserved is a key that is reserved for this process, until a time of the database's clock.
type reserved struct {
	partition int64
	until     int64
}

// maxReserved is how many reserved keys of a queue are noted. Others are claimed when their
// reservations have ended.
const maxReserved = 10_000

// partition is what is cached about the keys of a queue and a route.
type partition struct {
	queue         *queue
	subscriptions []*subscription // that include it
	next          int64           // nothing can be claimed before this time; 0 if nothing is known
	views         views           // of subscriptions that are limited to tenants
}

// subscription is the set of partitions that a Claim call asks for, with the partition in which
// messages of the queue expire. Calls with the same routes and tenants share one, so that the bounds of
// thousands of partitions are compared once, and not for each of thousands of calls.
type subscription struct {
	id         ID
	queue      *queue
	ids        []int64      // of the partitions, in order, without the expiring one
	partitions []*partition // all of them; views if it is limited to tenants
	tenants    []int64      // that it is limited to, by number and in order; nil for all
	users      int          // calls and queries that use it: it is not forgotten meanwhile

	// When the last lax call that did not wait was made: see repeated.
	asked time.Time

	// The least bound of the partitions, unless stale is set: then it is computed when it is
	// needed. Lowering a bound lowers next; raising one makes it stale.
	next  int64
	stale bool

	// Leases ahead of its next calls.
	prefetch

	// Queries under way, and the number of the last query of all its partitions that has ended:
	// a call that is about to end needs one that began after it.
	picks   map[*pick]bool
	queried uint64

	// Of a limited subscription, the tenant of the key that was leased last.
	lastTenant int64

	// Idle calls, in the order of their arrival.
	waiters []*waiter
}

func newClaimer(e *env, commits *committer) *claimer {
	return &claimer{
		env: e, commits: commits, queues: map[string]*queue{}, partitions: map[int64]*partition{}, prefetched: map[store.Token]bool{},
	}
}

// queue returns the queue of a name. The caller holds the lock, as of all methods here that do
// not take it.
func (c *claimer) queue(name string) *queue {
	q := c.queues[name]
	if q == nil {
		q = &queue{name: name, subscriptions: map[ID]*subscription{}, stop: func() bool { return false }, timerAt: Never, arrived: Never}
		q.expiring = &partition{queue: q}
		c.partitions[PartitionOf(name, "")] = q.expiring
		c.queues[name] = q
	}
	return q
}

// subscriptionID names a subscription by its partitions and tenants.
func subscriptionID(partitions, tenants []int64) (id ID) {
	b := make([]byte, 0, 8*(len(partitions)+len(tenants)+1))
	for _, p := range partitions {
		b = binary.BigEndian.AppendUint64(b, uint64(p))
	}
	for _, t := range tenants {
		b = binary.BigEndian.AppendUint64(b, uint64(t))
	}
	if tenants != nil {
		b = binary.AppendUvarint(b, uint64(len(tenants)))
	}
	sum := sha256.Sum256(b)
	copy(id[:], sum[:])
	return id
}

// subscription returns the subscription of a queue to these partitions, limited to tenants unless
// they are nil. Both are ordered.
func (c *claimer) subscription(name string, id ID, partitions, tenants []int64) *subscription {
	if s := c.queue(name).subscriptions[id]; s != nil {
		return s
	}
	c.forgetUnused()
	q := c.queue(name)
	s := &subscription{
		id: id, queue: q, ids: partitions, tenants: tenants, partitions: make([]*partition, 0, len(partitions)+1), picks: map[*pick]bool{}, stale: true,
	}
	for _, number := range partitions {
		p := c.partitions[number]
		if p == nil {
			p = &partition{queue: q}
			c.partitions[number] = p
		}
		if tenants != nil {
			p = c.view(p, s)
		}
		s.partitions = append(s.partitions, p)
	}
	s.partitions = append(s.partitions, q.expiring)
	for _, p := range s.partitions {
		p.subscriptions = append(p.subscriptions, s)
	}
	q.subscriptions[id] = s
	return s
}

// keepPartitions is how many partitions are cached at least, used or not.
const keepPartitions = 20_000

// forgetUnused drops subscriptions that no call uses, and their partitions, if there are many.
// A call that asks for them again queries.
func (c *claimer) forgetUnused() {
	if len(c.partitions)+int(c.viewed.Load()) < max(c.partitionLimit, keepPartitions) {
		return
	}
	used := map[*partition]bool{}
	for name, q := range c.queues {
		for id, s := range q.subscriptions {
			if s.unused() {
				delete(q.subscriptions, id)
				continue
			}
			used[q.expiring] = true
			for _, number := range s.ids {
				used[c.partitions[number]] = true
			}
		}
		if len(q.subscriptions) == 0 {
			q.stop()
			delete(c.queues, name)
		}
	}
	for number, p := range c.partitions {
		c.forgetViews(p)
		if !used[p] {
			delete(c.partitions, number)
			continue
		}
		p.subscriptions = slices.DeleteFunc(p.subscriptions, (*subscription).unused)
	}
	c.partitionLimit = 2 * (len(c.partitions) + int(c.viewed.Load()))
}

// unused reports whether no call, query or lease needs the subscription.
func (s *subscription) unused() bool { return s.users == 0 && !s.prefetch.any() }

// soonest returns the time before which there is nothing to claim for a subscription, and
// nothing to sweep in its queue.
func (c *claimer) soonest(s *subscription) int64 {
	if s.stale {
		s.next, s.stale = Never, false
		for _, p := range s.partitions {
			if !c.held || p != s.queue.expiring {
				s.next = min(s.next, p.next)
			}
		}
	}
	return s.next
}

// due reports whether there may be something to claim for a subscription.
func (c *claimer) due(s *subscription) bool { return c.soonest(s) <= c.time.now() }

// lower notes that something can be claimed in a partition from a time on.
func (c *claimer) lower(p *partition, at int64) {
	c.lowerOne(p, at)
	for _, v := range p.views.all {
		c.lowerOne(v, at)
	}
}

// lowerOne is lower without the views of the partition.
func (c *claimer) lowerOne(p *partition, at int64) {
	expiring := p == p.queue.expiring
	if expiring {
		p.queue.arrived = min(p.queue.arrived, at)
	}
	for _, s := range p.subscriptions {
		for query := range s.picks {
			query.note(p, at)
		}
	}
	if at >= p.next {
		return
	}
	p.next = at
	if expiring && c.held {
		return
	}
	for _, s := range p.subscriptions {
		s.next = min(s.next, at)
	}
}

// set notes that nothing can be claimed in a partition before a time.
func (p *partition) set(at int64) {
	if at == p.next {
		return
	}
	p.next = at
	for _, s := range p.subscriptions {
		s.stale = true
	}
}

// awaited reports whether an idle waiter asks for the partition.
func (p *partition) awaited() bool {
	return slices.ContainsFunc(p.subscriptions, func(s *subscription) bool { return len(s.waiters) > 0 })
}

// touch lowers the bounds of partitions, and serves the waiters for which something is due. If it
// is known what is due by tenants, due says so; otherwise it is nil.
func (c *claimer) touch(partitions map[int64]int64, due map[tenantIn]int64) {
	now := c.time.now()
	for id, at := range partitions {
		p := c.partitions[id]
		if p == nil {
			continue // no call has asked for it, and the first that does queries
		}
		c.lowerOne(p, at)
		c.rouse(p, at, now)
		if due == nil {
			c.touchViews(p.views.all, at, now)
		}
	}
	for in, at := range due {
		if p := c.partitions[in.partition]; p != nil {
			c.touchViews(p.views.byTenant[in.tenant], at, now)
		}
	}
}

// rouse serves the waiters of a partition in which something is due at a time, now or then.
func (c *claimer) rouse(p *partition, at, now int64) {
	switch {
	case !p.awaited():
	case at <= now:
		c.serve(p.queue)
	case at < p.queue.timerAt:
		c.setTimer(p.queue, at)
	}
}

// announced takes a hint of another process. It takes the lock.
func (c *claimer) announced(partitions map[int64]int64, keys []Reservation) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.touch(partitions, nil)
	if len(keys) > 0 {
		c.touch(c.noteReserved(keys), nil)
	}
}

// noteReserved notes keys that are reserved for this process, and returns their partitions, in
// which there is something to claim now.
func (c *claimer) noteReserved(keys []Reservation) map[int64]int64 {
	now := c.time.now()
	partitions := map[int64]int64{}
	for _, k := range keys {
		p := c.partitions[k.Partition]
		if p == nil || len(p.queue.reserved) >= maxReserved {
			continue // no call has asked for it, or too much is reserved: others claim it
		}
		if p.queue.reserved == nil {
			p.queue.reserved = map[ID]reserved{}
		}
		p.queue.reserved[k.Key] = reserved{k.Partition, now + reservation.Milliseconds()}
		partitions[k.Partition] = now
	}
	return partitions
}

// takeReserved returns keys of a subscription that are reserved for this process, for a query.
func (c *claimer) takeReserved(s *subscription, most int) map[ID]reserved {
	if len(s.queue.reserved) == 0 {
		return nil
	}
	if s.tenants != nil {
		return c.peekReserved(s, most)
	}
	now := c.time.now()
	taken := map[ID]reserved{}
	for id, r := range s.queue.reserved {
		switch _, found := slices.BinarySearch(s.ids, r.partition); {
		case r.until <= now:
			delete(s.queue.reserved, id)
		case found && len(taken) < most:
			delete(s.queue.reserved, id)
			taken[id] = r
		}
	}
	return taken
}

// keepReserved notes the reserved keys again that a query had no room for, and lowers the bounds
// of the partitions with reserved keys that are left.
func (c *claimer) keepReserved(s *subscription, taken map[ID]reserved, got *LeaseResult, most int) {
	if s.tenants != nil {
		s.dropReserved(got)
		return
	}
	if len(got.Keys) == most {
		for i := range got.Keys {
			delete(taken, got.Keys[i].Row.ID)
		}
		maps.Copy(s.queue.reserved, taken)
	}
	for _, r := range s.queue.reserved {
		if r.until > got.Now {
			c.lower(c.partitions[r.partition], got.Now)
		}
	}
}

// announcedAll drops all bounds. It takes the lock.
func (c *claimer) announcedAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	partitions := make(map[int64]int64, len(c.partitions))
	for id := range c.partitions {
		partitions[id] = 0
	}
	c.touch(partitions, nil)
}

// committed gives the leases of a durable group to the calls that they were made for, and
// lowers the bounds of the partitions that it changed. It takes the lock.
func (c *claimer) committed(g *group, partitions map[int64]int64) {
	due := map[tenantIn]int64{}
	if c.viewed.Load() > 0 {
		due = g.plan.dueOf()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, w := range g.handoffs {
		c.settle(w, w.handoff, nil)
	}
	c.invalidatePrefetched(g.plan)
	c.addPrefetched(g.prefetch)
	c.touch(partitions, due)
}

// failed takes back the leases of a group that failed. If its outcome is unknown they may be
// in the database, and are released. It takes the lock.
func (c *claimer) failed(g *group, partitions map[int64]int64, unknown bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.revoke(g.handoffs, unknown)
	c.dropPrefetched(g.prefetch, unknown)
	c.touch(partitions, nil)
}

// hold is Core.Hold. It takes the lock, and waits for sweeps without it.
func (c *claimer) hold(hold bool) {
	c.mu.Lock()
	c.held = hold
	var sweeps []chan struct{}
	for _, q := range c.queues {
		for _, s := range q.subscriptions {
			s.stale = true
		}
		if q.sweeping != nil {
			sweeps = append(sweeps, q.sweeping)
		}
		c.serve(q)
	}
	c.mu.Unlock()
	if hold {
		for _, done := range sweeps {
			<-done
		}
	}
}

// waiting returns the number of calls that wait. It takes the lock.
func (c *claimer) waiting() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for _, q := range c.queues {
		n += q.waiting
	}
	return n
}

// endAll ends idle waiters with ErrClosed and releases prefetched leases. Served waiters end
// when the task or group that serves them does. It takes the lock.
func (c *claimer) endAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	for _, q := range c.queues {
		q.stop()
		for _, s := range q.subscriptions {
			for _, w := range s.waiters {
				w.end(nil, store.Closed("claim"))
			}
			s.waiters = nil
			for _, k := range s.keys {
				c.releaseOrphan(k.claim.Lease())
			}
			s.keys = nil
		}
		q.idle = 0
	}
}
