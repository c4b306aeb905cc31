package bus_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/abidehq/abide/bus"
)

func valid() bus.Envelope {
	return bus.Envelope{
		ID: "01938a5e-7c00-7000-8000-000000000001", Type: "DueTimeReached", TenantID: "acme", CorrelationID: "request-1",
		TimestampMs: 1_731_660_000_123, Payload: json.RawMessage(`{"serviceCallId":"call-1"}`),
	}
}

func TestValidateNamesTheFieldThatBreaksARule(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 2000)
	for _, tt := range []struct {
		name   string
		change func(*bus.Envelope)
		want   string // part of the error's text; empty if there is none
	}{
		{"all is well", func(*bus.Envelope) {}, ""},
		{"no id", func(e *bus.Envelope) { e.ID = "" }, "id is empty"},
		{"no type", func(e *bus.Envelope) { e.Type = "" }, "type is empty"},
		{"no tenant", func(e *bus.Envelope) { e.TenantID = "" }, "tenantId is empty"},
		{"no correlation", func(e *bus.Envelope) { e.CorrelationID = "" }, ""},
		{"longest id", func(e *bus.Envelope) { e.ID = long[:bus.MaxID] }, ""},
		{"id too long", func(e *bus.Envelope) { e.ID = long[:bus.MaxID+1] }, "id has 129 bytes"},
		{"type too long", func(e *bus.Envelope) { e.Type = long[:bus.MaxType+1] }, "type has 129 bytes"},
		{"tenant too long", func(e *bus.Envelope) { e.TenantID = long[:bus.MaxTenant+1] }, "tenantId has 257 bytes"},
		{"correlation too long", func(e *bus.Envelope) { e.CorrelationID = long[:bus.MaxCorrelation+1] }, "correlationId has 257 bytes"},
		{"not UTF-8", func(e *bus.Envelope) { e.TenantID = "a\xff" }, "tenantId \"a\\xff\" is not UTF-8"},
		{"a line break", func(e *bus.Envelope) { e.ID = "a\r\nb" }, "control character at byte 1"},
		{"the last control character", func(e *bus.Envelope) { e.Type = "a\x7f" }, "control character at byte 1"},
		{"a control character of two bytes", func(e *bus.Envelope) { e.CorrelationID = "ä\u0085" }, "control character at byte 2"},
		{"the first that is none", func(e *bus.Envelope) { e.TenantID = " \u00a0" }, ""},
		{"no time", func(e *bus.Envelope) { e.TimestampMs = 0 }, "timestampMs is 0"},
		{"before 1970", func(e *bus.Envelope) { e.TimestampMs = -1 }, "timestampMs is -1"},
		{"no payload", func(e *bus.Envelope) { e.Payload = nil }, "payload is not JSON"},
		{"half a payload", func(e *bus.Envelope) { e.Payload = json.RawMessage(`{"a":`) }, "payload is not JSON"},
		{"two payloads", func(e *bus.Envelope) { e.Payload = json.RawMessage(`1,"more":2`) }, "payload is not JSON"},
		{"largest payload", func(e *bus.Envelope) { e.Payload = text(bus.MaxPayload) }, ""},
		{"payload too large", func(e *bus.Envelope) { e.Payload = text(bus.MaxPayload + 1) }, "payload has 1048577 bytes"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			e := valid()
			tt.change(&e)
			_, encodeErr := e.Encode()
			for what, err := range map[string]error{"Validate": e.Validate(), "Encode": encodeErr} {
				switch {
				case tt.want == "" && err != nil:
					t.Errorf("%s: %v", what, err)
				case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want) || !errors.Is(err, bus.ErrInvalid)):
					t.Errorf("%s: %v, want an ErrInvalid that says %q", what, err, tt.want)
				}
			}
		})
	}
}

// text returns a JSON value of n bytes.
func text(n int) json.RawMessage { return json.RawMessage(`"` + strings.Repeat("x", n-2) + `"`) }

