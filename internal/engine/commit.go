package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/store"
)

// childStart is a start of another instance that is part of the turn.
type childStart struct {
	event *history.Event // ChildStarted or DetachedStarted, of the parent
	info  Info           // its record
	start body           // of its start message

	// taken is true if the ID belongs to another instance: then nothing is started, and the parent
	// gets ChildFailed. replaced is the revision of an instance that has ended and is replaced, 0 for none.
	taken    bool
	replaced int64
}

// putChild prepares the start of a child or a detached instance. Its record and its start message are
// part of the turn's commit, so that a child and the event that starts it become durable together.
func (t *turn) putChild(e *history.Event) {
	child := t.newChild(e)
	t.e.suspectUnserved(queueTurns, child.info.Route())
	t.children = append(t.children, child)
}

// newChild returns the start of the instance that an event starts.
func (t *turn) newChild(e *history.Event) *childStart {
	info := &t.in.info
	child := &childStart{event: e, info: Info{
		Ref: Ref{Tenant: info.Tenant, ID: e.Target}, Name: e.Name, Version: e.Child.Version,
		Status: Pending, Execution: 1, CreatedAt: t.in.ledger.now, Tags: e.Child.Tags, run: newSeed(), origin: t.under(),
		Limits: e.Child.Limits, Priority: e.Child.Priority,
	}}
	child.info.workRun = child.info.run
	if child.info.Priority == 0 {
		child.info.Priority = info.Priority
	}
	start := &history.Start{Version: e.Child.Version, Execution: 1, Seed: child.info.run}
	if e.Kind == history.ChildStarted {
		start.Parent, start.ParentExecution, start.ParentEvent, start.ParentName = info.ID, info.Execution, e.ID, info.Name
		child.info.setParent(info, e.ID)
		info.coverChild(&child.info)
	}
	child.start = body{kind: bodyStart, run: child.info.run, info: &child.info, events: []history.Event{
		{Kind: history.ExecutionStarted, Name: e.Name, Start: start, Data: e.Data, Foreign: e.Foreign},
	}}
	return child
}

// commit makes all of the turn durable, or nothing.
//
// It first claims the right to decide (owner): the watchdog may have stalled the instance while the
// code was on its way back. The transaction is then completed with what is known last: the entries,
// at the length at which the instance was claimed, and the record.
//
// The record is put without a version, although it is read-modify-write, because the log guards it:
// every other commit that puts it appends, and then the length differs. Where the turn appends nothing there is
// no such guard, and the version is expected.
//
// The context is not that of the turn. If the lease is lost the store refuses the commit, and if it is
// not, then a turn that has run to its end should not be wasted because the engine is closing. The
// outage wrapper bounds the call to two leases.
//
// The cache is told before the call (expectReturn): from the moment at which the commit is durable,
// another worker of this process may claim the next turn, and it should wait for the instance. If the
// commit fails, returned without put tells it that there is nothing to wait for.
func (t *turn) commit() error {
	if !t.owner.CompareAndSwap(false, true) {
		return errAbandoned
	}
	t.prepare()
	// The lease is what counts now, not whether the work should stop.
	err := t.commitWithParent(context.Background())
	if errors.Is(err, store.ErrInvalid) {
		t.owner.Store(false)
	}
	if err != nil {
		return err
	}
	t.settle()
	return nil
}

