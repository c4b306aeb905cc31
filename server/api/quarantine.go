package api

import (
	"encoding/json"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/history"
)

// Quarantined is a message that could not be handled, and waits for a person.
type Quarantined struct {
	Tenant   string    `json:"tenant"`
	ID       string    `json:"id"`
	Reason   string    `json:"reason" doc:"Why it is here."`
	At       time.Time `json:"at" doc:"Since when it is here."`
	Queue    string    `json:"queue" doc:"The queue that the message was in."`
	Key      string    `json:"key" doc:"What it was for: an instance, one run of an activity, a timer."`
	Route    string    `json:"route,omitempty" doc:"Who was to handle it: an orchestration, an activity, a sink."`
	Message  string    `json:"message" doc:"The ID of the message."`
	Attempts int       `json:"attempts" doc:"How often it was delivered."`
	Body     []byte    `json:"body,omitempty" doc:"What it says, in base64."`
	Instance string    `json:"instance,omitempty" doc:"The ID of the instance that it is for."`

	Event json.RawMessage `json:"event,omitempty" doc:"What it brings: an event that was raised, a start, a result, or the activity of a task."`
}

// FromQuarantined returns a quarantined message for the wire.
func FromQuarantined(q *abide.Quarantined) Quarantined {
	out := Quarantined{
		Tenant: q.Tenant, ID: q.ID, Reason: q.Reason, At: q.At, Queue: q.Queue, Key: q.Key, Route: q.Route,
		Message: q.Message, Attempts: q.Attempts, Body: q.Body, Instance: q.Instance,
	}
	if q.Event != nil {
		if data, err := json.Marshal(q.Event); err == nil { // an event of an unknown kind has none
			out.Event = data
		}
	}
	return out
}

// Quarantined is the inverse of [FromQuarantined]. An event that this version does not know is left
// out.
func (q *Quarantined) Quarantined() abide.Quarantined {
	out := abide.Quarantined{
		Tenant: q.Tenant, ID: q.ID, Reason: q.Reason, At: q.At, Queue: q.Queue, Key: q.Key, Route: q.Route,
		Message: q.Message, Attempts: q.Attempts, Body: q.Body, Instance: q.Instance,
	}
	var e history.Event
	if len(q.Event) > 0 && json.Unmarshal(q.Event, &e) == nil {
		out.Event = &e
	}
	return out
}

// QuarantineList is a page of quarantined messages.
type QuarantineList struct {
	Messages      []Quarantined `json:"messages"`
	NextPageToken string        `json:"next_page_token,omitempty" doc:"What to ask for the next page with; not there on the last one."`
}
