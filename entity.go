package abide

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/internal/engine"
)

// Entity is a kind of durable object: each key has a state of its own, and operations that run one
// after the other. An entity exists from its first operation on, and until one deletes it.
//
//	var (
//		Account = abide.NewEntity[Balance]("account")
//		Deposit = abide.NewOperation(Account, "deposit", deposit)
//	)
//
//	func deposit(ctx abide.EntityContext, b *Balance, cents int) (int, error) {
//		b.Cents += cents
//		return b.Cents, nil
//	}
//
// Declare it as a package variable and list it in [Config.Register], which registers its operations
// too. Orchestrations call and signal operations, and lock entities, see [Lock]; entities and clients
// signal them.
type Entity[State any] struct {
	name       string
	operations map[string]entityOperation[State]
	err        error // of a declaration
}

// entityOperation runs an operation on a state, and returns the encoded result.
type entityOperation[State any] func(ctx EntityContext, s *State, input []byte) ([]byte, error)

// NewEntity returns an entity. Upper and lower case of the name are the same. The name is in the IDs of
// entities, and must not change. [Open] checks it.
func NewEntity[State any](name string) *Entity[State] {
	return &Entity[State]{name: strings.ToLower(name), operations: map[string]entityOperation[State]{}}
}

// Name returns the name of the entity, in lower case.
func (e *Entity[State]) Name() string { return e.name }

// ID returns the ID of the entity with a key.
func (e *Entity[State]) ID(key string) EntityID { return EntityID{Name: e.name, Key: key} }

// Get returns the state of the entity with a key, and false if there is none. Operations that were sent
// and have not run yet are not in it.
func (e *Entity[State]) Get(ctx context.Context, c Caller, key string, opts ...InstanceOption) (state State, ok bool, err error) {
	ref := Ref{ID: e.ID(key).String()}
	for _, opt := range opts {
		opt.instance(&ref)
	}
	info, err := c.AsClient().Entity(ctx, ref)
	if errors.Is(err, ErrNotFound) || err == nil && info.State == nil {
		return state, false, nil
	}
	if err != nil {
		return state, false, err
	}
	if err := c.AsClient().Codec().Decode(info.State, &state); err != nil {
		return state, false, fmt.Errorf("abide: the state of entity %v does not fit its type: %w", e.ID(key), err)
	}
	return state, true, nil
}

// EntityID identifies an entity of a tenant by its name and key.
type EntityID struct{ Name, Key string }

// String returns the ID as text: @name@key.
func (id EntityID) String() string { return engine.EntityID(id.Name, id.Key) }

// ParseEntityID is the inverse of [EntityID.String]. The error matches [ErrInvalid].
func ParseEntityID(s string) (EntityID, error) {
	name, key, err := engine.ParseEntityID(s)
	return EntityID{Name: name, Key: key}, err
}

// EntityContext is the context of an operation. An operation may do I/O, but it should be short: other
// operations of the entity wait. Like an activity it is executed at least once. What it does to the state, and
// what it sends, takes effect once, and only if it returns no error. The context ends when its process stops or
// loses the entity.
type EntityContext struct {
	context.Context //nolint:containedctx // it is one
	run             *entityRun
}

// entityRun is an operation that runs.
type entityRun struct {
	batch   *engine.EntityBatch
	op      *engine.EntityOperation
	codec   Codec
	deleted bool
	signals []engine.EntitySignal
	starts  []engine.Start
}

// ID returns the ID of the entity.
func (ctx EntityContext) ID() EntityID {
	return EntityID{Name: ctx.run.batch.Name, Key: ctx.run.batch.Key}
}

// Tenant returns the tenant of the entity.
func (ctx EntityContext) Tenant() string { return cmp.Or(ctx.run.batch.Ref.Tenant, DefaultTenant) }

// Sender returns the instance that called or signalled the operation, and false if none did.
func (ctx EntityContext) Sender() (Ref, bool) {
	from := ctx.run.op.From
	return refFrom(from), from.ID != ""
}

// RequestID returns an ID that no other operation has, and that is the same if the operation is executed
// again. Pass it on as an idempotency key.
func (ctx EntityContext) RequestID() string { return ctx.run.op.Request }

// Now returns the time by the store's clock when the operation was claimed.
func (ctx EntityContext) Now() time.Time { return ctx.run.batch.Now }

// Delete deletes the state of the entity when the operation has returned. The next operation begins with the
// zero value.
func (ctx EntityContext) Delete() { ctx.run.deleted = true }

// signal sends an operation when this one has returned.
func (ctx EntityContext) signal(to EntityID, operation string, input any, d DelayOption) error {
	data, err := encodeInput(ctx.run.codec, input)
	if err != nil {
		return fmt.Errorf("abide: operation %q: input: %w: %w", operation, err, ErrInvalid)
	}
	ctx.run.signals = append(ctx.run.signals, engine.EntitySignal{To: to.String(), Name: operation, Input: data, At: d.from(ctx.run.batch.Now)})
	return nil
}

