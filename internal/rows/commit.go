package rows

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/store"
)

// call is an operation that somebody waits for.
type call struct {
	operation
	ctx  context.Context
	size int
	done chan struct{}
	then func() // is called when it is done, if it is not nil

	aside  bool          // it is in the hands of the goroutine that runs calls aside
	limit  time.Duration // how long it waits for rows that are locked; 0 is lockLimit
	since  time.Time     // when it first met one
	locked error         // what was said of it
}

// end tells whoever waits that the call has come to its end.
func (c *call) end() {
	close(c.done)
	if c.then != nil {
		c.then()
	}
}

func newCall(ctx context.Context, op operation, size int) *call {
	return &call{operation: op, ctx: ctx, size: size, done: make(chan struct{})}
}

// Commit applies tx.
func (f *Frame) Commit(ctx context.Context, tx *store.Tx) error {
	ops, bytes, err := tx.Size()
	if err != nil {
		return err
	}
	if err := f.Check(ctx, "commit"); err != nil {
		return err
	}
	if tx.Empty() {
		return nil
	}
	return f.submit("commit", newCall(ctx, operation{tx: copyTx(tx)}, ops*opSize+bytes))
}

// Renew makes leases last longer. Each lease is a call of its own, so that one whose row is
// locked does not keep the others from being renewed.
func (f *Frame) Renew(ctx context.Context, d time.Duration, leases []store.Lease) (lost []store.Lease, err error) {
	if err := store.ValidateRenew(d, leases); err != nil {
		return nil, err
	}
	if err := f.Check(ctx, "renew"); err != nil {
		return nil, err
	}
	calls := make([]*call, len(leases))
	for i := range leases {
		calls[i] = newCall(ctx, operation{renew: &renewal{lease: leases[i], d: d}}, opSize)
		calls[i].limit = min(max(d/8, minRenewal), maxRenewal)
	}
	if err := f.gather("renew", calls...); err != nil {
		return nil, err
	}
	var locked []store.Lease
	for _, c := range calls {
		switch err := c.wait(); {
		case errors.Is(err, ErrLocked):
			locked = append(locked, c.renew.lease)
		case err != nil:
			return nil, err
		case c.renew.lost:
			lost = append(lost, c.renew.lease)
		}
	}
	if len(locked) > 0 {
		return lost, &store.NotRenewedError{Leases: locked}
	}
	return lost, nil
}

// How long a renewal waits for a locked row: an eighth of what the lease is to last, but no
// less and no more than this. Whoever renews many leases learns in time what became of the
// others.
const (
	minRenewal = 100 * time.Millisecond
	maxRenewal = 5 * time.Second
)

// Release gives up a lease.
func (f *Frame) Release(ctx context.Context, r store.Release) error {
	if err := r.Validate(); err != nil {
		return err
	}
	if err := f.Check(ctx, "release"); err != nil {
		return err
	}
	return f.submit("release", newCall(ctx, operation{release: &r}, opSize))
}

// submit adds calls to those that gather, and waits for what becomes of all of them.
func (f *Frame) submit(verb string, calls ...*call) error {
	if err := f.gather(verb, calls...); err != nil {
		return err
	}
	for _, c := range calls {
		if err := c.wait(); err != nil {
			return err
		}
	}
	return nil
}

// wait returns what became of a call, or the error of its context if that ends first.
func (c *call) wait() error {
	select {
	case <-c.done:
		return c.err
	case <-c.ctx.Done():
		return c.ctx.Err()
	}
}

// gather adds calls to those that gather.
func (f *Frame) gather(verb string, calls ...*call) error {
	for _, c := range calls {
		c.touched() // here, where nobody waits for it
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return store.Closed(verb)
	}
	f.add(calls...)
	return nil
}

// add adds calls to those that gather: renewals and releases to those that are run aside,
// if there is a connection for that.
func (f *Frame) add(calls ...*call) {
	for _, c := range calls {
		if f.o.Aside && (c.renew != nil || c.release != nil) {
			c.aside = true
			f.urgent = append(f.urgent, c)
		} else {
			f.gathered = append(f.gathered, c)
		}
	}
	f.wake()
}

// wake has those look who wait for calls to run.
func (f *Frame) wake() {
	if f.drained {
		f.room.Broadcast()
	} else {
		f.room.Signal()
	}
	if f.drained || len(f.urgent)+len(f.stuck) > 0 {
		f.roomAside.Signal()
	}
}

// write runs groups, one after another.
func (f *Frame) write() {
	for {
		calls := f.take()
		if calls == nil {
			return
		}
		over := f.watch()
		f.run(calls)
		f.mu.Lock()
		over()
		f.runs(calls, -1)
		f.ran()
		f.mu.Unlock()
	}
}

