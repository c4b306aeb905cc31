package api

import (
	"encoding/json"
	"fmt"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/history"
)

// FromPayload returns bytes that a codec wrote for the wire: as they are if they are JSON,
// or as {"$base64": "…"}. Nothing stays nothing.
func FromPayload(data []byte) json.RawMessage {
	if len(data) == 0 {
		return nil
	}
	out, err := history.Payload(data).MarshalJSON()
	if err != nil { // there is nothing that it could not write
		return nil
	}
	return out
}

// Payload is the inverse of [FromPayload].
func Payload(value json.RawMessage) ([]byte, error) {
	if len(value) == 0 {
		return nil, nil
	}
	var p history.Payload
	if err := p.UnmarshalJSON(value); err != nil {
		return nil, fmt.Errorf("%w: %w", err, abide.ErrInvalid)
	}
	return p, nil
}

// Failure is how an instance or an activity failed.
type Failure struct {
	Type    string   `json:"type,omitempty" doc:"Tells errors apart, and lasts."`
	Message string   `json:"message" doc:"What went wrong, in words."`
	Final   bool     `json:"final,omitempty" doc:"It was of no use to try again."`
	Cause   *Failure `json:"cause,omitempty" doc:"The error behind it."`
}

// FromError returns an error for the wire.
func FromError(err error) *Failure { return fromFailure(abide.FailureOf(err)) }

func fromFailure(f *history.Failure) *Failure {
	if f == nil {
		return nil
	}
	return &Failure{Type: f.Type, Message: f.Message, Final: f.Final, Cause: fromFailure(f.Cause)}
}

// Err is the inverse of [FromError].
func (f *Failure) Err() error {
	if f == nil {
		return nil
	}
	return abide.ErrorOf(f.failure())
}

func (f *Failure) failure() *history.Failure {
	if f == nil {
		return nil
	}
	return &history.Failure{Type: f.Type, Message: f.Message, Final: f.Final, Cause: f.Cause.failure()}
}