// encodeInput is encode for a value of any type.
func encodeInput(c Codec, v any) ([]byte, error) {
	if _, none := v.(None); none {
		return nil, nil
	}
	return c.Encode(v)
}

// define registers the entity with an engine.
func (e *Entity[State]) define(d *definitions) error {
	if e == nil {
		return fmt.Errorf("abide: an entity is nil: %w", ErrInvalid)
	}
	if err := engine.CheckName("entity", e.name); err != nil {
		return err
	}
	if e.err != nil {
		return e.err
	}
	if len(e.operations) == 0 {
		return fmt.Errorf("abide: entity %q has no operations: %w", e.name, ErrInvalid)
	}
	if _, dup := d.entities[e.name]; dup {
		return fmt.Errorf("abide: entity %q is registered twice: %w", e.name, ErrInvalid)
	}
	d.entities[e.name] = e.code
	return nil
}

// code returns what runs the operations of the entity.
func (e *Entity[State]) code(codec Codec) engine.EntityCode {
	return func(ctx context.Context, b *engine.EntityBatch) (*engine.EntityOutcome, error) {
		out := &engine.EntityOutcome{State: b.State}
		for i := range b.Operations {
			if ctx.Err() != nil && i > 0 {
				break // the others are delivered again
			}
			r := &entityRun{batch: b, op: &b.Operations[i], codec: codec}
			data, state, err := e.operate(EntityContext{ctx, r}, out.State)
			if err != nil && ctx.Err() != nil { // which may be why: it is delivered again
				if i == 0 {
					return nil, fmt.Errorf("abide: operation %q was told to stop: %w: %w", r.op.Name, err, engine.ErrUnavailable)
				}
				break
			}
			if err != nil {
				out.Results = append(out.Results, engine.EntityResult{Failure: failureOf(err)})
				continue
			}
			out.State = state
			out.Results = append(out.Results, engine.EntityResult{Data: data})
			out.Signals, out.Starts = append(out.Signals, r.signals...), append(out.Starts, r.starts...)
		}
		return out, nil
	}
}

// operate runs one operation, and returns its result and the state that it leaves.
func (e *Entity[State]) operate(ctx EntityContext, before []byte) (data, after []byte, err error) {
	defer func() {
		if value := recover(); value != nil {
			data, after, err = nil, nil, errorOf(engine.PanicFailure(value, debug.Stack()))
		}
	}()
	run, ok := e.operations[ctx.run.op.Name]
	if !ok {
		return nil, nil, Final(fmt.Errorf("abide: entity %q has no operation %q", e.name, ctx.run.op.Name))
	}
	codec := ctx.run.codec
	var state State
	if before != nil {
		if err := codec.Decode(before, &state); err != nil {
			return nil, nil, Final(fmt.Errorf("abide: the state of entity %v does not fit its type: %w", ctx.ID(), err))
		}
	}
	data, err = run(ctx, &state, ctx.run.op.Input)
	if err != nil || ctx.run.deleted {
		return data, nil, err
	}
	if after, err = codec.Encode(state); err != nil {
		return nil, nil, Final(fmt.Errorf("abide: the state of entity %v cannot be encoded: %w", ctx.ID(), err))
	}
	return data, after, nil
}

// Operation is an operation of an entity, with the types of its input and its result.
type Operation[In, Out any] struct {
	entity string
	name   string
}

// NewOperation adds an operation to an entity and returns it. Declare it as a package variable beside the
// entity. The name is in messages and histories, and must not change.
//
// If the function returns an error, the state stays as it was, nothing that it sent is sent, and a caller gets the
// error. Operations are not retried.
func NewOperation[State, In, Out any](e *Entity[State], name string, f func(ctx EntityContext, s *State, in In) (Out, error)) *Operation[In, Out] {
	switch _, dup := e.operations[name]; {
	case dup:
		e.err = errors.Join(e.err, fmt.Errorf("abide: entity %q has two operations %q: %w", e.name, name, ErrInvalid))
	case f == nil:
		e.err = errors.Join(e.err, fmt.Errorf("abide: operation %q of entity %q has no function: %w", name, e.name, ErrInvalid))
	default:
		e.err = errors.Join(e.err, engine.CheckName("operation", name))
	}
	e.operations[name] = func(ctx EntityContext, s *State, input []byte) ([]byte, error) {
		in, err := decode[In](ctx.run.codec, input)
		if err != nil {
			return nil, Final(fmt.Errorf("abide: the input of operation %q of entity %q does not fit its type: %w", name, e.name, err))
		}
		out, err := f(ctx, s, in)
		if err != nil {
			return nil, err
		}
		data, err := encode(ctx.run.codec, out)
		if err != nil {
			return nil, Final(fmt.Errorf("abide: the result of operation %q of entity %q cannot be encoded: %w", name, e.name, err))
		}
		return data, nil
	}
	return &Operation[In, Out]{entity: e.name, name: name}
}

