package timer

import (
	"errors"
	"fmt"

	"github.com/abidehq/abide/bus"
	"github.com/abidehq/abide/store"
)

// Sentinel errors, to be tested with [errors.Is].
var (
	// ErrInvalid: an argument is invalid. Repeating the call does not help.
	ErrInvalid = errors.New("invalid")

	// ErrNotFound: the timer does not exist.
	ErrNotFound = errors.New("timer not found")

	// ErrExists: the timer exists, and [Request.IfAbsent] is set.
	ErrExists = errors.New("timer exists")

	// ErrState: the status of the timer does not allow the call.
	ErrState = errors.New("not possible in this state")

	// ErrConflict: the version of the timer is not the expected one.
	ErrConflict = errors.New("timer was changed")

	// ErrQuota: the tenant has reached its quota of armed timers.
	ErrQuota = errors.New("quota of armed timers is used up")
)

func invalid(verb, format string, args ...any) error {
	return fmt.Errorf("timer: %s: %s: %w", verb, fmt.Sprintf(format, args...), ErrInvalid)
}

// wrap says which verb met an error of the store.
func wrap(verb, tenant, key string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, store.ErrNotFound):
		return fmt.Errorf("timer: %s %s/%s: %w", verb, tenant, key, ErrNotFound)
	default:
		return fmt.Errorf("timer: %s %s/%s: %w", verb, tenant, key, refused(err))
	}
}

// refused has what another package calls invalid match [ErrInvalid] as well, with the
// text that it has.
func refused(err error) error {
	if errors.Is(err, store.ErrInvalid) || errors.Is(err, bus.ErrInvalid) {
		return &refusal{err}
	}
	return err
}

type refusal struct{ error }

func (r *refusal) Unwrap() []error { return []error{r.error, ErrInvalid} }
