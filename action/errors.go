package action

import (
	"errors"
	"fmt"

	"github.com/abidehq/abide/internal/errs"
	"github.com/abidehq/abide/store"
)

// Sentinel errors, to be tested with [errors.Is].
var (
	// ErrInvalid is returned for invalid arguments. A retry fails again.
	ErrInvalid = errs.ErrInvalid

	// ErrNotFound is returned if the action or schedule does not exist.
	ErrNotFound = errs.ErrNotFound

	// ErrExists is returned if a schedule with that ID exists.
	ErrExists = errs.ErrExists

	// ErrForbidden: the target does not serve the tenant, or serves webhooks only.
	ErrForbidden = errors.New("forbidden")

	// ErrState is returned if the status of the action or schedule does not allow the call.
	ErrState = errs.ErrState

	// ErrConflict is returned if a concurrent change has won.
	ErrConflict = errs.ErrConflict
)

// Causes with which the context of a run ends, see [context.Cause].
var (
	// ErrTimeout: the run exceeded [Definition.Timeout].
	ErrTimeout = errors.New("timed out")

	// ErrCancelled is the cause with which the context of a run ends when the action was
	// cancelled, or when this process has lost its lease on the action.
	ErrCancelled = errors.New("cancelled")

	// ErrStopping is the cause when the service is closed.
	ErrStopping = errs.ErrStopping
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
	default:
		return fmt.Errorf("action: %s %s: %w", verb, what, err)
	}
}
