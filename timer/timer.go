package timer

import (
	"encoding/json"
	"time"

	"github.com/abidehq/abide/bus/outbox"
)

// Status is what a timer does.
type Status string

// Statuses of a timer.
const (
	Armed     Status = "armed"
	Fired     Status = "fired"
	Cancelled Status = "cancelled"
)

// Timer is an appointment of a tenant.
type Timer struct {
	// Tenant and Key name the timer. On the bus, the key is the serviceCallId.
	Tenant string `json:"tenant"`
	Key    string `json:"key"`

	Status Status `json:"status"`

	// DueAt is when it fires or should have fired, in whole milliseconds.
	DueAt time.Time `json:"dueAt"`

	// RegisteredAt is when it was scheduled for the first time since it last fired or was
	// cancelled. FiredAt and CancelledAt are zero unless it was.
	RegisteredAt time.Time `json:"registeredAt"`
	FiredAt      time.Time `json:"firedAt,omitzero"`
	CancelledAt  time.Time `json:"cancelledAt,omitzero"`

	// CorrelationID and Payload are the caller's, and go into the envelope.
	CorrelationID string          `json:"correlationId,omitempty"`
	Payload       json.RawMessage `json:"payload,omitempty"`

	// EnvelopeID is the ID of the envelope that is published when it fires: a UUIDv7 of the
	// time at which the timer was last armed or moved. Deliveries are what became of the
	// envelope, one for each sink.
	EnvelopeID string     `json:"envelopeId,omitempty"`
	Deliveries []Delivery `json:"deliveries,omitempty"`

	// Arming counts how often the timer was armed. Moving it does not count.
	Arming int64 `json:"arming"`

	// Version grows with each change of any kind.
	Version int64 `json:"version"`

	position position

	// unsettled, if not zero, is when the timer fired the time before, with an envelope of
	// which it was not known whether it had been published when the timer was armed again.
	unsettled time.Time
}

// Delivery is what became of a timer's envelope at a sink.
type Delivery struct {
	Sink     string       `json:"sink"`
	State    outbox.State `json:"state"`
	Attempts int          `json:"attempts,omitempty"`
	At       time.Time    `json:"at,omitzero"`   // of the last attempt
	Next     time.Time    `json:"next,omitzero"` // when it is tried again, if it is
	Error    string       `json:"error,omitempty"`
}

// position is where the last command that was applied to the timer stands.
type position struct {
	source   string
	sequence uint64
}

// at returns what lists go by.
func (t *Timer) at() time.Time {
	switch t.Status {
	case Fired:
		return t.FiredAt
	case Cancelled:
		return t.CancelledAt
	default:
		return t.DueAt
	}
}
