package abide

import (
	"context"
	"fmt"
)

// Event is a named message to an instance; other systems call it a signal. Events with the same
// name are received in the order in which they were raised. They are kept until they are
// received, also before the instance exists and when it continues as new.
type Event[T any] struct{ name string }

// NewEvent returns an event. Declare it as a package variable.
func NewEvent[T any](name string) *Event[T] { return &Event[T]{name: name} }

// Name returns the name of the event.
func (e *Event[T]) Name() string { return e.name }

// Wait waits for the next event and returns its value. With [Timeout] it returns [ErrTimeout] if
// no event arrives in time; a timeout that is not positive does not wait.
func (e *Event[T]) Wait(ctx Context, opts ...WaitOption) (T, error) {
	var o waitOptions
	for _, opt := range opts {
		opt.wait(&o)
	}
	f := e.Receive(ctx)
	if o.timeout == nil || f.Ready() {
		return f.Get(ctx)
	}
	var err error
	if *o.timeout > 0 {
		timer := NewTimer(ctx, *o.timeout, Named(e.name))
		if Select(ctx, f, timer) == 0 {
			timer.Cancel(ctx)
			return f.Get(ctx)
		}
		err = timer.Wait(ctx) // it has fired, or was cancelled
	}
	f.Cancel(ctx)
	if err == nil {
		err = timeoutError(fmt.Sprintf("event %q did not come within %v", e.name, max(*o.timeout, 0)))
	}
	var zero T
	return zero, err
}

// Receive returns the future of the next event. Each event is received once, by the oldest
// pending future. A future that is no longer needed must be cancelled, or it takes an event from
// later ones.
func (e *Event[T]) Receive(ctx Context) *Future[T] {
	ctx.check("event", e.name)
	return newFuture[T](ctx.c.Receive(e.name), thing{"what came with event", e.name}, errorOf)
}

// Send raises the event for another instance of the same tenant. It is called by
// orchestrations.
func (e *Event[T]) Send(ctx Context, id string, v T) {
	ctx.check("event", e.name)
	ctx.checkID(fmt.Sprintf("the target of event %q", e.name), id)
	ctx.c.Send(id, e.name, payload(ctx, thing{"event", e.name}, v))
}

// Raise raises the event for an instance. It returns when the event is durable.
func (e *Event[T]) Raise(ctx context.Context, c Caller, id string, v T, opts ...RaiseOption) error {
	req, err := e.Prepare(c, id, v, opts...)
	if err != nil {
		return err
	}
	return c.AsClient().Raise(ctx, req)
}

// Prepare returns a request for [Client.Raise], which raises several events in one commit.
func (e *Event[T]) Prepare(c Caller, id string, v T, opts ...RaiseOption) (RaiseRequest, error) {
	data, err := encode(c.AsClient().Codec(), v)
	if err != nil {
		return RaiseRequest{}, fmt.Errorf("abide: raise %s: %w: %w", e.name, err, ErrInvalid)
	}
	r := RaiseRequest{Ref: Ref{ID: id}, Event: e.name, Data: data}
	for _, opt := range opts {
		opt.raise(&r)
	}
	r.Ref = r.Ref.canonical()
	return r, nil
}
