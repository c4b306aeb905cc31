package timer

import (
	"errors"
	"fmt"

	"github.com/abidehq/abide/bus"
	"github.com/abidehq/abide/store"
)

// Sentinel errors. Test for them with [errors.Is]; the error that is returned says
// more.
var (
	// ErrInvalid: the call breaks a rule, and would break it again.
	ErrInvalid = errors.New("invalid")

	// ErrNotFound: there is no such timer.
	ErrNotFound = errors.New("timer not found")

	// ErrExists: there is a timer already, and the request asked for that to be an error.
	ErrExists = errors.New("timer exists")

	// ErrState: the timer has fired or was cancelled, so that it cannot be done.
	ErrState = errors.New("not possible in this state")

	// ErrConflict: the timer has another version than the request expected.
	ErrConflict = errors.New("timer was changed")

	// ErrQuota: the tenant has as many armed timers as it may have.
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
