package abide

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/internal/engine"
	"github.com/abidehq/abide/internal/replay"
)

// Orchestration is a deterministic function with a name and a version; other systems call it a
// workflow. Declare it as a package variable and list it in [Config.Register].
type Orchestration[In, Out any] struct {
	name    string
	version string
	builds  BuildPolicy
	f       func(ctx Context, in In) (Out, error)
}

// NewOrchestration returns an orchestration. The name is in the history of each of its
// instances, and must not change. [Open] checks it.
func NewOrchestration[In, Out any](name string, f func(ctx Context, in In) (Out, error), opts ...RegisterOption) *Orchestration[In, Out] {
	var o registerOptions
	for _, opt := range opts {
		opt.register(&o)
	}
	return &Orchestration[In, Out]{name: name, version: o.version, builds: o.builds, f: f}
}

// OrchestrationNamed returns a handle on an orchestration whose function is in another process,
// or in a package variable that its own function cannot refer to without an initialization
// cycle. It can be started and called, but not registered.
func OrchestrationNamed[In, Out any](name string, opts ...RegisterOption) *Orchestration[In, Out] {
	return NewOrchestration[In, Out](name, nil, opts...)
}

// Name returns the name of the orchestration.
func (o *Orchestration[In, Out]) Name() string { return o.name }

// Version returns the version of the orchestration.
func (o *Orchestration[In, Out]) Version() string { return o.version }

// Start starts an instance. It returns when the start is durable. The ID of the instance is
// random unless [ID] sets it. If an instance with that ID exists, Start returns it; see
// [RejectExisting] and [ReplaceEnded].
func (o *Orchestration[In, Out]) Start(ctx context.Context, c Caller, in In, opts ...StartOption) (*Instance[Out], error) {
	req, err := o.Prepare(c, in, opts...)
	if err != nil {
		return nil, err
	}
	started, err := c.AsClient().Start(ctx, req)
	if err != nil {
		return nil, err
	}
	return &Instance[Out]{client: c.AsClient(), start: started[0]}, nil
}

// Prepare returns a request for [Client.Start], which starts several instances in one commit.
func (o *Orchestration[In, Out]) Prepare(c Caller, in In, opts ...StartOption) (StartRequest, error) {
	s := StartRequest{Orchestration: o.name, Version: o.version}
	for _, opt := range opts {
		opt.start(&s)
	}
	if s.Ref.ID == "" {
		s.Ref.ID, s.newID = newID(), true
	}
	data, err := encode(c.AsClient().Codec(), in)
	if err != nil {
		return StartRequest{}, fmt.Errorf("abide: start %s: input: %w: %w", o.name, err, ErrInvalid)
	}
	s.Input, s.Ref, s.schema = data, s.Ref.canonical(), schemaOf[In](c.AsClient().Codec())
	return s, nil
}

// Instance returns a handle on an instance. It does not check whether the instance exists.
func (o *Orchestration[In, Out]) Instance(c Caller, id string, opts ...InstanceOption) *Instance[Out] {
	ref := Ref{ID: id}
	for _, opt := range opts {
		opt.instance(&ref)
	}
	return &Instance[Out]{client: c.AsClient(), start: Started{Ref: ref.canonical()}}
}

// Call starts a child and waits for its result.
func (o *Orchestration[In, Out]) Call(ctx Context, in In, opts ...ChildOption) (Out, error) {
	return o.Go(ctx, in, opts...).Get(ctx)
}

// Go starts a child and returns the future of its result. The error of a child that did not
// complete is a [*ChildError].
func (o *Orchestration[In, Out]) Go(ctx Context, in In, opts ...ChildOption) *Future[Out] {
	id, data, how := o.prepareChild(ctx, in, opts)
	f := ctx.c.Child(o.name, id, data, how)
	return newFuture[Out](f, thing{what: "the result of child", name: f.Target(), kind: history.ChildCompleted}, func(failure *history.Failure) error {
		return &ChildError{Name: o.name, ID: f.Target(), Err: errorOf(failure)}
	})
}

// Detach starts an instance that is independent of the caller, and returns its ID. If an instance
// with that ID exists, none is started.
func (o *Orchestration[In, Out]) Detach(ctx Context, in In, opts ...ChildOption) string {
	id, data, how := o.prepareChild(ctx, in, opts)
	return ctx.c.Detach(o.name, id, data, how)
}

