package abidetest

import (
	"context"
	"errors"

	"github.com/abidehq/abide"
)

// Instance is an instance under test, whose result is an Out.
type Instance[Out any] struct {
	env *Env
	ref abide.Ref
}

// Start starts an instance.
func Start[In, Out any](env *Env, o *abide.Orchestration[In, Out], in In, opts ...abide.StartOption) *Instance[Out] {
	env.t.Helper()
	i, err := o.Start(context.Background(), env.Client(), in, opts...)
	if errors.Is(err, abide.ErrUnserved) {
		env.t.Fatalf("abidetest: Start: %v: give it to env.Register", err)
	}
	if err != nil {
		env.t.Fatalf("abidetest: Start: %v", err)
	}
	return &Instance[Out]{env, i.Ref()}
}

// Find returns an instance that was started by others: a child, or one that was started
// through [Env.Client].
func Find[In, Out any](env *Env, o *abide.Orchestration[In, Out], id string, opts ...abide.InstanceOption) *Instance[Out] {
	env.t.Helper()
	i := &Instance[Out]{env, o.Instance(env.Client(), id, opts...).Ref()}
	if info := i.Info(); info.Orchestration != o.Name() {
		env.t.Fatalf("abidetest: Find: instance %v is of orchestration %q, not %q", i.ref, info.Orchestration, o.Name())
	}
	return i
}

// Raise raises an event for an instance.
func Raise[T any](env *Env, e *abide.Event[T], id string, v T, opts ...abide.RaiseOption) {
	env.t.Helper()
	if err := e.Raise(context.Background(), env.Client(), id, v, opts...); err != nil {
		env.t.Fatalf("abidetest: Raise: %v", err)
	}
}

// Ref returns which instance it is.
func (i *Instance[Out]) Ref() abide.Ref { return i.ref }

// ID returns the instance's ID.
func (i *Instance[Out]) ID() string { return i.ref.ID }

// Result lets time pass until the instance has ended, and returns its result. If it does
// not complete, or does not end within [Env.Limit], the test fails, with all that is known
// of the instance.
func (i *Instance[Out]) Result() Out {
	i.env.t.Helper()
	info := i.env.end(i.ref)
	if info.Status != abide.Completed {
		i.env.t.Fatalf("abidetest: instance %v did not complete:%s", i.ref, i.env.describe(&info))
	}
	out, err := abide.ResultOf[Out](info)
	if err != nil {
		i.env.t.Fatalf("abidetest: %v", err)
	}
	return out
}

// Err lets time pass until the instance has ended otherwise than with a result, and
// returns the error with which it has: an [*abide.InstanceError]. If it completes, or does
// not end within [Env.Limit], the test fails.
func (i *Instance[Out]) Err() error {
	i.env.t.Helper()
	info := i.env.end(i.ref)
	if info.Status == abide.Completed {
		i.env.t.Fatalf("abidetest: instance %v completed, and should not have:%s", i.ref, i.env.describe(&info))
	}
	return &abide.InstanceError{Ref: i.ref, Status: info.Status, Err: info.Err}
}

// Info returns the state of the instance when everything has happened that is due by
// now.
func (i *Instance[Out]) Info() abide.Info {
	i.env.t.Helper()
	i.env.Settle()
	info, err := i.env.Client().Get(context.Background(), i.ref)
	if err != nil {
		i.env.t.Fatalf("abidetest: %v", err)
	}
	return info
}

// Status returns what the instance is doing when everything has happened that happens by
// now.
func (i *Instance[Out]) Status() abide.Status {
	i.env.t.Helper()
	return i.Info().Status
}

// Waiting returns what the instance's code waits for, in words, when everything has
// happened that happens by now: event "approved", timer "reminder", activity "charge". It
// has an entry for the code itself, and one for each part of it that runs beside it (see
// [abide.Go]). Code that has ended waits for nothing.
func (i *Instance[Out]) Waiting() []string {
	i.env.t.Helper()
	i.env.Settle()
	waiting, err := i.env.waiting(i.ref)
	if err != nil {
		i.env.t.Fatalf("abidetest: Waiting: %v", err)
	}
	return waiting
}

// History returns the history of the instance's latest execution.
func (i *Instance[Out]) History() abide.History {
	i.env.t.Helper()
	i.env.Settle()
	h, err := i.env.Client().History(context.Background(), i.ref, 0)
	if err != nil {
		i.env.t.Fatalf("abidetest: %v", err)
	}
	return h
}
