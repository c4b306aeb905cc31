package engine

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"maps"
	"time"

	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/internal/replay"
	"github.com/abidehq/abide/store"
)

// decide appends an event that the code produced, and adds to the transaction what it causes:
//
//	ActivityScheduled      a task; and a deadline message if schedule-to-close is limited
//	ActivityCancelled      the task and its deadline are deleted
//	TimerCreated, -Moved   a message to the instance, visible when the timer is due
//	TimerCancelled         that message is deleted
//	ChildStarted           the record and the start message of another instance
//	ChildCancelled         a control message to the child
//	EventSent              a message to another instance
//	EntityCalled, -Signaled  a message to an entity
//	EntityLockRequested    a message to the first of the entities
//	EntityUnlocked         a message to the entity, or to the first if it withdraws a request
//	TurnYielded            a wake message to the instance itself
//	StatusSet, ValueSet    the record
//	ExecutionContinued     a new run: the log goes on, the start of the next execution
//	Execution… (an end)    the record; all that is open is deleted; an expiry message
//
// In a transaction puts apply before deletes, so an activity that is scheduled and cancelled in one turn
// leaves nothing behind, whatever the order of the two here.
func (t *turn) decide(e *history.Event) error {
	asked, locks := t.in.ledger.open[e.Ref], t.in.ledger.locks[e.Ref]
	t.append(e)
	info := &t.in.info
	switch e.Kind {
	case history.ActivityScheduled:
		return t.schedule(e)
	case history.ActivityCancelled:
		t.dropTask(e.Ref, asked)
		t.tx.Delete = append(t.tx.Delete, store.MessageRef{Key: t.claim.Key, ID: messageID(prefixDeadline, info.run, e.Ref)})
	case history.TimerCreated:
		t.timersSet++
		t.putTimer(e.ID, e.At, false)
	case history.TimerMoved:
		t.putTimer(e.Ref, e.At, true)
	case history.TimerCancelled:
		t.timersCancelled++
		t.dropTimer(e.Ref)
	case history.ChildStarted, history.DetachedStarted:
		if err := CheckLimits(e.Child.Limits, e.Child.Priority); err != nil {
			return stallf("child %q: %v", e.Target, err)
		}
		t.putChild(e)
	case history.ChildCancelled:
		if asked != nil { // or its answer came with what had the code cancel it
			t.controlChild(prefixControl, asked, body{kind: bodyEvents, events: cancelRequest("its parent asked for it")})
		}
	case history.EventSent:
		t.send(Ref{Tenant: info.Tenant, ID: e.Target}, messageID(prefixEvent+"/"+info.ID, info.run, e.ID),
			body{kind: bodyEvents, events: []history.Event{{Kind: history.EventReceived, Name: e.Name, Data: e.Data}}})
	case history.EntityCalled, history.EntitySignaled:
		return t.operate(e)
	case history.EntityLockRequested:
		return t.lock(e)
	case history.EntityUnlocked:
		t.unlock(e, locks)
	case history.TurnYielded:
		t.yielded = true
		t.putSelf(idWake, body{kind: bodyWake, run: info.run}, time.Time{})
	case history.StatusSet:
		info.Text, t.changed = e.Name, true
	case history.ValueSet:
		t.changed = true
		if err := info.setValue(e); err != nil {
			return err
		}
	case history.ExecutionContinued:
		t.continueAsNew(e)
	case history.ExecutionCompleted, history.ExecutionFailed, history.ExecutionCancelled:
		t.ended(e, endStatus[e.Kind])
	default: // it is in history, and that is all
	}
	return nil
}

// endStatus is the status of an instance after an event that ends it.
var endStatus = map[history.Kind]Status{
	history.ExecutionCompleted:  Completed,
	history.ExecutionFailed:     Failed,
	history.ExecutionCancelled:  Cancelled,
	history.ExecutionTerminated: Terminated,
}

// putSelf puts a message to the instance itself.
func (t *turn) putSelf(id string, b body, at time.Time) {
	t.tx.Put = append(t.tx.Put, store.Message{Key: t.claim.Key, ID: id, VisibleAt: at, Body: b.encode()})
}

