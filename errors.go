package abide

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/abidehq/abide/internal/engine"
	"github.com/abidehq/abide/internal/history"
	"github.com/abidehq/abide/internal/replay"
	"github.com/abidehq/abide/store"
)

// Errors of calls. Test for them with [errors.Is].
var (
	// ErrNotFound: there is no such instance, or nothing of the kind.
	ErrNotFound = engine.ErrNotFound

	// ErrExists: there is an instance with that ID.
	ErrExists = engine.ErrExists

	// ErrState: the instance's status does not allow it.
	ErrState = engine.ErrState

	// ErrStalled: the instance's code cannot go on. It does when it is resumed after a fix.
	ErrStalled = errors.New("instance has stalled")

	// ErrInvalid: the call breaks a rule and would break it again. The error says which,
	// and what is allowed.
	ErrInvalid = engine.ErrInvalid

	// ErrQuota: the tenant has as much as it may have: see [Config.Quota].
	ErrQuota = engine.ErrQuota

	// ErrConflict: somebody else has changed the same thing meanwhile.
	ErrConflict = store.ErrConflict

	// ErrStopping is the cause of the end of an activity's context when the engine is
	// closed: the activity will be run again.
	ErrStopping = engine.ErrStopping

	// ErrLost is the cause of the end of an activity's context when nobody waits for its
	// result any more: it was cancelled, or is run by somebody else.
	ErrLost = engine.ErrLost
)

// Errors that an orchestration meets. They are in history by their type.
var (
	// ErrCancelled: it was given up.
	ErrCancelled = &Error{Type: replay.CancelledType, Message: "cancelled"}

	// ErrTimeout: it took too long.
	ErrTimeout = &Error{Type: engine.TypeTimeout, Message: "timed out"}

	// ErrTerminated: the instance was terminated.
	ErrTerminated = &Error{Type: engine.TypeTerminated, Message: "terminated"}

	// ErrChildExists: a child could not be started, because its ID belongs to another
	// instance.
	ErrChildExists = &Error{Type: engine.TypeExists, Message: "instance exists"}
)

// Error is an error with a type that lasts: an error of this type is recognised by
// [errors.Is] on the other side, in whichever process that is.
//
//	var ErrDeclined = abide.NewError("card-declined", "the card was declined")
type Error struct {
	// Type tells errors apart. It is in history, and in retry policies.
	Type string

	// Message is for people.
	Message string

	final bool
	cause error
}

// NewError returns an error with a type that lasts.
func NewError(typ, message string) *Error { return &Error{Type: typ, Message: message} }

// Error returns the message.
func (e *Error) Error() string { return e.Message }

// FailureType returns the type.
func (e *Error) FailureType() string { return e.Type }

// Unwrap returns what it was caused by.
func (e *Error) Unwrap() error { return e.cause }

// Is reports whether target is an error of the same type.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Type != "" && t.Type == e.Type
}

// Final returns an error after which it is of no use to try again.
func Final(err error) error {
	if err == nil {
		return nil
	}
	return &finalError{err}
}

type finalError struct{ error }

func (e *finalError) Unwrap() error { return e.error }

// ActivityError is the error of an activity that failed for good.
type ActivityError struct {
	// Name is that of the activity, and Attempt how often it was tried.
	Name    string
	Attempt int

	// Err is the last error.
	Err error
}

// Error says which activity failed, and how.
func (e *ActivityError) Error() string {
	return fmt.Sprintf("activity %q, attempt %d: %v", e.Name, e.Attempt, e.Err)
}

// Unwrap returns the last error.
func (e *ActivityError) Unwrap() error { return e.Err }

// ChildError is the error of a child that did not complete.
type ChildError struct {
	// Name is that of the orchestration, and ID that of the child.
	Name string
	ID   string

	// Err is how it ended.
	Err error
}

// Error says which child failed, and how.
func (e *ChildError) Error() string { return fmt.Sprintf("child %q of %q: %v", e.ID, e.Name, e.Err) }

// Unwrap returns how it ended.
func (e *ChildError) Unwrap() error { return e.Err }

// InstanceError is the error of the result of an instance that did not complete.
type InstanceError struct {
	Ref    Ref
	Status Status

	// Err is how it ended.
	Err error
}

// Error says which instance failed, and how.
func (e *InstanceError) Error() string {
	return fmt.Sprintf("instance %v %s: %v", e.Ref, e.Status, e.Err)
}

// Unwrap returns how it ended.
func (e *InstanceError) Unwrap() error { return e.Err }

// maxCauses bounds how much of a chain of errors is kept.
const maxCauses = 8

// failureOf turns an error into what is kept of it.
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

// errorOf turns what was kept of an error into an error.
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
