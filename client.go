package abide

import (
	"context"
	"time"

	"github.com/abidehq/abide/internal/engine"
)

// Client starts instances, talks to them, and tells what is true of them. An [Engine] is
// one. Most of it is more pleasant through [Orchestration], [Instance] and [Event], which
// know types.
type Client interface {
	// Start starts instances, all or none, in one commit: at most 1,000.
	Start(ctx context.Context, requests ...StartRequest) ([]Started, error)

	// Raise raises events, all or none, in one commit. An instance need not exist: the event
	// waits for it. An event for an instance that has ended is dropped.
	Raise(ctx context.Context, requests ...RaiseRequest) error

	// Get returns what is true of an instance.
	Get(ctx context.Context, ref Ref) (Info, error)

	// Await returns what is true of an instance as soon as its revision is greater than
	// after.
	Await(ctx context.Context, ref Ref, after int64) (Info, error)

	// Wait returns what is true of an instance when it has ended. After is a revision at
	// which it had not, if the caller knows one, or 0.
	Wait(ctx context.Context, ref Ref, after int64) (Info, error)

	// List returns instances in the order in which they were started.
	List(ctx context.Context, filter Filter) (Page, error)

	// History returns the history of an execution, or of the latest one if execution is
	// 0. That of the one before is kept as well.
	History(ctx context.Context, ref Ref, execution int) (History, error)

	// Cancel asks an instance to come to an end. Its code decides how.
	Cancel(ctx context.Context, ref Ref, why string) error

	// Terminate ends an instance without asking its code.
	Terminate(ctx context.Context, ref Ref, why string) error

	// Suspend has an instance wait until it is resumed. What reaches it meanwhile is kept.
	Suspend(ctx context.Context, ref Ref, why string) error

	// Resume has a suspended or stalled instance go on.
	Resume(ctx context.Context, ref Ref) error

	// Restart starts an instance that has ended once more, with the same input. Its old
	// history goes.
	Restart(ctx context.Context, ref Ref) error

	// Fork starts a new instance with the history of another one up to an event of its
	// latest execution. From there on it goes its own way.
	Fork(ctx context.Context, from Ref, event int, id string) (Ref, error)

	// MoveTimer gives the pending timers of a name another time.
	MoveTimer(ctx context.Context, ref Ref, timer string, at time.Time) error

	// Delete removes an instance that has ended, with its history.
	Delete(ctx context.Context, ref Ref) error

	// Quarantine lists messages that could not be handled.
	Quarantine(ctx context.Context, filter QuarantineFilter) (QuarantinePage, error)

	// Redrive puts a quarantined message back, as if it had never been tried.
	Redrive(ctx context.Context, tenant, id string) error

	// Discard removes a quarantined message for good.
	Discard(ctx context.Context, tenant, id string) error

	// Codec returns how values are turned into bytes.
	Codec() Codec
}

// StartRequest is an instance to start: see [Orchestration.Prepare].
type StartRequest struct{ s engine.Start }

// RaiseRequest is an event to raise: see [Event.Raise].
type RaiseRequest struct{ r engine.Raise }

// Started is what became of a [StartRequest].
type Started struct {
	Ref Ref

	// Existed: there was such an instance, and nothing was started.
	Existed bool

	// Revision is that of an instance that was started, and 0 if it existed.
	Revision int64
}

// Filter says which instances to list. An instance must match all that is set.
type Filter struct {
	// Tenant, if not nil, is the one whose instances to list.
	Tenant *string

	// Orchestrations and Statuses: one of them, if there are any.
	Orchestrations []string
	Statuses       []Status

	// From and To bound when it was started: From <= time < To.
	From, To time.Time

	// Tags that it must have.
	Tags map[string]string

	// Descending lists the latest first.
	Descending bool

	// Limit is how many to return: 100 if it is 0, at most 10,000.
	Limit int

	// Cursor is the Next of the page before.
	Cursor string
}

// Page is a part of a list.
type Page struct {
	Instances []Info

	// Next is the cursor of the next page, and empty if there is none.
	Next string
}

// Instance is a handle on an instance whose result is an Out.
type Instance[Out any] struct {
	client Client
	start  Started
}

// Ref returns which instance it is.
func (i *Instance[Out]) Ref() Ref { return i.start.Ref }

// ID returns the instance's ID.
func (i *Instance[Out]) ID() string { return i.start.Ref.ID }

// Existed reports whether the start that returned the handle found the instance there.
func (i *Instance[Out]) Existed() bool { return i.start.Existed }

// Result waits until the instance has ended, and returns its result, or an
// [*InstanceError] that says how it ended otherwise.
func (i *Instance[Out]) Result(ctx context.Context) (Out, error) {
	info, err := i.client.Wait(ctx, i.start.Ref, i.start.Revision)
	if err != nil {
		var zero Out
		return zero, err
	}
	return ResultOf[Out](info)
}

// Info returns what is true of the instance.
func (i *Instance[Out]) Info(ctx context.Context) (Info, error) {
	return i.client.Get(ctx, i.start.Ref)
}

// Cancel asks the instance to come to an end.
func (i *Instance[Out]) Cancel(ctx context.Context, why string) error {
	return i.client.Cancel(ctx, i.start.Ref, why)
}

// Terminate ends the instance without asking its code.
func (i *Instance[Out]) Terminate(ctx context.Context, why string) error {
	return i.client.Terminate(ctx, i.start.Ref, why)
}

// Suspend has the instance wait until it is resumed.
func (i *Instance[Out]) Suspend(ctx context.Context, why string) error {
	return i.client.Suspend(ctx, i.start.Ref, why)
}

// Resume has a suspended or stalled instance go on.
func (i *Instance[Out]) Resume(ctx context.Context) error { return i.client.Resume(ctx, i.start.Ref) }
