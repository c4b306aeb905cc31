package outbox

import (
	"bytes"
	"encoding/hex"
	"reflect"
	"testing"

	"github.com/abidehq/abide/bus"
	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/store"
)

func example() (bus.Envelope, []byte) {
	return bus.Envelope{
		ID: "019ca7c5-2000-7000-8000-000000000001", Type: "DueTimeReached", TenantID: "acme", CorrelationID: "request-1",
		TimestampMs: 1_772_366_400_000, Payload: []byte(`{"a": 1}`),
	}, []byte("note")
}

// TestFormatIsGolden: a byte that changes makes what is on disk unreadable.
func TestFormatIsGolden(t *testing.T) {
	t.Parallel()
	e, note := example()
	m := Put("webhook", "call-1", &e, note)
	want := store.Key{Queue: "outbox", Tenant: "acme", Name: "webhook/call-1"}
	if m.Key != want || m.ID != e.ID || m.Route != "webhook" {
		t.Errorf("the message is %v with route %s, want %v", m.Ref(), m.Route, want)
	}
	check.Golden(t, "testdata/format_1.txt", "message\n  "+hex.EncodeToString(m.Body)+"\n")
}

// TestFormatIsReadAsWritten, and nothing else is.
func TestFormatIsReadAsWritten(t *testing.T) {
	t.Parallel()
	e, note := example()
	body := encode(&e, note, 7)
	got, gotNote, before, err := decode(body)
	if err != nil || !reflect.DeepEqual(got, e) || !bytes.Equal(gotNote, note) || before != 7 {
		t.Errorf("got %+v, %q, %v; want %+v, %q", got, gotNote, err, e, note)
	}
	for n := range len(body) - len(e.Payload) {
		if _, _, _, err := decode(body[:n]); err == nil {
			t.Errorf("the first %d bytes are read", n)
		}
	}
	for _, version := range []byte{0, 2, 255} {
		if _, _, _, err := decode(append([]byte{version}, body[1:]...)); err == nil {
			t.Errorf("format %d is read", version)
		}
	}
}

// FuzzMessage: whatever it reads, it writes and reads the same way.
func FuzzMessage(f *testing.F) {
	e, note := example()
	f.Add(encode(&e, note, 0))
	f.Add(encode(&bus.Envelope{}, nil, 1))
	f.Fuzz(func(t *testing.T, data []byte) {
		e, note, before, err := decode(data)
		if err != nil {
			return
		}
		first := encode(&e, note, before)
		again, noteAgain, beforeAgain, err := decode(first)
		if err != nil {
			t.Fatalf("%x was read, and %x is not: %v", data, first, err)
		}
		if second := encode(&again, noteAgain, beforeAgain); !bytes.Equal(first, second) {
			t.Errorf("%x and %x", first, second)
		}
	})
}
