package bus

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// EventBus takes envelopes to a sink. All methods are safe for concurrent use.
type EventBus interface {
	// Publish returns nil when the sink has accepted all the envelopes, as durably as
	// it accepts anything. They are given to it in their order.
	//
	// If some were accepted and others not, it returns [Errors], so that only the others
	// need be published again. After any other error none is known to have been
	// accepted, and any may have been.
	//
	// An error is worth another try unless it matches [ErrPermanent]; one from
	// [RetryAfter] says how long to wait. If ctx ends first, Publish returns soon, and
	// the outcome is unknown.
	//
	// Publish neither keeps nor changes what it is given.
	Publish(ctx context.Context, envelopes []Envelope) error
}

// Position is where a command or an event stands in the log that it was read from:
// of two with the same source, the one with the greater sequence came later.
type Position struct {
	Source   string
	Sequence uint64
}

// Errors is the error of a Publish that accepted some of the envelopes. It has an
// element for each, which is nil if that envelope was accepted.
type Errors []error

// Error says how many envelopes failed, and the first reason.
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

// Join returns what Publish returns for these outcomes, one for each envelope: nil if
// all were accepted.
func Join(outcomes []error) error {
	for _, err := range outcomes {
		if err != nil {
			return Errors(outcomes)
		}
	}
	return nil
}

// Outcomes is the inverse of [Join]: what became of each of n envelopes, if Publish
// returned err.
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

// ErrPermanent says that the sink will never accept the envelope, so there is no use
// in trying again.
var ErrPermanent = errors.New("permanent")

// RetryAfter returns err with the sink's wish to be left alone for that long.
func RetryAfter(err error, after time.Duration) error { return &retryAfter{err, after} }

// RetryDelay returns how long a sink wishes to be left alone, and whether it said so.
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
