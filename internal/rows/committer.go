package rows

import (
	"encoding/binary"
	mathrand "math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/store"
)

// committer gathers calls that arrive while groups are in flight, and has the writers run
// them as groups: one transaction and one sync for many commits.
//
// A call is in exactly one place at a time:
//
//	            ┌──────────────▶ queued ──────▶ in flight ──────────┐
//	enqueue ────┤                (a writer)        │ ErrLocked      ├──▶ ended
//	            └─ renew, ─────▶ urgent ──────▶ in flight ──────────┤
//	               release       (side writer)     │ ▲ ErrLocked    │
//	                                               ▼ │              │
//	                                             blocked ───────────┘
//
// Invariants:
//
//   - Two groups in flight have no key and no record in common: the second would wait for the
//     first in the database, and then work out its changes again. inFlight counts the keys and
//     records of calls that are in flight or blocked.
//   - Of two queued calls with a common key or record, the one that came first runs first, or
//     in the same group before the other.
//   - A call of a user ends exactly once. A call that has not begun and whose context has
//     ended is dropped.
//   - With nothing in flight, and no group that has just ended, a single call starts at once:
//     grouping never delays a commit of an idle store.
//
// When a group starts is a trade between latency and size, decided by worthwhile and choose:
//
//	in flight                     a group starts with
//	nothing                       whatever is queued; among other processes, and within Options.Gather
//	                              after a group, as many calls as it had and were queued at its end,
//	                              less a quarter
//	groups that are quick         as many calls as are in flight, among other processes at least
//	                              minSharedGroup; or a full group
//	a group slower than patience  whatever is queued
//
// Lock order: claimer.mu comes before committer.mu, because orphaned leases are released under
// it. Nothing but lifecycle is locked under committer.mu, and call.end is not called under it.
type committer struct {
	*env
	run       func(calls []*call, t *trial) // runs a group, under no lock
	verifyAll func()                        // called after it

	mu       sync.Mutex
	closed   bool // calls of users are refused
	drained  bool // and no other calls come: the writers end when they have run what is left
	queued   []*call
	started  uint64     // groups so far, with those of the side queue
	groups   int        // of them that are in flight
	running  int        // calls in groups in flight, without the side queue
	slow     int        // groups in flight for longer than patience
	inFlight inFlight   // keys and records of calls in flight and of blocked calls
	least    int        // with fewer queued calls than this, no group can start: see choose
	expected int        // with fewer than this, none starts while nothing is in flight: see gather
	gathers  uint64     // times that it was set
	ready    *sync.Cond // signalled when a group may start, or when drained

	// Of the side queue; see lockwait.go.
	urgent     []*call
	blocked    []blockedCalls
	asideReady *sync.Cond

	random *mathrand.Rand
}

func newCommitter(e *env, run func(calls []*call, t *trial), verifyAll func()) *committer {
	c := &committer{env: e, run: run, verifyAll: verifyAll, inFlight: newInFlight()}
	c.ready, c.asideReady = sync.NewCond(&c.mu), sync.NewCond(&c.mu)
	c.random = mathrand.New(mathrand.NewPCG(binary.BigEndian.Uint64([]byte(e.token())), 0))
	return c
}

// submit enqueues calls and waits for them. It returns the first error.
func (c *committer) submit(verb string, calls ...*call) error {
	if err := c.enqueue(verb, calls...); err != nil {
		return err
	}
	for _, call := range calls {
		if err := call.wait(); err != nil {
			return err
		}
	}
	return nil
}

// enqueue adds calls, unless the store is closed.
func (c *committer) enqueue(verb string, calls ...*call) error {
	for _, call := range calls {
		call.touched() // hashing the names of its keys is done here, under no lock
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return store.Closed(verb)
	}
	c.add(calls...)
	return nil
}

// enqueueInternal adds a call of the core itself, also while the store closes. It may be
// called under claimer.mu.
func (c *committer) enqueueInternal(call *call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.add(call)
}

// add adds calls: renewals and releases to the side queue, if there is a connection for it.
// The caller holds the lock.
func (c *committer) add(calls ...*call) {
	for _, call := range calls {
		if c.o.Aside && (call.renew != nil || call.release != nil) {
			call.aside = true
			c.urgent = append(c.urgent, call)
		} else {
			c.queued = append(c.queued, call)
		}
	}
	c.wake()
}

// refuse rejects calls of users from now on.
func (c *committer) refuse() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
}

// drain has the writers end when nothing is left to run.
func (c *committer) drain() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drained = true
	c.wake()
}

// wake has a writer look whether a group can start. The caller holds the lock.
func (c *committer) wake() {
	if c.drained {
		c.ready.Broadcast()
	} else {
		c.ready.Signal()
	}
	if c.drained || len(c.urgent)+len(c.blocked) > 0 {
		c.asideReady.Signal()
	}
}

// runGroups is a writer: it runs one group after another until the committer is drained.
func (c *committer) runGroups() {
	for {
		calls := c.take()
		if calls == nil {
			return
		}
		ended := c.watchPatience()
		c.run(calls, &trial{began: c.clock.Now()})
		c.mu.Lock()
		ended()
		c.groups--
		c.count(calls, -1)
		c.gather(len(calls))
		c.freed()
		c.mu.Unlock()
		c.verifyAll()
	}
}

