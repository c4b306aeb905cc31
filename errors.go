package abide

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/internal/engine"
	"github.com/abidehq/abide/internal/errs"
	"github.com/abidehq/abide/internal/replay"
)

// Errors of calls. Test for them with [errors.Is]. The errors of packages timer and action with the
// same names are the same.
var (
	// ErrNotFound is returned if the instance, timer or message does not exist.
	ErrNotFound = engine.ErrNotFound

	// ErrExists is returned if an instance with that ID exists.
	ErrExists = engine.ErrExists

	// ErrState is returned if the status of the instance does not allow the call.
	ErrState = engine.ErrState

	// ErrStalled is returned if the code of the instance cannot proceed. Resume the instance
	// after a fix.
	ErrStalled = engine.ErrStalled

	// ErrInvalid is returned for invalid arguments. The message names the argument and what
	// is allowed. A retry fails again.
	ErrInvalid = engine.ErrInvalid

	// ErrPayload is returned if an input or the payload of an event does not fit the type that a
	// worker has published, see [Signature]. The message names the place and what is allowed. It
	// matches ErrInvalid too.
	ErrPayload = engine.ErrPayload

	// ErrUnserved is returned by a start of an orchestration that no worker has ever registered.
	// It matches ErrInvalid too.
	ErrUnserved = engine.ErrUnserved

	// ErrQuota is returned if the tenant has used up its quota, see [Config.Quota].
	ErrQuota = engine.ErrQuota

	// ErrBusy is returned by starts and events that have waited half a second because the process, or its
	// store, has more to do than it can. Nothing was started or raised. A retry may succeed, best after
	// a second.
	ErrBusy = engine.ErrBusy

	// ErrConflict is returned if a concurrent change has won. A retry may succeed.
	ErrConflict = errs.ErrConflict

	// ErrStopping is the cause with which the context of an activity ends when the engine is
	// closed. The activity is executed again.
	ErrStopping = engine.ErrStopping

	// ErrLost is the cause with which the context of an activity ends when its result is no
	// longer awaited: the activity was cancelled, or another process executes it.
	ErrLost = engine.ErrLost
)

// Errors within orchestrations. History records them by their type.
var (
	// ErrCancelled is returned by waits that were cancelled.
	ErrCancelled = &Error{Type: replay.CancelledType, Message: "cancelled"}

	// ErrTimeout is returned when a time limit has passed.
	ErrTimeout = &Error{Type: engine.TypeTimeout, Message: "timed out"}

	// ErrTerminated is the error of an instance that was terminated.
	ErrTerminated = &Error{Type: engine.TypeTerminated, Message: "terminated"}

	// ErrInvalidPayload is returned by [Event.Wait] with [InvalidAsError] for an event whose payload
	// does not fit its type.
	ErrInvalidPayload = &Error{Type: typeInvalidPayload, Message: "invalid payload"}

	// ErrChildExists is the error of a child whose ID belongs to another instance.
	ErrChildExists = &Error{Type: engine.TypeExists, Message: "instance exists"}
)

const typeInvalidPayload = "abide.InvalidPayload"

// Error is an error with a type that is recorded in history: [errors.Is] recognises it by its
// type in every process.
//
//	var ErrDeclined = abide.NewError("card-declined", "the card was declined")
type Error struct {
	// Type identifies the error in history and in retry policies.
	Type string

	// Message is the text for people.
	Message string

	final bool
	cause error
}

// NewError returns an error with a type.
func NewError(typ, message string) *Error { return &Error{Type: typ, Message: message} }

// Error returns the message.
func (e *Error) Error() string { return e.Message }

// FailureType returns the type.
func (e *Error) FailureType() string { return e.Type }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.cause }

// Is reports whether target is an error of the same type.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Type != "" && t.Type == e.Type
}

// Final marks an error as not retryable: the activity or step fails without further attempts.
func Final(err error) error {
	if err == nil {
		return nil
	}
	return &finalError{err}
}

type finalError struct{ error }

func (e *finalError) Unwrap() error { return e.error }

// ActivityError is the error of an activity whose last attempt has failed.
type ActivityError struct {
	// Name is the name of the activity, and Attempt the number of attempts.
	Name    string
	Attempt int

	// Err is the last error.
	Err error
}

// Error returns the name of the activity, the number of attempts and the last error.
func (e *ActivityError) Error() string {
	return fmt.Sprintf("activity %q, attempt %d: %v", e.Name, e.Attempt, e.Err)
}

// Unwrap returns the last error.
func (e *ActivityError) Unwrap() error { return e.Err }

// ChildError is the error of a child that did not complete.
type ChildError struct {
	// Name is the name of the orchestration, and ID the ID of the child.
	Name string
	ID   string

	// Err is the error with which the child ended.
	Err error
}

// Error returns the ID of the child, its orchestration and its error.
func (e *ChildError) Error() string { return fmt.Sprintf("child %q of %q: %v", e.ID, e.Name, e.Err) }

// Unwrap returns the error with which the child ended.
func (e *ChildError) Unwrap() error { return e.Err }

// InstanceError is the error of the result of an instance that did not complete.
type InstanceError struct {
	Ref    Ref
	Status Status

	// Err is the error with which the instance ended.
	Err error
}

// Error returns the instance, its status and its error.
func (e *InstanceError) Error() string {
	return fmt.Sprintf("instance %v %s: %v", e.Ref, e.Status, e.Err)
}

// Unwrap returns the error with which the instance ended.
func (e *InstanceError) Unwrap() error { return e.Err }

// maxCauses is how many errors of a chain are recorded.
const maxCauses = 8

// failureOf returns the form in which an error is recorded.
func failureOf(err error) *history.Failure { return failureAt(err, maxCauses) }

func failureAt(err error, depth int) *history.Failure {
	f := &history.Failure{Message: strings.ToValidUTF8(err.Error(), "\uFFFD")}
	var final *finalError
	f.Final = errors.As(err, &final)
	var typed *Error
	switch {
	case errors.As(err, &typed):
		f.Type, f.Final = typed.Type, f.Final || typed.final
		if typed.cause != nil && depth > 1 {
			f.Cause = failureAt(typed.cause, depth-1)
		}
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, engine.ErrTimeout):
		f.Type = engine.TypeTimeout
	}
	return f
}

// errorOf is the inverse of failureOf.
func errorOf(f *history.Failure) error {
	if f == nil {
		return nil
	}
	e := &Error{Type: f.Type, Message: f.Message, final: f.Final}
	if f.Cause != nil {
		e.cause = errorOf(f.Cause)
	}
	return e
}
