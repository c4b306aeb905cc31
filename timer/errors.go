package timer

import (
	"errors"
	"fmt"

	"github.com/abidehq/abide/internal/errs"
	"github.com/abidehq/abide/store"
)

// Errors of calls. Test for them with [errors.Is]. They are those of package abide.
var (
	// ErrInvalid is returned for invalid arguments. A retry fails again.
	ErrInvalid = errs.ErrInvalid

	// ErrNotFound is returned if the timer does not exist.
	ErrNotFound = errs.ErrNotFound

	// ErrExists is returned if a timer with that key exists and the request rejects that.
	ErrExists = errs.ErrExists

	// ErrState is returned if the timer has fired or was cancelled.
	ErrState = errs.ErrState

	// ErrConflict is returned if the timer has another version than the request expects.
	ErrConflict = errs.ErrConflict

	// ErrQuota is returned if the tenant has as many armed timers as its quota allows.
	ErrQuota = errs.ErrQuota
)

func invalid(verb, format string, args ...any) error {
	return fmt.Errorf("timer: %s: %s: %w", verb, fmt.Sprintf(format, args...), ErrInvalid)
}

// wrap says which verb met an error of the store.
func wrap(verb, tenant, key string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, store.ErrNotFound): // whose text names a record
		return fmt.Errorf("timer: %s %s/%s: timer %w", verb, tenant, key, ErrNotFound)
	default:
		return fmt.Errorf("timer: %s %s/%s: %w", verb, tenant, key, err)
	}
}
