package api

import (
	"time"

	"github.com/abidehq/abide/timer"
)

// Sink is where envelopes go.
type Sink struct {
	Name       string    `json:"name"`
	Configured bool      `json:"configured" doc:"This server publishes to it. What waits for another one waits for a process that does."`
	Pending    int       `json:"pending" doc:"How many envelopes wait for it."`
	Ready      int       `json:"ready" doc:"How many of them could be published now. Counting stops at 10,000."`
	Oldest     time.Time `json:"oldest,omitzero" doc:"Since when the oldest of them could be, or will be, published."`
	Failed     int       `json:"failed" doc:"How many are in quarantine. Counting stops at 10,000."`
}

// SinkList is all sinks.
type SinkList struct {
	Sinks []Sink `json:"sinks"`
}

// Delivery is the delivery of the envelope of a fired timer to a sink.
type Delivery struct {
	Tenant        string    `json:"tenant"`
	Key           string    `json:"key" doc:"That of the timer."`
	EnvelopeID    string    `json:"envelope_id"`
	CorrelationID string    `json:"correlation_id,omitempty"`
	FiredAt       time.Time `json:"fired_at"`

	TimerDelivery
}

// FromTimerDelivery returns the delivery of a timer's envelope to one of its sinks for the
// wire.
func FromTimerDelivery(t *timer.Timer, d *timer.Delivery) Delivery {
	return Delivery{
		Tenant: t.Tenant, Key: t.Key, EnvelopeID: t.EnvelopeID, CorrelationID: t.CorrelationID, FiredAt: t.FiredAt,
		TimerDelivery: fromDelivery(d),
	}
}

// DeliveryList is a page of deliveries.
type DeliveryList struct {
	Deliveries    []Delivery `json:"deliveries"`
	NextPageToken string     `json:"next_page_token,omitempty" doc:"What to ask for the next page with; not there on the last one. A page may be empty and have one."`
}
