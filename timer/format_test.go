package timer

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/abidehq/abide/bus/outbox"
	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/internal/wire"
	"github.com/abidehq/abide/store"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// exampleTimers has a timer of each status, and between them something in each field.
func exampleTimers() map[string]Timer {
	armed := Timer{
		Tenant: "acme", Key: "call-1", Status: Armed, DueAt: noon.Add(time.Hour), RegisteredAt: noon,
		CorrelationID: "request-1", Payload: json.RawMessage(`{"a": 1}`), Arming: 3, Version: 300,
		EnvelopeID: "019ca7c5-2000-7000-8000-000000000001",
		position:   position{"commands", 12345}, unsettled: noon.Add(-time.Second),
	}
	fired := armed
	fired.Status, fired.FiredAt = Fired, noon.Add(time.Hour+5*time.Millisecond)
	fired.Deliveries = []Delivery{
		{Sink: "webhook", State: outbox.Retrying, Attempts: 200, At: noon.Add(2 * time.Hour), Next: noon.Add(3 * time.Hour), Error: "no answer"},
		{Sink: "nats", State: outbox.Published, Attempts: 1, At: noon.Add(2 * time.Hour)},
	}
	cancelled := armed
	cancelled.Status, cancelled.CancelledAt = Cancelled, noon.Add(time.Minute)
	return map[string]Timer{
		"armed": armed, "fired": fired, "cancelled": cancelled,
		"bare": {Tenant: "t", Key: "k", Status: Armed, DueAt: noon, RegisteredAt: noon, Arming: 1, Version: 1},
	}
}

// exampleNote returns the note of a timer that has fired, with that many sinks, and the
// outcome that it comes back with.
func exampleNote(sinks int) (Timer, outbox.Outcome) {
	t := exampleTimers()["fired"]
	t.Deliveries = t.Deliveries[:sinks]
	e, payload := t.envelope()
	return t, outbox.Outcome{Sink: "webhook", Name: t.Key, Note: t.note(payload, false), Envelope: e}
}

// TestFormatIsGolden: a byte that changes makes what is on disk unreadable.
func TestFormatIsGolden(t *testing.T) {
	t.Parallel()
	lines := map[string][]byte{}
	for name, example := range exampleTimers() {
		lines["record "+name] = example.record().Body
		if example.Status == Armed {
			lines["message "+name] = example.message().Body
		}
	}
	_, o := exampleNote(2)
	lines["note"], lines["payload of the envelope"] = o.Note, o.Envelope.Payload
	check.GoldenTable(t, "testdata/format_1.txt", lines)
}

// TestNamesInTheStoreAreGolden: with another name, nothing that is there would be found.
func TestNamesInTheStoreAreGolden(t *testing.T) {
	t.Parallel()
	example := exampleTimers()["armed"]
	record, message := example.record(), example.message()
	check.Equal(t, "the record", record.Key, (store.RecordKey{Kind: "timer", Tenant: "acme", ID: "call-1"}))
	if record.Status != "armed" || record.Name != "request-1" || !record.Time.Equal(example.DueAt) {
		t.Errorf("the record is listed by %s, %s, %v", record.Status, record.Name, record.Time)
	}
	want := store.MessageRef{Key: store.Key{Queue: "timers", Tenant: "acme", Name: "call-1"}, ID: "8c.000001"}
	if message.Ref() != want || message.Route != "timer" || !message.VisibleAt.Equal(example.DueAt) {
		t.Errorf("the message is %v by route %s at %v, want %v", message.Ref(), message.Route, message.VisibleAt, want)
	}
	check.Equal(t, "the queue of commands", commands, "commands")
}