// prepare completes the transaction with what is known last.
func (t *turn) prepare() {
	t.keepTrace()
	if t.unclaimed {
		t.endDeliveries()
	} else {
		t.tx.Finish = append(t.tx.Finish, store.Finish{Lease: t.claim.Lease(), Keep: t.keep})
	}
	if len(t.entries) > 0 {
		a := store.Append{Key: t.claim.Key, At: t.in.length, Tag: t.in.tag, Entries: t.entries, Idle: t.unclaimed && !t.fresh}
		if t.fresh {
			a.Route, a.New = t.claim.Route, t.newID
		} else if info := &t.in.info; info.Build != "" && t.claim.Route != info.keyRoute() && !info.Status.Ended() && !info.Status.parked() {
			a.Route = info.keyRoute()
		}
		t.tx.Append = append(t.tx.Append, a)
	}
	if len(t.keep) == 0 {
		t.in.info.forgiven = 0
	}
	t.noteAwaited()
	if len(t.entries) > 0 && !t.in.info.trial.empty() { // it goes on
		t.in.info.trial, t.changed = trial{}, true
	}
	if t.changed {
		expect := store.AnyVersion // the length of the log is what counts: every commit that puts the record appends
		// But for the first turn of a fork: what changes the record before it appends nothing.
		if len(t.entries) == 0 || t.forked {
			expect = t.in.info.Revision
		}
		if t.fresh {
			expect = 0
		}
		put := t.in.info.putRecord(expect)
		put.New = t.newID
		t.tx.PutRecords = append(t.tx.PutRecords, put)
	}
	if t.in.exec != nil {
		t.inFlight = true
		t.e.cache.expectReturn(t.claim.Key)
	}
}

// settle is called once the turn is durable.
func (t *turn) settle() {
	t.committed()
	in := t.in
	in.length += len(t.entries)
	t.checkCommitted()
	if in.ledger.ended || in.info.Status.Ended() {
		t.e.closers.end(in)
	}
}

// commitWithChildren commits the turn together with the instances that it starts. A child whose ID is
// taken is not started, and the code that waits for it gets a failure of type TypeExists.
//
// That an ID is taken is found out by a conflict: the transaction expects that the child has no
// record. To read each record first would cost a call for each child of each turn, for a case that is
// rare; and the record could be put between the read and the commit anyway. A conflict names the
// record, so up to fewTaken children are found one commit at a time, and then all are looked up. The
// transaction is built anew from the same parts each time. If no child is in the way, it is the turn
// itself that has the conflict.
//
// The first turns of children that this process serves are in the same commit, if it succeeds at once:
// see fuse.go.
func (t *turn) commitWithChildren(ctx context.Context) error {
	if len(t.children) == 0 {
		return t.e.store.Commit(ctx, &t.tx)
	}
	seen := map[string]bool{t.in.info.ID: true}
	for _, c := range t.children {
		c.taken = seen[c.info.ID]
		seen[c.info.ID] = true
	}
	if err := t.findReplaced(ctx); err != nil {
		return err
	}
	if fused, err := t.commitFirstTurns(ctx); fused && !unchanged(err) {
		return err
	}
	for tries := 0; ; tries++ {
		tx := t.clippedTx()
		for _, c := range t.children {
			c.add(t, &tx)
		}
		err := t.e.store.Commit(ctx, &tx)
		if !errors.Is(err, store.ErrConflict) {
			return err
		}
		if tries < fewTaken {
			if found, err2 := t.markTaken(ctx, err); found || err2 != nil {
				if err2 != nil {
					return err2
				}
				continue
			}
		}
		found, err2 := t.findTaken(ctx)
		if err2 != nil {
			return err2
		}
		if !found { // then it is the turn itself that is in conflict
			return err
		}
	}
}

// findReplaced looks up the instances that children replace, before their first turns run: code that has run, and
// whose turn is then not committed, would run twice.
func (t *turn) findReplaced(ctx context.Context) error {
	for _, c := range t.children {
		if c.event.Child.Replace && !c.taken {
			if _, err := t.lookUpTaken(ctx, c); err != nil {
				return err
			}
		}
	}
	return nil
}

// clippedTx returns the transaction of the turn, to which can be added without changing it.
func (t *turn) clippedTx() store.Tx {
	tx := t.tx
	tx.Append, tx.Put, tx.PutRecords = slices.Clip(tx.Append), slices.Clip(tx.Put), slices.Clip(tx.PutRecords)
	tx.Retime, tx.Delete, tx.DeleteRecords = slices.Clip(tx.Retime), slices.Clip(tx.Delete), slices.Clip(tx.DeleteRecords)
	tx.DeleteKeys = slices.Clip(tx.DeleteKeys)
	return tx
}

