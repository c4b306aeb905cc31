package abide

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"github.com/abidehq/abide/internal/engine"
	"github.com/abidehq/abide/internal/history"
)

// Step runs f here and now, and keeps what it returned in history: it is not run again
// when the code is replayed.
//
// It is run at least once: what steps did is made durable with the turn, and a crash
// before that has them run again. A turn in which steps take longer than
// [Config.StepCommitInterval] is ended after the step, so that the next one begins when the
// results before it are durable. An error of the step is kept as well, and with [Retry] the
// step is tried again after a timer. [StartToClose] limits how long an attempt may take.
//
// A step is not run if the scope of ctx is cancelled: the error is [ErrCancelled]. When the
// instance is cancelled or terminated while f runs, the context of f ends: at once if this
// process learns of it first, otherwise within about a second. If f then returns an error
// because the instance is cancelled, Step returns [ErrCancelled]. Under [Shield] a step
// runs to its end.
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
	return engine.Backoff(how, fmt.Sprintf("%016x/%d", seed, event), attempt)
}

func runStep[T any](c context.Context, ctx Context, name string, limit time.Duration, f func(context.Context) (T, error)) (data []byte, failure *history.Failure) {
	defer func() {
		if v := recover(); v != nil {
			data, failure = nil, &history.Failure{Type: engine.TypePanic, Message: fmt.Sprintf("panic: %v\n%s", v, debug.Stack())}
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

// StepError is the error of a step that failed for good.
type StepError struct {
	// Name is that of the step, and Attempt how often it was tried.
	Name    string
	Attempt int

	// Err is the last error.
	Err error
}

// Error says which step failed, and how.
func (e *StepError) Error() string {
	return fmt.Sprintf("step %q, attempt %d: %v", e.Name, e.Attempt, e.Err)
}

// Unwrap returns the last error.
func (e *StepError) Unwrap() error { return e.Err }