// patience is how long a group may be under way before the next one is begun with whatever
// has gathered.
const patience = 30 * time.Millisecond

// watch counts the group that is begun among the slow ones if it is not over soon. What it
// returns is called, with the lock held, when it is.
func (f *Frame) watch() (over func()) {
	slow, ended := false, false
	stop := base.System{}.AfterFunc(patience, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if !ended {
			slow = true
			f.slow++
			f.enough = 0
			f.wake()
		}
	})
	return func() {
		stop()
		if ended = true; slow {
			f.slow--
		}
	}
}

// take waits for calls and returns those that go together, or nil at the end.
func (f *Frame) take() []*call {
	f.mu.Lock()
	defer f.mu.Unlock()
	for {
		for len(f.gathered) < max(1, f.worthwhile(), f.enough) {
			if f.drained && len(f.gathered) == 0 {
				return nil
			}
			f.room.Wait()
		}
		if calls := f.choose(); len(calls) > 0 {
			f.runs(calls, 1)
			return calls
		}
	}
}

// choose takes those that go together of the calls that gather.
func (f *Frame) choose() []*call {
	f.gathered = dropEnded(f.gathered)
	chosen, left, full := f.compatible(f.gathered)
	if least := max(1, f.worthwhile()); !full && len(chosen) < least {
		// Some more, so that not every one that comes has all of them looked at again.
		f.enough = len(f.gathered) + max(least-len(chosen), len(f.gathered)/8)
		return nil
	}
	f.gathered, f.enough = left, 0
	return chosen
}

// compatible returns the calls of a list that go together, and the others. What touches
// something that a group under way touches is left: it would wait for that group in the
// database, and then do its work again. And so is what came after that and touches the same.
func (f *Frame) compatible(list []*call) (chosen, left []*call, full bool) {
	waits := newInFlight()
	bytes := 0
	for i, c := range list {
		if len(chosen) == f.o.MaxGroup || len(chosen) > 0 && bytes+c.size > maxGroupBytes {
			return chosen, append(left, list[i:]...), true
		}
		if f.busy.any() && (f.busy.overlaps(c.touched()) || waits.overlaps(c.touched())) {
			waits.add(c.touched(), 1)
			left = append(left, c)
			continue
		}
		chosen = append(chosen, c)
		bytes += c.size
	}
	return chosen, left, false
}

// dropEnded ends calls that have not begun and whose callers do not wait any more.
func dropEnded(list []*call) []*call {
	return slices.DeleteFunc(list, func(c *call) bool {
		if c.err = c.ctx.Err(); c.err != nil {
			close(c.done)
		}
		return c.err != nil
	})
}

// fewAmongOthers is how many calls a group has at least that is begun while another one is
// under way, if other processes work on the same database: they keep it busy, and each
// group costs something by itself.
const fewAmongOthers = 64

// worthwhile is how many calls there must be for another group while one is under way. If
// that takes long, it may wait for a lock, and the others do not wait for it.
func (f *Frame) worthwhile() int {
	switch {
	case f.running == 0 || f.slow > 0:
		return 1
	case f.db.Alone():
		return f.running
	}
	return max(f.running, fewAmongOthers)
}

// ran notes that calls have come to their end, so that others can begin that touch the same.
func (f *Frame) ran() {
	f.enough = 0
	f.wake()
}

// runs notes that calls are under way, or, with -1, that they are not any more. Those that
// were set aside meanwhile still hold what they touch.
func (f *Frame) runs(calls []*call, n int) {
	f.running += n * len(calls)
	if f.o.Writers <= 1 && !f.o.Aside {
		return // no group is begun while another one is under way
	}
	for _, c := range calls {
		if !c.aside {
			f.busy.add(c.touched(), n)
		}
	}
}

// run does what the calls ask for, in one update, and tells them what became of it.
func (f *Frame) run(calls []*call) { f.split(calls, &trial{began: f.clock.Now()}) }

// trial is how long a group has been tried, and how often in vain.
type trial struct {
	began    time.Time
	failures int
	lockWait time.Duration // see Need
}

// A group that cannot be written is not split any more after so many failures, or so long:
// then it is not one of its calls that is to blame.
const (
	maxFailures = 64
	maxTrial    = 2 * time.Second
)

