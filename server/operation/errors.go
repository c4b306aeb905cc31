package operation

import (
	"errors"
	"fmt"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/store"
)

// Sentinel errors: those of package abide, as operations are about instances. Test for them
// with [errors.Is]; the error that is returned says more.
var (
	// ErrInvalid: the call breaks a rule, and would break it again.
	ErrInvalid = abide.ErrInvalid

	// ErrNotFound: there is no such operation.
	ErrNotFound = abide.ErrNotFound

	// ErrExists: there is an operation with that ID which does something else.
	ErrExists = abide.ErrExists

	// ErrState: the operation has ended.
	ErrState = abide.ErrState

	// ErrConflict: others change the operation all the time.
	ErrConflict = abide.ErrConflict
)

func invalid(verb, format string, args ...any) error {
	return fmt.Errorf("operation: %s: %s: %w", verb, fmt.Sprintf(format, args...), ErrInvalid)
}

// wrap says which verb met an error of the store.
func wrap(verb, id string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, store.ErrNotFound):
		return fmt.Errorf("operation: %s %s: there is no such operation: %w", verb, id, ErrNotFound)
	default:
		return fmt.Errorf("operation: %s %s: %w", verb, id, err)
	}
}
