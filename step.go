package abide

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/internal/engine"
)

// Step runs f inside the turn and records its result in history. A replay returns the recorded
// result and does not run f.
//
// f runs at least once: the results of steps become durable with the commit of the turn, and
// after a crash before that commit the steps run again. A turn whose steps have taken longer than
// [Config.StepCommitInterval] is committed before the next step begins. An error of f is recorded
// as well; with [Retry] the step is attempted again after a timer. [StartToClose] limits the
// duration of an attempt.
//
// If the scope of ctx is cancelled, f is not run, and the error is [ErrCancelled]. If the instance
// is cancelled or terminated while f runs, the context of f ends: at once if this process made
// the request, otherwise within about a second. If f then returns an error because of a
// cancellation, Step returns [ErrCancelled]. With [Shield] a step runs to its end.
func Step[T any](ctx Context, name string, f func(ctx context.Context) (T, error), opts ...StepOption) (T, error) {
	ctx.check("step", name)
	o := activityOptions{how: history.Activity{MaxAttempts: 1}}
	for _, opt := range opts {
		opt.step(&o)
	}
	for attempt := 1; ; attempt++ {
		data, failure := ctx.c.Step(name, func(c context.Context) ([]byte, *history.Failure) {
			return runStep(c, ctx, name, o.how.StartToClose, f)
		})
		if failure == nil {
			v, err := decode[T](ctx.env.codec, data)
			if err != nil {
				ctx.stallf("the result of step %q does not fit its type: %v", name, err)
			}
			return v, nil
		}
		var zero T
		last := o.how.MaxAttempts > 0 && attempt >= int(o.how.MaxAttempts)
		if last || failure.Final || slices.Contains(o.how.Final, failure.Type) {
			return zero, &StepError{Name: name, Attempt: attempt, Err: errorOf(failure)}
		}
		if err := Sleep(ctx, stepBackoff(ctx, &o.how, attempt)); err != nil {
			return zero, err
		}
	}
}

// stepBackoff returns how long to wait after an attempt. Its jitter derives from the seed of
// the execution and the latest event, so that a replay computes the same.
func stepBackoff(ctx Context, how *history.Activity, attempt int) time.Duration {
	seed, event := ctx.c.Position()
	return engine.Backoff(how).Delay(fmt.Sprintf("%016x/%d", seed, event), attempt)
}

func runStep[T any](c context.Context, ctx Context, name string, limit time.Duration, f func(context.Context) (T, error)) (data []byte, failure *history.Failure) {
	defer func() {
		if v := recover(); v != nil {
			data, failure = nil, engine.PanicFailure(v, debug.Stack())
		}
	}()
	if limit > 0 {
		var cancel context.CancelFunc
		c, cancel = context.WithTimeoutCause(c, limit, engine.ErrTimeout)
		defer cancel()
	}
	v, err := f(c)
	if err != nil {
		failure := failureOf(err)
		if errors.Is(context.Cause(c), engine.ErrTimeout) {
			failure = &history.Failure{Type: engine.TypeTimeout, Message: fmt.Sprintf("step %q did not end within %v: %s", name, limit, failure.Message)}
		}
		return nil, failure
	}
	data, err = encode(ctx.env.codec, v)
	if err == nil && len(data) > engine.MaxPayload {
		err = fmt.Errorf("it has %d bytes, at most %d are allowed", len(data), engine.MaxPayload)
	}
	if err != nil {
		return nil, failureOf(Final(fmt.Errorf("abide: the result of step %q cannot be kept: %w", name, err)))
	}
	return data, nil
}

// StepError is the error of a step whose last attempt has failed.
type StepError struct {
	// Name is the name of the step, and Attempt the number of attempts.
	Name    string
	Attempt int

	// Err is the last error.
	Err error
}

// Error returns the name of the step, the number of attempts and the last error.
func (e *StepError) Error() string {
	return fmt.Sprintf("step %q, attempt %d: %v", e.Name, e.Attempt, e.Err)
}

// Unwrap returns the last error.
func (e *StepError) Unwrap() error { return e.Err }
