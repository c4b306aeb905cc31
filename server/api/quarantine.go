package api

import (
	"time"

	"github.com/abidehq/abide"
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
}

// FromQuarantined returns a quarantined message for the wire.
func FromQuarantined(q *abide.Quarantined) Quarantined {
	return Quarantined(*q)
}

// Quarantined is the inverse of [FromQuarantined].
func (q *Quarantined) Quarantined() abide.Quarantined {
	return abide.Quarantined(*q)
}

// QuarantineList is a page of quarantined messages.
type QuarantineList struct {
	Messages      []Quarantined `json:"messages"`
	NextPageToken string        `json:"next_page_token,omitempty" doc:"What to ask for the next page with; not there on the last one."`
}