func (o *Orchestration[In, Out]) prepareChild(ctx Context, in In, opts []ChildOption) (id string, data []byte, how history.Child) {
	ctx.check("orchestration", o.name)
	c := childOptions{how: history.Child{Version: o.version}}
	for _, opt := range opts {
		opt.child(&c)
	}
	ctx.checkLimits("child", o.name, c.how.Limits, c.how.Priority)
	if c.id != "" {
		ctx.checkID(fmt.Sprintf("child of %q", o.name), c.id)
	}
	return c.id, payload(ctx, thing{what: "the input of child orchestration", name: o.name}, in), c.how
}

// ContinueOption is an option of [ContinueAsNew].
type ContinueOption interface{ continued(*continueOptions) }

type continueOptions struct{ version *string }

// ContinueAsNew ends the current execution and begins the next one, with a new input and an
// empty history: for instances that run without end. Return its error:
//
//	return abide.None{}, abide.ContinueAsNew(ctx, next)
//
// Events that were raised and not received are passed on to the next execution. Open activities
// and timers are cancelled, and [OnParentClose] applies to open children. With [Version] the next
// execution runs another version of the orchestration.
func ContinueAsNew[In any](ctx Context, in In, opts ...ContinueOption) error {
	name, start := ctx.c.Start()
	version := start.Version
	var o continueOptions
	for _, opt := range opts {
		opt.continued(&o)
	}
	if t := reflect.TypeFor[In](); o.version == nil && t != ctx.env.input {
		ctx.stallf("continue as new: the input is %v, and the orchestration takes %v", t, ctx.env.input)
	}
	if o.version != nil { // which may take something else
		version = *o.version
		if err := engine.CheckVersion(version); err != nil {
			ctx.c.Stall(err)
		}
	}
	return &continueError{replay.Continue{Name: name, Version: version, Input: payload(ctx, thing{what: "the input of the next execution"}, in)}}
}

type continueError struct{ next replay.Continue }

// Error tells the programmer to return the error.
func (*continueError) Error() string { return "abide: return this error to continue as new" }

// define registers the orchestration with an engine.
func (o *Orchestration[In, Out]) define(d *definitions) error {
	if o == nil {
		return fmt.Errorf("abide: an orchestration is nil: %w", ErrInvalid)
	}
	if err := engine.CheckName("orchestration", o.name); err != nil {
		return err
	}
	if err := engine.CheckVersion(o.version); err != nil {
		return fmt.Errorf("orchestration %q: %w", o.name, err)
	}
	route := engine.Route(o.name, o.version)
	if o.f == nil {
		return fmt.Errorf("abide: orchestration %q has no function: %w", route, ErrInvalid)
	}
	if _, dup := d.orchestrations[route]; dup {
		return fmt.Errorf("abide: orchestration %q is registered twice: %w", route, ErrInvalid)
	}
	if o.builds != Follow {
		d.pins[route] = engine.Pin(o.builds)
	}
	d.orchestrations[route] = o.code
	d.signatures = append(d.signatures, func(c Codec) engine.Signature {
		return engine.Signature{Name: engine.SignatureName{Route: route}, Input: schemaOf[In](c), Result: schemaOf[Out](c)}
	})
	return nil
}

// code returns the orchestration as the executor runs it.
func (o *Orchestration[In, Out]) code(env environment) replay.Code {
	env.input = reflect.TypeFor[In]()
	return func(c *replay.Context, input []byte) replay.Outcome {
		ctx := Context{c: c, env: &env}
		in, err := decode[In](env.codec, input)
		if err != nil {
			ctx.stallPayload(c.StartEvent(), history.ExecutionStarted, thing{what: "the input of orchestration", name: o.name}, err)
		}
		out, err := o.f(ctx, in)
		var next *continueError
		switch {
		case errors.As(err, &next):
			return replay.Outcome{Continue: &next.next}
		case err != nil:
			return replay.Outcome{Failure: failureOf(err)}
		default:
			return replay.Outcome{Data: payload(ctx, thing{what: "the result of orchestration", name: o.name}, out)}
		}
	}
}
