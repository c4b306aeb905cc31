package bus

import (
	"encoding/json"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/abidehq/abide/internal/errs"
)

// Limits of an envelope's fields, in bytes. Adapters that build names from fields rely on them.
const (
	MaxID          = 128
	MaxType        = 128
	MaxTenant      = 256
	MaxCorrelation = 256

	// MaxPayload is the largest payload. A transport may accept less: NATS refuses messages of
	// more than 1 MiB by default.
	MaxPayload = 1 << 20
)

// Envelope is an event with its routing, tracing and deduplication data.
type Envelope struct {
	// ID is a UUIDv7. Two envelopes with the same ID are the same event.
	ID string `json:"id"`

	// Type is the type of the event, such as DueTimeReached.
	Type string `json:"type"`

	// TenantID is the tenant of the event.
	TenantID string `json:"tenantId"`

	// CorrelationID is the correlation ID of the request that caused the event. It may be empty.
	CorrelationID string `json:"correlationId,omitempty"`

	// TimestampMs is the time of the event, in milliseconds since 1970.
	TimestampMs int64 `json:"timestampMs"`

	// Payload is a JSON value whose schema is determined by Type.
	Payload json.RawMessage `json:"payload"`
}

// Time returns when the event happened.
func (e *Envelope) Time() time.Time { return time.UnixMilli(e.TimestampMs).UTC() }

// ErrInvalid means that an envelope or its content is invalid. Repeating the call does not help.
var ErrInvalid = errs.ErrInvalid

// Validate returns an error that matches [ErrInvalid] and names the field if an envelope is
// invalid.
func (e *Envelope) Validate() error {
	for _, f := range []struct {
		name, value string
		most        int
		optional    bool
	}{
		{"id", e.ID, MaxID, false},
		{"type", e.Type, MaxType, false},
		{"tenantId", e.TenantID, MaxTenant, false},
		{"correlationId", e.CorrelationID, MaxCorrelation, true},
	} {
		if err := CheckName(f.name, f.value, f.most); err != nil && (f.value != "" || !f.optional) {
			return fmt.Errorf("bus: envelope: %w", err)
		}
	}
	switch {
	case e.TimestampMs <= 0:
		return fmt.Errorf("bus: envelope %s: timestampMs is %d, and must be after 1970: %w", e.ID, e.TimestampMs, ErrInvalid)
	case len(e.Payload) > MaxPayload:
		return fmt.Errorf("bus: envelope %s: payload has %d bytes, at most %d are allowed: %w", e.ID, len(e.Payload), MaxPayload, ErrInvalid)
	case !json.Valid(e.Payload):
		return fmt.Errorf("bus: envelope %s: payload is not JSON: %w", e.ID, ErrInvalid)
	}
	return nil
}

// CheckName returns an error that matches [ErrInvalid] unless a name is valid on every
// transport: not empty, at most that many bytes, UTF-8, and without control characters.
func CheckName(field, value string, most int) error {
	switch {
	case value == "":
		return fmt.Errorf("%s is empty: %w", field, ErrInvalid)
	case len(value) > most:
		return fmt.Errorf("%s has %d bytes, at most %d are allowed: %w", field, len(value), most, ErrInvalid)
	case !utf8.ValidString(value):
		return fmt.Errorf("%s %q is not UTF-8: %w", field, value, ErrInvalid)
	}
	for i, r := range value {
		if r < 0x20 || r == 0x7f || (r >= 0x80 && r < 0xa0) {
			return fmt.Errorf("%s %q has a control character at byte %d: %w", field, value, i, ErrInvalid)
		}
	}
	return nil
}

// Decode decodes an envelope from JSON and validates it.
func Decode(data []byte) (Envelope, error) {
	var e Envelope
	if err := json.Unmarshal(data, &e); err != nil {
		return Envelope{}, fmt.Errorf("bus: decode envelope: %w: %w", err, ErrInvalid)
	}
	if err := e.Validate(); err != nil {
		return Envelope{}, err
	}
	return e, nil
}

// Encode returns the JSON form of a valid envelope, which [Decode] reads and which adapters send
// by default. The payload is included unchanged, so that signatures and hashes of it stay valid.
func (e *Envelope) Encode() ([]byte, error) {
	if err := e.Validate(); err != nil {
		return nil, err
	}
	// The encoder would write the payload in its own way, without white space and
	// with < as \u003c. So it writes another one, which is the last field.
	bare := *e
	bare.Payload = json.RawMessage("0")
	data, err := json.Marshal(&bare)
	if err != nil {
		return nil, fmt.Errorf("bus: encode envelope %s: %w: %w", e.ID, err, ErrInvalid)
	}
	data = append(data[:len(data)-len("0}")], e.Payload...)
	return append(data, '}'), nil
}
