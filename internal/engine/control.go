package engine

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/internal/backoff"
	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/store"
)

// control is a claim on what was asked about an instance, and what is made of it.
//
// It does not hold the instance's lease: a turn may be under way. Both append to the
// log, so one of them has a conflict: the turn is done once more behind it (see rebase) or
// forgotten, or what was asked is tried again and then handed to a turn.
type control struct {
	claim *store.Claim // nil if nothing was asked
	turn  *turn        // of the instance: what is to be done to it
	quiet []history.Event

	cancels bool // the instance is asked to come to an end
}

// A control request that conflicts with turns is tried handOffAfter times at once. Then it is
// handed off to the next turn of the instance, and tried again after a pause, controlTries times in
// all, before it is released.
const (
	handOffAfter = 2
	controlTries = 20
)

// control works on a claim of control requests of an instance: suspend, resume, terminate, cancel, and the
// end of a parent.
//
// They have a queue of their own because they must work although no process serves the orchestration,
// and must not wait for the messages before them. The price is that a control request races with turns
// of the instance: both write the record and the log. The log's length arbitrates, so one of them meets
// a conflict. A turn that loses is rebased or taken again. A control request that loses is tried again
// with what it finds then, controlTries times; but an instance whose turns follow each other without a
// pause can win every time, as a request reads the history first. So after handOffAfter conflicts the request
// is put to the instance as a message too, and the next turn applies it within its own transaction
// (applyControls). The first of the two to commit deletes the other's copy.
func (e *Engine) control(j *job) {
	c := j.Claim
	e.keeper.Keep(c, nil) // the commit tells whether it was lost
	defer e.keeper.Drop(c.Lease())
	err, info := store.ErrConflict, Info{Ref: refOf(c.Key)}
	pause := backoff.Outage(e.clock)
	for i := 0; i < controlTries && errors.Is(err, store.ErrConflict); i++ {
		if i == handOffAfter {
			if err = e.handOff(e.working, c); err != nil {
				break
			}
		}
		if i >= handOffAfter && pause.Sleep(e.claiming) != nil {
			break
		}
		err = e.tryControl(e.working, c, &info)
	}
	switch {
	case err == nil:
	case errors.Is(err, errLater):
		e.giveBackLater(c)
	case errors.Is(err, store.ErrClaimLost):
		e.lose(queueControl)
	case errors.Is(err, store.ErrCorrupt):
		e.unreadable(c, info.about(), err)
	default:
		if e.working.Err() == nil {
			if errors.Is(err, store.ErrConflict) {
				e.log.Warn("control request conflicts with turns, claim released", info.about(), "error", err)
			} else { // the store's outage is logged once
				e.log.Debug("control request aborted by store error, claim released", info.about(), "error", err)
			}
			e.pauseHolding(c)
		}
		e.giveBack(c)
	}
}

// tryControl tries it once, and says of which instance.
func (e *Engine) tryControl(ctx context.Context, c *store.Claim, of *Info) error {
	ref := refOf(c.Key)
	var tx store.Tx
	messages, err := decodeAll(e, c, &tx)
	if err != nil {
		return err
	}
	info, err := e.Client.Get(ctx, ref)
	if errors.Is(err, ErrNotFound) { // and so nobody cares
		tx.Finish = []store.Finish{{Lease: c.Lease()}}
		return e.store.Commit(ctx, &tx)
	}
	if err != nil {
		return err
	}
	*of = info
	ctl := e.newControl(ctx, info, tx, c.Now)
	ctl.claim = c
	for i := range messages {
		if err := ctl.do(&messages[i]); err != nil {
			return err
		}
	}
	return ctl.commit(info.Revision)
}

// handOff puts control requests to the instance as messages, so that its next turn applies them:
// turns follow each other so fast that a request, which reads the history first, always finds it
// grown at its commit. The requests stay in the control queue as well until they are applied,
// since there may be no next turn.
func (e *Engine) handOff(ctx context.Context, c *store.Claim) error {
	var tx store.Tx
	for i := range c.Messages {
		m := &c.Messages[i]
		tx.Put = append(tx.Put, store.Message{Key: refOf(c.Key).key(), ID: prefixHanded + m.ID, TTL: time.Hour, Body: m.Body})
	}
	return e.store.Commit(ctx, &tx)
}

