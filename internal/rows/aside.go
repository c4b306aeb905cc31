package rows

import (
	"slices"
	"time"

	"github.com/abidehq/abide/internal/base"
)

// Some calls are run aside, one update at a time, by a goroutine and on a connection of
// their own:
//
//   - Renewals and releases, so that no group of commits delays them.
//   - Calls that met a row which another transaction has locked, so that they delay no
//     others. A group that meets one is set aside as a whole, and halved until the calls
//     that touch the locked rows are alone. Those are tried in turn until the lock is gone,
//     the caller gives up, or lockLimit is over.
//
// A call that was set aside still counts as touching its keys and records: calls that touch
// the same wait for it and keep their order, and no other group meets the same lock.
const (
	// partLockWait is how long a part of a group waits for locks. It is tried again in halves,
	// so that it need not be long.
	partLockWait = 50 * time.Millisecond

	// A call that is alone waits for between stuckLeast and stuckMost at a time, less if
	// there are many, and stuckPause in between.
	stuckMost  = 300 * time.Millisecond
	stuckLeast = 20 * time.Millisecond
	stuckPause = 50 * time.Millisecond

	// lockLimit is how long a call waits for locks in all.
	lockLimit = 30 * time.Second
)

// stuckCalls are calls that met a locked row, or one of which did.
type stuckCalls struct {
	calls []*call
	at    time.Time // when they are tried next
}

// setAside notes that calls met a locked row. The halves of a group are tried at once, a
// single call after a pause.
func (f *Frame) setAside(calls []*call, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := base.System{}.Now()
	calls = slices.Clone(calls) // the others are still somebody's
	for _, c := range calls {
		c.aside, c.locked = true, err
		if c.since.IsZero() {
			c.since = now
		}
		if f.drained && len(calls) == 1 {
			c.since = now.Add(-lockLimit) // the store is being closed: this was its last try
		}
	}
	if half := len(calls) / 2; half > 0 {
		f.stuck = slices.Insert(f.stuck, 0, stuckCalls{calls[:half], now}, stuckCalls{calls[half:], now})
	} else {
		f.stuck = append(f.stuck, stuckCalls{calls, now.Add(stuckPause)})
	}
	f.wake()
}

// writeAside runs what is run aside.
func (f *Frame) writeAside() {
	for {
		calls, lockWait := f.takeAside()
		if calls == nil {
			return
		}
		f.split(calls, &trial{began: f.clock.Now(), lockWait: lockWait})
		f.mu.Lock()
		f.released(calls)
		f.mu.Unlock()
	}
}

// released notes that calls which were run aside do not touch anything any more, but for
// those that were set aside again.
func (f *Frame) released(calls []*call) {
	again := map[*call]bool{}
	for _, s := range f.stuck {
		for _, c := range s.calls {
			again[c] = true
		}
	}
	for _, c := range calls {
		if !again[c] {
			f.busy.add(c.touched(), -1)
		}
	}
	f.ran()
}

// takeAside waits for calls to run aside, and returns them with how long they may wait for
// locks; or nil at the end.
func (f *Frame) takeAside() ([]*call, time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for {
		if calls := f.takeUrgent(); len(calls) > 0 {
			return calls, partLockWait
		}
		calls, next := f.takeStuck()
		if len(calls) > 0 {
			return calls, f.lockWait(calls)
		}
		if f.drained && len(f.urgent)+len(f.stuck)+len(f.gathered)+f.running == 0 {
			return nil, 0
		}
		stop := func() bool { return true }
		if next > 0 {
			stop = base.System{}.AfterFunc(next, func() {
				f.mu.Lock()
				defer f.mu.Unlock()
				f.roomAside.Signal()
			})
		}
		f.roomAside.Wait()
		stop()
	}
}

// takeUrgent takes renewals and releases that can be run now. One that waits for a call
// which touches the same waits for a lock, too, if that was set aside.
func (f *Frame) takeUrgent() []*call {
	f.urgent = dropEnded(f.urgent)
	chosen, left, full := f.compatible(f.urgent)
	if f.urgent = left; !full { // those that are left all wait for others
		now := base.System{}.Now()
		f.urgent = slices.DeleteFunc(left, func(c *call) bool {
			if c.since.IsZero() {
				c.since, c.locked = now, ErrLocked
			}
			return f.gaveUp(c, now)
		})
	}
	for _, c := range chosen {
		f.busy.add(c.touched(), 1)
	}
	return chosen
}

// takeStuck takes calls that were set aside and whose time has come, or returns how long it
// is until there are some. Calls whose caller has given up, or whose time is over, end.
func (f *Frame) takeStuck() (calls []*call, next time.Duration) {
	now := base.System{}.Now()
	for i, s := range f.stuck {
		if wait := s.at.Sub(now); wait > 0 && !f.drained {
			if next == 0 || wait < next {
				next = wait
			}
			continue
		}
		f.stuck = slices.Delete(f.stuck, i, i+1)
		calls := slices.DeleteFunc(s.calls, func(c *call) bool {
			gaveUp := f.gaveUp(c, now)
			if gaveUp {
				f.busy.add(c.touched(), -1)
				f.ran()
			}
			return gaveUp
		})
		if len(calls) == 0 {
			return f.takeStuck()
		}
		return calls, 0
	}
	return nil, next
}

// gaveUp ends a call that is not tried again, and reports whether it has.
func (f *Frame) gaveUp(c *call, now time.Time) bool {
	limit := c.limit
	if limit == 0 {
		limit = lockLimit
	}
	if err := c.ctx.Err(); err != nil {
		c.err = err
	} else if c.err = c.locked; now.Sub(c.since) < limit {
		c.err = nil
		return false
	}
	go c.end() // which takes the lock
	return true
}

// lockWait returns how long calls may wait for locks.
func (f *Frame) lockWait(calls []*call) time.Duration {
	if len(calls) > 1 {
		return partLockWait
	}
	return max(stuckMost/time.Duration(1+len(f.stuck)), stuckLeast)
}
