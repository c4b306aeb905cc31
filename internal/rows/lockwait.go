package rows

import (
	"slices"
	"time"

	"github.com/abidehq/abide/internal/base"
)

// The side queue runs some calls beside the groups, one update at a time, by a writer and on
// a connection of its own (Options.Aside):
//
//   - Renewals and releases, so that no group of commits delays them: a lease must not expire
//     because commits take long.
//   - Calls that met a row which another transaction has locked (one that a user began with
//     pgstore.WithTx, say), so that they delay no others. A group that meets one moves here as
//     a whole, and is halved until the calls of the locked rows are alone. Those are tried
//     again until the lock is gone, the caller gives up, or lockLimit is over.
//
// A blocked call still counts in inFlight: calls with the same keys wait for it and keep their
// order, and no other group meets the same lock.
//
// All times here are of the machine's clock: other transactions hold their locks in real
// time, also in a test whose clock stands still.
const (
	// partLockWait is how long a part of a group waits for locks. It is tried again in halves,
	// so that it need not be long.
	partLockWait = 50 * time.Millisecond

	// A single call waits for between blockedLeast and blockedMost at a time, less if there
	// are many, and blockedPause in between.
	blockedMost  = 300 * time.Millisecond
	blockedLeast = 20 * time.Millisecond
	blockedPause = 50 * time.Millisecond

	// lockLimit is how long a call waits for locks in all.
	lockLimit = 30 * time.Second
)

// blockedCalls are calls of a group that met a locked row.
type blockedCalls struct {
	calls []*call
	at    time.Time // when they are tried next
}

// block moves calls that met a locked row to the side queue. The halves of a group are tried
// at once, a single call after a pause. Of a drained store a single call is not tried again.
func (c *committer) block(calls []*call, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := base.System{}.Now()
	calls = slices.Clone(calls) // the array is that of the whole group
	for _, call := range calls {
		call.aside, call.locked = true, err
		if call.blocked.IsZero() {
			call.blocked = now
		}
		if c.drained && len(calls) == 1 {
			call.blocked = now.Add(-lockLimit)
		}
	}
	if half := len(calls) / 2; half > 0 {
		c.blocked = slices.Insert(c.blocked, 0, blockedCalls{calls[:half], now}, blockedCalls{calls[half:], now})
	} else {
		c.blocked = append(c.blocked, blockedCalls{calls, now.Add(blockedPause)})
	}
	c.wake()
}

// runAside is the writer of the side queue.
func (c *committer) runAside() {
	for {
		calls, lockWait := c.takeAside()
		if calls == nil {
			return
		}
		c.run(calls, &trial{began: c.clock.Now(), lockWait: lockWait})
		c.mu.Lock()
		c.groups--
		c.unblock(calls)
		c.mu.Unlock()
		c.verifyAll()
	}
}

// unblock frees the keys of calls that the side queue has run, but for those that were blocked
// again. The caller holds the lock.
func (c *committer) unblock(calls []*call) {
	again := map[*call]bool{}
	for _, b := range c.blocked {
		for _, call := range b.calls {
			again[call] = true
		}
	}
	for _, call := range calls {
		if !again[call] {
			c.inFlight.add(call.touched(), -1)
		}
	}
	c.freed()
}

// takeAside waits for calls of the side queue, and returns them with how long they may wait
// for locks; nil when drained and nothing is left anywhere that could still be blocked.
func (c *committer) takeAside() ([]*call, time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		if calls := c.takeUrgent(); len(calls) > 0 {
			c.groups++
			c.started++
			return calls, partLockWait
		}
		calls, next := c.takeBlocked()
		if len(calls) > 0 {
			c.groups++
			c.started++
			return calls, c.lockWait(calls)
		}
		if c.drained && len(c.urgent)+len(c.blocked)+len(c.queued)+c.running == 0 {
			return nil, 0
		}
		stop := func() bool { return true }
		if next > 0 {
			stop = base.System{}.AfterFunc(next, func() {
				c.mu.Lock()
				defer c.mu.Unlock()
				c.asideReady.Signal()
			})
		}
		c.asideReady.Wait()
		stop()
	}
}

// takeUrgent takes renewals and releases that can run now. One that has to wait for a call in
// flight with the same key counts as blocked by a lock, so that its limit holds.
func (c *committer) takeUrgent() []*call {
	c.urgent = dropEnded(c.urgent)
	chosen, left, full := c.compatible(c.urgent)
	if c.urgent = left; !full {
		now := base.System{}.Now()
		c.urgent = slices.DeleteFunc(left, func(call *call) bool {
			if call.blocked.IsZero() {
				call.blocked, call.locked = now, ErrLocked
			}
			return c.gaveUp(call, now)
		})
	}
	for _, call := range chosen {
		c.inFlight.add(call.touched(), 1)
	}
	return chosen
}

// takeBlocked takes blocked calls that are to be tried now, or returns how long it is until
// there are some. Calls whose context has ended, or whose limit is over, end.
func (c *committer) takeBlocked() (calls []*call, next time.Duration) {
	now := base.System{}.Now()
	for i, b := range c.blocked {
		if wait := b.at.Sub(now); wait > 0 && !c.drained {
			if next == 0 || wait < next {
				next = wait
			}
			continue
		}
		c.blocked = slices.Delete(c.blocked, i, i+1)
		calls := slices.DeleteFunc(b.calls, func(call *call) bool {
			gaveUp := c.gaveUp(call, now)
			if gaveUp {
				c.inFlight.add(call.touched(), -1)
				c.freed()
			}
			return gaveUp
		})
		if len(calls) == 0 {
			return c.takeBlocked()
		}
		return calls, 0
	}
	return nil, next
}

// gaveUp ends a call that is not tried again, and reports whether it is one.
func (c *committer) gaveUp(call *call, now time.Time) bool {
	limit := call.limit
	if limit == 0 {
		limit = lockLimit
	}
	if err := call.ctx.Err(); err != nil {
		call.err = err
	} else if call.err = call.locked; now.Sub(call.blocked) < limit {
		call.err = nil
		return false
	}
	go call.end() // under no lock: then may take claimer.mu, which comes before committer.mu
	return true
}

// lockWait returns how long calls may wait for locks.
func (c *committer) lockWait(calls []*call) time.Duration {
	if len(calls) > 1 {
		return partLockWait
	}
	return max(blockedMost/time.Duration(1+len(c.blocked)), blockedLeast)
}
