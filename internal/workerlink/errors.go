package workerlink

import (
	"errors"
	"fmt"
	"strings"

	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/internal/engine"
	"github.com/abidehq/abide/internal/replay"
	"github.com/abidehq/abide/internal/workerpb"
)

// EncodeError returns the error of a turn as it travels.
func EncodeError(err error) *workerpb.TurnError {
	e := &workerpb.TurnError{Message: history.Cut(unmarked(err))}
	var mismatch *replay.Mismatch
	var payload *replay.PayloadError
	var crash *replay.PanicError
	switch {
	case errors.As(err, &payload):
		e.Kind = workerpb.TurnError_PAYLOAD
		e.Event, e.EventKind, e.EventName = payload.Event, int32(payload.Kind), payload.Name
	case errors.As(err, &mismatch):
		e.Kind, e.Source = workerpb.TurnError_MISMATCH, mismatch.Source
		e.Expected, e.Did = encodeSide(&mismatch.Expected), encodeSide(&mismatch.Did)
	case errors.As(err, &crash):
		e.Kind, e.Stack = workerpb.TurnError_PANIC, crash.Stack
		e.Message = history.Cut(fmt.Sprint(crash.Value))
	case errors.Is(err, replay.ErrStep):
		e.Kind = workerpb.TurnError_STEP
	case errors.Is(err, engine.ErrUnavailable):
		e.Kind = workerpb.TurnError_GONE
	case errors.Is(err, engine.ErrOutdated):
		e.Kind = workerpb.TurnError_OUTDATED
	}
	return e
}

// EncodeOutdated returns what an error of [engine.ErrOutdated] says, as it travels.
func EncodeOutdated(err error) string { return history.Cut(unmarked(err)) }

// unmarked returns the text of an error without that of [engine.ErrOutdated], which the other end adds.
func unmarked(err error) string {
	return strings.TrimSuffix(err.Error(), ": "+engine.ErrOutdated.Error())
}

func encodeSide(e *history.Event) []byte {
	if e.Kind == 0 {
		return nil
	}
	return history.Append(nil, e)
}

// DecodeError returns the error of a turn that has travelled, of the type that it had.
func DecodeError(e *workerpb.TurnError) error {
	text := errors.New(e.GetMessage())
	switch e.GetKind() {
	case workerpb.TurnError_PAYLOAD:
		return &replay.PayloadError{Event: e.GetEvent(), Kind: history.Kind(e.GetEventKind()), Name: e.GetEventName(), Err: text}
	case workerpb.TurnError_MISMATCH:
		m := &replay.Mismatch{Source: e.GetSource()}
		return errors.Join(decodeSide(&m.Expected, e.GetExpected()), decodeSide(&m.Did, e.GetDid()), m)
	case workerpb.TurnError_PANIC:
		return &replay.PanicError{Value: e.GetMessage(), Stack: e.GetStack()}
	case workerpb.TurnError_STEP:
		return replay.ErrStep
	case workerpb.TurnError_GONE:
		return fmt.Errorf("abide: worker: %w: %w", text, engine.ErrUnavailable)
	case workerpb.TurnError_OUTDATED:
		return fmt.Errorf("abide: worker: %w: %w", text, engine.ErrOutdated)
	case workerpb.TurnError_OTHER:
		return text
	default:
		return fmt.Errorf("abide: worker: error of the unknown kind %d: %w: %w", e.GetKind(), text, engine.ErrOutdated)
	}
}

func decodeSide(e *history.Event, data []byte) (err error) {
	if len(data) > 0 {
		*e, err = history.Parse(data)
	}
	return err
}

// EncodeCause returns why a context has ended as it travels.
func EncodeCause(cause error) workerpb.Cancel_Cause {
	switch {
	case errors.Is(cause, engine.ErrTimeout):
		return workerpb.Cancel_TIMEOUT
	case errors.Is(cause, engine.ErrStopping):
		return workerpb.Cancel_STOPPING
	}
	return workerpb.Cancel_LOST
}

// DecodeCause returns why a context is to end.
func DecodeCause(c workerpb.Cancel_Cause) error {
	switch c {
	case workerpb.Cancel_TIMEOUT:
		return engine.ErrTimeout
	case workerpb.Cancel_STOPPING:
		return engine.ErrStopping
	}
	return engine.ErrLost
}
