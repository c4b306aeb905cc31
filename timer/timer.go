package timer

import (
	"encoding/json"
	"time"

	"github.com/abidehq/abide/bus/outbox"
)

// Status is the status of a timer.
type Status string

// Statuses of a timer.
const (
	Armed     Status = "armed"
	Fired     Status = "fired"
	Cancelled Status = "cancelled"
)

// Timer is a durable timer of a tenant.
type Timer struct {
	// Tenant and Key name the timer. On the bus, the key is the serviceCallId.
	Tenant string `json:"tenant"`
	Key    string `json:"key"`

	Status Status `json:"status"`

	// DueAt is when the timer is or was due, in whole milliseconds.
	DueAt time.Time `json:"dueAt"`

	// RegisteredAt is when the timer was armed; moving it does not change it. FiredAt and
	// CancelledAt are zero unless the timer has fired or was cancelled.
	RegisteredAt time.Time `json:"registeredAt"`
	FiredAt      time.Time `json:"firedAt,omitzero"`
	CancelledAt  time.Time `json:"cancelledAt,omitzero"`

	// CorrelationID and Payload are those of the request, and are copied into the envelope.
	CorrelationID string          `json:"correlationId,omitempty"`
	Payload       json.RawMessage `json:"payload,omitempty"`

	// EnvelopeID is the ID of the envelope that is published when it fires: a UUIDv7 of the time
	// at which the timer was last armed or moved. Deliveries holds the state of the envelope at
	// each sink.
	EnvelopeID string     `json:"envelopeId,omitempty"`
	Deliveries []Delivery `json:"deliveries,omitempty"`

	// Arming counts how often the timer was armed; moving it does not count.
	Arming int64 `json:"arming"`

	// Version increases with every change.
	Version int64 `json:"version"`

	position position

	// unsettled, if not zero, is when the timer fired the time before, with an envelope of
	// which it was not known whether it had been published when the timer was armed again.
	unsettled time.Time
}

// Delivery is the state of a timer's envelope at a sink.
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
