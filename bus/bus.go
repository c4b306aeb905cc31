package bus

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// EventBus publishes envelopes to a sink. Its methods are safe for concurrent use.
type EventBus interface {
	// Publish returns nil when the sink has accepted all the envelopes, as durably as
	// it accepts anything. They are given to it in their order.
	//
	// If some were accepted and others not, it returns [Errors], so that only the others
	// need be published again. After any other error none is known to have been
	// accepted, and any may have been.
	//
	// An error is retryable unless it matches [ErrPermanent]; one from [RetryAfter] holds the
	// delay. If ctx ends first, Publish returns soon, and the outcome is unknown.
	//
	// Publish neither retains nor modifies the envelopes.
	Publish(ctx context.Context, envelopes []Envelope) error
}

// Position is the position of a message in the log that it was read from. Of two positions with
// the same source, the one with the greater sequence is later.
type Position struct {
	Source   string
	Sequence uint64
}

// Errors is the error of a Publish that accepted some of the envelopes. It has one element per
// envelope, which is nil if the envelope was accepted.
type Errors []error

// Error returns the number of envelopes that failed, and the first error.
func (e Errors) Error() string {
	failed, first := 0, error(nil)
	for _, err := range e {
		if err == nil {
			continue
		}
		if failed++; first == nil {
			first = err
		}
	}
	return fmt.Sprintf("bus: %d of %d envelopes were not accepted: %v", failed, len(e), first)
}

// Unwrap returns the errors of the envelopes that were not accepted.
func (e Errors) Unwrap() []error {
	var errs []error
	for _, err := range e {
		if err != nil {
			errs = append(errs, err)
		}
	}
	return errs
}

// Join returns the error of a Publish with these outcomes, one for each envelope. It is nil if
// all were accepted.
func Join(outcomes []error) error {
	for _, err := range outcomes {
		if err != nil {
			return Errors(outcomes)
		}
	}
	return nil
}

// Outcomes is the inverse of [Join]: it returns the outcome of each of n envelopes for the error
// of a Publish.
func Outcomes(err error, n int) []error {
	if each, ok := err.(Errors); ok && len(each) == n { //nolint:errorlint // one that is wrapped says more than its elements
		return each
	}
	outcomes := make([]error, n)
	for i := range outcomes {
		outcomes[i] = err
	}
	return outcomes
}

// ErrPermanent means that the sink will never accept the envelope. Retrying does not help.
var ErrPermanent = errors.New("permanent")

// RetryAfter returns err with the delay that the sink asks for before the next attempt.
func RetryAfter(err error, after time.Duration) error { return &retryAfter{err, after} }

// RetryDelay returns the delay of [RetryAfter], and whether err has one.
func RetryDelay(err error) (time.Duration, bool) {
	if r, ok := errors.AsType[*retryAfter](err); ok {
		return r.after, true
	}
	return 0, false
}

type retryAfter struct {
	err   error
	after time.Duration
}

func (r *retryAfter) Error() string {
	return fmt.Sprintf("%v (to be tried again after %v)", r.err, r.after)
}

func (r *retryAfter) Unwrap() error { return r.err }
