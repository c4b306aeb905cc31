package abide

import (
	"context"
	"fmt"

	"github.com/abidehq/abide/internal/engine"
)

// Event is something that is raised from outside, under a name. Events of a name are
// kept in order until they are received, also before the instance exists and when it
// continues as new.
type Event[T any] struct{ name string }

// NewEvent returns an event. Make it once, as a package variable.
func NewEvent[T any](name string) *Event[T] { return &Event[T]{name: name} }

// Name returns the event's name.
func (e *Event[T]) Name() string { return e.name }

// Wait waits for the next event and returns what came with it. With [Timeout] it waits
// no longer than that, and returns [ErrTimeout]; not at all if that is not in the future.
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

// Receive returns what will be the next event. Each event is received once: by who
// has waited longest. A future that is not wanted any more must be cancelled, or it
// takes an event from those that come after it.
func (e *Event[T]) Receive(ctx Context) *Future[T] {
	ctx.check("event", e.name)
	return newFuture[T](ctx.c.Receive(e.name), thing{"what came with event", e.name}, errorOf)
}

// Send raises the event for another instance of the same tenant, from within an
// orchestration.
func (e *Event[T]) Send(ctx Context, id string, v T) {
	ctx.check("event", e.name)
	ctx.checkID(fmt.Sprintf("the target of event %q", e.name), id)
	ctx.c.Send(id, e.name, payload(ctx, thing{"event", e.name}, v))
}

// Raise raises the event for an instance. It returns when the event is durable.
func (e *Event[T]) Raise(ctx context.Context, c Client, id string, v T, opts ...RaiseOption) error {
	req, err := e.Prepare(c, id, v, opts...)
	if err != nil {
		return err
	}
	return c.Raise(ctx, req)
}

// Prepare returns what [Client.Raise] takes, so that several events can be raised in one
// commit.
func (e *Event[T]) Prepare(c Client, id string, v T, opts ...RaiseOption) (RaiseRequest, error) {
	data, err := encode(c.Codec(), v)
	if err != nil {
		return RaiseRequest{}, fmt.Errorf("abide: raise %s: %w: %w", e.name, err, ErrInvalid)
	}
	r := engine.Raise{Name: e.name, Data: data}
	for _, opt := range opts {
		opt.raise(&r)
	}
	r.Ref.ID = id
	return RaiseRequest{r}, nil
}
