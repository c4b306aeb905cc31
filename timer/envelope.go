package timer

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/abidehq/abide/bus"
	"github.com/abidehq/abide/bus/outbox"
	"github.com/abidehq/abide/internal/base"
)

// TypeDueTimeReached is the type of the envelope that is published when a timer fires. Its
// payload is a [DueTimeReached].
const TypeDueTimeReached = "DueTimeReached"

// DueTimeReached is the payload of the envelope that is published when a timer fires.
type DueTimeReached struct {
	ServiceCallID string    `json:"serviceCallId"` // the timer's key
	DueAt         time.Time `json:"dueAt"`
	FiredAt       time.Time `json:"firedAt"`

	// Payload is the caller's, as it was scheduled.
	Payload json.RawMessage `json:"payload,omitempty"`
}

// envelope returns the envelope of a timer that has fired, and where the caller's payload
// begins in that of the envelope; 0 if there is none.
func (t *Timer) envelope() (bus.Envelope, int) {
	const stamp = "2006-01-02T15:04:05.000Z"
	key, _ := json.Marshal(t.Key) // text always marshals
	out := make([]byte, 0, 112+len(key)+len(t.Payload))
	out = append(out, `{"serviceCallId":`...)
	out = append(out, key...)
	out = append(out, `,"dueAt":"`...)
	out = t.DueAt.UTC().AppendFormat(out, stamp)
	out = append(out, `","firedAt":"`...)
	out = t.FiredAt.UTC().AppendFormat(out, stamp)
	out = append(out, '"')
	at := 0
	if len(t.Payload) > 0 {
		out = append(out, `,"payload":`...)
		at = len(out)
		out = append(out, t.Payload...)
	}
	return bus.Envelope{
		ID: t.EnvelopeID, Type: TypeDueTimeReached, TenantID: t.Tenant, CorrelationID: t.CorrelationID,
		TimestampMs: t.FiredAt.UnixMilli(), Payload: append(out, '}'),
	}, at
}

// fire makes the timer one that has fired, by the store's time. A sink that is named twice
// is one, and one whose name cannot be has failed, so that it can be seen.
func (t *Timer) fire(now time.Time, sinks []string) {
	t.Status, t.FiredAt = Fired, now
	if t.EnvelopeID == "" {
		t.EnvelopeID = base.NewUUID(now)
	}
	t.Deliveries = make([]Delivery, 0, len(sinks))
	for i, sink := range sinks {
		if slices.Contains(sinks[:i], sink) {
			continue
		}
		d := Delivery{Sink: sink, State: outbox.Pending}
		if err := outbox.CheckSink(sink); err != nil {
			d = Delivery{Sink: base.Shorten(sink, outbox.MaxSink), State: outbox.Failed, Error: base.Shorten(err.Error(), maxError)}
		}
		t.Deliveries = append(t.Deliveries, d)
	}
}