// TestFormatIsReadAsWritten: what is parsed is what was written.
func TestFormatIsReadAsWritten(t *testing.T) {
	t.Parallel()
	for name, want := range exampleTimers() {
		rec := want.record()
		rec.Version = want.Version
		if got, err := parseRecord(rec); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("record %s:\ngot  %+v, %v\nwant %+v", name, got, err, want)
		}
		if want.Status != Armed {
			continue
		}
		m := want.message()
		if got, err := parseMessage(&m); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("message %s:\ngot  %+v, %v\nwant %+v", name, got, err, want)
		}
	}
	for sinks := range 3 {
		want, o := exampleNote(sinks)
		got, alone, err := parseNote(&o)
		want.Deliveries = nil
		if alone {
			want.Deliveries = []Delivery{{Sink: "webhook", State: outbox.Pending}}
		}
		if err != nil || alone != (sinks == 1) || !reflect.DeepEqual(got, want) {
			t.Errorf("note of %d sinks:\ngot  %+v, alone %v, %v\nwant %+v", sinks, got, alone, err, want)
		}
	}
}

// TestUnknownFormatsAreRefused, and so is what is cut off.
func TestUnknownFormatsAreRefused(t *testing.T) {
	t.Parallel()
	example := exampleTimers()["fired"]
	example.Payload = nil // which may end anywhere
	_, o := exampleNote(1)
	message := example.message().Body
	for name, tt := range map[string]struct {
		data []byte
		read func([]byte) error
		as   error
	}{
		"record": {example.record().Body, func(data []byte) error {
			_, err := parseRecord(store.Record{Key: recordKey("t", "k"), Body: data})
			return err
		}, store.ErrCorrupt},
		"message": {message, func(data []byte) error {
			_, err := parseMessage(&store.Message{Body: data})
			return err
		}, wire.ErrFormat},
		"note": {o.Note, func(data []byte) error {
			other := o
			other.Note = data
			_, _, err := parseNote(&other)
			return err
		}, wire.ErrFormat},
	} {
		check.Format(t, name, tt.data, tt.read, tt.as)
	}
}

// TestANoteBelongsToItsEnvelope: one that points beyond it is no note of it.
func TestANoteBelongsToItsEnvelope(t *testing.T) {
	t.Parallel()
	for cut := range 3 {
		_, o := exampleNote(1)
		at := bytes.Index(o.Envelope.Payload, []byte(`{"a"`))
		o.Envelope.Payload = o.Envelope.Payload[:at+1-cut]
		_, _, err := parseNote(&o)
		if want := cut > 0; (err != nil) != want {
			t.Errorf("with %d bytes left of the payload the error is %v", 1-cut, err)
		}
	}
}

// FuzzRecord: whatever it reads, it writes and reads the same way.
func FuzzRecord(f *testing.F) {
	for _, example := range exampleTimers() {
		f.Add(example.record().Body)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		check.RoundTrip(t, data, func(data []byte) (Timer, error) {
			return parseRecord(store.Record{Key: recordKey("t", "k"), Status: "fired", Body: data})
		}, func(read Timer) []byte { return read.record().Body })
	})
}

// FuzzMessage does the same for messages.
func FuzzMessage(f *testing.F) {
	for _, example := range exampleTimers() {
		f.Add(example.message().Body)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		check.RoundTrip(t, data, func(data []byte) (Timer, error) {
			return parseMessage(&store.Message{Body: data})
		}, func(read Timer) []byte { return read.message().Body })
	})
}

// FuzzNote: nothing that it is given makes it panic, and the payload is a part of that of
// the envelope.
func FuzzNote(f *testing.F) {
	for sinks := range 3 {
		_, o := exampleNote(sinks)
		f.Add(o.Note, []byte(o.Envelope.Payload))
	}
	f.Fuzz(func(t *testing.T, note, payload []byte) {
		_, o := exampleNote(1)
		o.Note, o.Envelope.Payload = note, payload
		got, _, err := parseNote(&o)
		if err == nil && !bytes.Contains(payload, got.Payload) {
			t.Errorf("the payload of %q is %q", payload, got.Payload)
		}
	})
}
