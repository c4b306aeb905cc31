package instances

import (
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/abidehq/abide/internal/cli/console"

	"github.com/abidehq/abide"
)

// startOf returns when the first turn of an execution was.
func startOf(h *abide.History) time.Time {
	for i := range h.Events {
		if h.Events[i].Kind == "TurnStarted" {
			return h.Events[i].At
		}
	}
	return time.Time{}
}

// writeHistory prints a history in words, one line for each event, with how long after the
// start it happened, and the latest of them if there is a limit to their number.
func writeHistory(w io.Writer, h *abide.History, start time.Time, latest int) error {
	if len(h.Events) == 0 {
		return nil
	}
	s := newStory(h, start)
	lines := s.lines()
	title := fmt.Sprintf("\nhistory of execution %d\n", h.Execution)
	if latest > 0 && len(lines) > latest {
		title = fmt.Sprintf("\nhistory of execution %d, the latest %d of %d lines\n", h.Execution, latest, len(lines))
		lines = lines[len(lines)-latest:]
	}
	if _, err := io.WriteString(w, title); err != nil {
		return err
	}
	t := &console.Table{Colours: console.Colours(w), Width: console.TerminalWidth(w)}
	for _, line := range lines {
		t.Add(line...)
	}
	return t.Write(w)
}

// story tells a history.
type story struct {
	h     *abide.History
	start time.Time
	at    []time.Time                 // when the turn of each event was
	by    map[int]*abide.HistoryEvent // events by their ID
}

func newStory(h *abide.History, start time.Time) *story {
	s := &story{h: h, start: start, at: make([]time.Time, len(h.Events)), by: make(map[int]*abide.HistoryEvent, len(h.Events))}
	if s.start.IsZero() {
		s.start = startOf(h)
	}
	var now time.Time
	for i := range h.Events {
		e := &h.Events[i]
		if e.Kind == "TurnStarted" {
			now = e.At
		}
		s.at[i], s.by[e.ID] = now, e
	}
	return s
}

// lines returns a line for each event that says something to people.
func (s *story) lines() [][]console.Cell {
	var lines [][]console.Cell
	for i := range s.h.Events {
		e := &s.h.Events[i]
		if e.Kind == "TurnStarted" || e.Kind == "TurnYielded" {
			continue
		}
		what, detail, colour := s.tell(i)
		lines = append(lines, []console.Cell{
			console.Plain(fmt.Sprintf("  %7s", s.since(s.at[i]))), console.Plain(fmt.Sprintf("%4s", "#"+strconv.Itoa(e.ID))),
			{Text: what, Colour: colour}, console.Plain(console.Shorten(detail, maxDetail)),
		})
	}
	return lines
}

// maxDetail is how much of what an event carries is shown.
const maxDetail = 120

// since says how long after the start something was.
func (s *story) since(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return "+" + console.Readable(at.Sub(s.start).Round(time.Millisecond))
}

// about returns the name of what an event is about.
func (s *story) about(e *abide.HistoryEvent) string {
	if e.Name != "" {
		return e.Name
	}
	if of := s.by[e.Ref]; of != nil {
		if of.Name == "" && of.Kind == "TimerCreated" {
			return "#" + strconv.Itoa(of.ID)
		}
		return of.Name
	}
	return "#" + strconv.Itoa(e.Ref)
}

// took says how long it took from the event that asked for something to the answer.
func (s *story) took(i int) string {
	ref := s.h.Events[i].Ref
	if ref < 1 || ref > len(s.at) || s.at[ref-1].IsZero() {
		return ""
	}
	return " after " + console.Readable(s.at[i].Sub(s.at[ref-1]))
}

// tell returns an event in words, what it carries, and the colour of the words.
func (s *story) tell(i int) (what, detail, colour string) {
	e := &s.h.Events[i]
	name := s.about(e)
	data := payloadText(e.Data)
	switch e.Kind {
	case "ExecutionStarted":
		return "started " + name, data, ""
	case "ActivityScheduled":
		return "activity " + name + " asked for", data, ""
	case "ActivityCompleted":
		return "activity " + name + " completed" + s.took(i), data, console.Green
	case "ActivityFailed":
		return "activity " + name + " failed" + s.took(i) + attempts(e.Failure), failureText(e.Failure), console.Red
	case "ActivityCancelled":
		return "activity " + name + " given up", "", console.Faint
	case "TimerCreated":
		return timerName(e) + " set", "for " + console.LocalTime(e.At) + ", in " + console.Readable(e.At.Sub(s.at[i])), ""
	case "TimerFired":
		return "timer " + name + " fired", "", console.Green
	case "TimerCancelled":
		return "timer " + name + " taken back", "", console.Faint
	case "TimerMoved":
		return "timer " + name + " moved", "to " + console.LocalTime(e.At), ""
	case "TimerMoveReceived":
		return "timer " + name + " moved from outside", "to " + console.LocalTime(e.At), console.Yellow
	case "ChildStarted":
		return "child " + name + " started", e.Target + " " + data, ""
	case "ChildCompleted":
		return "child " + name + " completed" + s.took(i), data, console.Green
	case "ChildFailed":
		return "child " + name + " failed" + s.took(i), failureText(e.Failure), console.Red
	case "ChildCancelled":
		return "child " + name + " asked to end", "", console.Faint
	case "DetachedStarted":
		return "instance of " + name + " started", e.Target + " " + data, ""
	default:
		return s.tellMore(e, data)
	}
}

