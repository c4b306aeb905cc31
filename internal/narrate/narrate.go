// Package narrate describes the events of a history in words, for the page and for the
// command line.
package narrate

import (
	"fmt"
	"time"

	"github.com/abidehq/abide/history"
)

// Tone is how a line is emphasised.
type Tone int

// Tones of lines.
const (
	Plain     Tone = iota
	Good           // something completed
	Bad            // something failed
	Attention      // something came from outside
	Faint          // something was cancelled, or is of little interest
)

// Line is the description of one event.
type Line struct {
	Event *history.Event

	// At is the time of the turn that the event belongs to, zero for events before the first
	// turn of a part.
	At time.Time

	// Text describes the event on one line, in lower case: "activity charge completed".
	Text string

	// Note is a text for people that the event carries: a reason, a status.
	Note string

	// Due is the time of a timer that is set or moved.
	Due time.Time

	// Took is the time between the event that this one answers and this one; Answers is true
	// if it is known.
	Took    time.Duration
	Answers bool

	// Target is the ID of another instance that the event is about.
	Target string

	Tone  Tone
	Minor bool // begins or ends a turn, or marks a change
}

// Events describes consecutive events of an execution. What an event before the first one
// scheduled is named by its number.
func Events(events []history.Event) []Line {
	n := narrator{asked: map[int32]*Line{}}
	lines := make([]Line, len(events))
	for i := range events {
		e := &events[i]
		if e.Kind == history.TurnStarted {
			n.now = e.At
		}
		l := &lines[i]
		*l = Line{Event: e, At: n.now}
		if of := n.asked[e.Ref]; of != nil && e.Ref != 0 {
			l.Target = of.Target
			if Outcome(e.Kind) != "" && !l.At.IsZero() && !of.At.IsZero() {
				l.Took, l.Answers = l.At.Sub(of.At), true
			}
		}
		n.asked[e.ID] = l
		n.describe(l)
	}
	return lines
}

// Outcome returns the state that an activity, timer or child has after an event of the kind that
// refers to it: completed, failed, cancelled or fired. It is empty for other kinds.
func Outcome(kind history.Kind) string { return outcomes[kind] }

var outcomes = map[history.Kind]string{
	history.ActivityCompleted: "completed", history.ActivityFailed: "failed", history.ActivityCancelled: "cancelled",
	history.TimerFired: "fired", history.TimerCancelled: "cancelled",
	history.ChildCompleted: "completed", history.ChildFailed: "failed", history.ChildCancelled: "cancelled",
	history.EntityCompleted: "completed", history.EntityFailed: "failed", history.EntityLocked: "granted",
}

type narrator struct {
	now   time.Time       // of the turn
	asked map[int32]*Line // by the ID of their event
}

// name returns the name of the activity, timer or child that an event is about, or the number of
// the event that scheduled it.
func (n *narrator) name(e *history.Event) string {
	of := e
	if e.Ref != 0 && n.asked[e.Ref] != nil {
		of = n.asked[e.Ref].Event
	}
	switch {
	case of.Name != "":
		return of.Name
	case e.Ref != 0:
		return fmt.Sprintf("#%d", e.Ref)
	default:
		return fmt.Sprintf("#%d", e.ID)
	}
}

// describe sets the text of a line about an activity, a timer or another instance.
func (n *narrator) describe(l *Line) {
	e := l.Event
	subject := func(kind, rest string, tone Tone) {
		l.Text, l.Tone = kind+" "+n.name(e)+" "+rest+attempts(e.Failure), tone
	}
	switch e.Kind {
	case history.ActivityScheduled:
		subject("activity", "scheduled", Plain)
	case history.ActivityCompleted:
		subject("activity", "completed", Good)
	case history.ActivityFailed:
		subject("activity", "failed", Bad)
	case history.ActivityCancelled:
		subject("activity", "cancelled", Faint)
	case history.TimerCreated:
		subject("timer", "set", Plain)
		l.Due = e.At
	case history.TimerFired:
		subject("timer", "fired", Good)
	case history.TimerCancelled:
		subject("timer", "cancelled", Faint)
	case history.TimerMoved:
		subject("timer", "moved", Plain)
		l.Due = e.At
	case history.TimerMoveReceived:
		subject("timer", "moved from outside", Attention)
		l.Due = e.At
	case history.ChildStarted:
		subject("child", "started", Plain)
		l.Target = e.Target
	case history.ChildCompleted:
		subject("child", "completed", Good)
	case history.ChildFailed:
		subject("child", "failed", Bad)
	case history.ChildCancelled:
		subject("child", "asked to cancel", Faint)
	case history.DetachedStarted:
		subject("detached instance of", "started", Plain)
		l.Target = e.Target
	default:
		n.describeEntity(l)
	}
}

