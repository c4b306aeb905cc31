package abide

import (
	"context"
	"encoding/json"
	"time"

	"github.com/abidehq/abide/internal/engine"
	"github.com/abidehq/abide/internal/history"
)

// History is what an execution has been through. As JSON it can be kept in a file, and
// replayed against the code of another day: see package abidetest.
type History struct {
	Ref           Ref            `json:"instance"`
	Orchestration string         `json:"orchestration"`
	Version       string         `json:"version,omitempty"`
	Execution     int            `json:"execution"`
	Events        []HistoryEvent `json:"events"`
}

// HistoryEvent is one thing that happened. Which fields it has depends on its kind.
type HistoryEvent struct {
	// ID counts the events of an execution from 1.
	ID int `json:"id"`

	// Kind says what happened: ActivityScheduled, TimerFired, …
	Kind string `json:"kind"`

	// Ref is the ID of the event that this one is about.
	Ref int `json:"ref,omitempty"`

	// Name is that of the orchestration, activity, timer, event, step, change or value; or
	// words for people.
	Name string `json:"name,omitempty"`

	// Target is the ID of another instance.
	Target string `json:"target,omitempty"`

	// At is the time of a turn or a timer.
	At time.Time `json:"at,omitzero"`

	// Data is an input, a result or what comes with an event, as the codec wrote it.
	Data Payload `json:"data,omitempty"`

	// Error says what went wrong.
	Error string `json:"error,omitempty"`

	e history.Event
}

// Payload is bytes that a codec wrote. In JSON it is the value itself, if it is JSON, or
// base64 in an object.
type Payload []byte

// MarshalJSON returns the payload itself if it is JSON.
func (p Payload) MarshalJSON() ([]byte, error) {
	if json.Valid(p) {
		return p, nil
	}
	return json.Marshal(opaque{p})
}

// UnmarshalJSON is the inverse of MarshalJSON.
func (p *Payload) UnmarshalJSON(data []byte) error {
	var o opaque
	if err := json.Unmarshal(data, &o); err == nil && o.Base64 != nil {
		*p = o.Base64
		return nil
	}
	*p = append((*p)[:0:0], data...)
	return nil
}

type opaque struct {
	Base64 []byte `json:"$base64"`
}

// String returns the event in words, on one line.
func (e *HistoryEvent) String() string { return e.e.String() }

func (c *client) History(ctx context.Context, ref Ref, execution int) (History, error) {
	info, events, err := c.c.History(ctx, engine.Ref(ref), int32(execution))
	if err != nil {
		return History{}, err
	}
	if execution == 0 {
		execution = int(info.Execution)
	}
	h := History{Ref: ref, Orchestration: info.Name, Version: info.Version, Execution: execution}
	for i := range events {
		h.Events = append(h.Events, eventFrom(&events[i]))
	}
	return h, nil
}

func eventFrom(e *history.Event) HistoryEvent {
	out := HistoryEvent{
		ID: int(e.ID), Kind: e.Kind.String(), Ref: int(e.Ref), Name: e.Name, Target: e.Target, At: e.At,
		Data: e.Data, e: *e,
	}
	if e.Failure != nil {
		out.Error = e.Failure.Message
	}
	return out
}
