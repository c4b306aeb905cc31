package abide

import (
	"context"
	"fmt"

	"github.com/abidehq/abide/internal/engine"
	"github.com/abidehq/abide/internal/history"
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
// no longer than that, and returns [ErrTimeout].
func (e *Event[T]) Wait(ctx Context, opts ...WaitOption) (T, error) {
	var o waitOptions
	for _, opt := range opts {
		opt.wait(&o)
	}
	f := e.Receive(ctx)
	if o.timeout <= 0 || f.Ready() {
		return f.Get(ctx)
	}
	timer := NewTimer(ctx, o.timeout, Named(e.name))
	if Select(ctx, f, timer) == 0 {
		timer.Cancel(ctx)
		return f.Get(ctx)
	}
	if err := timer.Wait(ctx); err != nil {
		f.Cancel(ctx)
		var zero T
		return zero, err
	}
	f.Cancel(ctx)
	var zero T
	return zero, timeoutError(fmt.Sprintf("event %q did not come within %v", e.name, o.timeout))
}

// Receive returns what will be the next event. Each event is received once: by who
// has waited longest. A future that is not wanted any more must be cancelled, or it
// takes an event from those that come after it.
func (e *Event[T]) Receive(ctx Context) *Future[T] {
	ctx.check("event", e.name)
	return newFuture[T](ctx.c.Receive(e.name), fmt.Sprintf("what came with event %q", e.name), func(failure *history.Failure) error {
		return errorOf(failure)
	})
}

// Send raises the event for another instance of the same tenant, from within an
// orchestration.
func (e *Event[T]) Send(ctx Context, id string, v T) {
	ctx.check("event", e.name)
	if id == "" || len(id) > engine.MaxID {
		ctx.stallf("event %q is sent to an instance whose ID has %d bytes, 1 to %d are allowed", e.name, len(id), engine.MaxID)
	}
	ctx.c.Send(id, e.name, payload(ctx, fmt.Sprintf("event %q", e.name), v))
}

// Raise raises the event for an instance. It returns when the event is durable.
func (e *Event[T]) Raise(ctx context.Context, c Client, id string, v T, opts ...RaiseOption) error {
	data, err := encode(c.Codec(), v)
	if err != nil {
		return fmt.Errorf("abide: raise %s: %w: %w", e.name, err, ErrInvalid)
	}
	r := engine.Raise{Name: e.name, Data: data}
	for _, opt := range opts {
		opt.raise(&r)
	}
	r.Ref.ID = id
	return c.Raise(ctx, RaiseRequest{r})
}