// commitFirstTurns commits the turn together with the first turns of its children, if there are any
// that can be. Of an error it is known whether nothing was committed: see unchanged.
func (t *turn) commitFirstTurns(ctx context.Context) (fused bool, err error) {
	starts := make([]*firstStart, len(t.children))
	for i, c := range t.children {
		if !c.taken && c.replaced == 0 {
			starts[i] = &firstStart{info: &c.info, body: &c.start}
		}
	}
	turns := t.e.fuser.firstTurns(starts, true)
	tx := t.clippedTx()
	for i, c := range t.children {
		if turns[i] == nil {
			c.add(t, &tx)
			continue
		}
		fused = true
		turns[i].prepare()
		merge(&tx, &turns[i].tx)
	}
	if !fused {
		return false, nil
	}
	err = t.e.store.Commit(ctx, &tx)
	for _, first := range turns {
		if first != nil {
			t.e.fuser.finishFirst(first, err)
		}
	}
	return true, err
}

// fewTaken is how many children whose IDs are taken are found one by one, by the conflict of
// a commit. If there are more, all of them are looked up.
const fewTaken = 4

// markTaken notes that the ID of a child is taken if the conflict says so.
func (t *turn) markTaken(ctx context.Context, err error) (found bool, _ error) {
	conflict, ok := errors.AsType[*store.RecordConflict](err)
	if !ok {
		return false, nil
	}
	for _, c := range t.children {
		if !c.taken && c.info.Ref.record() == conflict.Key {
			return t.lookUpTaken(ctx, c)
		}
	}
	return false, nil
}

// lookUpTaken looks up the instance that has the ID of a child, and reports whether there is one of which that
// was not known. One that has ended is replaced if the child says so.
func (t *turn) lookUpTaken(ctx context.Context, c *childStart) (found bool, _ error) {
	if !c.event.Child.Replace {
		_, err := t.e.store.Get(ctx, c.info.Ref.record())
		if errors.Is(err, store.ErrNotFound) {
			return false, nil
		}
		c.taken = err == nil
		return c.taken, err
	}
	info, err := t.e.Client.Get(ctx, c.info.Ref)
	switch {
	case errors.Is(err, ErrNotFound):
		found, c.replaced = c.replaced != 0, 0
		return found, nil
	case err != nil:
		return false, err
	case !info.Status.Ended():
		c.taken = true
		return true, nil
	}
	found, c.replaced = c.replaced != info.Revision, info.Revision
	return found, nil
}

// findTaken looks up which children have a record, and reports whether there is one of which that was not known.
func (t *turn) findTaken(ctx context.Context) (found bool, err error) {
	for _, c := range t.children {
		if c.taken {
			continue
		}
		taken, err := t.lookUpTaken(ctx, c)
		if err != nil {
			return false, err
		}
		found = found || taken
	}
	return found, nil
}

// add puts the child into a transaction: its record, which must not exist, and its start; or, if its ID is
// taken, the failure for its parent. The failure is a message rather than an event of this turn, since the
// code has run already, and its decisions must not change any more.
func (c *childStart) add(t *turn, tx *store.Tx) {
	switch {
	case !c.taken:
		if c.replaced != 0 {
			tx.DeleteKeys = append(tx.DeleteKeys, c.info.Ref.key(), c.info.Ref.control())
		}
		tx.PutRecords = append(tx.PutRecords, c.info.putRecord(c.replaced))
		tx.Put = append(tx.Put, store.Message{Key: c.info.Ref.key(), ID: idStart, Route: c.info.keyRoute(), Body: c.start.encode()})
		if len(c.info.Limits) > 0 {
			tx.Put = append(tx.Put, c.info.enterLimits(noTime))
		}
	case c.event.Kind == history.ChildStarted && !t.in.ledger.ended:
		b := body{kind: bodyEvents, run: t.in.info.run, events: []history.Event{{
			Kind: history.ChildFailed, Ref: c.event.ID,
			Failure: &history.Failure{Type: TypeExists, Message: fmt.Sprintf("there is an instance with the ID %q already", c.info.ID), Final: true},
		}}}
		tx.Put = append(tx.Put, store.Message{
			Key: t.claim.Key, ID: messageID(prefixChild, t.in.info.run, c.event.ID), Body: b.encode(),
		})
	}
}