// applyControls applies the requests that the control queue has handed off, at the end of the turn.
func (t *turn) applyControls() error {
	if len(t.controls) == 0 {
		return nil
	}
	if t.next != nil { // the next execution can do it
		t.keepAll(t.controls)
		return nil
	}
	c := &control{turn: t}
	for i := range t.controls {
		m := t.controls[i]
		id := strings.TrimPrefix(m.ID, prefixHanded)
		m.Message = &store.Message{Key: m.Key, ID: id}
		if err := c.do(&m); err != nil {
			return err
		}
		t.tx.Delete = append(t.tx.Delete, store.MessageRef{Key: t.in.info.Ref.control(), ID: id})
	}
	if len(c.quiet) > 0 {
		t.entries = append(t.entries, c.quietEntries()...)
		t.outdated = true
	}
	return nil
}

// quietEntries returns the turn of which the code does not learn.
func (c *control) quietEntries() [][]byte {
	t := c.turn
	return quietTurn(base.Later(t.claim.Now, t.in.ledger.now), t.in.ledger.lastID, 0, c.quiet...)
}

// newControl returns what changes an instance without its code.
func (e *Engine) newControl(ctx context.Context, info Info, tx store.Tx, now time.Time) *control {
	return &control{turn: &turn{
		e: e, ctx: ctx, draft: draft{tx: tx}, claim: &store.Claim{Key: info.Ref.key(), Now: now},
		in: &instance{info: info, length: -1},
	}}
}

// do does what a message asks for. Of an instance that has ended nothing can be asked.
func (c *control) do(m *message) error {
	t := c.turn
	info := &t.in.info
	switch {
	case m.parent != nil && !m.parent.of(info):
		t.stale() // it is not this one's parent
		return nil
	case info.Status.Ended():
		t.stale()
		if m.parent != nil && m.orphan {
			info.forgetParent()
			t.changed = true
		}
		return nil
	}
	if err := t.measure(); err != nil {
		return err
	}
	if m.parent != nil && m.orphan {
		info.forgetParent()
		c.remark(history.Event{Kind: history.ParentEnded})
	}
	switch m.kind {
	case bodySuspend:
		if !info.Status.parked() {
			info.Before, info.Status, info.Reason = info.Status, Suspended, m.reason
			t.tx.Put = append(t.tx.Put, parkedMessage(t.claim.Key))
			c.remark(history.Event{Kind: history.ExecutionSuspended, Name: m.reason, By: m.by()})
		}
	case bodyResume:
		if info.Status.parked() {
			return c.resume("", m.by())
		}
	case bodyCorrect:
		return c.correct(m)
	case bodyAdmit:
		if m.run != info.run || !info.limited() {
			t.stale()
			return nil
		}
		info.Admitted, t.changed = true, true
		if !info.Status.parked() {
			t.tx.Put = append(t.tx.Put, wakeMessage(info))
		}
	case bodyTerminate:
		if err := t.loadReadable(); err != nil {
			return err
		}
		if err := c.dropPending(); err != nil {
			return err
		}
		c.quiet = nil // what has ended needs no more remarks
		t.recursive = m.recursive
		t.end(&history.Event{Kind: history.ExecutionTerminated, Name: m.reason, By: m.by(), Data: m.result()}, Terminated)
		// Its route is served by every engine, which acknowledges what is left of its messages;
		// these may have been parked.
		wake := wakeMessage(info)
		wake.ID, wake.Route = idEnded, routeEnded
		t.tx.Put = append(t.tx.Put, wake)
	case bodyEvents: // they are for the code
		c.cancels = c.cancels || slices.ContainsFunc(m.events, isCancelRequest)
		b := m.body
		b.parent, b.orphan = nil, false
		t.tx.Put = append(t.tx.Put, store.Message{Key: t.claim.Key, ID: m.ID, Body: b.encode()})
	default:
	}
	return nil
}

