package web

import (
	"encoding/json"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/internal/engine"
	"github.com/abidehq/abide/internal/narrate"
)

// eventRow is a row of the list of events.
type eventRow struct {
	ID     int
	Kind   history.Kind
	At     time.Time // of the turn
	Began  time.Time // of the first turn
	Words  string
	Due    time.Time // of a timer
	Data   []byte
	Causes []string // of a failure
	Stack  string   // of a panic, if it is not in the words
	Child  string   // the ID of another instance that the event is about
	Fork   string   // the address of the form that forks from here
	Quiet  bool     // of little interest

	forkable bool
}

// narration is a part of a history in words.
type narration struct {
	older  bool // there are newer events
	rows   []eventRow
	states map[int32]string // of activities, timers and children, by the event that scheduled them
	whys   map[int32]string // why those failed that did
}

// state returns the state of an activity, timer or child by the event that scheduled it.
func (n *narration) state(event int32) string {
	if s := n.states[event]; s != "" {
		return s
	}
	if n.older {
		return "unknown"
	}
	return "running"
}

// narrateWindow describes a part of a history. The time of an event is that of the turn that it
// belongs to; it is not known of events before the first turn that begins in the part.
func narrateWindow(w *window) *narration {
	lines := narrate.Events(w.part.Events)
	n := &narration{older: w.last() < w.total, rows: make([]eventRow, len(lines)), states: map[int32]string{}, whys: map[int32]string{}}
	first := w.began()
	begun := w.first() > 1 // the first turn of a history has the start, and a part has the head apart
	for i := range lines {
		l := &lines[i]
		e := l.Event
		switch {
		case e.Kind == history.ExecutionStarted:
			begun = true
		case e.Kind == history.DetachedStarted:
			n.states[e.ID] = "detached"
		case narrate.Outcome(e.Kind) != "":
			n.states[e.Ref] = narrate.Outcome(e.Kind)
			if e.Failure != nil {
				n.whys[e.Ref] = firstLine(e.Failure.Message)
			}
		}
		n.rows[i] = eventRow{
			ID: int(e.ID), Kind: e.Kind, At: l.At, Began: first, Words: sentence(l), Due: l.Due, Data: e.Data, Causes: causesOf(e.Failure), Stack: stackOf(e.Failure),
			Child: l.Target, Quiet: l.Minor, forkable: begun && !l.Minor && !e.Kind.Ends(),
		}
	}
	return n
}

// sentence returns the words of a line; the time of a timer or a link to another instance may
// follow them.
func sentence(l *narrate.Line) string {
	first, size := utf8.DecodeRuneInString(l.Text)
	text := string(unicode.ToUpper(first)) + l.Text[size:]
	switch {
	case l.Note != "":
		return text + ": " + l.Note
	case !l.Due.IsZero() && l.Event.Kind == history.TimerCreated:
		return text + ", due"
	case !l.Due.IsZero() || l.Event.Kind == history.EventSent:
		return text + " to"
	case l.Target != "":
		return text + ":"
	}
	return text
}

// stackOf returns the stack of the panic that a failure or one of its causes is.
func stackOf(f *history.Failure) (stack string) {
	for ; f != nil; f = f.Cause {
		if f.Type == engine.TypePanic && json.Unmarshal(f.Details, &stack) == nil {
			return stack
		}
	}
	return ""
}

// causesOf returns the texts of a failure and its causes.
func causesOf(f *history.Failure) (list []string) {
	for ; f != nil; f = f.Cause {
		text := f.Message
		if f.Type != "" {
			text = f.Type + ": " + text
		}
		list = append(list, text)
	}
	return list
}