func TestEncodeWritesTheEnvelopeOfTheSeed(t *testing.T) {
	t.Parallel()
	e := valid()
	e.Payload = json.RawMessage(`{ "html" : "<b>" }`)
	for _, tt := range []struct{ correlation, want string }{
		{"request-1", `{"id":"01938a5e-7c00-7000-8000-000000000001","type":"DueTimeReached","tenantId":"acme",` +
			`"correlationId":"request-1","timestampMs":1731660000123,"payload":{ "html" : "<b>" }}`},
		{"", `{"id":"01938a5e-7c00-7000-8000-000000000001","type":"DueTimeReached","tenantId":"acme",` +
			`"timestampMs":1731660000123,"payload":{ "html" : "<b>" }}`},
	} {
		e.CorrelationID = tt.correlation
		data, err := e.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if string(data) != tt.want {
			t.Errorf("got  %s\nwant %s", data, tt.want)
		}
	}
	if string(e.Payload) != `{ "html" : "<b>" }` {
		t.Errorf("Encode changed the payload: %s", e.Payload)
	}
	if want := time.Date(2024, 11, 15, 8, 40, 0, 123e6, time.UTC); !e.Time().Equal(want) {
		t.Errorf("Time is %v, want %v", e.Time(), want)
	}
}

func TestDecodeReadsWhatEncodeWrote(t *testing.T) {
	t.Parallel()
	name := rapid.StringMatching(`[^\x00-\x1f\x7f-\x9f]{1,40}`)
	payload := rapid.OneOf(
		rapid.SampledFrom([]string{"null", "1e999", "12345678901234567890", "{ \"a\" :\n[1 ,2]}", `"<\u003c>"`}),
		rapid.Custom(func(t *rapid.T) string {
			data, err := json.Marshal(rapid.MapOf(rapid.String(), rapid.Float64()).Draw(t, "map"))
			if err != nil {
				t.Fatal(err)
			}
			return string(data)
		}),
	)
	rapid.Check(t, func(t *rapid.T) {
		e := bus.Envelope{
			ID: name.Draw(t, "id"), Type: name.Draw(t, "type"), TenantID: name.Draw(t, "tenant"),
			CorrelationID: rapid.OneOf(rapid.Just(""), name).Draw(t, "correlation"),
			TimestampMs:   rapid.Int64Min(1).Draw(t, "time"),
			Payload:       json.RawMessage(payload.Draw(t, "payload")),
		}
		if e.Validate() != nil {
			return // a name of 40 characters can have too many bytes
		}
		data, err := e.Encode()
		if err != nil {
			t.Fatal(err)
		}
		got, err := bus.Decode(data)
		if err != nil {
			t.Fatal(err)
		}
		want := string(e.Payload)
		if string(got.Payload) != want {
			t.Fatalf("payload is %s, want %s", got.Payload, want)
		}
		got.Payload, e.Payload = nil, nil
		if got.ID != e.ID || got.Type != e.Type || got.TenantID != e.TenantID || got.CorrelationID != e.CorrelationID || got.TimestampMs != e.TimestampMs {
			t.Fatalf("got %+v, want %+v", got, e)
		}
	})
}

func TestDecodeRefusesWhatIsNoEnvelope(t *testing.T) {
	t.Parallel()
	e := valid()
	good, err := e.Encode()
	if err != nil {
		t.Fatal(err)
	}
	for _, data := range []string{
		"", "{}", "null", "[]", "hello", string(good) + "x", string(good[:len(good)-1]),
		strings.Replace(string(good), "1731660000123", `"1731660000123"`, 1),
		strings.Replace(string(good), "1731660000123", "1.5", 1),
		strings.Replace(string(good), `"acme"`, `""`, 1),
		strings.Replace(string(good), `"payload"`, `"body"`, 1),
	} {
		if got, err := bus.Decode([]byte(data)); !errors.Is(err, bus.ErrInvalid) || got.ID != "" {
			t.Errorf("Decode(%s): %+v, %v; want ErrInvalid", data, got, err)
		}
	}
	// What is new in an envelope does not hurt those who do not know it.
	more := strings.Replace(string(good), `{"id"`, `{"traceparent":"00-1","id"`, 1)
	if got, err := bus.Decode([]byte(more)); err != nil || got.ID != e.ID {
		t.Errorf("Decode(%s): %+v, %v", more, got, err)
	}
	// The envelope is the receiver's, the data is the carrier's.
	got, err := bus.Decode(good)
	if err != nil {
		t.Fatal(err)
	}
	clear(good)
	if string(got.Payload) != string(e.Payload) {
		t.Errorf("the payload changed with the data that it was read from: %s", got.Payload)
	}
}
