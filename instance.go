package abide

import (
	"context"
	"time"
)

// Instance is a handle on an instance whose result has the type Out.
type Instance[Out any] struct {
	client *Client
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
// error matches [ErrStalled] and has the reason. If ctx ends first, the error says what the instance
// waits for that no live worker runs, if there is something.
func (i *Instance[Out]) Result(ctx context.Context) (Out, error) {
	var zero Out
	info, err := i.first(ctx)
	for err == nil && !info.Status.Ended() && info.Status != Stalled {
		info, err = i.client.WaitChange(ctx, i.start.Ref, info.Revision)
	}
	if err != nil {
		return zero, i.client.explainWait(ctx, i.start.Ref, err)
	}
	return ResultOf[Out](info)
}

// first returns the state of the instance. After a start it waits for the first change.
func (i *Instance[Out]) first(ctx context.Context) (Info, error) {
	if i.start.Revision > 0 {
		return i.client.WaitChange(ctx, i.start.Ref, i.start.Revision)
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

// Rewind has the instance, which has failed, go on from before its failure, see [Client.Rewind].
func (i *Instance[Out]) Rewind(ctx context.Context, why string) error {
	return i.client.Rewind(ctx, i.start.Ref, why)
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
