package abide

import (
	"context"
	"fmt"

	"github.com/abidehq/abide/history"
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
// no event arrives in time; a timeout that is not positive does not wait. A payload that does not fit
// the type stalls the instance, and an operator corrects it, see [Client.Correct]; with [InvalidAsError]
// Wait returns an error that matches [ErrInvalidPayload] instead.
func (e *Event[T]) Wait(ctx Context, opts ...WaitOption) (T, error) {
	var o waitOptions
	for _, opt := range opts {
		opt.wait(&o)
	}
	f := e.receive(ctx, o.invalid)
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
func (e *Event[T]) Receive(ctx Context) *Future[T] { return e.receive(ctx, false) }

// receive returns the future of the next event. With invalid a payload that does not fit is its error.
func (e *Event[T]) receive(ctx Context, invalid bool) *Future[T] {
	ctx.check("event", e.name)
	f := ctx.c.Receive(e.name)
	f.SetSchema(ctx.learn(e.name, schemaOf[T](ctx.env.codec)))
	of := thing{what: "the payload of event", name: e.name, kind: history.EventReceived}
	if !invalid {
		return newFuture[T](f, of, errorOf)
	}
	return &Future[T]{f: f, result: func(ctx Context) (T, error) {
		data, failure := f.Result()
		if failure != nil {
			var zero T
			return zero, errorOf(failure)
		}
		v, err := decode[T](ctx.env.codec, data)
		if err != nil {
			return v, &Error{Type: typeInvalidPayload, Message: fmt.Sprintf("%v does not fit its type: %v", of, err)}
		}
		return v, nil
	}}
}

// Send raises the event for another instance of the same tenant. It is called by
// orchestrations.
func (e *Event[T]) Send(ctx Context, id string, v T) {
	ctx.check("event", e.name)
	ctx.checkID(fmt.Sprintf("the target of event %q", e.name), id)
	ctx.c.Send(id, e.name, payload(ctx, thing{what: "event", name: e.name}, v))
}

// Raise raises the event for an instance. It returns when the event is durable. It returns
// [ErrState] if the instance has ended, see [IgnoreEnded]; an instance that does not exist is no
// error, see [MustExist]. [Client.Raise] returns what the event has found.
func (e *Event[T]) Raise(ctx context.Context, c Caller, id string, v T, opts ...RaiseOption) error {
	req, err := e.Prepare(c, id, v, opts...)
	if err != nil {
		return err
	}
	_, err = c.AsClient().Raise(ctx, req)
	return err
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