// send puts a message to another instance.
func (t *turn) send(to Ref, id string, b body) {
	t.tx.Put = append(t.tx.Put, store.Message{Key: to.key(), ID: id, Body: b.encode()})
}

// schedule puts the task of an activity.
func (t *turn) schedule(e *history.Event) error {
	if err := CheckLimits(e.Activity.Limits, e.Activity.Priority); err != nil {
		return stallf("activity %q: %v", e.Name, err)
	}
	t.putTask(e)
	if len(e.Activity.Limits) == 0 {
		t.e.suspectUnserved(QueueActivities, e.Name)
	}
	return nil
}

// putTask puts the task of an activity. If schedule-to-close is limited, it also puts a message to the
// instance, visible at the deadline, which fails the activity unless its outcome comes before: the
// deadline holds although no process runs the activity.
func (t *turn) putTask(e *history.Event) {
	info := &t.in.info
	event := *e
	event.Activity = info.uncovered(e.Activity)
	spec := task{instance: info.ID, execution: info.Execution, run: info.run, scheduledAt: t.in.ledger.now, event: event, route: info.Route(), under: t.under(), inherited: info.Priority}
	msg := store.Message{Key: taskKey(info.Ref, info.run, e.ID), ID: idTask, Route: e.Name, Body: spec.encode()}
	if limits := event.Activity.Limits; len(limits) > 0 {
		now := t.in.ledger.now
		msg = enter(info.Tenant, taskWork(msg.Key), 0, limits, spec.priority(), now, noTime, msg)
	} else {
		msg.New = true // the run is random, and the event is appended once
	}
	t.tx.Put = append(t.tx.Put, msg)
	if limit := e.Activity.ScheduleToClose; limit > 0 {
		failure := timeoutFailure(fmt.Sprintf("activity %q did not end within %v of being scheduled", e.Name, limit))
		failure.Final = true
		t.putSelf(messageID(prefixDeadline, info.run, e.ID), body{
			kind: bodyEvents, run: info.run,
			events: []history.Event{{Kind: history.ActivityFailed, Ref: e.ID, At: t.in.ledger.now.Add(limit), Failure: failure}},
		}, t.in.ledger.now.Add(limit))
	}
}

// dropTask deletes the task of an activity and its heartbeat record. A process that runs it loses its
// lease with the commit, and the context of the activity ends.
//
// asked is the event by which it was scheduled. The task of one under limits is deleted by its gate, which has to
// know whether it was claimed.
func (t *turn) dropTask(id int32, asked *history.Event) {
	if t.dropped[id] {
		return
	}
	if t.dropped == nil {
		t.dropped = map[int32]bool{}
	}
	t.dropped[id] = true
	key := taskKey(t.in.info.Ref, t.in.info.run, id)
	if asked != nil && asked.Activity != nil && len(asked.Activity.Limits) > 0 {
		withdraw(&t.tx, key.Tenant, taskWork(key), asked.Activity.Limits, store.MessageRef{Key: key, ID: idTask})
	} else {
		t.tx.Delete = append(t.tx.Delete, store.MessageRef{Key: key, ID: idTask})
	}
	t.tx.DeleteRecords = append(t.tx.DeleteRecords, store.DeleteRecord{Key: heartbeatKey(key), Expect: store.AnyVersion})
	t.cancelled = append(t.cancelled, key)
}

// putTimer puts the message of a timer, visible when it is due. For a moved timer it also retimes a
// message that is there already. Both are needed: the message of a moved timer may be among those
// that this turn consumes, and then the retiming finds none.
func (t *turn) putTimer(id int32, at time.Time, moved bool) {
	info := &t.in.info
	name := messageID(prefixTimer, info.run, id)
	t.putSelf(name, body{
		kind: bodyEvents, run: info.run,
		events: []history.Event{{Kind: history.TimerFired, Ref: id}},
	}, at)
	if moved {
		t.timersMoved++
		t.tx.Retime = append(t.tx.Retime, store.Retime{Ref: store.MessageRef{Key: t.claim.Key, ID: name}, VisibleAt: at})
	}
}

