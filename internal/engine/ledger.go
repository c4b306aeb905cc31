package engine

import (
	"slices"
	"time"

	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/internal/base"
)

// ledger is what an execution's history says without its code: how long it is, and which activities,
// timers and children are open. It is a fold of the events (note), so that it can be made from the log
// alone, by processes that have not the code, and kept up to date event by event.
//
// Invariant: open holds what was scheduled, created or started, and neither answered nor cancelled
// since. leaving holds children that were asked to cancel and have not answered: the code has had its
// answer, but the close policy still applies to them. No ID is in both. For the code, open equals
// replay.Execution.Open.
//
// take and answer change open before the events that say so are appended; note then finds the change
// made. That is needed because several messages of one turn may answer the same question, and only
// the first one counts.
type ledger struct {
	lastID int32     // of the last event
	bytes  int64     // of the entries so far
	now    time.Time // of the last turn

	resumed time.Time // when the instance was last resumed; zero if it was not in this execution

	started bool // ExecutionStarted is in the history
	ended   bool

	// yielded is true if the last turn that the code has seen ended with TurnYielded: the code runs
	// again without an event. before is its value before the current turn, which is restored if that
	// turn turns out to be one that the code does not see.
	yielded bool
	before  bool

	// open and leaving are without payloads; see the invariant above.
	open    map[int32]*history.Event
	leaving map[int32]*history.Event

	// locks are the requests for locks of entities that were not withdrawn, and of which a lock is not
	// released yet, by the ID of their event.
	locks map[int32]*lockSet

	// corrections are those of events in the history, and messages those of messages that were not
	// delivered yet, by their IDs.
	corrections history.Corrections
	messages    map[string]*history.Event

	span uint64 // of the last turn that is part of a trace
}

// note adds an event to the ledger. Events are noted in the order of their IDs.
func (l *ledger) note(e *history.Event) {
	l.lastID = e.ID
	switch e.Kind {
	case history.TurnStarted:
		l.before, l.yielded = l.yielded, false
		l.now = base.Later(e.At, l.now) // a turn of which the code does not learn may have an earlier time
		if e.Span != 0 {
			l.span = e.Span
		}
	case history.ExecutionStarted:
		l.started = true
	case history.ActivityScheduled, history.TimerCreated, history.ChildStarted, history.EntityCalled:
		l.addOpen(e)
	case history.EntityLockRequested, history.EntityLocked, history.EntityUnlocked:
		l.noteLock(e)
	case history.ActivityCompleted, history.ActivityFailed, history.ActivityCancelled,
		history.TimerFired, history.TimerCancelled, history.EntityCompleted, history.EntityFailed:
		delete(l.open, e.Ref)
	case history.ChildCompleted, history.ChildFailed:
		delete(l.open, e.Ref)
		delete(l.leaving, e.Ref)
	case history.ChildCancelled:
		if child := l.open[e.Ref]; child != nil { // or its answer came in the same turn
			if l.leaving == nil {
				l.leaving = map[int32]*history.Event{}
			}
			l.leaving[e.Ref] = child
			delete(l.open, e.Ref)
		}
	case history.TimerMoved:
		// Its message may have come in the turn in which it was moved: then it is open again.
		l.addOpen(&history.Event{ID: e.Ref, Kind: history.TimerCreated, Name: e.Name, At: e.At})
	case history.TimerMoveReceived:
		if timer := l.open[e.Ref]; timer != nil {
			timer.At = e.At
		}
	case history.TurnYielded:
		l.yielded = true
	default:
		if e.Kind.Quiet() { // of this turn the code does not learn
			l.yielded = l.before
			l.noteCorrection(e)
		}
		if e.Kind == history.ExecutionResumed {
			l.resumed = l.now
		}
		if e.Kind.Ends() {
			l.ended = true
		}
	}
}

// noteCorrection remembers the correction of a payload.
func (l *ledger) noteCorrection(e *history.Event) {
	if e.Kind != history.PayloadCorrected {
		return
	}
	fix := *e
	l.corrections.Note(&fix)
	if e.Target != "" {
		if l.messages == nil {
			l.messages = map[string]*history.Event{}
		}
		l.messages[e.Target] = &fix
	}
}

// correct returns the events of a message with their corrected payloads, and false if the message
// is to be dropped. The ID of a message may be used again once it was received, so a correction
// names the time at which the message was put as well.
func (l *ledger) correct(m *message) bool {
	fix := l.messages[m.ID]
	if fix == nil || len(m.events) == 0 || !fix.At.Equal(m.PutAt) {
		return true
	}
	if fix.Discarded {
		return false
	}
	m.events = slices.Clone(m.events)
	m.events[0].Data = fix.Data
	return true
}

// addOpen adds an open activity, timer, child, call of an entity or request for locks. The payload is dropped: it is in the log.
func (l *ledger) addOpen(e *history.Event) {
	if l.open == nil {
		l.open = map[int32]*history.Event{}
	}
	asked := *e
	asked.Data = nil // it is in the log, and no longer needed
	l.open[e.ID] = &asked
}

// question returns the event that e answers, or nil if history has no open one.
func (l *ledger) question(e *history.Event) *history.Event {
	asked := l.open[e.Ref]
	if asked == nil {
		asked = l.leaving[e.Ref]
	}
	if asked == nil || !answers(e, asked) {
		return nil
	}
	return asked
}

// answers reports whether e is an answer to what was asked.
func answers(e, asked *history.Event) bool {
	switch e.Kind {
	case history.ActivityCompleted, history.ActivityFailed:
		return asked.Kind == history.ActivityScheduled
	case history.TimerFired, history.TimerMoveReceived:
		return asked.Kind == history.TimerCreated
	case history.ChildCompleted, history.ChildFailed:
		return asked.Kind == history.ChildStarted
	case history.EntityCompleted, history.EntityFailed:
		return asked.Kind == history.EntityCalled
	case history.EntityLocked:
		return asked.Kind == history.EntityLockRequested
	default:
		return false
	}
}

// inOrder returns what is open, in the order in which it was asked for.
func (l *ledger) inOrder() []*history.Event {
	events := make([]*history.Event, 0, len(l.open))
	for _, id := range sortedKeys(l.open) {
		events = append(events, l.open[id])
	}
	return events
}

// timers returns the open timers of that name.
func (l *ledger) timers(name string) []*history.Event {
	var timers []*history.Event
	for _, e := range l.inOrder() {
		if e.Kind == history.TimerCreated && e.Name == name {
			timers = append(timers, e)
		}
	}
	return timers
}