// describeEntity sets the text of a line about an entity.
func (n *narrator) describeEntity(l *Line) {
	e := l.Event
	set := func(text string, tone Tone) { l.Text, l.Tone = text, tone }
	switch e.Kind {
	case history.EntityCalled, history.EntitySignaled:
		verb := map[history.Kind]string{history.EntityCalled: "called", history.EntitySignaled: "signalled"}[e.Kind]
		set("operation "+e.Name+" of "+e.Target+" "+verb, Plain)
		l.Due = e.At
	case history.EntityCompleted:
		set("operation "+n.name(e)+n.of(e)+" completed", Good)
	case history.EntityFailed:
		set("operation "+n.name(e)+n.of(e)+" failed", Bad)
	case history.EntityLockRequested:
		set("locks of entities requested", Plain)
	case history.EntityLocked:
		set("locks of entities granted", Good)
	case history.EntityUnlocked:
		set("lock of "+e.Target+" released", Plain)
		if e.Target == "" {
			set("request for locks withdrawn", Faint)
		}
	default:
		n.describeOwn(l)
	}
}

// of names the entity that an answer comes from.
func (n *narrator) of(e *history.Event) string {
	if asked := n.asked[e.Ref]; asked != nil && asked.Event.Target != "" {
		return " of " + asked.Event.Target
	}
	return ""
}

// describeOwn sets the text of a line about the instance itself.
func (n *narrator) describeOwn(l *Line) {
	e := l.Event
	set := func(text string, tone Tone) { l.Text, l.Tone = text, tone }
	switch e.Kind {
	case history.TurnStarted:
		set("turn started", Faint)
		l.Minor = true
	case history.TurnYielded:
		set("turn ended to make its events durable", Faint)
		l.Minor = true
	case history.ExecutionStarted:
		set(started(e), Plain)
	case history.EventReceived:
		set("event "+e.Name+" received"+by(e), Attention)
	case history.EventSent:
		set("event "+e.Name+" sent", Plain)
		l.Target = e.Target
	case history.StepCompleted:
		set("step "+e.Name+" completed", Good)
	case history.StepFailed:
		set("step "+e.Name+" failed"+attempts(e.Failure), Bad)
	case history.ChangeMarked:
		set("change "+e.Name+" marked", Faint)
		l.Minor = true
	case history.StatusSet:
		set("status set", Plain)
		l.Note = e.Name
	case history.ValueSet:
		set("value "+e.Name+" set", Plain)
	case history.ParentEnded:
		set("parent ended", Plain)
	case history.ExecutionResumed:
		set("resumed"+by(e), Plain)
	case history.ExecutionCompleted:
		set("completed", Good)
	case history.ExecutionFailed:
		set("failed", Bad)
	case history.ExecutionCancelled:
		set("cancelled", Faint)
	case history.ExecutionContinued:
		set("continued as new", Good)
	default:
		l.Note = e.Name
		n.describeIntervention(l)
	}
}

// describeIntervention sets the text of a line about what an operator or the engine did to the
// instance; its note is the reason.
func (n *narrator) describeIntervention(l *Line) {
	switch l.Event.Kind {
	case history.ExecutionSuspended:
		l.Text, l.Tone = "suspended"+by(l.Event), Attention
	case history.ExecutionStalled:
		l.Text, l.Tone = "stalled", Bad
	case history.CancelRequested:
		l.Text, l.Tone = "cancellation requested"+by(l.Event), Attention
	case history.ExecutionTerminated:
		l.Text, l.Tone = "terminated"+by(l.Event), Faint
	case history.ExecutionRewound:
		l.Text, l.Tone = "rewound"+by(l.Event), Attention
		if l.Event.Target != "" {
			l.Text = "parent rewound" + by(l.Event)
		}
	case history.PayloadCorrected:
		l.Text, l.Tone, l.Note = corrected(l.Event), Attention, ""
	default:
		l.Text, l.Note = l.Event.String(), ""
	}
}

// by returns who did it, if that is recorded.
func by(e *history.Event) string {
	if e.By == "" {
		return ""
	}
	return " by " + e.By
}

// corrected describes a corrected payload.
func corrected(e *history.Event) string {
	what, done := e.Name, "corrected"
	if what == "" {
		what = fmt.Sprintf("event %d", e.Ref)
	}
	if e.Discarded {
		done = "discarded"
	}
	return fmt.Sprintf("payload of %s %s%s", what, done, by(e))
}

func started(e *history.Event) string {
	name, execution := e.Name, int32(1)
	if e.Start != nil {
		execution = e.Start.Execution
		if e.Start.Version != "" {
			name += "@" + e.Start.Version
		}
	}
	return fmt.Sprintf("execution %d of %s started", execution, name)
}

// attempts returns the number of the last attempt, if there was more than one.
func attempts(f *history.Failure) string {
	if f == nil || f.Attempt < 2 {
		return ""
	}
	return fmt.Sprintf(" in attempt %d", f.Attempt)
}

// Failure returns the text of a failure on one line, with its type; that of its cause, if it
// has no text of its own.
func Failure(f *history.Failure) string {
	if f == nil {
		return ""
	}
	if f.Message == "" && f.Cause != nil {
		return Failure(f.Cause)
	}
	if f.Type != "" && f.Message != "" {
		return f.Message + " (" + f.Type + ")"
	}
	return f.Message + f.Type
}
