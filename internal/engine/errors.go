package engine

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/internal/errs"
)

// Errors of the engine. Those of the store pass through.
var (
	// ErrExists: there is an instance with that ID.
	ErrExists = errs.ErrExists

	// ErrNotFound: there is no such instance, or nothing of the kind.
	ErrNotFound = errs.ErrNotFound

	// ErrState: the instance's status does not allow it.
	ErrState = errs.ErrState

	// ErrStalled: the code of the instance cannot proceed.
	ErrStalled = errs.ErrStalled

	// ErrInvalid: the call breaks a rule, and would break it again.
	ErrInvalid = errs.ErrInvalid

	// ErrPayload: an input or the payload of an event does not fit the type that a worker has
	// published for it. ErrUnserved: no worker has ever served the orchestration. Both match
	// ErrInvalid.
	ErrPayload  = errs.ErrPayload
	ErrUnserved = errs.ErrUnserved

	// ErrQuota: the tenant has as much as it may have.
	ErrQuota = errs.ErrQuota

	// ErrBusy: the process has more to do than it can. Nothing was done.
	ErrBusy = errs.ErrBusy

	// ErrOutdated: the executor, or what runs code elsewhere, is of an earlier release than what it was given,
	// or of a later one than this process; nothing is wrong with the instance.
	ErrOutdated = errors.New("one end of the connection is of an earlier release")

	// ErrUnavailable: the executor cannot be reached; nothing is wrong with the instance.
	ErrUnavailable = errors.New("executor is not available")
)

// Why the context of an activity or a step ended. See [context.Cause].
var (
	// ErrCancelRequested: the instance of the step was asked to come to an end.
	ErrCancelRequested = errors.New("the instance is to be cancelled")

	// ErrLost: nobody waits for the result any more: the activity was cancelled, or was
	// given to another process.
	ErrLost = errors.New("cancelled: nobody waits for the result any more")

	// ErrTimeout: it took longer than it may.
	ErrTimeout error = timeoutError{}

	// ErrStopping: the engine is closed. The activity will be run again.
	ErrStopping = errs.ErrStopping
)

// timeoutError is an error of the type that timeouts have in history.
type timeoutError struct{}

func (timeoutError) Error() string { return "timed out" }

// Is reports whether target is an error of that type too.
func (timeoutError) Is(target error) bool {
	typed, ok := target.(interface{ FailureType() string })
	return ok && typed.FailureType() == TypeTimeout
}

// Types of failures that the engine makes.
const (
	TypeTimeout    = "abide.Timeout"
	TypeTerminated = "abide.Terminated"
	TypeExists     = "abide.Exists"
	TypePanic      = "abide.Panic"
	TypeCrashed    = "abide.Crashed"
	TypeBusy       = "abide.Busy"
)

// PanicFailure returns the failure of an activity or step that panicked. The stack is in its details, as
// JSON, so that the error of the instance is the value of the panic alone.
func PanicFailure(value any, stack []byte) *history.Failure {
	details, _ := json.Marshal(string(stack)) // a string always has one
	return &history.Failure{Type: TypePanic, Message: fmt.Sprintf("panic: %v", value), Details: details}
}

func timeoutFailure(message string) *history.Failure {
	return &history.Failure{Type: TypeTimeout, Message: message}
}
