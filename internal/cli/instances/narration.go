package instances

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/internal/cli/console"
	"github.com/abidehq/abide/internal/narrate"
)

// startOf returns when the first turn of an execution was.
func startOf(h *abide.History) time.Time {
	for i := range h.Events {
		if h.Events[i].Kind == history.TurnStarted {
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
	if start.IsZero() {
		start = startOf(h)
	}
	lines := slices.DeleteFunc(narrate.Events(h.Events), func(l narrate.Line) bool {
		return l.Event.Kind == history.TurnStarted || l.Event.Kind == history.TurnYielded
	})
	title := fmt.Sprintf("\nhistory of execution %d\n", h.Execution)
	if latest > 0 && len(lines) > latest {
		title = fmt.Sprintf("\nhistory of execution %d, the latest %d of %d lines\n", h.Execution, latest, len(lines))
		lines = lines[len(lines)-latest:]
	}
	if _, err := io.WriteString(w, title); err != nil {
		return err
	}
	t := &console.Table{Colours: console.Colours(w), Width: console.TerminalWidth(w)}
	for i := range lines {
		t.Add(row(&lines[i], start)...)
	}
	return t.Write(w)
}

// maxDetail is how much of what an event carries is shown.
const maxDetail = 120

var colours = map[narrate.Tone]string{
	narrate.Good: console.Green, narrate.Bad: console.Red, narrate.Attention: console.Yellow, narrate.Faint: console.Faint,
}

// row returns the cells of a line.
func row(l *narrate.Line, start time.Time) []console.Cell {
	since, text := "", l.Text
	if !l.At.IsZero() {
		// What a fork has of the original is older than its start.
		passed := l.At.Sub(start).Round(time.Millisecond)
		if since = console.Readable(passed); passed >= 0 {
			since = "+" + since
		}
	}
	if l.Answers && narrate.Outcome(l.Event.Kind) != "cancelled" && l.Event.Kind != history.TimerFired {
		text += " after " + console.Readable(l.Took)
	}
	return []console.Cell{
		console.Plain(fmt.Sprintf("  %7s", since)), console.Plain(fmt.Sprintf("%4s", fmt.Sprintf("#%d", l.Event.ID))),
		{Text: text, Colour: colours[l.Tone]}, console.Plain(console.Shorten(detail(l), maxDetail)),
	}
}

// detail returns what an event carries.
func detail(l *narrate.Line) string {
	e := l.Event
	switch {
	case e.Failure != nil:
		return narrate.Failure(e.Failure)
	case e.Kind == history.TimerCreated:
		return "for " + console.LocalTime(l.Due) + ", in " + console.Readable(l.Due.Sub(l.At))
	case !l.Due.IsZero():
		return "to " + console.LocalTime(l.Due)
	case l.Note != "":
		return l.Note
	}
	data := payloadText(e.Data)
	if e.Target != "" {
		data = e.Target + " " + data
	}
	if e.Kind == history.EventSent {
		data = "to " + data
	}
	return data
}

// payloadText is what a codec wrote, for people.
func payloadText(p []byte) string {
	if len(p) == 0 {
		return ""
	}
	text, err := history.Payload(p).MarshalJSON()
	if err != nil {
		return fmt.Sprintf("%d bytes", len(p))
	}
	return string(text)
}

// waitText says what an instance waits for.
func waitText(w *abide.Waiting) string {
	switch w.Kind {
	case history.ActivityScheduled:
		return "activity " + w.Name
	case history.TimerCreated:
		if w.Name == "" {
			return "a timer"
		}
		return "timer " + w.Name
	case history.ChildStarted:
		return "child " + w.Name + ", " + w.Child
	case history.EventReceived:
		return "event " + w.Name + payloadType(w.Schema)
	case history.EntityCalled:
		return "operation " + w.Name + " of entity " + w.Child
	case history.EntityLockRequested:
		return "locks of entities"
	default:
		return w.Kind.String() + " " + w.Name
	}
}

// payloadType returns an example of the payload of an event, on one line.
func payloadType(schema json.RawMessage) string {
	if len(schema) == 0 {
		return ""
	}
	var b bytes.Buffer
	if json.Compact(&b, abide.ExampleOf(schema)) != nil || b.String() == "null" {
		return ""
	}
	return " with " + b.String()
}

// whenText says when it comes, and what has come of it so far.
func whenText(w *abide.Waiting, now time.Time) string {
	text := ""
	if w.Kind == history.EventReceived {
		if !w.Since.IsZero() {
			text = "since " + console.LocalTime(w.Since)
		}
		if !w.At.IsZero() {
			text = join(text, "until "+console.LocalTime(w.At)+", "+console.FromNow(w.At, now))
		}
		return text
	}
	if !w.At.IsZero() {
		text = console.LocalTime(w.At) + ", " + console.FromNow(w.At, now)
	}
	if w.Attempt > 0 {
		text = join(text, fmt.Sprintf("begun %s", console.Times(w.Attempt)))
	}
	if w.Lease != nil {
		text = join(text, leaseText(w.Lease, now))
	}
	if w.Err != nil {
		text = join(text, "the last attempt failed: "+w.Err.Error())
	}
	return text
}

// leaseText says who has leased a turn or an activity, until when, and whether that worker is likely
// to be dead: then it is claimed again when the lease has ended.
func leaseText(l *abide.Lease, now time.Time) string {
	text := "leased"
	if l.Worker != "" {
		text += " by " + l.Worker
	}
	text += " until " + l.Until.Local().Format(time.TimeOnly)
	return join(text, console.Unseen(l.SeenAt, now))
}

func join(a, b string) string {
	if a == "" {
		return b
	}
	return a + "; " + b
}
