package abide

import (
	"context"
	"time"

	"github.com/abidehq/abide/internal/engine"
)

// Client starts, inspects and controls instances of orchestrations. [Engine] implements it,
// and so do [NewClient] for a store and package remote for a server. The methods of
// [Orchestration], [Instance] and [Event] offer the same with types.
//
// A tenant of [DefaultTenant] is the same as an empty one. A method that changes an instance
// returns when the change is durable. It returns [ErrNotFound] if there is no such instance,
// and [ErrState] if the status of the instance does not allow the change.
type Client interface {
	// Start starts up to 1,000 instances in one commit: all of them or none.
	Start(ctx context.Context, requests ...StartRequest) ([]Started, error)

	// Raise raises events in one commit: all of them or none. An event for an instance that
	// does not exist is kept until the instance is started, see [KeepFor]; an event for an
	// instance that has ended is dropped.
	Raise(ctx context.Context, requests ...RaiseRequest) error

	// Get returns the current state of an instance, or [ErrNotFound].
	Get(ctx context.Context, ref Ref) (Info, error)

	// Await waits until the revision of an instance is greater than after, and returns its
	// state.
	Await(ctx context.Context, ref Ref, after int64) (Info, error)

	// Wait waits until an instance has ended, and returns its state.
	Wait(ctx context.Context, ref Ref) (Info, error)

	// Waits returns the activities, timers and children that an instance waits for. Events
	// are not included.
	Waits(ctx context.Context, ref Ref) ([]Waiting, error)

	// List returns a page of instances, ordered by the time of their start.
	List(ctx context.Context, filter Filter) (Page, error)

	// History returns the history of an execution, or of the latest one if execution is 0.
	// The histories of the latest two executions are kept.
	History(ctx context.Context, ref Ref, execution int) (History, error)

	// Cancel requests the cancellation of an instance: what its code waits for returns
	// [ErrCancelled], and the code decides how the instance ends.
	Cancel(ctx context.Context, ref Ref, why string) error

	// Terminate ends an instance at once. Its code is not run again.
	Terminate(ctx context.Context, ref Ref, why string) error

	// Suspend stops an instance from making progress until it is resumed. Messages for it are
	// kept.
	Suspend(ctx context.Context, ref Ref, why string) error

	// Resume resumes a suspended or stalled instance.
	Resume(ctx context.Context, ref Ref) error

	// Restart starts an ended instance again, with the same ID and input. Its history is
	// deleted.
	Restart(ctx context.Context, ref Ref) error

	// Fork starts a new instance with a copy of another instance's history, up to an event of
	// its latest execution. The activities and timers that are open at that event are
	// scheduled again. Children are not: no child may be open at that event. Both instances
	// draw the same random numbers from there on, see [NewID] and [Rand].
	Fork(ctx context.Context, from Ref, event int, id string) (Ref, error)

	// MoveTimer changes when the pending timers with a name fire. Without such a timer it
	// returns [ErrNotFound]. The timer of [Event.Wait] has the name of the event.
	MoveTimer(ctx context.Context, ref Ref, timer string, at time.Time) error

	// Delete deletes an ended instance and its history.
	Delete(ctx context.Context, ref Ref) error

	// Quarantine returns a page of messages that could not be processed.
	Quarantine(ctx context.Context, filter QuarantineFilter) (QuarantinePage, error)

	// Redrive puts a quarantined message back into its queue, with its attempts reset. It
	// returns [ErrState] for the task of an activity whose result no instance waits for.
	Redrive(ctx context.Context, tenant, id string) error

	// Discard deletes a quarantined message.
	Discard(ctx context.Context, tenant, id string) error

	// Workers returns the workers that have reported within the last minute. A process
	// reports if it has a [Config.WorkerName].
	Workers(ctx context.Context) ([]Worker, error)

	// Unserved returns the orchestrations, activities and targets that have pending messages
	// or schedules and that neither a live worker nor this client, if it is an [Engine],
	// runs. Their messages wait until a process registers them.
	Unserved(ctx context.Context) ([]Unserved, error)

	// Codec returns the codec of the client.
	Codec() Codec
}

// StartRequest describes an instance to start. [Orchestration.Prepare] returns one.
type StartRequest struct{ s engine.Start }

// RaiseRequest describes an event to raise. [Event.Prepare] returns one.
type RaiseRequest struct{ r engine.Raise }

// Started is the outcome of a [StartRequest].
type Started struct {
	Ref Ref

	// Existed is true if an instance with that ID existed, and none was started.
	Existed bool

	// Revision is the revision of the instance that was started, and 0 if it existed.
	Revision int64
}