// split does what the calls ask for. If they cannot be written as a whole, each half is
// tried by itself, so that one call does not fail its neighbours. If they meet a row that
// another transaction has locked, they are set aside.
func (f *Frame) split(calls []*call, t *trial) {
	done, err := f.update(calls, t.lockWait)
	if f.o.Aside && errors.Is(err, ErrLocked) {
		f.setAside(calls, err)
		return
	}
	again := errors.Is(err, ErrRetry)
	if (rolledBack(err) || again) && len(calls) > 1 {
		t.failures++
		if again || t.failures < maxFailures && f.clock.Now().Sub(t.began) < maxTrial {
			half := len(calls) / 2
			f.split(calls[:half], t)
			f.split(calls[half:], t)
			return
		}
	}
	if err == nil {
		f.tell(done)
	}
	for _, c := range calls {
		if err != nil {
			c.err = err
		}
		c.end()
	}
}

// How often a group is tried that others come in between of, before it is halved, and how
// often a call that is alone is. From the third try on there is a pause before each, at
// random up to againPause.
const (
	groupTries = 10
	maxTries   = 50
	againPause = 20 * time.Millisecond
)

// undone reports whether an error says that nothing was changed, for certain.
func rolledBack(err error) bool {
	return errors.Is(err, ErrRolledBack) || errors.Is(err, store.ErrFull)
}

// group is what an update came to.
type group struct {
	asked question
	plan  *plan
	hands []*waiter // who get something with it
	ahead []leasedAhead

	// Numbers of records that others have changed since it began, as far as is known: which
	// of them was first is not. All is so if anything may have been changed.
	doubts  map[int64]bool
	doubted bool
}

// update runs the calls in one transaction. Its context is not that of any of them: what
// the others asked for is done even if one of them does not wait any more.
func (f *Frame) update(calls []*call, lockWait time.Duration) (*group, error) {
	ops := make([]*operation, len(calls))
	for i, c := range calls {
		ops[i] = &c.operation
	}
	n := need(ops)
	n.LockWait = lockWait
	for try := 1; ; try++ {
		g := &group{doubts: map[int64]bool{}, asked: f.question()}
		f.mu.Lock()
		f.groups[g] = true
		f.mu.Unlock()
		err := f.db.Update(f.ctx, n, func(now int64, s *State) *Changes {
			f.withdraw(g)
			g.plan = newPlan(now, s)
			for _, op := range ops {
				if op.renew != nil {
					op.renew.lost = false
				}
				g.plan.do(op)
			}
			g.hands, g.ahead = f.hand(g.plan)
			return g.plan.changes()
		})
		if err == nil {
			return g, nil
		}
		again := errors.Is(err, ErrRetry)
		n.Fresh = true
		f.failed(g, !again && !rolledBack(err))
		if !again || try == maxTries || try == groupTries && len(calls) > 1 {
			return nil, err
		}
		if try > 1 {
			f.pause()
		}
	}
}

// pause waits for a moment, at random, so that two that come in between of each other do
// not do so again.
func (f *Frame) pause() {
	f.mu.Lock()
	d := time.Duration(f.random.Int64N(int64(againPause)))
	f.mu.Unlock()
	_ = base.Sleep(f.ctx, base.System{}, d) // a store that is closed fails by itself
}

// withdraw takes back what a group that is worked out again was about to hand out.
func (f *Frame) withdraw(g *group) {
	if len(g.hands)+len(g.ahead) == 0 {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.takeBack(g.hands, false)
	f.unstock(g.ahead, false)
	g.hands, g.ahead = nil, nil
}

// failed sees to what a group that failed leaves behind. If it is not known whether it was
// written, those who wait look whether it was.
func (f *Frame) failed(g *group, unknown bool) {
	var partitions map[int64]int64
	var changed []change
	if unknown && g.plan != nil {
		partitions, changed = g.plan.touched(), g.plan.changed()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.groups, g)
	f.takeBack(g.hands, unknown)
	f.unstock(g.ahead, unknown)
	for _, c := range changed {
		c.work = nil
		f.recordChanged(&c)
	}
	f.touch(partitions)
}

// tell lets everybody know of a group that is durable.
func (f *Frame) tell(g *group) {
	partitions, changed := g.plan.touched(), g.plan.changed()
	records := make([]int64, 0, len(changed))
	f.mu.Lock()
	delete(f.groups, g)
	f.observe(g.asked, g.plan.now)
	for i := range changed {
		c := &changed[i]
		records = append(records, c.number)
		if g.doubted || g.doubts[c.number] {
			c.work = nil
		}
		f.recordChanged(c)
	}
	for _, w := range g.hands {
		f.settleWait(w, w.handed, nil)
	}
	f.spoil(g.plan)
	f.stockUp(g.ahead)
	f.touch(partitions)
	f.mu.Unlock()
	if len(partitions) > 0 || len(records) > 0 {
		f.db.Announce(partitions, records)
	}
}

// opSize is about how many bytes anything takes besides its body.
const opSize = 128
