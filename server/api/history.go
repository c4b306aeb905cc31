package api

import (
	"encoding/json"
	"reflect"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/history"
)

// History is what an execution has been through, or a part of it: an [abide.History], with
// the token of the part that follows.
type History struct {
	Instance      HistoryInstance `json:"instance"`
	Orchestration string          `json:"orchestration"`
	Version       string          `json:"version,omitempty"`
	Execution     int             `json:"execution"`
	Partial       bool            `json:"partial,omitempty" doc:"It ends within a turn: the instance was just forked."`
	Events        []HistoryEvent  `json:"events"`
	NextPageToken string          `json:"next_page_token,omitempty" doc:"What to ask for the next events with; not there with the last ones."`
}

// HistoryInstance identifies the instance of a history, in the form that recorded histories
// have.
type HistoryInstance struct {
	Tenant string `json:"tenant,omitempty"`
	ID     string `json:"id"`
}

// FromHistory returns a history for the wire.
func FromHistory(h *abide.History) History {
	out := History{
		Instance: HistoryInstance(h.Ref), Orchestration: h.Orchestration, Version: h.Version, Execution: h.Execution,
		Partial: h.Partial, Events: make([]HistoryEvent, len(h.Events)),
	}
	for i := range h.Events {
		out.Events[i] = HistoryEvent{h.Events[i]}
	}
	return out
}

// History is the inverse of [FromHistory].
func (h *History) History() abide.History {
	out := abide.History{
		Ref: abide.Ref(h.Instance), Orchestration: h.Orchestration, Version: h.Version, Execution: h.Execution,
		Partial: h.Partial, Events: make([]history.Event, len(h.Events)),
	}
	for i := range h.Events {
		out.Events[i] = h.Events[i].Event
	}
	return out
}

// HistoryEvent is one thing that happened. Its JSON is that of [history.Event], which
// no schema can be read off.
type HistoryEvent struct{ history.Event }

var _ huma.SchemaProvider = HistoryEvent{}

// Schema describes the JSON of an event.
func (HistoryEvent) Schema(r huma.Registry) *huma.Schema {
	return r.Schema(reflect.TypeFor[eventSchema](), true, "HistoryEvent")
}

// eventSchema has the fields of an event's JSON.
type eventSchema struct {
	ID       int             `json:"id" doc:"Counts the events of an execution from 1."`
	Kind     string          `json:"kind" doc:"What happened: ActivityScheduled, TimerFired, …"`
	Ref      int             `json:"ref,omitempty" doc:"The event that this one is about."`
	Name     string          `json:"name,omitempty" doc:"Of the orchestration, activity, timer, event, step, change or value; or words for people."`
	Target   string          `json:"target,omitempty" doc:"The ID of another instance."`
	At       time.Time       `json:"at,omitzero" doc:"The time of a turn or a timer."`
	Data     json.RawMessage `json:"data,omitempty" doc:"An input, a result or what comes with an event: any JSON value, or {\"$base64\": \"…\"} for what is not JSON."`
	Failure  *failureSchema  `json:"failure,omitempty"`
	Start    *startSchema    `json:"start,omitempty"`
	Activity *activitySchema `json:"activity,omitempty"`
	Child    *childSchema    `json:"child,omitempty"`
	Span     string          `json:"span,omitempty" doc:"That of a turn that is part of a trace."`
	Build    string          `json:"build,omitempty" doc:"The program under which the instance stalled, or that resumed it by itself."`
	Retired  bool            `json:"retired,omitempty" doc:"Set on a ChangeMarked that code without the change skips."`

	HistoryEvents int    `json:"history_events,omitempty" doc:"The number of events before a turn."`
	HistoryBytes  int64  `json:"history_bytes,omitempty" doc:"The size of the history before a turn, in bytes."`
	Suggested     bool   `json:"suggested,omitempty" doc:"Set on a turn in which the code should continue as new."`
	Wire          []byte `json:"wire,omitempty" doc:"All of the event as it is on disk, if JSON cannot say it."`
}

type failureSchema struct {
	Type    string          `json:"type,omitempty"`
	Message string          `json:"message"`
	Final   bool            `json:"final,omitempty"`
	Attempt int             `json:"attempt,omitempty" doc:"How often an activity was tried."`
	Details json.RawMessage `json:"details,omitempty"`
	Cause   *failureSchema  `json:"cause,omitempty"`
}

type startSchema struct {
	Version         string `json:"version,omitempty"`
	Execution       int    `json:"execution"`
	Parent          string `json:"parent,omitempty"`
	ParentExecution int    `json:"parent_execution,omitempty"`
	ParentEvent     int    `json:"parent_event,omitempty"`
	Seed            string `json:"seed,omitempty" doc:"Where the random numbers of the execution begin."`
}

type activitySchema struct {
	StartToClose    string   `json:"start_to_close,omitempty"`
	ScheduleToClose string   `json:"schedule_to_close,omitempty"`
	Heartbeat       string   `json:"heartbeat,omitempty"`
	MaxAttempts     int      `json:"max_attempts,omitempty"`
	Backoff         string   `json:"backoff,omitempty"`
	BackoffMax      string   `json:"backoff_max,omitempty"`
	Factor          float64  `json:"factor,omitempty"`
	Final           []string `json:"final,omitempty"`
}

type childSchema struct {
	Version string `json:"version,omitempty"`
	OnClose string `json:"on_close,omitempty" enum:"cancel,terminate,abandon"`
}

// HistoryEnd is the last event of a stream of a history: the instance has ended.
type HistoryEnd struct {
	Status    string `json:"status"`
	Execution int    `json:"execution"`
}
