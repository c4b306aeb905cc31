package engine

import (
	"strings"

	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/store"
)

// take turns a message into incoming events. Messages are delivered at least once, in any order
// and at any time, and history must have each event once. So take drops, and the commit consumes,
//
//   - messages for another run: the execution has ended, continued as new, or was deleted;
//   - answers to what is not open: history has the answer already, or it was cancelled, or it is a
//     second answer, such as the result of an activity whose deadline came first;
//   - a second start.
//
// The ledger decides all of that, without running code: a duplicate costs no replay.
func (t *turn) take(m message) error {
	info, ledger := &t.in.info, &t.in.ledger
	if ledger.ended || t.yielded {
		return errNotNow
	}
	if m.run != 0 && m.run != info.run {
		t.stale()
		return nil
	}
	if strings.HasPrefix(m.ID, prefixHanded) {
		t.controls = append(t.controls, m)
		return nil
	}
	if !ledger.correct(&m) {
		t.stale()
		return nil
	}
	t.delivering = m.ID
	switch m.kind {
	case bodyWake:
		t.wake = t.wake || ledger.yielded
	case bodyStart:
		if ledger.started || len(m.events) == 0 {
			t.stale()
			return nil
		}
		t.begin(m.events)
	case bodyEvents:
		for i := range m.events {
			if err := t.takeEvent(m, &m.events[i]); err != nil {
				return err
			}
		}
	default:
		t.stale()
	}
	return nil
}

// stale counts a message that came too late.
func (t *turn) stale() { t.lateMessages++ }

// bring adds an event that the code has not seen yet, of the message that is being taken.
func (t *turn) bring(e history.Event) {
	t.incoming = append(t.incoming, e)
	t.origins = append(t.origins, t.delivering)
}

// begin starts the code.
func (t *turn) begin(events []history.Event) {
	t.in.ledger.started = true
	for i := range events {
		t.bring(events[i])
	}
	info := &t.in.info
	t.changed = t.changed || info.Status == Pending
	info.Status = Running
	if info.Runtime != t.e.cfg.Runtime {
		info.Runtime, t.changed = t.e.cfg.Runtime, true
	}
	if info.BegunAt.IsZero() {
		info.BegunAt = base.Later(t.claim.Now, info.CreatedAt) // which is of another clock
	}
	t.begins, t.starts = true, info.Execution == 1
}

// takeEvent takes one event of a message. An event that was raised needs no question to be open; an answer
// does. A request to cancel an instance whose code has not begun ends the instance at once: there is no code
// that could come to an end by itself, and to start it only for that would have it do something first.
func (t *turn) takeEvent(m message, e *history.Event) error {
	ledger := &t.in.ledger
	switch e.Kind {
	case history.EventReceived:
		if m.awaited {
			return t.takeAwaited(e)
		}
		t.bring(*e)
	case history.CancelRequested:
		if !ledger.started && t.in.info.Execution == 1 {
			// There is no code yet that could come to an end by itself.
			t.end(&history.Event{Kind: history.ExecutionTerminated, Name: e.Name, By: e.By}, Cancelled)
			return nil
		}
		t.bring(*e)
	case history.TimerMoveReceived:
		t.moveTimers(e)
	default:
		asked := ledger.question(e)
		if asked == nil {
			t.stale()
			return nil
		}
		t.answer(m, e, asked)
	}
	return nil
}

// takeAwaited takes an event only if the code waits for it, after it has seen all that came before:
// the answer must not depend on how messages happen to share a turn. So the code is run first with
// what was taken so far. That costs a flush for each such event, and is why they are asked for
// explicitly.
func (t *turn) takeAwaited(e *history.Event) error {
	if err := t.flush(); err != nil {
		return err
	}
	if t.in.ledger.ended || t.yielded {
		return errNotNow
	}
	exec, err := t.execute()
	if err != nil {
		return err
	}
	awaits := exec.Awaits(e.Name)
	t.awaits = append(t.awaits, awaits)
	if !awaits {
		t.e.count.Unawaited.Add(1)
		t.e.meters.unawaited.Add(t.ctx, 1)
		return nil
	}
	t.bring(*e)
	return nil
}

// answer takes the completion of an activity, timer, child, call of an entity or request for locks, and removes it from the ledger at
// once: a second answer within the same claim must find nothing open. The answer of a child that was
// asked to cancel is for history only: the code has had its answer.
//
// A timer's message may arrive although the timer was moved to a later time in an earlier flush of
// this very turn: the move has not been committed, so the message is still the old one. It is
// dropped, and the moved timer has a message of its own.
func (t *turn) answer(m message, e, asked *history.Event) {
	info := &t.in.info
	switch asked.Kind {
	case history.TimerCreated:
		if asked.At.After(t.claim.Now) {
			return // it was moved by a turn within this claim, and has a message of its own
		}
		// Before it was put, and while the instance was suspended or stalled, it could not fire.
		from := base.Later(base.Later(asked.At, m.PutAt), t.in.ledger.resumed)
		t.fired = append(t.fired, firing{asked.Name, asked.At, max(t.claim.Now.Sub(from), 0)})
	case history.ActivityScheduled:
		if asked.Activity.ScheduleToClose > 0 {
			deadline := store.MessageRef{Key: t.claim.Key, ID: messageID(prefixDeadline, info.run, e.Ref)}
			t.tx.Delete = append(t.tx.Delete, deadline)
			// It may be the deadline that came first.
			t.dropTask(e.Ref, asked)
		}
	case history.EntityLockRequested:
		if set := t.in.ledger.locks[e.Ref]; set != nil { // the time for which the instance was suspended does not count
			t.lockWaits = append(t.lockWaits, max(m.PutAt.Sub(set.since), 0))
		}
	default:
	}
	delete(t.in.ledger.open, e.Ref)
	delete(t.in.ledger.leaving, e.Ref)
	t.bring(*e)
}

// moveTimers gives the open timers of a name another time, as a request has
// asked for.
func (t *turn) moveTimers(e *history.Event) {
	timers := t.in.ledger.timers(e.Name)
	if len(timers) == 0 {
		t.stale()
	}
	for _, timer := range timers {
		t.bring(history.Event{Kind: history.TimerMoveReceived, Ref: timer.ID, Name: e.Name, At: e.At, By: e.By})
		t.putTimer(timer.ID, e.At, true)
		timer.At = e.At
	}
}
