package abide

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/abidehq/abide/internal/history"
)

// History is the history of an execution. Its JSON form is complete: it can be kept in a file and
// replayed against later code, see package abidetest.
type History struct {
	Ref           Ref    `json:"instance"`
	Orchestration string `json:"orchestration"`
	Version       string `json:"version,omitempty"`
	Execution     int    `json:"execution"`

	// Partial is true if the history ends within a turn. That is the case only for an instance
	// that was forked and has not run since.
	Partial bool `json:"partial,omitempty"`

	Events []HistoryEvent `json:"events"`
}

// HistoryEvent is an event of a history. Its kind determines which fields are set.
type HistoryEvent struct {
	// ID is the number of the event within its execution, from 1.
	ID int

	// Kind is the kind of the event: ActivityScheduled, TimerFired, …
	Kind string

	// Ref is the ID of the event that this one refers to.
	Ref int

	// Name is the name of the orchestration, activity, timer, event, step, change or value, or
	// a text for people.
	Name string

	// Target is the ID of another instance.
	Target string

	// At is the time of a turn or a timer.
	At time.Time

	// Data is the encoded input, result or value of an event.
	Data Payload

	// Failure is the error of a failure.
	Failure *HistoryFailure

	// Start has the details of the start of an execution.
	Start *HistoryStart

	// Activity has the options of an activity.
	Activity *HistoryActivity

	// Child has the details of an instance that is started.
	Child *HistoryChild

	// Span is the span ID of a turn that is part of a trace: 16 hexadecimal digits.
	Span string

	// Build is the build under which the instance stalled, or that resumed it automatically.
	Build string

	// Retired is set on a ChangeMarked of [Retired].
	Retired bool

	// HistoryEvents, HistoryBytes and Suggested are what [HistorySizeOf] returns in a turn.
	HistoryEvents int
	HistoryBytes  int64
	Suggested     bool
}

// HistoryFailure is the recorded form of an error.
type HistoryFailure struct {
	// Type is the type of the error, see [Error].
	Type string `json:"type,omitempty"`

	// Message is the text for people.
	Message string `json:"message"`

	// Final is true if the error is not retryable, see [Final].
	Final bool `json:"final,omitempty"`

	// Attempt is the number of attempts of an activity.
	Attempt int `json:"attempt,omitempty"`

	// Details are the encoded details of the error.
	Details Payload `json:"details,omitempty"`

	// Cause is the cause of the error.
	Cause *HistoryFailure `json:"cause,omitempty"`
}

// HistoryStart has the details of the start of an execution.
type HistoryStart struct {
	Version   string `json:"version,omitempty"`
	Execution int    `json:"execution"`

	// Parent is the ID of the parent, with the execution and the event that started the child.
	// Empty means that there is no parent.
	Parent          string `json:"parent,omitempty"`
	ParentExecution int    `json:"parent_execution,omitempty"`
	ParentEvent     int    `json:"parent_event,omitempty"`

	// Seed is the seed of the execution's random numbers. In JSON it is a string, because many
	// programs do not read large numbers exactly.
	Seed uint64 `json:"seed,string,omitempty"`
}

// HistoryActivity has the options of an activity, see [Retry], [StartToClose], [ScheduleToClose]
// and [HeartbeatTimeout].
type HistoryActivity struct {
	StartToClose    time.Duration
	ScheduleToClose time.Duration
	Heartbeat       time.Duration
	MaxAttempts     int
	Backoff         time.Duration
	BackoffMax      time.Duration
	Factor          float64
	Final           []string
}

// HistoryChild has the details of an instance that is started.
type HistoryChild struct {
	Version string      `json:"version,omitempty"`
	OnClose ClosePolicy `json:"on_close,omitzero"`
}

// String returns a description of the event, on one line.
func (e *HistoryEvent) String() string {
	event, err := e.event()
	if err != nil {
		return fmt.Sprintf("%d %s", e.ID, e.Kind)
	}
	return event.String()
}

// eventFrom returns an event for people.
func eventFrom(e *history.Event) HistoryEvent {
	out := HistoryEvent{
		ID: int(e.ID), Kind: e.Kind.String(), Ref: int(e.Ref), Name: e.Name, Target: e.Target, At: e.At,
		Data: e.Data, Failure: failureFrom(e.Failure), Build: e.Build, Retired: e.Retired,
		HistoryEvents: int(e.HistoryEvents), HistoryBytes: e.HistoryBytes, Suggested: e.Suggested,
	}
	if s := e.Start; s != nil {
		out.Start = &HistoryStart{
			Version: s.Version, Execution: int(s.Execution), Seed: s.Seed,
			Parent: s.Parent, ParentExecution: int(s.ParentExecution), ParentEvent: int(s.ParentEvent),
		}
	}
	if a := e.Activity; a != nil {
		out.Activity = &HistoryActivity{
			StartToClose: a.StartToClose, ScheduleToClose: a.ScheduleToClose, Heartbeat: a.Heartbeat,
			MaxAttempts: int(a.MaxAttempts), Backoff: a.Backoff, BackoffMax: a.BackoffMax, Factor: a.Factor, Final: a.Final,
		}
	}
	if c := e.Child; c != nil {
		out.Child = &HistoryChild{Version: c.Version, OnClose: ClosePolicy(c.OnClose)}
	}
	if e.Span != 0 {
		out.Span = fmt.Sprintf("%016x", e.Span)
	}
	return out
}