// dropTimer deletes the message of a timer. It may be gone already, consumed by this turn.
func (t *turn) dropTimer(id int32) {
	t.tx.Delete = append(t.tx.Delete, store.MessageRef{Key: t.claim.Key, ID: messageID(prefixTimer, t.in.info.run, id)})
}

// controlChild sends a control message to a child. It is dropped if the child is gone or
// has another parent. The prefix tells the request to cancel a child from the news that
// its parent has ended: both may be pending.
func (t *turn) controlChild(prefix string, child *history.Event, b body) {
	info := &t.in.info
	b.parent = &parentMark{run: info.run, event: child.ID}
	t.tx.Put = append(t.tx.Put, store.Message{
		Key: Ref{Tenant: info.Tenant, ID: child.Target}.control(), Route: routeControl,
		ID: messageID(prefix+"/"+info.ID, info.run, child.ID), Body: b.encode(),
	})
}

// cancelRequest returns the events of a message that requests a cancellation.
func cancelRequest(why string) []history.Event {
	return []history.Event{{Kind: history.CancelRequested, Name: why}}
}

// setValue sets or deletes a published value. The map is copied: readers of Info hold the old one.
func (i *Info) setValue(e *history.Event) error {
	values := maps.Clone(i.Values)
	if values == nil {
		values = map[string][]byte{}
	}
	if len(e.Data) == 0 {
		delete(values, e.Name)
	} else {
		values[e.Name] = e.Data
	}
	if len(values) > MaxValues {
		return stallf("limit: it has %d values, at most %d are allowed", len(values), MaxValues)
	}
	i.Values = values
	return nil
}

// end ends the instance without running its code: a termination, or a cancellation of an instance
// that has not begun.
func (t *turn) end(e *history.Event, status Status) {
	for _, event := range []*history.Event{{Kind: history.TurnStarted, At: base.Later(t.claim.Now, t.in.ledger.now)}, e} {
		event.ID = t.in.ledger.lastID + 1
		t.append(event)
	}
	t.in.info.Reason = e.Name
	t.ended(e, status)
}

// ended closes the instance: its open operations are dropped, its result is in the record, and an
// expiry message is put that deletes it after Retention. answerParent informs the parent.
func (t *turn) ended(e *history.Event, status Status) {
	info := &t.in.info
	t.dropOpen()
	for _, id := range []string{idStart, idParked} { // it may not have begun, or be parked
		t.tx.Delete = append(t.tx.Delete, store.MessageRef{Key: t.claim.Key, ID: id})
	}
	info.leaveLimits(&t.tx)
	info.Status, info.EndedAt, t.changed = status, base.Later(t.in.ledger.now, info.CreatedAt), true
	info.Result, info.Failure = e.Data, e.Failure
	info.Awaited, info.BadPayload = nil, nil
	if e.Kind == history.ExecutionTerminated {
		info.Failure = &history.Failure{Type: TypeTerminated, Message: because("terminated", e.Name), Final: true}
		if status == Cancelled {
			info.Failure = &history.Failure{Type: replay.CancelledType, Message: because("cancelled", e.Name), Final: true}
		}
	}
	if t.e.cfg.Retention >= 0 {
		t.tx.Put = append(t.tx.Put, store.Message{
			Key: info.Ref.key(), ID: idExpire, Route: routeEnded, VisibleAt: info.EndedAt.Add(t.e.cfg.Retention),
			Body: (&body{kind: bodyExpire, run: info.run}).encode(),
		})
	}
	t.ends = true
}

// because returns a text with its reason, if there is one.
func because(what, why string) string {
	if why == "" {
		return what
	}
	return what + ": " + why
}

