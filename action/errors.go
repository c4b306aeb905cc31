package action

import (
	"errors"
	"fmt"

	"github.com/abidehq/abide/store"
)

// Sentinel errors, to be tested with [errors.Is].
var (
	// ErrInvalid: an argument is invalid. Repeating the call does not help.
	ErrInvalid = errors.New("invalid")

	// ErrNotFound: the action or schedule does not exist.
	ErrNotFound = errors.New("not found")

	// ErrExists: a schedule with that ID exists.
	ErrExists = errors.New("exists")

	// ErrForbidden: the target does not serve the tenant, or serves webhooks only.
	ErrForbidden = errors.New("forbidden")

	// ErrState: the status of the action or schedule does not allow the call.
	ErrState = errors.New("not possible in this state")

	// ErrConflict: the version is not the expected one, or another process changed it
	// concurrently.
	ErrConflict = errors.New("changed meanwhile")
)

// Causes with which the context of a run ends, see [context.Cause].
var (
	// ErrTimeout: the run exceeded [Definition.Timeout].
	ErrTimeout = errors.New("timed out")

	// ErrCancelled is the cause with which the context of a run ends when the action was
	// cancelled, or when this process has lost its lease on the action.
	ErrCancelled = errors.New("cancelled")

	// ErrStopping: the service is stopping.
	ErrStopping = errors.New("the service is stopping")
)

func invalid(verb, format string, args ...any) error {
	return fmt.Errorf("action: %s: %s: %w", verb, fmt.Sprintf(format, args...), ErrInvalid)
}

// wrap says which verb met an error of the store, and at what.
func wrap(verb, what string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, store.ErrNotFound):
		return fmt.Errorf("action: %s %s: %w", verb, what, ErrNotFound)
	case errors.Is(err, store.ErrInvalid):
		return fmt.Errorf("action: %s %s: %w", verb, what, &refusal{err})
	default:
		return fmt.Errorf("action: %s %s: %w", verb, what, err)
	}
}

// refusal has what the store calls invalid match [ErrInvalid] as well, with the text that
// it has.
type refusal struct{ error }

func (r *refusal) Unwrap() []error { return []error{r.error, ErrInvalid} }
