package rows

import (
	"context"
	"errors"
	"time"

	"github.com/abidehq/abide/store"
)

// call is an operation that somebody waits for.
type call struct {
	operation
	ctx  context.Context
	size int
	done chan struct{}
}

// Commit applies tx.
func (f *Frame) Commit(ctx context.Context, tx *store.Tx) error {
	if err := tx.Validate(); err != nil {
		return err
	}
	if err := f.Check(ctx, "commit"); err != nil {
		return err
	}
	if tx.Empty() {
		return nil
	}
	return f.submit(ctx, &call{operation: operation{tx: tx}, size: size(tx)}, "commit")
}

// CommitAlone applies tx in an update of its own, which is not the frame's: one inside a
// transaction that the caller began. Whoever waits learns of it from the database.
func CommitAlone(ctx context.Context, tx *store.Tx, update func(context.Context, *Need, func(int64, *State) *Changes) error) error {
	if err := tx.Validate(); err != nil {
		return err
	}
	op := &operation{tx: tx}
	err := update(ctx, need([]*operation{op}), func(now int64, s *State) *Changes {
		p := newPlan(now, s)
		p.do(op)
		return p.changes()
	})
	if err != nil {
		return err
	}
	return op.err
}

// Renew makes leases last longer.
func (f *Frame) Renew(ctx context.Context, d time.Duration, leases []store.Lease) (lost []store.Lease, err error) {
	if err := store.ValidateRenew(d, leases); err != nil {
		return nil, err
	}
	if err := f.Check(ctx, "renew"); err != nil {
		return nil, err
	}
	if len(leases) == 0 {
		return nil, nil
	}
	c := &call{operation: operation{renew: &renewal{leases: leases, d: d}}}
	if err := f.submit(ctx, c, "renew"); err != nil {
		return nil, err
	}
	return c.renew.lost, nil
}

// Release gives up a lease.
func (f *Frame) Release(ctx context.Context, r store.Release) error {
	if err := r.Validate(); err != nil {
		return err
	}
	if err := f.Check(ctx, "release"); err != nil {
		return err
	}
	return f.submit(ctx, &call{operation: operation{release: &r}}, "release")
}

// submit adds a call to those that gather, and waits for what becomes of it.
func (f *Frame) submit(ctx context.Context, c *call, verb string) error {
	c.ctx, c.done = ctx, make(chan struct{})
	f.mu.Lock()
	if f.closed {
		f.mu.Unlock()
		return store.Closed(verb)
	}
	f.gathered = append(f.gathered, c)
	f.room.Signal()
	f.mu.Unlock()
	select {
	case <-c.done:
		return c.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// write runs groups, one after another.
func (f *Frame) write() {
	defer f.tasks.Done()
	for {
		calls := f.take()
		if calls == nil {
			return
		}
		f.run(calls)
	}
}

// take waits for calls and returns those that go together, or nil at the end.
func (f *Frame) take() []*call {
	f.mu.Lock()
	defer f.mu.Unlock()
	for {
		for len(f.gathered) == 0 {
			if f.closed {
				return nil
			}
			f.room.Wait()
		}
		n, bytes := 0, 0
		for n < len(f.gathered) && n < f.o.MaxGroup && (n == 0 || bytes+f.gathered[n].size <= maxGroupBytes) {
			bytes += f.gathered[n].size
			n++
		}
		taken := f.gathered[:n:n]
		f.gathered = f.gathered[n:]
		if len(f.gathered) == 0 {
			f.gathered = nil
		}
		calls := make([]*call, 0, n)
		for _, c := range taken {
			if err := c.ctx.Err(); err != nil { // nobody waits for it any more, and it has not begun
				c.err = err
				close(c.done)
				continue
			}
			calls = append(calls, c)
		}
		if len(calls) > 0 {
			return calls
		}
	}
}

// maxTries is how often a group is tried that others come in between of.
const maxTries = 50

// run does what the calls ask for, in one update, and tells them what became of it. If
// the group as a whole cannot be written, each half is tried by itself, so that one call
// does not fail its neighbours.
func (f *Frame) run(calls []*call) {
	done, err := f.update(calls)
	if err != nil && len(calls) > 1 && (errors.Is(err, ErrUndone) || errors.Is(err, store.ErrFull)) {
		half := len(calls) / 2
		f.run(calls[:half])
		f.run(calls[half:])
		return
	}
	if err == nil {
		f.tell(done) // before those who committed: what they gave is theirs again then
	}
	for _, c := range calls {
		if err != nil {
			c.err = err
		}
		close(c.done)
	}
}

// group is what an update came to.
type group struct {
	plan  *plan
	ops   []*operation
	hands []*waiter // who get something with it
}

// update runs the calls in one transaction. Its context is not that of any of them: what
// the others asked for is done even if one of them does not wait any more.
func (f *Frame) update(calls []*call) (*group, error) {
	ops := make([]*operation, len(calls))
	for i, c := range calls {
		ops[i] = &c.operation
	}
	n := need(ops)
	for try := 1; ; try++ {
		g := &group{ops: ops}
		err := f.db.Update(f.ctx, n, func(now int64, s *State) *Changes {
			g.plan = newPlan(now, s)
			for _, op := range ops {
				op.err, op.changed = nil, nil
				if op.renew != nil {
					op.renew.lost = nil
				}
				g.plan.do(op)
			}
			g.hands = f.hand(g.plan)
			return g.plan.changes()
		})
		if err == nil {
			return g, nil
		}
		f.takeBack(g.hands)
		if !errors.Is(err, ErrAgain) || try == maxTries {
			return nil, err
		}
	}
}

// tell lets everybody know of a group that is durable.
func (f *Frame) tell(g *group) {
	lanes := g.plan.touched()
	var records []int64
	f.mu.Lock()
	f.observe(g.plan.now)
	for _, op := range g.ops {
		for _, key := range op.changed {
			records = append(records, RecordOf(key))
			f.recordChanged(key, g.plan.records[key])
		}
	}
	for _, w := range g.hands {
		f.settleWait(w, len(w.queue.waiters), w.handed, nil)
	}
	f.touch(lanes)
	f.mu.Unlock()
	for lane, at := range lanes {
		if at == Never {
			delete(lanes, lane)
		}
	}
	if len(lanes) > 0 || len(records) > 0 {
		f.db.Announce(lanes, records)
	}
}

// size returns about how many bytes a Tx holds.
func size(tx *store.Tx) int {
	n := 0
	for i := range tx.Append {
		for _, e := range tx.Append[i].Entries {
			n += len(e)
		}
	}
	for i := range tx.Put {
		n += len(tx.Put[i].Body)
	}
	for i := range tx.PutRecords {
		n += len(tx.PutRecords[i].Record.Body)
	}
	return n
}
