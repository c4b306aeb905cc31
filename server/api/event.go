package api

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/history"
)

// NewEvent is an event to raise for an instance.
type NewEvent struct {
	Tenant    string          `json:"tenant,omitempty" doc:"Whose instance it is; default if it is not given."`
	Instance  string          `json:"instance" minLength:"1" doc:"The ID of the instance, which need not exist yet."`
	Name      string          `json:"name" minLength:"1" doc:"The name of the event."`
	Data      json.RawMessage `json:"data,omitempty" doc:"What comes with it: any JSON value, or {\"$base64\": \"…\"} for what is not JSON."`
	IfAwaited bool            `json:"if_awaited,omitempty" doc:"It is dropped unless the instance waits for it when it arrives."`
	KeepFor   Duration        `json:"keep_for,omitempty" doc:"How long it waits for the instance to be started; a week if it is not given."`
	ID        string          `json:"id,omitempty" doc:"Raising it a second time with the same one changes nothing, for as long as the first has not reached the instance."`

	MustExist   bool `json:"must_exist,omitempty" doc:"It is an error if the instance does not exist."`
	IgnoreEnded bool `json:"ignore_ended,omitempty" doc:"It is dropped if the instance has ended, which is an error otherwise."`
	Unchecked   bool `json:"unchecked,omitempty" doc:"Raise it whatever the instance is and waits for, with any payload."`
}

// Raised is what an event found when it was raised.
type Raised struct {
	Outcome string   `json:"outcome,omitempty" enum:"awaited,kept,dropped,no-instance,ended" doc:"awaited: the instance waits for it. kept: until the instance waits for it. dropped: the instance does not wait for it. no-instance: kept until the instance is started. ended: dropped. Not there if it was raised unchecked."`
	Text    string   `json:"text" doc:"The outcome in words."`
	Status  string   `json:"status,omitempty" doc:"The status of the instance."`
	Awaited []string `json:"awaited,omitempty" doc:"The names of the events that the instance waits for."`
}

// RaisedList is the result of [NewEvents], in their order.
type RaisedList struct {
	Events []Raised `json:"events"`
}

// PrepareEvent returns the request for an event that is known by its name alone. Without data it is
// an event that has no value.
func PrepareEvent(c abide.Caller, id, name string, data json.RawMessage, opts ...abide.RaiseOption) (abide.RaiseRequest, error) {
	if len(data) == 0 {
		return abide.NewEvent[abide.None](name).Prepare(c, id, abide.None{}, opts...)
	}
	return abide.NewEvent[json.RawMessage](name).Prepare(c, id, data, opts...)
}

// FromRaised returns the outcome of an event for the wire.
func FromRaised(name string, r *abide.Raised) Raised {
	return Raised{Outcome: string(r.Outcome), Text: OutcomeText(name, r), Status: string(r.Status), Awaited: r.Awaited}
}

// Raised is the inverse of [FromRaised].
func (r *Raised) Raised() abide.Raised {
	return abide.Raised{Outcome: abide.Outcome(r.Outcome), Status: abide.Status(r.Status), Awaited: r.Awaited}
}

// OutcomeText returns the outcome of an event in words.
func OutcomeText(name string, r *abide.Raised) string {
	waits := "it waits for no event now"
	if len(r.Awaited) > 0 {
		waits = "it waits for " + strings.Join(r.Awaited, ", ")
	}
	switch r.Outcome {
	case abide.OutcomeAwaited:
		if r.Status == abide.Suspended || r.Status == abide.Stalled {
			return fmt.Sprintf("the instance waits for %s and receives it when it is resumed: it is %s", name, r.Status)
		}
		return fmt.Sprintf("the instance waits for %s and receives it", name)
	case abide.OutcomeKept:
		return fmt.Sprintf("kept until the instance waits for %s: %s", name, waits)
	case abide.OutcomeDropped:
		return fmt.Sprintf("dropped, because the instance does not wait for %s: %s", name, waits)
	case abide.OutcomeNoInstance:
		return "kept until the instance is started: it does not exist"
	case abide.OutcomeEnded:
		return fmt.Sprintf("dropped, because the instance has ended: it is %s", r.Status)
	default:
		return "raised unchecked"
	}
}

// Correction replaces the payload of an event, or drops the event.
type Correction struct {
	Event     int             `json:"event,omitempty" minimum:"0" doc:"An event of the history. Without this and message it is the payload because of which the instance has stalled."`
	Message   string          `json:"message,omitempty" doc:"An undelivered message."`
	Data      json.RawMessage `json:"data,omitempty" doc:"The payload: any JSON value, or {\"$base64\": \"…\"} for what is not JSON."`
	Discard   bool            `json:"discard,omitempty" doc:"Drop the event instead. It must be one that was raised."`
	Unchecked bool            `json:"unchecked,omitempty" doc:"Accept a payload that does not fit what workers have published."`
}

// Undelivered is a message that the code of an instance has not received.
type Undelivered struct {
	Message string          `json:"message" doc:"The ID of the message."`
	Kind    string          `json:"kind" doc:"The kind of the event that it brings: ExecutionStarted for the input, EventReceived, ActivityCompleted, ActivityFailed, ChildCompleted or ChildFailed."`
	Name    string          `json:"name,omitempty" doc:"The name of the orchestration or the event."`
	Ref     int             `json:"ref,omitempty" doc:"The event of the history that asked for the result."`
	Data    json.RawMessage `json:"data,omitempty" doc:"The payload: any JSON value, or {\"$base64\": \"…\"} for what is not JSON."`
	At      time.Time       `json:"at,omitzero" doc:"When it became, or becomes, visible."`
}

// UndeliveredList is what an instance has not received.
type UndeliveredList struct {
	Messages []Undelivered `json:"messages"`
}

// FromUndelivered returns a message for the wire.
func FromUndelivered(u *abide.Undelivered) Undelivered {
	return Undelivered{Message: u.Message, Kind: u.Event.Kind.String(), Name: u.Event.Name, Ref: int(u.Event.Ref), Data: FromPayload(u.Event.Data), At: u.At}
}

// Undelivered is the inverse of [FromUndelivered].
func (u *Undelivered) Undelivered() (abide.Undelivered, error) {
	out := abide.Undelivered{Message: u.Message, At: u.At, Event: history.Event{Name: u.Name, Ref: int32(u.Ref)}}
	_ = out.Event.Kind.UnmarshalText([]byte(u.Kind)) // a kind that this version does not know is zero
	data, err := Payload(u.Data)
	out.Event.Data = data
	return out, err
}

// Signature describes an orchestration or an activity that a worker has registered.
type Signature struct {
	Name        string                     `json:"name"`
	Version     string                     `json:"version,omitempty"`
	Activity    bool                       `json:"activity,omitempty"`
	Build       string                     `json:"build,omitempty" doc:"The build of the program that has published it."`
	PublishedAt time.Time                  `json:"published_at,omitzero"`
	Input       json.RawMessage            `json:"input,omitempty" doc:"The JSON Schema of its input, if it is known."`
	Result      json.RawMessage            `json:"result,omitempty" doc:"The JSON Schema of its result, if it is known."`
	Events      map[string]json.RawMessage `json:"events,omitempty" doc:"The JSON Schemas of the events that it has waited for, by name."`
}

// SignatureList is what workers have published.
type SignatureList struct {
	Signatures []Signature `json:"signatures"`
}

// NewEvents are events to raise in one commit.
type NewEvents struct {
	Events []NewEvent `json:"events" minItems:"1" maxItems:"1000" doc:"All of them are raised, or none."`
}