// dropOpen deletes the tasks and timers that the execution has open, applies the close policies of
// its children, and releases the locks of entities that it holds or has requested. It is called at the end of an execution.
func (t *turn) dropOpen() {
	info := &t.in.info
	for _, open := range t.in.ledger.inOrder() {
		switch open.Kind {
		case history.ActivityScheduled:
			t.dropTask(open.ID, open)
			t.tx.Delete = append(t.tx.Delete, store.MessageRef{Key: t.claim.Key, ID: messageID(prefixDeadline, info.run, open.ID)})
		case history.TimerCreated:
			t.dropTimer(open.ID)
		case history.ChildStarted:
			t.leaveChild(open, false)
		default:
		}
	}
	for _, id := range sortedKeys(t.in.ledger.leaving) {
		t.leaveChild(t.in.ledger.leaving[id], true)
	}
	for _, id := range sortedKeys(t.in.ledger.locks) {
		t.releaseLocks(id, t.in.ledger.locks[id])
	}
	t.in.ledger.open, t.in.ledger.leaving, t.in.ledger.locks = nil, nil, nil
}

// leaveChild applies the close policy of a child whose parent ends first, or terminates it if the parent
// is terminated recursively. A child that was asked to cancel is not asked a second time.
func (t *turn) leaveChild(child *history.Event, cancelled bool) {
	why := fmt.Sprintf("its parent %s has ended", t.in.info.ID)
	switch on := child.Child.OnClose; {
	case t.recursive:
		t.controlChild(prefixOrphan, child, body{kind: bodyTerminate, orphan: true, recursive: true, reason: why})
	case on == history.TerminateChild:
		t.controlChild(prefixOrphan, child, body{kind: bodyTerminate, orphan: true, reason: why})
	case on == history.CancelChild && !cancelled:
		t.controlChild(prefixOrphan, child, body{kind: bodyEvents, orphan: true, events: cancelRequest(why)})
	default:
		t.controlChild(prefixOrphan, child, body{kind: bodyOrphan, orphan: true})
	}
}

// continueAsNew ends the execution and starts the next one. The next history begins with the events
// that were raised and not received, so that they keep their order before those that arrive later.
// The history of the execution that ends here is kept until the next continue-as-new, and older ones
// are trimmed from the log. run changes with the execution: messages of the old one become stale.
func (t *turn) continueAsNew(e *history.Event) {
	info := &t.in.info
	t.dropOpen()
	if info.offset > 0 {
		t.tx.Trim = append(t.tx.Trim, store.Trim{Key: t.claim.Key, Before: info.offset})
	}
	info.kept, info.offset = info.offset, t.in.length+len(t.entries)
	if unreceived := t.in.exec.Unreceived(); len(unreceived) > 0 {
		inherited := append([]history.Event{{Kind: history.TurnStarted, At: t.in.ledger.now}}, unreceived...)
		for i := range inherited {
			inherited[i].ID = int32(i + 1)
			t.entries = append(t.entries, history.Append(nil, &inherited[i]))
		}
	}
	start := *e.Start
	start.Seed = newSeed()
	if span := t.spanID(); span != 0 {
		info.last = span
	}
	info.Name, info.Version, info.Execution, info.run = e.Name, start.Version, start.Execution, start.Seed
	t.changed = true
	if t.e.cfg.Pins[info.Route()] != Pinned {
		info.Build = "" // the build of the next execution is chosen anew
	}
	t.next = &history.Event{Kind: history.ExecutionStarted, Name: e.Name, Start: &start, Data: e.Data}
}

// putNext puts the start of the next execution, if there is one.
func (t *turn) putNext() {
	if t.next == nil {
		return
	}
	info := &t.in.info
	b := body{kind: bodyStart, run: info.run, info: info, events: []history.Event{*t.next}}
	t.tx.Put = append(t.tx.Put, store.Message{Key: t.claim.Key, ID: idStart, Route: info.keyRoute(), Body: b.encode()})
}

// newSeed returns the seed of an execution's random numbers. It also serves as the execution's run, a
// number that distinguishes it from all others, and is never 0.
func newSeed() uint64 {
	var b [8]byte
	for {
		rand.Read(b[:])
		if seed := binary.LittleEndian.Uint64(b[:]); seed != 0 {
			return seed
		}
	}
}
