package abide

import (
	"context"
	"time"

	"github.com/abidehq/abide/internal/engine"
)

// Client starts instances, talks to them, and tells what is true of them. An [Engine] is
// one. Most of it is more pleasant through [Orchestration], [Instance] and [Event], which
// know types. Wherever it takes a tenant, [DefaultTenant] means the empty one.
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

	// Wait returns what is true of an instance when it has ended.
	Wait(ctx context.Context, ref Ref) (Info, error)

	// Waits returns what an instance waits for right now: activities, timers and children.
	// Events that it waits for are not among them.
	Waits(ctx context.Context, ref Ref) ([]Waiting, error)

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
	// latest execution. From there on it goes its own way, with the same random numbers: the
	// next [NewID] is the other one's next as well. What the history waits for at that event
	// is asked for once more; a child cannot be, so none may be open there.
	Fork(ctx context.Context, from Ref, event int, id string) (Ref, error)

	// MoveTimer gives the pending timers of a name another time. If there is none, it is
	// [ErrNotFound]. A timer of [Event.Wait] has the name of the event.
	MoveTimer(ctx context.Context, ref Ref, timer string, at time.Time) error

	// Delete removes an instance that has ended, with its history.
	Delete(ctx context.Context, ref Ref) error

	// Quarantine lists messages that could not be handled.
	Quarantine(ctx context.Context, filter QuarantineFilter) (QuarantinePage, error)

	// Redrive puts a quarantined message back, as if it had never been tried. The task of an
	// activity for which no instance waits any more is refused with [ErrState].
	Redrive(ctx context.Context, tenant, id string) error

	// Discard removes a quarantined message for good.
	Discard(ctx context.Context, tenant, id string) error

	// Workers returns the processes that serve something and were seen within the last
	// minute: those with a [Config.WorkerName].
	Workers(ctx context.Context) ([]Worker, error)

	// Unserved returns what has messages waiting, and is served by no worker that was seen
	// within the last minute, and not by this client if it is an [Engine]. If there is no
	// process either that serves it without being seen, it waits for ever.
	Unserved(ctx context.Context) ([]Unserved, error)

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

// Waiting is something that an instance waits for.
type Waiting struct {
	// Event is the ID of the event of its history by which it was asked for, and Kind that
	// event's: ActivityScheduled, TimerCreated or ChildStarted.
	Event int
	Kind  string

	// Name is that of the activity, the timer or the child's orchestration.
	Name string

	// Child is the ID of a child.
	Child string

	// At is when a timer fires, or when an activity is tried next.
	At time.Time

	// Attempt is how often an activity was begun, and Err how the last attempt failed.
	Attempt int
	Err     error
}

// Filter says which instances to list. An instance must match all that is set.
type Filter struct {
	// Tenant, if not nil, is the one whose instances to list: the empty one if it is empty,
	// or [DefaultTenant].
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

	// Next is the cursor of the next page, and empty if there is none. A page may hold fewer
	// instances than it could, even none, and still have a Next: of a filter that few match,
	// it has what was found in a short while.
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
// [*InstanceError] that says how it ended otherwise. If the instance stalls it does not
// wait until somebody has it resumed: the error is [ErrStalled], and says why.
func (i *Instance[Out]) Result(ctx context.Context) (Out, error) {
	var zero Out
	info, err := i.first(ctx)
	for err == nil && !info.Status.Ended() && info.Status != Stalled {
		info, err = i.client.Await(ctx, i.start.Ref, info.Revision)
	}
	if err != nil {
		return zero, err
	}
	return ResultOf[Out](info)
}

// first returns what is true of the instance, or will be when it is no longer as it was
// started.
func (i *Instance[Out]) first(ctx context.Context) (Info, error) {
	if i.start.Revision > 0 {
		return i.client.Await(ctx, i.start.Ref, i.start.Revision)
	}
	return i.client.Get(ctx, i.start.Ref)
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

// Restart starts the instance, which has ended, once more, with the same input.
func (i *Instance[Out]) Restart(ctx context.Context) error {
	return i.client.Restart(ctx, i.start.Ref)
}

// MoveTimer gives the pending timers of a name another time.
func (i *Instance[Out]) MoveTimer(ctx context.Context, timer string, at time.Time) error {
	return i.client.MoveTimer(ctx, i.start.Ref, timer, at)
}

// History returns the history of the instance's latest execution.
func (i *Instance[Out]) History(ctx context.Context) (History, error) {
	return i.client.History(ctx, i.start.Ref, 0)
}

// Fork starts a new instance with the history of this one up to an event. Without an ID
// the new one has a random one.
func (i *Instance[Out]) Fork(ctx context.Context, event int, id string) (*Instance[Out], error) {
	ref, err := i.client.Fork(ctx, i.start.Ref, event, id)
	if err != nil {
		return nil, err
	}
	return &Instance[Out]{client: i.client, start: Started{Ref: ref}}, nil
}

// Delete removes the instance, which has ended, with its history.
func (i *Instance[Out]) Delete(ctx context.Context) error { return i.client.Delete(ctx, i.start.Ref) }