func (s *story) tellMore(e *abide.HistoryEvent, data string) (what, detail, colour string) {
	switch e.Kind {
	case "EventReceived":
		return "event " + e.Name + " received", data, console.Yellow
	case "EventSent":
		return "event " + e.Name + " sent", "to " + e.Target + " " + data, ""
	case "StepCompleted":
		return "step " + e.Name + " completed", data, console.Green
	case "StepFailed":
		return "step " + e.Name + " failed" + attempts(e.Failure), failureText(e.Failure), console.Red
	case "ChangeMarked":
		return "change " + e.Name + " taken", "", console.Faint
	case "StatusSet":
		return "says", e.Name, ""
	case "ValueSet":
		return "value " + e.Name + " set", data, ""
	case "ExecutionSuspended":
		return "suspended", e.Name, console.Yellow
	case "ExecutionResumed":
		return "resumed", "", ""
	case "ParentEnded":
		return "its parent has ended", "", ""
	case "ExecutionStalled":
		return "stalled", e.Name, console.Red
	case "CancelRequested":
		return "asked to end", e.Name, console.Yellow
	case "ExecutionCompleted":
		return "completed", data, console.Green
	case "ExecutionFailed":
		return "failed", failureText(e.Failure), console.Red
	case "ExecutionCancelled":
		return "cancelled", failureText(e.Failure), console.Faint
	case "ExecutionTerminated":
		return "terminated", e.Name, console.Faint
	case "ExecutionContinued":
		return "continued as the next execution", data, console.Green
	default:
		return e.String(), data, ""
	}
}

func timerName(e *abide.HistoryEvent) string {
	if e.Name == "" {
		return "timer #" + strconv.Itoa(e.ID)
	}
	return "timer " + e.Name
}

// attempts says how often something was tried, if that was more than once.
func attempts(f *abide.HistoryFailure) string {
	if f == nil || f.Attempt < 2 {
		return ""
	}
	return ", tried " + console.Times(f.Attempt)
}

// failureText says what went wrong, with what was behind it where that says more.
func failureText(f *abide.HistoryFailure) string {
	if f == nil {
		return ""
	}
	if f.Message == "" && f.Cause != nil {
		return failureText(f.Cause)
	}
	if f.Type != "" && f.Message != "" {
		return f.Message + " (" + f.Type + ")"
	}
	return f.Message + f.Type
}

// payloadText is what a codec wrote, for people.
func payloadText(p []byte) string {
	if len(p) == 0 {
		return ""
	}
	text, err := abide.Payload(p).MarshalJSON()
	if err != nil {
		return fmt.Sprintf("%d bytes", len(p))
	}
	return string(text)
}

// waitText says what an instance waits for.
func waitText(w *abide.Waiting) string {
	switch w.Kind {
	case "ActivityScheduled":
		return "activity " + w.Name
	case "TimerCreated":
		if w.Name == "" {
			return "a timer"
		}
		return "timer " + w.Name
	case "ChildStarted":
		return "child " + w.Name + ", " + w.Child
	default:
		return w.Kind + " " + w.Name
	}
}

// whenText says when it comes, and what has come of it so far.
func whenText(w *abide.Waiting, now time.Time) string {
	text := ""
	if !w.At.IsZero() {
		text = console.LocalTime(w.At) + ", " + console.FromNow(w.At, now)
	}
	if w.Attempt > 0 {
		text = join(text, fmt.Sprintf("begun %s", console.Times(w.Attempt)))
	}
	if w.Err != nil {
		text = join(text, "the last attempt failed: "+w.Err.Error())
	}
	return text
}

func join(a, b string) string {
	if a == "" {
		return b
	}
	return a + "; " + b
}