// dropPending deletes what waits for an instance that is terminated. A turn that is under
// way loses its claim by that, and a step of it its context.
func (c *control) dropPending() error {
	t := c.turn
	if c.claim == nil { // it is a turn that does it
		return nil
	}
	pending, err := t.e.store.Pending(t.ctx, t.claim.Key, store.DefaultMessages)
	if err != nil {
		return err
	}
	for i := range pending {
		t.tx.Delete = append(t.tx.Delete, store.MessageRef{Key: t.claim.Key, ID: pending[i].ID})
	}
	return nil
}

// resume gives the instance its route back. What its messages went through before does
// not count any more, nor does what builds have made of it, unless it is an engine that
// resumes it by itself, because of its build.
func (c *control) resume(build, by string) error {
	t := c.turn
	info := &t.in.info
	if err := t.measure(); err != nil {
		return err
	}
	if build == "" {
		info.trial = trial{}
	} else {
		info.trial.resume(build)
	}
	pending, err := t.e.store.Pending(t.ctx, t.claim.Key, store.DefaultMessages)
	if err != nil {
		return err
	}
	for i := range pending {
		info.forgiven = max(info.forgiven, pending[i].Attempt)
	}
	info.Status, info.Before, info.Reason, info.BadPayload = info.Before, "", "", nil
	t.tx.Put = append(t.tx.Put, wakeMessage(info))
	t.tx.Delete = append(t.tx.Delete, store.MessageRef{Key: t.claim.Key, ID: idParked})
	c.remark(history.Event{Kind: history.ExecutionResumed, Build: build, By: by})
	return nil
}

// remark notes an event of which the code does not learn: for people, and because the
// record changes.
func (c *control) remark(e history.Event) {
	c.turn.changed = true
	c.quiet = append(c.quiet, e)
}

// commit makes durable what was done.
func (c *control) commit(revision int64) error {
	t := c.turn
	info := &t.in.info
	t.answerParent()
	t.putAnswer()
	tx := &t.tx
	if c.claim != nil {
		tx.Finish = []store.Finish{{Lease: c.claim.Lease()}}
		for i := range c.claim.Messages { // it may have been handed to a turn
			tx.Delete = append(tx.Delete, store.MessageRef{Key: t.claim.Key, ID: prefixHanded + c.claim.Messages[i].ID})
		}
	}
	if t.changed {
		entries := t.entries
		if len(c.quiet) > 0 && !info.partial { // a turn that history breaks off must stay the last
			entries = c.quietEntries()
		}
		if len(entries) > 0 {
			tx.Append = []store.Append{{Key: t.claim.Key, At: t.in.length, Tag: info.run, Entries: entries}}
		}
		tx.PutRecords = append(tx.PutRecords, info.putRecord(revision))
	}
	if err := t.e.store.Commit(t.ctx, tx); err != nil {
		return err
	}
	t.committed()
	if t.ends {
		t.e.keeper.Lose(t.claim.Key) // a turn that is under way comes too late
	} else if turn := t.e.turns.of(t.claim.Key); turn != nil && c.cancels {
		turn.steps.cancel()
	}
	if in := t.e.cache.take(t.ctx, t.claim.Key); in != nil { // the log has changed since
		t.e.closers.end(in)
	}
	return nil
}

// farAway is when the message comes that nobody should ever see.
var farAway = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)

// parkedMessage keeps an instance from being claimed. Its messages wait.
func parkedMessage(key store.Key) store.Message {
	return store.Message{
		Key: key, ID: idParked, Route: routeParked, VisibleAt: farAway,
		Body: (&body{kind: bodyParked}).encode(),
	}
}

// wakeMessage has an instance claimed, and gives it its route.
func wakeMessage(info *Info) store.Message {
	return store.Message{
		Key: info.Ref.key(), ID: idWake, Route: info.keyRoute(),
		Body: (&body{kind: bodyWake, run: info.run}).encode(),
	}
}