// Waiting is an activity, timer or child that an instance waits for.
type Waiting struct {
	// Event is the ID of the history event that scheduled it, and Kind the kind of that
	// event: ActivityScheduled, TimerCreated or ChildStarted.
	Event int
	Kind  string

	// Name is the name of the activity, the timer or the child's orchestration.
	Name string

	// Child is the ID of a child.
	Child string

	// At is when the timer fires, or when the activity is attempted next.
	At time.Time

	// Attempt is the number of attempts of an activity that have begun, and Err the error of
	// the last one.
	Attempt int
	Err     error
}

// Filter selects instances. An instance has to match every field that is set.
type Filter struct {
	// Tenant selects the instances of a tenant. Nil means those of all tenants.
	Tenant *string

	// Orchestrations and Statuses select instances with one of the names, and with one of
	// the statuses.
	Orchestrations []string
	Statuses       []Status

	// From and To select by the time of the start: From <= time < To.
	From, To time.Time

	// Tags selects instances that have all of these tags.
	Tags map[string]string

	// Descending returns the latest start first.
	Descending bool

	// Limit is the largest number of instances in a page, at most 10,000. Zero means 100.
	Limit int

	// Cursor is [Page.Next] of the page before. Empty means the first page.
	Cursor string
}

// Page is a page of a list of instances.
type Page struct {
	Instances []Info

	// Next is the cursor of the next page, and empty for the last page. A page may have fewer
	// instances than the limit, even none, and a Next: a call that finds few matches returns
	// after a short time.
	Next string
}

// Instance is a handle on an instance whose result has the type Out.
type Instance[Out any] struct {
	client Client
	start  Started
}

// Ref returns the tenant and ID of the instance.
func (i *Instance[Out]) Ref() Ref { return i.start.Ref }

// ID returns the ID of the instance.
func (i *Instance[Out]) ID() string { return i.start.Ref.ID }

// Existed reports whether the instance existed before the start that returned the handle.
func (i *Instance[Out]) Existed() bool { return i.start.Existed }

// Result waits until the instance has ended and returns its result. If it did not complete,
// the error is an [*InstanceError]. Result does not wait for an instance that has stalled: the
// error matches [ErrStalled] and has the reason.
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

// first returns the state of the instance. After a start it waits for the first change.
func (i *Instance[Out]) first(ctx context.Context) (Info, error) {
	if i.start.Revision > 0 {
		return i.client.Await(ctx, i.start.Ref, i.start.Revision)
	}
	return i.client.Get(ctx, i.start.Ref)
}

// Info returns the current state of the instance.
func (i *Instance[Out]) Info(ctx context.Context) (Info, error) {
	return i.client.Get(ctx, i.start.Ref)
}

// Cancel requests the cancellation of the instance, see [Client.Cancel].
func (i *Instance[Out]) Cancel(ctx context.Context, why string) error {
	return i.client.Cancel(ctx, i.start.Ref, why)
}

// Terminate ends the instance at once, see [Client.Terminate].
func (i *Instance[Out]) Terminate(ctx context.Context, why string) error {
	return i.client.Terminate(ctx, i.start.Ref, why)
}

// Suspend stops the instance from making progress until it is resumed.
func (i *Instance[Out]) Suspend(ctx context.Context, why string) error {
	return i.client.Suspend(ctx, i.start.Ref, why)
}

// Resume resumes the instance, which is suspended or stalled.
func (i *Instance[Out]) Resume(ctx context.Context) error { return i.client.Resume(ctx, i.start.Ref) }

// Restart starts the instance, which has ended, again with the same input.
func (i *Instance[Out]) Restart(ctx context.Context) error {
	return i.client.Restart(ctx, i.start.Ref)
}

// MoveTimer changes when the pending timers with a name fire, see [Client.MoveTimer].
func (i *Instance[Out]) MoveTimer(ctx context.Context, timer string, at time.Time) error {
	return i.client.MoveTimer(ctx, i.start.Ref, timer, at)
}

// History returns the history of the instance's latest execution.
func (i *Instance[Out]) History(ctx context.Context) (History, error) {
	return i.client.History(ctx, i.start.Ref, 0)
}

// Fork starts a new instance with a copy of this instance's history, see [Client.Fork]. An
// empty id means a random one.
func (i *Instance[Out]) Fork(ctx context.Context, event int, id string) (*Instance[Out], error) {
	ref, err := i.client.Fork(ctx, i.start.Ref, event, id)
	if err != nil {
		return nil, err
	}
	return &Instance[Out]{client: i.client, start: Started{Ref: ref}}, nil
}

// Delete deletes the instance, which has ended, and its history.
func (i *Instance[Out]) Delete(ctx context.Context) error { return i.client.Delete(ctx, i.start.Ref) }
