package rows

import (
	"errors"
	"time"

	"github.com/abidehq/abide/store"
)

// group is one transaction of several calls. Each try of the transaction is a group of its own: it
// is registered with the watcher before it starts, and ends in exactly one of publish and failed.
type group struct {
	asked question
	plan  *plan

	// Leases that the transaction makes: to calls that wait, and ahead of calls.
	handoffs []*waiter
	prefetch []prefetchedLease

	// Keys that the transaction reserves for the processes that hold them.
	reserved map[int64][]Reservation

	// Numbers of records that others may have changed since the group began, all of them if
	// allDoubted: whether before or after it is not known. Both are guarded by watcher.mu.
	doubts     map[int64]bool
	allDoubted bool
}

// trial is how long a group has been tried, and how often it has failed.
type trial struct {
	began    time.Time
	failures int
	lockWait time.Duration // see ReadSet
}

// A group that fails is not split any more after so many failures, or so long: then no single
// call of it is to blame.
const (
	maxFailures = 64
	maxTrial    = 2 * time.Second
)

// run runs calls in one update, and ends them. If the update fails as a whole, each half is
// run by itself, so that one call does not fail its neighbours. If it meets a locked row, the
// calls move to the side queue. It is called under no lock.
func (f *Core) run(calls []*call, t *trial) {
	done, err := f.update(calls, t.lockWait)
	if f.o.Aside && errors.Is(err, ErrLocked) {
		f.commits.block(calls, err)
		return
	}
	retry := errors.Is(err, ErrRetry)
	if (rolledBack(err) || retry) && len(calls) > 1 {
		t.failures++
		if retry || t.failures < maxFailures && f.clock.Now().Sub(t.began) < maxTrial {
			half := len(calls) / 2
			f.run(calls[:half], t)
			f.run(calls[half:], t)
			return
		}
	}
	if err == nil {
		f.publish(done)
	}
	for _, c := range calls {
		if err != nil {
			c.err = err
		}
		c.end()
	}
}

// How often a group is tried that others interrupt (ErrRetry) before it is halved, and how
// often a single call is. From the third try on there is a pause before each.
const (
	groupTries = 10
	maxTries   = 50
	retryPause = 20 * time.Millisecond
)

// rolledBack reports whether an error of Update says that nothing was changed.
func rolledBack(err error) bool {
	return errors.Is(err, ErrRolledBack) || errors.Is(err, store.ErrFull)
}

// update runs the calls in one transaction, and again while others interfere. A try that fails
// has changed nothing in memory but what failed takes back, so that the next one starts from rows
// that are loaded anew (ReadSet.Fresh), with other verdicts perhaps. Its context is that of the core: a caller that
// stops waiting must not fail the others.
func (f *Core) update(calls []*call, lockWait time.Duration) (*group, error) {
	ops := make([]*operation, len(calls))
	for i, c := range calls {
		ops[i] = &c.operation
	}
	n := need(ops)
	n.LockWait = lockWait
	for try := 1; ; try++ {
		g := &group{doubts: map[int64]bool{}, asked: f.time.ask()}
		f.records.began(g)
		err := f.db.Update(f.life.ctx, n, func(now int64, s *State) *Changes { return f.decide(g, ops, now, s) })
		if err == nil {
			return g, nil
		}
		retry := errors.Is(err, ErrRetry)
		n.Fresh = true
		f.failed(g, !retry && !rolledBack(err))
		if !retry || try == maxTries || try == groupTries && len(calls) > 1 {
			return nil, err
		}
		if try > 1 {
			f.commits.pause()
		}
	}
}

// decide works out what the operations change, with the rows that the database loaded, and
// leases keys that become ready to calls that wait. The database calls it, perhaps several
// times, within the transaction: it takes claimer.mu, which is therefore never held during a
// query.
func (f *Core) decide(g *group, ops []*operation, now int64, s *State) *Changes {
	f.claims.withdraw(g) // of an earlier decision
	g.plan = newPlan(now, s)
	for _, op := range ops {
		if op.renew != nil {
			op.renew.lost = false
		}
		g.plan.do(op)
	}
	g.reserved = g.plan.hold(f.db)
	g.handoffs, g.prefetch = f.claims.handOff(g.plan)
	return g.plan.changes()
}

// failed takes back what a group that failed had leased. If its outcome is unknown, the calls
// that wait query for what it may have changed, and its leases are released.
func (f *Core) failed(g *group, unknown bool) {
	var partitions map[int64]int64
	var changed []change
	if unknown && g.plan != nil {
		partitions, changed = g.plan.due(), g.plan.changed()
	}
	f.records.failed(g, changed)
	f.claims.failed(g, partitions, unknown)
}

// publish passes a durable group on: records to the calls that await them, leases to the
// calls that they were made for, and the rest as hints, to the calls of this process and of
// others. The callers of the group are told after that.
func (f *Core) publish(g *group) {
	partitions, changed := g.plan.due(), g.plan.changed()
	records := make([]int64, 0, len(changed))
	for i := range changed {
		records = append(records, changed[i].number)
	}
	f.records.committed(g, changed)
	f.time.answer(g.asked, g.plan.now)
	f.claims.committed(g, partitions)
	f.announcer.committed(g.plan.now, partitions, g.reserved, records)
}
