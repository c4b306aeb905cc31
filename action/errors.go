package action

import (
	"errors"
	"fmt"

	"github.com/abidehq/abide/store"
)

// Sentinel errors. Test for them with [errors.Is]; the error that is returned says
// more.
var (
	// ErrInvalid: the call breaks a rule, and would break it again.
	ErrInvalid = errors.New("invalid")

	// ErrNotFound: there is no such action or schedule.
	ErrNotFound = errors.New("not found")

	// ErrExists: there is a schedule with that ID already.
	ErrExists = errors.New("exists")

	// ErrForbidden: the target is not for the tenant, or for webhooks alone.
	ErrForbidden = errors.New("forbidden")

	// ErrState: the status of the action or schedule does not allow it.
	ErrState = errors.New("not possible in this state")

	// ErrConflict: it was changed by others meanwhile.
	ErrConflict = errors.New("changed meanwhile")
)

// Why the context of a run ended. See [context.Cause].
var (
	// ErrTimeout: it took longer than the target allows.
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
