package abide

import (
	"errors"
	"slices"
)

// WithCancel returns a context whose scope can be cancelled by itself, and is when that
// of ctx is: then the activities, timers, children and waits that were asked for under it
// are given up, and return [ErrCancelled].
func WithCancel(ctx Context) (scope Context, cancel func(why string)) {
	c, cancel := ctx.c.WithScope()
	return Context{c: c, env: ctx.env}, cancel
}

// Shield returns a context that is not cancelled with ctx: for what must be done when
// all else has been given up.
func Shield(ctx Context) Context { return Context{c: ctx.c.Shield(), env: ctx.env} }

// Cause returns why the scope of ctx was cancelled, an error that is [ErrCancelled], or nil
// if it was not.
func Cause(ctx Context) error { return errorOf(ctx.c.Cancelled()) }

// Saga undoes what was done when something that belongs to it fails.
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

// Undo says how to undo what was just done.
func (s *Saga) Undo(f func(ctx Context) error) { s.undo = append(s.undo, f) }

// Compensate undoes all, the latest first, under a context that is not cancelled. It
// goes on after an error, and returns all of them, joined.
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

// RunSaga runs f. If it returns an error, what it did is undone, and the error is
// returned, with those of undoing.
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