// patience is how long a group may be in flight before the next one starts with whatever is
// queued: a group that takes longer may wait for a row lock.
const patience = 30 * time.Millisecond

// watchPatience counts the group that starts now as slow when its time is over. What it
// returns is called with the lock held when the group has ended. It goes by the machine's
// clock, because the clock of a test may stand still while the database does not.
func (c *committer) watchPatience() (ended func()) {
	slow, over := false, false
	stop := base.System{}.AfterFunc(patience, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if !over {
			slow = true
			c.slow++
			c.least = 0
			c.wake()
		}
	})
	return func() {
		stop()
		if over = true; slow {
			c.slow--
		}
	}
}

// gather has the next group wait for the callers of the one that has just ended, for at most
// Options.Gather: most of them commit again within moments, and a group costs the database about as
// much with one call as with ten. A single caller waits for nobody, and a process that is alone does
// not gather: it would have the database idle meanwhile. The caller holds the lock.
func (c *committer) gather(ended int) {
	if c.expected = (ended + len(c.queued)) * 3 / 4; c.o.Gather == 0 || c.running > 0 || c.drained || c.expected <= 1 || c.db.Alone() {
		c.expected = 0
		return
	}
	c.gathers++
	number := c.gathers
	base.System{}.AfterFunc(c.o.Gather, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if number == c.gathers {
			c.expected = 0
			c.wake()
		}
	})
}

// take waits until a group can start, and returns its calls; nil when drained.
func (c *committer) take() []*call {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		for len(c.queued) < max(1, c.worthwhile(), c.least) {
			if c.drained && len(c.queued) == 0 {
				return nil
			}
			c.ready.Wait()
		}
		if calls := c.choose(); len(calls) > 0 {
			c.groups++
			c.started++
			c.expected = 0
			c.count(calls, 1)
			return calls
		}
	}
}

// choose takes the calls of the next group from the queue, or returns nil if there are too few
// that can run now. Then least is set, so that the queue is not searched again with each call
// that arrives.
func (c *committer) choose() []*call {
	c.queued = dropEnded(c.queued)
	chosen, left, full := c.compatible(c.queued)
	if least := max(1, c.worthwhile()); !full && len(chosen) < least {
		c.least = len(c.queued) + max(least-len(chosen), len(c.queued)/8)
		return nil
	}
	c.queued, c.least = left, 0
	return chosen
}

// maxGroupBytes is about how large a group gets.
const maxGroupBytes = 16 << 20

// compatible returns the calls of a list that can run together now, and the others: those
// that have a key or record in common with a call in flight, or with an earlier one of the
// list that is left for that reason. full says that the group has its largest size.
func (c *committer) compatible(list []*call) (chosen, left []*call, full bool) {
	waits := newInFlight()
	bytes := 0
	for i, call := range list {
		if len(chosen) == c.o.MaxGroup || len(chosen) > 0 && bytes+call.size > maxGroupBytes {
			return chosen, append(left, list[i:]...), true
		}
		if c.inFlight.any() && (c.inFlight.overlaps(call.touched()) || waits.overlaps(call.touched())) {
			waits.add(call.touched(), 1)
			left = append(left, call)
			continue
		}
		chosen = append(chosen, call)
		bytes += call.size
	}
	return chosen, left, false
}

// dropEnded ends and removes calls that have not begun and whose contexts have ended. They are
// calls of users, without then.
func dropEnded(list []*call) []*call {
	return slices.DeleteFunc(list, func(c *call) bool {
		if c.err = c.ctx.Err(); c.err != nil {
			close(c.done)
		}
		return c.err != nil
	})
}

// minSharedGroup is the least size of a group that starts while another one is in flight and
// other processes use the database: they keep it busy, and each group has a cost of its own.
const minSharedGroup = 64

// worthwhile returns how many calls a group needs to start now: as many as are in flight, or have
// been until a moment ago, so that groups grow with the load. Beside a slow group one is enough. The caller holds the lock.
func (c *committer) worthwhile() int {
	switch {
	case c.running == 0 && !c.drained:
		return c.expected
	case c.running == 0 || c.slow > 0:
		return 1
	case c.db.Alone():
		return c.running
	}
	return max(c.running, minSharedGroup)
}

// freed notes that calls have ended, so that others with the same keys can start. The caller
// holds the lock.
func (c *committer) freed() {
	c.least = 0
	c.wake()
}

// count adds calls to those in flight, or, with n = -1, removes them. Calls that the side
// queue has taken over meanwhile keep their keys. The caller holds the lock.
func (c *committer) count(calls []*call, n int) {
	c.running += n * len(calls)
	invariant(c.running >= 0, "%d calls are in flight", c.running)
	if c.o.Writers <= 1 && !c.o.Aside {
		return // no group starts while another one is in flight
	}
	for _, call := range calls {
		if !call.aside {
			c.inFlight.add(call.touched(), n)
		}
	}
}

// pause waits for a random time up to retryPause, so that two transactions that interrupt each
// other do not do so again.
func (c *committer) pause() {
	c.mu.Lock()
	d := time.Duration(c.random.Int64N(int64(retryPause)))
	c.mu.Unlock()
	_ = base.Sleep(c.life.ctx, base.System{}, d) // the next try of a closed store fails by itself
}
