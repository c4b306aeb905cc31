package abide

import (
	"errors"
	"slices"
)

// WithCancel returns a context with a cancellation scope of its own. When the scope, or that of
// ctx, is cancelled, the activities, timers, children and waits that were begun with it return
// [ErrCancelled].
func WithCancel(ctx Context) (scope Context, cancel func(why string)) {
	c, cancel := ctx.c.WithScope()
	return Context{c: c, env: ctx.env}, cancel
}

// Shield returns a context that is not cancelled when ctx is, for clean-up after a
// cancellation.
func Shield(ctx Context) Context { return Context{c: ctx.c.Shield(), env: ctx.env} }

// Cause returns why the scope of ctx was cancelled, as an error that matches [ErrCancelled]. It
// returns nil if the scope was not cancelled.
func Cause(ctx Context) error { return errorOf(ctx.c.Cancelled()) }

// Saga collects compensations, which undo the steps of an operation that has failed.
//
//	err := abide.RunSaga(ctx, func(saga *abide.Saga) error {
//		if _, err := Reserve.Call(ctx, in); err != nil {
//			return err
//		}
//		saga.Undo(func(ctx abide.Context) error {
//			_, err := Unreserve.Call(ctx, in)
//			return err
//		})
//		_, err := Charge.Call(ctx, in)
//		return err
//	})
type Saga struct{ undo []func(ctx Context) error }

// Undo adds a compensation.
func (s *Saga) Undo(f func(ctx Context) error) { s.undo = append(s.undo, f) }

// Compensate runs the compensations, the latest first, with a context that is not cancelled. It
// continues after errors and returns them joined.
func (s *Saga) Compensate(ctx Context) error {
	ctx = Shield(ctx)
	var errs []error
	for _, f := range slices.Backward(s.undo) {
		if err := f(ctx); err != nil {
			errs = append(errs, err)
		}
	}
	s.undo = nil
	return errors.Join(errs...)
}

// RunSaga runs f. If f returns an error, RunSaga runs the compensations and returns the error,
// joined with theirs. [ContinueAsNew] is not an error.
func RunSaga(ctx Context, f func(saga *Saga) error) error {
	var saga Saga
	err := f(&saga)
	if err == nil {
		return nil
	}
	if _, goesOn := errors.AsType[*continueError](err); goesOn {
		return err
	}
	if undo := saga.Compensate(ctx); undo != nil {
		return errors.Join(err, undo)
	}
	return err
}
