package web

import (
	"slices"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/internal/narrate"
)

// timeline is history as bars on an axis of time. It is drawn as one small picture for each
// row, so that the words beside it stay readable at any width.
type timeline struct {
	Rows  []bar
	Ticks []string // words at equal distances along the axis
	More  int      // older rows that are not shown
	Chips []chip   // all, and those of a state
	Since string   // how long the execution had lasted where the axis begins, if it does not begin with it
}

// bar is something that took time.
type bar struct {
	Kind   string // activity, timer, child, event, step or pause
	Label  string
	State  string    // completed, failed, fired, cancelled or running
	Words  string    // how long it took, and more
	Since  time.Time // when an open one began
	Due    time.Time // of a timer that is waited for
	Count  int       // how many bars it stands for, if it is a group
	group  string    // what bars of a group have in common besides kind and state
	Href   string    // of a child
	X      int       // where it begins, of width
	Width  int
	Open   bool // it is not over
	Marks  []int
	start  time.Time
	end    time.Time
	failed int // attempts
}

const (
	axis    = 1000 // the width of the picture
	least   = 6    // the width of what took no time
	maxBars = 60
	ticks   = 5
)

// newTimeline draws a part of the history of an execution up to end: the bars of a state if
// show is not empty, equal ones in a group where there are many, and the newest maxBars rows.
func newTimeline(s *site, info abide.Info, w *window, waits []abide.Waiting, end time.Time, show string) timeline {
	h := &w.part
	bars, order, from, last := collect(s, info, h)
	if len(order) == 0 {
		return timeline{}
	}
	if last.After(end) || h.Execution != info.Execution || w.last() < w.total {
		end = last
	}
	for _, wait := range waits {
		if b := bars[int32(wait.Event)]; b != nil {
			b.failed = max(0, wait.Attempt-1)
			if wait.Err != nil {
				b.Words = "attempt " + number(wait.Attempt) + " failed: " + wait.Err.Error()
			}
			if wait.Limit != nil {
				b.State, b.Words = "pending", "waits for limit "+wait.Limit.Limit
			}
			if wait.Kind == history.TimerCreated {
				b.Due = wait.At
			}
		}
	}
	t := timeline{Ticks: make([]string, ticks), Chips: chipsOf(order, show)}
	order = folded(chosen(order, show))
	t.More = max(0, len(order)-maxBars)
	order = newest(order, maxBars)
	if len(order) > 0 {
		from = slices.MinFunc(order, func(a, b *bar) int { return a.start.Compare(b.start) }).start
	}
	until := end // of what is not over
	if !info.Status.Ended() {
		from, end = steady(w.began(), from, end)
		step := end.Sub(from) / openSteps
		until = from.Add((until.Sub(from) + step - 1).Truncate(step))
	}
	if began := w.began(); from.After(began) {
		t.Since = lasting(from.Sub(began))
	}
	whole := max(end.Sub(from), time.Millisecond)
	for i := range t.Ticks {
		t.Ticks[i] = lasting(whole * time.Duration(i) / (ticks - 1))
	}
	t.Ticks[0] = "0"
	place := func(at time.Time) int {
		return int(min(max(at.Sub(from), 0), whole) * axis / whole)
	}
	for _, b := range order {
		if b.end.IsZero() && w.last() < w.total && b.Kind != "pause" {
			b.State, b.Words, b.end = "unknown", "no answer among these events", until
		}
		if b.end.IsZero() {
			b.Open, b.end = info.EndedAt.IsZero() && h.Execution == info.Execution, until
			b.Since = b.start
		}
		b.X = min(place(b.start), axis-least)
		b.Width = max(place(b.end)-b.X, least)
		b.describe()
		t.Rows = append(t.Rows, *b)
	}
	return t
}

// describe says how long it took, unless it says more already.
func (b *bar) describe() {
	switch {
	case b.Words != "":
	case b.Kind == "step":
	case b.Open:
	case b.end.Equal(b.start):
		b.Words = "at once"
	default:
		b.Words = lasting(b.end.Sub(b.start))
	}
	if b.failed > 0 && b.State != "running" {
		b.Words += ", " + plural(b.failed, "attempt", "attempts") + " failed"
	}
	if b.failed > 0 {
		// History says how often it was tried, not when: the marks stand in order.
		for i := range min(b.failed, 8) {
			b.Marks = append(b.Marks, b.X+b.Width*(i+1)/(min(b.failed, 8)+1))
		}
	}
}

// collect returns a bar for each event that began something, by its ID and in order, when
// the first turn of the part began and when the last one did. Events before the first turn
// have no known time and no bar.
func collect(s *site, info abide.Info, h *abide.History) (bars map[int32]*bar, order []*bar, from, at time.Time) {
	bars = map[int32]*bar{}
	var before time.Time // when the turn before was
	var pause *bar
	for i := range h.Events {
		e := &h.Events[i]
		begin := func(kind, label string) *bar {
			b := &bar{Kind: kind, Label: label, State: "running", start: at}
			bars[e.ID] = b
			order = append(order, b)
			return b
		}
		if from.IsZero() && e.Kind != history.TurnStarted {
			continue
		}
		switch e.Kind {
		case history.TurnStarted:
			before, at = at, e.At
			if from.IsZero() {
				from, before = at, at
			}
		case history.ActivityScheduled:
			begin("activity", e.Name).group = e.Name
		case history.TimerCreated:
			label := e.Name
			if label == "" {
				label = "timer"
			}
			begin("timer", label).group = reasonKey(label)
		case history.ChildStarted:
			b := begin("child", e.Target)
			b.group, b.Href = e.Name, s.path(instancePath(abide.Ref{Tenant: info.Ref.Tenant, ID: e.Target}))
		case history.EntityCalled:
			b := begin("entity", e.Target+" "+e.Name)
			b.group, b.Href = e.Name, s.path(entityPath(abide.Ref{Tenant: info.Ref.Tenant, ID: e.Target}))
		case history.EventReceived:
			b := begin("event", e.Name)
			b.group = e.Name
			b.start, b.end, b.State = before, at, "completed"
			b.Words = "received after " + lasting(at.Sub(before))
		case history.StepCompleted, history.StepFailed:
			b := begin("step", e.Name)
			b.group = reasonKey(e.Name)
			b.end, b.State = at, "completed"
			if e.Kind == history.StepFailed {
				b.State = "failed"
			}
		case history.ExecutionSuspended, history.ExecutionStalled:
			pause = begin("pause", map[history.Kind]string{history.ExecutionSuspended: "suspended", history.ExecutionStalled: "stalled"}[e.Kind])
			pause.State = pause.Label
		case history.ExecutionResumed:
			if pause != nil {
				pause.end = at
			}
		default:
			if b := bars[e.Ref]; b != nil && narrate.Outcome(e.Kind) != "" {
				b.end, b.State = at, narrate.Outcome(e.Kind)
				if e.Failure != nil {
					b.failed = int(e.Failure.Attempt)
				}
			}
		}
	}
	return bars, order, from, at
}
