package auth

import (
	"errors"
	"fmt"
	"time"

	"github.com/abidehq/abide/internal/errs"
	"github.com/abidehq/abide/store"
)

// Sentinel errors. Test for them with [errors.Is]; the error that is returned says more,
// and never what was sent.
var (
	// ErrNone: the request has no credentials.
	ErrNone = errors.New("no credentials")

	// ErrUnknown: the credentials are not known, have expired, or were revoked.
	ErrUnknown = errors.New("credentials are not known")

	// ErrMalformed: what was sent cannot be credentials. It matches ErrUnknown too.
	ErrMalformed = fmt.Errorf("malformed credentials: %w", ErrUnknown)

	// ErrForbidden: who asks is known, and may not do that.
	ErrForbidden = errors.New("forbidden")

	// ErrCrossOrigin: a page of another origin has sent the request. It matches
	// ErrForbidden too.
	ErrCrossOrigin = fmt.Errorf("cross-origin request: %w", ErrForbidden)

	// ErrInvalid: the call breaks a rule, and would break it again.
	ErrInvalid = errs.ErrInvalid

	// ErrNotFound: there is no such token or session.
	ErrNotFound = errs.ErrNotFound

	// ErrFull: there are as many tokens as there can be, or more entries wait for the audit
	// log than can wait.
	ErrFull = errors.New("too many")
)

// RateError means that a client has made more requests than it may.
type RateError struct {
	// After is how long to wait before the next one.
	After time.Duration

	// Failures says that the address has failed too often to prove who it is.
	Failures bool
}

// Error says when to try again.
func (e *RateError) Error() string {
	if e.Failures {
		return fmt.Sprintf("auth: too many failed attempts from this address; try again in %v", e.After)
	}
	return fmt.Sprintf("auth: too many requests; try again in %v", e.After)
}

func invalid(verb, format string, args ...any) error {
	return fmt.Errorf("auth: %s: %s: %w", verb, fmt.Sprintf(format, args...), ErrInvalid)
}

func malformed(format string, args ...any) error {
	return fmt.Errorf("auth: %s: %w", fmt.Sprintf(format, args...), ErrMalformed)
}

// wrap says which verb met an error of the store.
func wrap(verb string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, store.ErrNotFound):
		return fmt.Errorf("auth: %s: %w", verb, ErrNotFound)
	default:
		return fmt.Errorf("auth: %s: %w", verb, err)
	}
}
