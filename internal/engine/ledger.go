package engine

import (
	"maps"
	"slices"
	"time"

	"github.com/abidehq/abide/internal/history"
)

// ledger is what an execution's history says without its code: how long it is, and
// what was asked for and has not come yet.
type ledger struct {
	lastID  int32
	now     time.Time // of the last turn
	started bool
	yielded bool // the last turn ended so that the code could go on in another
	ended   bool
	open    map[int32]*history.Event
}

// note takes an event into account.
func (l *ledger) note(e *history.Event) {
	l.lastID = e.ID
	switch e.Kind {
	case history.TurnStarted:
		l.now, l.yielded = e.At, false
	case history.ExecutionStarted:
		l.started = true
	case history.ActivityScheduled, history.TimerCreated, history.ChildStarted:
		if l.open == nil {
			l.open = map[int32]*history.Event{}
		}
		// What it carries is in the log, and no longer needed.
		asked := *e
		asked.Data = nil
		l.open[e.ID] = &asked
	case history.ActivityCompleted, history.ActivityFailed, history.ActivityCancelled,
		history.TimerFired, history.TimerCancelled,
		history.ChildCompleted, history.ChildFailed, history.ChildCancelled:
		delete(l.open, e.Ref)
	case history.TimerMoved, history.TimerMoveReceived:
		if timer := l.open[e.Ref]; timer != nil {
			timer.At = e.At
		}
	case history.TurnYielded:
		l.yielded = true
	default:
		if e.Kind.Ends() {
			l.ended = true
		}
	}
}

// answers reports whether e is about something that is open.
func (l *ledger) answers(e *history.Event) bool {
	asked := l.open[e.Ref]
	if asked == nil {
		return false
	}
	switch e.Kind {
	case history.ActivityCompleted, history.ActivityFailed:
		return asked.Kind == history.ActivityScheduled
	case history.TimerFired, history.TimerMoveReceived:
		return asked.Kind == history.TimerCreated
	case history.ChildCompleted, history.ChildFailed:
		return asked.Kind == history.ChildStarted
	default:
		return false
	}
}

// inOrder returns what is open, in the order in which it was asked for.
func (l *ledger) inOrder() []*history.Event {
	events := make([]*history.Event, 0, len(l.open))
	for _, id := range slices.Sorted(maps.Keys(l.open)) {
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
