package timer

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/abidehq/abide/bus"
)

// Request describes a timer to schedule.
type Request struct {
	// Tenant and Key name the timer.
	Tenant string
	Key    string

	// DueAt is when the timer fires, rounded up to milliseconds; a time in the past means
	// immediately. If it is zero, the timer fires after Delay.
	DueAt time.Time
	Delay time.Duration

	// CorrelationID is the correlation ID of the request that caused the timer. It may be empty.
	CorrelationID string

	// Payload is a JSON value for the envelope. It may be empty.
	Payload json.RawMessage

	// IfVersion, if not 0, is the expected version of the timer: see [ErrConflict].
	IfVersion int64

	// IfAbsent refuses the request with [ErrExists] if the timer exists, whatever its status.
	IfAbsent bool

	// Position, if it has a source, is the position of the request in the log that it was read
	// from. A request at or before the last applied position of the same source is a duplicate
	// or out of order, and changes nothing.
	Position bus.Position
}

// check returns an error that names the field and what is allowed.
func (r *Request) check(verb string, maxPayload int) error {
	if err := checkName(verb, r.Tenant, r.Key); err != nil {
		return err
	}
	if r.CorrelationID != "" {
		if err := bus.CheckName("correlation ID", r.CorrelationID, MaxCorrelation); err != nil {
			return invalidName(verb, err)
		}
	}
	if r.Position.Source != "" {
		if err := bus.CheckName("source", r.Position.Source, MaxTenant); err != nil {
			return invalidName(verb, err)
		}
	}
	at := r.Tenant + "/" + r.Key
	switch {
	case !r.DueAt.IsZero() && r.Delay != 0:
		return invalid(verb, "%s has a due time and a delay; only one is allowed", at)
	case r.DueAt.IsZero() && r.Delay < 0:
		return invalid(verb, "%s has a delay of %v, which is negative", at, r.Delay)
	case r.Delay > MaxDelay:
		return invalid(verb, "%s has a delay of %v, at most %v is allowed", at, r.Delay, MaxDelay)
	case r.DueAt.Year() > 9998:
		return invalid(verb, "%s is due in the year %d, at most 9998 is allowed", at, r.DueAt.Year())
	case len(r.Payload) > maxPayload:
		return invalid(verb, "%s has a payload of %d bytes, at most %d are allowed", at, len(r.Payload), maxPayload)
	case len(r.Payload) > 0 && !json.Valid(r.Payload):
		return invalid(verb, "%s has a payload that is not JSON", at)
	case r.IfVersion < 0:
		return invalid(verb, "%s is to have version %d; versions begin at 1", at, r.IfVersion)
	}
	return nil
}

func checkName(verb, tenant, key string) error {
	err := bus.CheckName("tenant", tenant, MaxTenant)
	if err == nil {
		err = bus.CheckName("key", key, MaxKey)
	}
	return invalidName(verb, err)
}

func invalidName(verb string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("timer: %s: %w", verb, err)
}
