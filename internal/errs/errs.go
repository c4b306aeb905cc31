// Package errs has the errors that several packages return, so that they match across packages:
// abide.ErrNotFound, timer.ErrNotFound and action.ErrNotFound are the same value. Each package
// documents in which cases it returns them.
//
// The errors of package store with these names wrap them: a conflict of a commit matches
// ErrConflict, and a changed timer is no conflict of a commit, which its caller would retry.
package errs

import "errors"

// Errors that several packages return.
var (
	ErrInvalid  = errors.New("invalid")
	ErrNotFound = errors.New("not found")
	ErrExists   = errors.New("exists")
	ErrState    = errors.New("not possible in this state")
	ErrStalled  = errors.New("instance has stalled")
	ErrConflict = errors.New("conflict")
	ErrQuota    = errors.New("quota exceeded")
	ErrBusy     = errors.New("too busy, try again later")
	ErrStopping = errors.New("the service is stopping")

	// ErrPayload and ErrUnserved match ErrInvalid as well.
	ErrPayload  error = &kind{"does not fit its type", ErrInvalid}
	ErrUnserved error = &kind{"not served by any worker", ErrInvalid}
)

// kind is an error that matches a more general one, whose text it does not repeat.
type kind struct {
	text string
	of   error
}

func (k *kind) Error() string { return k.text }

func (k *kind) Unwrap() error { return k.of }