// OperationNamed returns a handle on an operation whose function is in another process, or in a package
// variable that the function cannot refer to without an initialization cycle.
func OperationNamed[In, Out any](entity, name string) *Operation[In, Out] {
	return &Operation[In, Out]{entity: strings.ToLower(entity), name: name}
}

// Name returns the name of the operation.
func (o *Operation[In, Out]) Name() string { return o.name }

// Call calls the operation of the entity with a key and waits for its result. The error of an operation
// that failed is an [*EntityError].
func (o *Operation[In, Out]) Call(ctx Context, key string, in In) (Out, error) {
	return o.Go(ctx, key, in).Get(ctx)
}

// Go calls the operation and returns the future of its result. A future that is cancelled does not cancel the
// operation.
func (o *Operation[In, Out]) Go(ctx Context, key string, in In) *Future[Out] {
	id := EntityID{o.entity, key}
	o.check(ctx, id)
	f := ctx.c.CallEntity(id.String(), o.name, payload(ctx, thing{what: "the input of operation", name: o.name}, in))
	return newFuture[Out](f, thing{what: "the result of operation", name: o.name, kind: history.EntityCompleted}, func(failure *history.Failure) error {
		return &EntityError{Entity: id, Operation: o.name, Err: errorOf(failure)}
	})
}

// Signal sends the operation to the entity with a key, and does not wait for it. It is called by
// orchestrations. Its errors are not reported.
func (o *Operation[In, Out]) Signal(ctx Context, key string, in In, delay ...DelayOption) {
	id := EntityID{o.entity, key}
	o.check(ctx, id)
	at := joined(delay).from(ctx.c.Now())
	if at.Year() > maxYear {
		ctx.stallf("limit: a signal is delayed until %v; up to the year %d is allowed", at, maxYear)
	}
	ctx.c.SignalEntity(id.String(), o.name, payload(ctx, thing{what: "the input of operation", name: o.name}, in), at)
}

func (o *Operation[In, Out]) check(ctx Context, id EntityID) {
	ctx.check("operation", o.name)
	if _, err := ParseEntityID(id.String()); err != nil {
		ctx.c.Stall(err)
	}
}

// SignalFrom is Signal for an operation of another entity, or of the same one: it is sent when the operation of
// ctx has returned without an error. An error matches [ErrInvalid].
func (o *Operation[In, Out]) SignalFrom(ctx EntityContext, key string, in In, delay ...DelayOption) error {
	return ctx.signal(EntityID{o.entity, key}, o.name, in, joined(delay))
}

// Send is Signal for clients. It returns when the operation is durable, not when it has run. With [ID] an
// operation that is sent again is dropped, as long as it is among the last that the entity has received.
func (o *Operation[In, Out]) Send(ctx context.Context, c Caller, key string, in In, opts ...SignalOption) error {
	r := SignalRequest{Ref: Ref{ID: EntityID{o.entity, key}.String()}, Operation: o.name}
	for _, opt := range opts {
		opt.signal(&r)
	}
	var err error
	if r.Input, err = encode(c.AsClient().Codec(), in); err != nil {
		return fmt.Errorf("abide: operation %q: input: %w: %w", o.name, err, ErrInvalid)
	}
	return c.AsClient().Signal(ctx, r)
}

// StartFrom starts an instance from an operation of an entity, when that has returned without an error, and
// returns the instance's ID. If an instance with that ID exists, none is started. An error matches [ErrInvalid].
func (o *Orchestration[In, Out]) StartFrom(ctx EntityContext, in In, opts ...StartOption) (string, error) {
	req, err := o.Prepare(ClientOver(nil, ctx.run.codec), in, opts...)
	if err != nil {
		return "", err
	}
	if err := engine.CheckLimits(req.Limits, clamp(req.Priority)); err != nil {
		return "", err
	}
	ctx.run.starts = append(ctx.run.starts, engine.Start{
		Ref: engine.Ref{ID: req.Ref.ID}, Name: req.Orchestration, Version: req.Version, Input: req.Input, Tags: req.Tags, At: req.At, After: req.After,
		Limits: req.Limits, Priority: clamp(req.Priority),
	})
	return req.Ref.ID, nil
}

// EntityError is the error of an operation of an entity that has failed.
type EntityError struct {
	Entity    EntityID
	Operation string

	// Err is the error of the operation.
	Err error
}

// Error returns the entity, the operation and its error.
func (e *EntityError) Error() string {
	return fmt.Sprintf("operation %q of entity %q: %v", e.Operation, e.Entity, e.Err)
}

// Unwrap returns the error of the operation.
func (e *EntityError) Unwrap() error { return e.Err }
