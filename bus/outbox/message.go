package outbox

import (
	"fmt"

	"github.com/abidehq/abide/bus"
	"github.com/abidehq/abide/internal/wire"
	"github.com/abidehq/abide/store"
)

// Queue is the queue of the outbox. The route of a message is the name of its sink.
const Queue = "outbox"

// Limits of names, in bytes.
const (
	MaxSink = 64  // of a sink
	MaxName = 512 // of what an envelope is about
)

// messageFormat is the first byte of a message's body.
const messageFormat = 1

// Put returns a message that publishes an envelope to a sink. Name is an ordering key: envelopes
// of one tenant, sink and name are published one after another, in the order in which they were
// put, except for retries. Note is returned in the [Outcome].
func Put(sink, name string, e *bus.Envelope, note []byte) store.Message {
	return store.Message{
		Key:   store.Key{Queue: Queue, Tenant: e.TenantID, Name: sink + "/" + name},
		ID:    e.ID,
		Route: sink,
		Body:  encode(e, note, 0),
	}
}

// encode returns the body of a message. Before is how often the envelope was tried before
// it was put.
func encode(e *bus.Envelope, note []byte, before int) []byte {
	size := 24 + len(note) + len(e.ID) + len(e.Type) + len(e.TenantID) + len(e.CorrelationID) + len(e.Payload)
	out := append(make([]byte, 0, size), messageFormat)
	out = wire.AppendNumber(out, uint64(before))
	out = wire.AppendString(out, note)
	out = wire.AppendString(out, e.ID)
	out = wire.AppendString(out, e.Type)
	out = wire.AppendString(out, e.TenantID)
	out = wire.AppendString(out, e.CorrelationID)
	out = wire.AppendNumber(out, uint64(e.TimestampMs))
	return append(out, e.Payload...)
}

func decode(body []byte) (e bus.Envelope, note []byte, before int, err error) {
	r := wire.Reader{Data: body}
	r.Format(messageFormat)
	before = int(min(r.Number(), MaxAttempts))
	note = r.Bytes()
	e = bus.Envelope{
		ID: r.String(), Type: r.String(), TenantID: r.String(), CorrelationID: r.String(),
		TimestampMs: int64(r.Number()), Payload: r.Data,
	}
	if r.Err != nil {
		return bus.Envelope{}, nil, 0, fmt.Errorf("outbox: message: %w", r.Err)
	}
	return e, note, before, nil
}
