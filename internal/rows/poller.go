package rows

import (
	"maps"
	"slices"
	"sync"
	"time"
)

// poller queries the database every now and then while calls wait. Hints are not reliable: one
// may be lost, and a process that died announced nothing. While hints arrive it polls every
// Options.Poll; while they do not, after firstPoll, and then at twice the interval each time
// that it finds nothing, up to Options.PollUnhinted.
//
// Invariant: while a call waits, active is set and a poll is scheduled or under way. ensure
// is called after a waiter was added, and the poller becomes inactive only if it finds no
// waiter under its own lock, so that a waiter is either found or starts it again.
//
// Lock order: poller.mu comes before claimer.mu and watcher.mu, because of that search.
type poller struct {
	*env
	claims  *claimer
	records *watcher

	mu          sync.Mutex
	active      bool
	stopped     bool
	gap         time.Duration // of the next poll without hints
	cancelTimer func() bool   // of the next poll
	generation  uint64        // of that timer: one that was replaced does nothing
}

// firstPoll is the first interval while no hints arrive.
const firstPoll = 50 * time.Millisecond

func newPoller(e *env, claims *claimer, records *watcher) *poller {
	return &poller{env: e, claims: claims, records: records, cancelTimer: func() bool { return false }}
}

// ensure starts polling unless it is active. The caller holds no lock and has added its waiter.
func (p *poller) ensure() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.active {
		p.active, p.gap = true, firstPoll
		p.schedule()
	}
}

// hintsChanged polls soon, and often, if hints do not arrive any more.
func (p *poller) hintsChanged() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.active && !p.db.Hinted() {
		p.gap = firstPoll
		p.schedule()
	}
}

// stopAll ends polling for good.
func (p *poller) stopAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopped = true
	p.cancelTimer()
}

// schedule sets the timer of the next poll, in place of the one that was set. The caller
// holds the lock.
func (p *poller) schedule() {
	p.cancelTimer()
	if p.stopped {
		return
	}
	p.generation++
	generation := p.generation
	gap := min(p.gap, p.o.PollUnhinted)
	if p.db.Hinted() {
		gap = p.o.Poll
	}
	p.cancelTimer = p.clock.AfterFunc(gap, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		switch {
		case p.stopped || generation != p.generation:
		case p.records.anyWaits() || p.claims.anyWaits():
			p.life.spawn(func() { p.poll(generation) })
		default:
			p.active = false
		}
	})
}

// poll queries all partitions that calls wait for, in one query, and all records that calls
// await, in another.
func (p *poller) poll(generation uint64) {
	p.records.watchAll()
	p.records.query()
	found := p.claims.queryDue()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopped || generation != p.generation {
		return
	}
	p.gap = min(2*p.gap, p.o.PollUnhinted)
	if found {
		p.gap = firstPoll
	}
	p.schedule()
}

// anyWaits reports whether a Claim call waits, or is made again and again.
func (c *claimer) anyWaits() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, q := range c.queues {
		if q.waiting > 0 {
			return true
		}
		for _, s := range q.subscriptions {
			if c.repeated(s) {
				return true
			}
		}
	}
	return false
}

// queryDue finds out when the next key is due in each partition that a call waits for, and
// reports whether any is due sooner than was known.
func (c *claimer) queryDue() bool {
	c.mu.Lock()
	c.queries++
	number := c.queries
	var subscriptions []*subscription
	ids := map[int64]bool{}
	for _, q := range c.queues {
		for _, s := range q.subscriptions {
			if len(s.waiters) == 0 && !c.repeated(s) {
				continue
			}
			subscriptions = append(subscriptions, s)
			ids[PartitionOf(q.name, "")] = true
			for _, id := range s.ids {
				ids[id] = true
			}
		}
	}
	c.mu.Unlock()
	partitions := slices.Sorted(maps.Keys(ids))
	if len(partitions) == 0 {
		return false
	}
	asked := c.time.ask()
	now, at, err := c.db.NextDue(c.life.querying, partitions)
	if err != nil {
		return false // the calls wait until a later poll succeeds
	}
	c.time.answer(asked, now)
	c.mu.Lock()
	defer c.mu.Unlock()
	found := map[int64]int64{}
	for i, id := range partitions {
		p := c.partitions[id]
		if p == nil {
			continue
		}
		if at[i] < p.next {
			found[id] = at[i]
		}
		c.touchViews(p.views.all, at[i], now)
	}
	c.touch(found, map[tenantIn]int64{})
	for _, s := range subscriptions {
		s.queried = max(s.queried, number)
	}
	return len(found) > 0
}
