package timer

import (
	"fmt"
	"strconv"

	"github.com/abidehq/abide/bus/outbox"
	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/internal/wire"
	"github.com/abidehq/abide/store"
)

// Names in the store.
const (
	kind  = "timer"  // of records
	queue = "timers" // of messages that fire timers
	route = "timer"  // that all of them have
)

// First bytes of a record's body, of a message's, and of the note that an envelope is put
// into the outbox with. docs/format.md says what follows.
const (
	recordFormat  = 1
	messageFormat = 1
	noteFormat    = 1
)

func recordKey(tenant, key string) store.RecordKey {
	return store.RecordKey{Kind: kind, Tenant: tenant, ID: key}
}

// messageRef names the message that fires a timer of that version: each change of an
// armed timer replaces its message.
//
// A timer that was removed and scheduled anew may have a version that it had before; what
// it has of its envelope's ID tells the two from each other.
func (t *Timer) messageRef() store.MessageRef {
	id := strconv.FormatInt(t.Version, 36)
	if n := len(t.EnvelopeID); n > 0 {
		id += "." + t.EnvelopeID[n-min(n, 6):]
	}
	return store.MessageRef{Key: store.Key{Queue: queue, Tenant: t.Tenant, Name: t.Key}, ID: id}
}

// record returns the timer as a record.
func (t *Timer) record() store.Record {
	return store.Record{
		Key:    recordKey(t.Tenant, t.Key),
		Status: string(t.Status),
		Name:   t.CorrelationID,
		Time:   t.at(),
		Body:   t.appendBody(make([]byte, 0, 96+len(t.Payload)+64*len(t.Deliveries))),
	}
}

// appendBody appends what the other fields of a record do not tell.
func (t *Timer) appendBody(out []byte) []byte {
	out = append(out, recordFormat)
	out = t.appendCore(out)
	out = wire.AppendTime(out, t.FiredAt)
	out = wire.AppendTime(out, t.CancelledAt)
	out = wire.AppendNumber(out, uint64(len(t.Deliveries)))
	for i := range t.Deliveries {
		d := &t.Deliveries[i]
		out = wire.AppendString(out, d.Sink)
		out = wire.AppendString(out, d.State)
		out = wire.AppendNumber(out, uint64(d.Attempts))
		out = wire.AppendTime(out, d.At)
		out = wire.AppendTime(out, d.Next)
		out = wire.AppendString(out, d.Error)
	}
	return append(out, t.Payload...)
}

// appendCore appends what an armed timer is.
func (t *Timer) appendCore(out []byte) []byte {
	out = wire.AppendNumber(out, uint64(t.Arming))
	out = wire.AppendTime(out, t.DueAt)
	out = wire.AppendTime(out, t.RegisteredAt)
	out = wire.AppendString(out, t.position.source)
	out = wire.AppendNumber(out, t.position.sequence)
	out = wire.AppendString(out, base.UUIDBytes(t.EnvelopeID))
	return wire.AppendTime(out, t.unsettled)
}

func (t *Timer) readCore(r *wire.Reader) {
	t.Arming = int64(r.Number())
	t.DueAt = r.Time()
	t.RegisteredAt = r.Time()
	t.position.source = r.String()
	t.position.sequence = r.Number()
	id := r.Bytes()
	if t.EnvelopeID = base.UUIDText(id); len(id) > 0 && t.EnvelopeID == "" {
		r.Fail("the ID of the envelope is not a UUID")
	}
	t.unsettled = r.Time()
}

func parseRecord(rec store.Record) (Timer, error) {
	t := Timer{
		Tenant: rec.Key.Tenant, Key: rec.Key.ID,
		Status: Status(rec.Status), CorrelationID: rec.Name, Version: rec.Version,
	}
	r := wire.Reader{Data: rec.Body}
	r.Format(recordFormat)
	t.readCore(&r)
	t.FiredAt = r.Time()
	t.CancelledAt = r.Time()
	for range r.Items() {
		t.Deliveries = append(t.Deliveries, Delivery{
			Sink: r.String(), State: outbox.State(r.String()), Attempts: int(r.Number()),
			At: r.Time(), Next: r.Time(), Error: r.String(),
		})
	}
	if len(r.Data) > 0 {
		t.Payload = r.Data
	}
	if r.Err != nil {
		return Timer{}, fmt.Errorf("timer: record %v: %w: %w", rec.Key, r.Err, store.ErrCorrupt)
	}
	return t, nil
}

// message returns what fires the timer, which is armed and has its version. It says all
// that firing needs, so that nothing need be read then.
func (t *Timer) message() store.Message {
	ref := t.messageRef()
	out := append(make([]byte, 0, 64+len(t.CorrelationID)+len(t.Payload)), messageFormat)
	out = wire.AppendNumber(out, uint64(t.Version))
	out = t.appendCore(out)
	out = wire.AppendString(out, t.CorrelationID)
	return store.Message{
		Key: ref.Key, ID: ref.ID, Route: route, VisibleAt: t.DueAt,
		Body: append(out, t.Payload...),
	}
}

func parseMessage(m *store.Message) (Timer, error) {
	t := Timer{Tenant: m.Key.Tenant, Key: m.Key.Name, Status: Armed}
	r := wire.Reader{Data: m.Body}
	r.Format(messageFormat)
	t.Version = int64(r.Number())
	t.readCore(&r)
	t.CorrelationID = r.String()
	if len(r.Data) > 0 {
		t.Payload = r.Data
	}
	if r.Err != nil {
		return Timer{}, fmt.Errorf("timer: message %v: %w", m.Ref(), r.Err)
	}
	return t, nil
}

// note returns what the fired timer's record can be told from, together with its envelope.
// Payload is where the caller's payload begins in that of the envelope. Of a late one, another
// process owns the record by now.
func (t *Timer) note(payload int, late bool) []byte {
	out := append(make([]byte, 0, 48), noteFormat)
	out = wire.AppendNumber(out, uint64(t.Version))
	out = t.appendCore(out)
	sinks := len(t.Deliveries)
	if late {
		sinks = 0
	}
	out = wire.AppendNumber(out, uint64(sinks))
	return wire.AppendNumber(out, uint64(payload))
}

// parseNote returns the fired timer that an outcome is about, as it was when it fired, and
// whether it had one sink alone. If it had more, its deliveries are not told.
func parseNote(o *outbox.Outcome) (t Timer, alone bool, err error) {
	e := &o.Envelope
	t = Timer{
		Tenant: e.TenantID, Key: o.Name, Status: Fired, FiredAt: e.Time(),
		CorrelationID: e.CorrelationID,
	}
	r := wire.Reader{Data: o.Note}
	r.Format(noteFormat)
	t.Version = int64(r.Number())
	t.readCore(&r)
	if alone = r.Number() == 1; alone {
		t.Deliveries = []Delivery{{Sink: o.Sink, State: outbox.Pending}}
	}
	at := r.Number()
	switch {
	case r.End() != nil:
	case at >= uint64(len(e.Payload)) && at > 0:
		r.Fail("payload out of range")
	case at > 0:
		t.Payload = e.Payload[at : len(e.Payload)-1]
	}
	if r.Err != nil {
		return Timer{}, false, fmt.Errorf("timer: note of envelope %s: %w", e.ID, r.Err)
	}
	return t, alone, nil
}