func failureFrom(f *history.Failure) *HistoryFailure {
	if f == nil {
		return nil
	}
	return &HistoryFailure{
		Type: f.Type, Message: f.Message, Final: f.Final, Attempt: int(f.Attempt), Details: f.Details,
		Cause: failureFrom(f.Cause),
	}
}

// kinds are the kinds of events by their names.
var kinds = func() map[string]history.Kind {
	m := map[string]history.Kind{}
	for k := history.Kind(1); k.Known(); k++ {
		m[k.String()] = k
	}
	return m
}()

// events is the inverse of eventFrom, for all of a history. It finds what replay would
// stumble over in a way that is harder to understand.
func (h *History) events() ([]history.Event, error) {
	events := make([]history.Event, len(h.Events))
	for i := range h.Events {
		e, err := h.Events[i].event()
		if err == nil && int(e.ID) != i+1 {
			err = fmt.Errorf("its ID is %d, and it is number %d: %w", e.ID, i+1, ErrInvalid)
		}
		if err != nil {
			return nil, fmt.Errorf("abide: history of %v: event %d: %w", h.Ref, i+1, err)
		}
		events[i] = e
	}
	return events, nil
}

// event is the inverse of eventFrom. An error says what an event of its kind must have.
func (e *HistoryEvent) event() (history.Event, error) {
	var n narrow
	out := history.Event{
		ID: n.int32("id", e.ID), Kind: kinds[e.Kind], Ref: n.int32("ref", e.Ref), Name: e.Name, Target: e.Target,
		Data: e.Data, Failure: e.Failure.failure(&n), Build: e.Build, Retired: e.Retired,
		HistoryEvents: n.int32("history_events", e.HistoryEvents), HistoryBytes: e.HistoryBytes, Suggested: e.Suggested,
	}
	if !e.At.IsZero() {
		out.At = e.At.UTC()
	}
	if s := e.Start; s != nil {
		out.Start = &history.Start{
			Version: s.Version, Execution: n.int32("start.execution", s.Execution), Seed: s.Seed, Parent: s.Parent,
			ParentExecution: n.int32("start.parent_execution", s.ParentExecution),
			ParentEvent:     n.int32("start.parent_event", s.ParentEvent),
		}
	}
	if a := e.Activity; a != nil {
		out.Activity = &history.Activity{
			StartToClose: a.StartToClose, ScheduleToClose: a.ScheduleToClose, Heartbeat: a.Heartbeat,
			MaxAttempts: n.int32("activity.max_attempts", a.MaxAttempts), Backoff: a.Backoff, BackoffMax: a.BackoffMax,
			Factor: a.Factor, Final: a.Final,
		}
	}
	if c := e.Child; c != nil {
		out.Child = &history.Child{Version: c.Version, OnClose: history.OnClose(n.int32("child.on_close", int(c.OnClose)))}
	}
	if e.Span != "" {
		span, err := strconv.ParseUint(e.Span, 16, 64)
		if err != nil {
			return out, fmt.Errorf("span %q is not a number of 16 hexadecimal digits: %w", e.Span, ErrInvalid)
		}
		out.Span = span
	}
	if n.err == nil {
		n.err = checkEvent(e.Kind, &out)
	}
	return out, n.err
}

func (f *HistoryFailure) failure(n *narrow) *history.Failure {
	if f == nil {
		return nil
	}
	return &history.Failure{
		Type: f.Type, Message: f.Message, Final: f.Final, Attempt: n.int32("failure.attempt", f.Attempt), Details: f.Details,
		Cause: f.Cause.failure(n),
	}
}

// checkEvent reports whether an event has what an event of its kind must have.
func checkEvent(kind string, e *history.Event) error {
	missing := func(field string) error { return fmt.Errorf("%s has no %s: %w", kind, field, ErrInvalid) }
	switch e.Kind {
	case 0:
		return fmt.Errorf("unknown kind %q: %w", kind, ErrInvalid)
	case history.ActivityCompleted, history.ActivityFailed, history.ActivityCancelled,
		history.TimerFired, history.TimerCancelled, history.TimerMoved, history.TimerMoveReceived,
		history.ChildCompleted, history.ChildFailed, history.ChildCancelled:
		if e.Ref == 0 {
			return missing("ref")
		}
	case history.ExecutionStarted, history.ExecutionContinued:
		if e.Start == nil {
			return missing("start")
		}
	case history.ActivityScheduled:
		if e.Activity == nil {
			return missing("activity")
		}
	case history.ChildStarted, history.DetachedStarted:
		if e.Child == nil {
			return missing("child")
		}
	}
	switch e.Kind {
	case history.ActivityFailed, history.ChildFailed, history.StepFailed, history.ExecutionFailed:
		if e.Failure == nil {
			return missing("failure")
		}
	case history.TurnStarted:
		if e.At.IsZero() {
			return missing("at")
		}
	}
	return nil
}

// narrow turns numbers into what history has, and notes which one does not fit.
type narrow struct{ err error }

func (n *narrow) int32(field string, v int) int32 {
	if v < math.MinInt32 || v > math.MaxInt32 {
		n.err = fmt.Errorf("%s is %d, which does not fit into 32 bits: %w", field, v, ErrInvalid)
		return 0
	}
	return int32(v)
}
