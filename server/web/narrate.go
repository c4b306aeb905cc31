package web

import (
	"fmt"
	"time"

	"github.com/abidehq/abide"
)

// eventRow is an event of history, in words.
type eventRow struct {
	ID     int
	Kind   string
	At     time.Time // of the turn
	Began  time.Time // when the first turn did
	Words  string
	Due    time.Time // of a timer
	Data   []byte
	Causes []string // of a failure
	Child  string   // the ID of another instance that it is about
	Fork   string   // the address of the form that forks from here
	Quiet  bool     // few people want to know

	forkable bool
}

// narration is history, told.
type narration struct {
	first  int  // the ID of the first event that is told
	older  bool // newer events are not told
	rows   []eventRow
	names  map[int]string // of what was asked for, by the event that did
	states map[int]string // what became of it
}

// state returns what became of what an event has asked for.
func (n *narration) state(event int) string {
	if s := n.states[event]; s != "" {
		return s
	}
	if n.older {
		return "unknown"
	}
	return "running"
}

// narrate tells a part of a history. The time of an event is that of the turn that it
// belongs to; it is not known of events before the first turn that begins in the part.
func narrate(w *window) *narration {
	h := &w.part
	n := &narration{first: w.first(), older: w.last() < w.total, rows: make([]eventRow, 0, len(h.Events)), names: map[int]string{}, states: map[int]string{}}
	var at time.Time
	first := w.began()
	begun := w.first() > 1 // the first turn of a history has the start, and a part has the head apart
	for i := range h.Events {
		e := &h.Events[i]
		if e.Kind == "TurnStarted" {
			at = e.At
		}
		begun = begun || e.Kind == "ExecutionStarted"
		row := eventRow{ID: e.ID, Kind: e.Kind, At: at, Began: first, Data: e.Data}
		n.tell(&row, e)
		row.forkable = begun && !row.Quiet && !ends(e.Kind)
		n.rows = append(n.rows, row)
	}
	return n
}

// before reports whether an event is older than those that are told, so that its name is
// not known.
func (n *narration) before(event int) bool { return event < n.first }

// answered returns the words for the outcome of a child. A link to the child follows them if it is
// known.
func answered(text, name, child, outcome string) string {
	if child == "" {
		return spaced(text, name) + " " + outcome
	}
	return text + " " + outcome + ":"
}

func ends(kind string) bool {
	switch kind {
	case "ExecutionCompleted", "ExecutionFailed", "ExecutionCancelled", "ExecutionTerminated", "ExecutionContinued":
		return true
	default:
		return false
	}
}

// outcomes are what becomes of what was asked for, by the kind of the event that says so.
var outcomes = map[string]string{
	"ActivityCompleted": "completed", "ActivityFailed": "failed", "ActivityCancelled": "cancelled",
	"TimerFired": "fired", "TimerCancelled": "cancelled",
	"ChildCompleted": "completed", "ChildFailed": "failed", "ChildCancelled": "cancelled",
}

// tell puts an event into words.
func (n *narration) tell(row *eventRow, e *abide.HistoryEvent) {
	name := e.Name
	child := ""
	if e.Ref != 0 {
		if name, child = n.names[e.Ref], n.names[e.Ref]; name == "" && n.before(e.Ref) {
			name = "of event " + number(e.Ref)
		}
		if state := outcomes[e.Kind]; state != "" {
			n.states[e.Ref] = state
		}
	}
	for f := e.Failure; f != nil; f = f.Cause {
		text := f.Message
		if f.Type != "" {
			text = f.Type + ": " + text
		}
		row.Causes = append(row.Causes, text)
	}
	switch e.Kind {
	case "TurnStarted":
		row.Words, row.Quiet = "A turn began", true
	case "TurnYielded":
		row.Words, row.Quiet = "The turn was ended, so that its steps are durable", true
	case "ExecutionStarted":
		row.Words = fmt.Sprintf("Execution %d of %s began", e.Start.Execution, route(e.Name, e.Start.Version))
	case "ActivityScheduled":
		n.names[e.ID] = name
		row.Words = "Asked for activity " + name
	case "ActivityCompleted":
		row.Words = "Activity " + name + " completed"
	case "ActivityFailed":
		row.Words = "Activity " + name + " failed" + attempts(e.Failure)
	case "ActivityCancelled":
		row.Words = "Gave up activity " + name
	case "TimerCreated":
		n.names[e.ID] = name
		row.Words, row.Due = spaced("Set timer", name)+", due", e.At
	case "TimerFired":
		row.Words = spaced("Timer", name) + " fired"
	case "TimerCancelled":
		row.Words = spaced("Took back timer", name)
	case "TimerMoved":
		row.Words, row.Due = spaced("Moved timer", name)+" to", e.At
	case "TimerMoveReceived":
		row.Words, row.Due = spaced("Timer", name)+" was moved from outside to", e.At
	case "ChildStarted":
		n.names[e.ID] = e.Target
		row.Words, row.Child = "Started a child of "+name+":", e.Target
	case "ChildCompleted":
		row.Words, row.Child = answered("Child", name, child, "completed"), child
	case "ChildFailed":
		row.Words, row.Child = answered("Child", name, child, "failed"), child
	case "ChildCancelled":
		row.Words, row.Child = answered("Asked the child", name, child, "to end"), child
	case "DetachedStarted":
		row.Words, row.Child = "Started an instance of "+name+" that goes on by itself:", e.Target
		n.states[e.ID] = "detached"
	default:
		n.tellMore(row, e)
	}
}

// tellMore puts the kinds into words that are not about something asked for before.
func (n *narration) tellMore(row *eventRow, e *abide.HistoryEvent) {
	switch e.Kind {
	case "EventReceived":
		row.Words = "Event " + e.Name + " was received"
	case "EventSent":
		row.Words, row.Child = "Sent event "+e.Name+" to", e.Target
	case "StepCompleted":
		row.Words = "Step " + e.Name + " completed"
	case "StepFailed":
		row.Words = "Step " + e.Name + " failed"
	case "ChangeMarked":
		row.Words, row.Quiet = "Runs the code after change "+e.Name, true
	case "StatusSet":
		row.Words = "Says: " + e.Name
	case "ValueSet":
		row.Words = "Set value " + e.Name
	case "CancelRequested":
		row.Words = because("Was asked to come to an end", e.Name)
	case "ExecutionSuspended":
		row.Words = because("Was suspended", e.Name)
	case "ExecutionResumed":
		row.Words = "Was resumed"
	case "ParentEnded":
		row.Words = "Its parent ended"
	case "ExecutionStalled":
		row.Words = because("Stalled", e.Name)
	case "ExecutionCompleted":
		row.Words = "Completed"
	case "ExecutionFailed":
		row.Words = "Failed"
	case "ExecutionCancelled":
		row.Words = "Was cancelled"
	case "ExecutionTerminated":
		row.Words = because("Was terminated", e.Name)
	case "ExecutionContinued":
		row.Words = "Continued as new"
	default:
		row.Words = e.Kind
	}
}

func route(name, version string) string {
	if version == "" {
		return name
	}
	return name + "@" + version
}

func spaced(text, name string) string {
	if name == "" {
		return text
	}
	return text + " " + name
}

func because(text, why string) string {
	if why == "" {
		return text
	}
	return text + ": " + why
}

func attempts(f *abide.HistoryFailure) string {
	if f == nil || f.Attempt < 2 {
		return ""
	}
	return " after " + number(f.Attempt) + " attempts"
}
