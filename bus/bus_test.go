package bus_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/abidehq/abide/bus"
)

var errFull = errors.New("the sink is full")

func TestJoinAndOutcomesAreInverse(t *testing.T) {
	t.Parallel()
	permanent := fmt.Errorf("too large: %w", bus.ErrPermanent)
	for _, outcomes := range [][]error{
		nil, {nil}, {nil, nil, nil}, {errFull}, {nil, errFull, nil}, {permanent, errFull},
	} {
		got := bus.Outcomes(bus.Join(outcomes), len(outcomes))
		if !slices.Equal(got, outcomes) && len(outcomes) > 0 {
			t.Errorf("Outcomes(Join(%v)) is %v", outcomes, got)
		}
	}
	if err := bus.Join([]error{nil, nil}); err != nil {
		t.Errorf("Join of no errors is %v", err)
	}
}

// TestOutcomesOfAnyOtherErrorAreUnknown: none is known to have been accepted then,
// whatever the error holds.
func TestOutcomesOfAnyOtherErrorAreUnknown(t *testing.T) {
	t.Parallel()
	partial := bus.Errors{nil, errFull}
	for _, err := range []error{errFull, fmt.Errorf("publish: %w", partial), bus.Errors{nil, errFull, nil}} {
		for i, got := range bus.Outcomes(err, 2) {
			if got == nil || got.Error() != err.Error() {
				t.Errorf("outcome %d of %v is %v", i, err, got)
			}
		}
	}
}

func TestErrorsSaysHowManyAndWhy(t *testing.T) {
	t.Parallel()
	permanent := fmt.Errorf("too large: %w", bus.ErrPermanent)
	err := bus.Join([]error{nil, errFull, permanent})
	if want := "bus: 2 of 3 envelopes were not accepted: the sink is full"; err.Error() != want {
		t.Errorf("got %q, want %q", err, want)
	}
	if !errors.Is(err, errFull) || !errors.Is(err, bus.ErrPermanent) || errors.Is(err, bus.ErrInvalid) {
		t.Errorf("%v does not match what it holds, or matches what it does not hold", err)
	}
}

func TestRetryDelayIsWhatRetryAfterSaid(t *testing.T) {
	t.Parallel()
	if after, ok := bus.RetryDelay(errFull); ok {
		t.Errorf("an error that does not say so is to be tried again after %v", after)
	}
	err := fmt.Errorf("publish: %w", bus.RetryAfter(errFull, time.Minute))
	if after, ok := bus.RetryDelay(err); !ok || after != time.Minute {
		t.Errorf("RetryDelay is %v, %v; want a minute", after, ok)
	}
	if !errors.Is(err, errFull) {
		t.Errorf("%v does not match its cause", err)
	}
	if want := "publish: the sink is full (to be tried again after 1m0s)"; err.Error() != want {
		t.Errorf("got %q, want %q", err, want)
	}
}
