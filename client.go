package abide

import (
	"cmp"
	"context"
	"iter"
	"time"

	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/internal/engine"
	"github.com/abidehq/abide/internal/pages"
	"github.com/abidehq/abide/store"
)

// Caller is a [*Client], or has one: an [*Engine], or the engine of package remote. Functions that
// talk to instances take a Caller.
type Caller interface {
	// AsClient returns the client.
	AsClient() *Client
}

// Client starts, inspects and controls instances of orchestrations over a [Transport]. [Engine]
// has one on its own store, [NewClient] returns one on a store, and package remote one on a
// server. The methods of [Orchestration], [Instance] and [Event] offer the same with types.
//
// An empty tenant means [DefaultTenant]. A method that changes an instance returns when the
// change is durable. It returns [ErrNotFound] if there is no such instance, and [ErrState] if
// the status of the instance does not allow the change.
type Client struct {
	transport Transport
	codec     Codec
}

// NewClient returns a client on a store. It runs no orchestrations and activities. A nil codec
// means [JSON].
func NewClient(s store.Store, codec Codec) *Client {
	return ClientOver(&storeTransport{client: engine.NewCheckedClient(s, base.System{})}, codec)
}

// ClientOver returns a client over a transport: another one's, wrapped, or a fake in a test. A
// nil codec means [JSON].
func ClientOver(t Transport, codec Codec) *Client {
	return &Client{transport: t, codec: orJSON(codec)}
}

// WithActor returns a context for changes that someone makes: the history of an instance records the
// name with events, suspensions, resumptions, corrections, cancellations and terminations. A server
// records its user or token instead.
func WithActor(ctx context.Context, name string) context.Context {
	return engine.WithActor(ctx, name)
}

// AsClient returns the client.
func (c *Client) AsClient() *Client { return c }

// Transport returns the transport of the client.
func (c *Client) Transport() Transport { return c.transport }

// Codec returns the codec of the client.
func (c *Client) Codec() Codec { return c.codec }

// WithCodec returns a client over the same transport with another codec. It must be the codec
// of the processes that run the orchestrations.
func (c *Client) WithCodec(codec Codec) *Client { return ClientOver(c.transport, codec) }

// Start starts up to 1,000 instances in one commit: all of them or none. An orchestration that no
// worker has ever registered is refused with [ErrUnserved], and an input that does not fit its type
// with [ErrPayload], see [Unchecked].
func (c *Client) Start(ctx context.Context, requests ...StartRequest) ([]Started, error) {
	return c.transport.Start(ctx, named(requests, func(r *StartRequest) *Ref { return &r.Ref }))
}

// Raise raises events in one commit: all of them or none. It returns what each event found. An event
// for an instance that does not exist is kept until the instance is started, see [KeepFor] and
// [MustExist]. An event for an instance that has ended is refused with [ErrState], see [IgnoreEnded],
// and one whose payload does not fit its type with [ErrPayload], see [Unchecked].
func (c *Client) Raise(ctx context.Context, requests ...RaiseRequest) ([]Raised, error) {
	return c.transport.Raise(ctx, named(requests, func(r *RaiseRequest) *Ref { return &r.Ref }))
}

// Get returns the current state of an instance, or [ErrNotFound].
func (c *Client) Get(ctx context.Context, ref Ref) (Info, error) {
	return c.info(c.transport.Get(ctx, ref.canonical()))
}

// WaitChange waits until the revision of an instance is greater than after, and returns its
// state. With 0 it also waits for an instance that does not exist yet.
func (c *Client) WaitChange(ctx context.Context, ref Ref, after int64) (Info, error) {
	return c.info(c.transport.WaitChange(ctx, ref.canonical(), after))
}

// WaitEnd waits until an instance has ended, and returns its state.
func (c *Client) WaitEnd(ctx context.Context, ref Ref) (Info, error) {
	info, err := c.Get(ctx, ref)
	for err == nil && !info.Status.Ended() {
		info, err = c.WaitChange(ctx, ref, info.Revision)
	}
	return info, err
}

func (c *Client) info(info Info, err error) (Info, error) {
	info.codec = c.codec
	return info, err
}

// List returns a page of instances, ordered by the time of their start.
func (c *Client) List(ctx context.Context, filter Filter) (Page, error) {
	filter.Tenant = canonicalFilter(filter.Tenant)
	page, err := c.transport.List(ctx, filter)
	for i := range page.Instances {
		page.Instances[i].codec = c.codec
	}
	return page, err
}

// All returns the instances that a filter selects, page by page. [Filter.Limit] is the size of a
// page. The sequence ends after the first error.
func (c *Client) All(ctx context.Context, filter Filter) iter.Seq2[Info, error] {
	return pages.All(filter.Cursor, func(cursor string) ([]Info, string, error) {
		f := filter
		f.Cursor = cursor
		page, err := c.List(ctx, f)
		return page.Instances, page.Next, err
	})
}

// History returns the history of an execution, or of the latest one if execution is 0. The
// histories of the latest two executions are kept.
func (c *Client) History(ctx context.Context, ref Ref, execution int) (History, error) {
	all, more, err := c.transport.History(ctx, ref.canonical(), HistoryRange{Execution: execution})
	for err == nil && more {
		var part History
		last := all.Events[len(all.Events)-1].ID
		part, more, err = c.transport.History(ctx, ref.canonical(), HistoryRange{Execution: all.Execution, After: int(last)})
		all.Events, all.Partial = append(all.Events, part.Events...), part.Partial
	}
	if err != nil {
		return History{}, err
	}
	return all, nil
}

// HistoryPart returns a range of a history, and whether there is more after it. It costs no more
// than what it returns, so a long history can be followed while it grows. A history that has no
// event [HistoryRange.After] is [ErrNotFound]: the instance was restarted meanwhile.
func (c *Client) HistoryPart(ctx context.Context, ref Ref, part HistoryRange) (h History, more bool, err error) {
	return c.transport.History(ctx, ref.canonical(), part)
}

// Cancel requests the cancellation of an instance: what its code waits for returns
// [ErrCancelled], and the code decides how the instance ends.
func (c *Client) Cancel(ctx context.Context, ref Ref, why string) error {
	return c.transport.Control(ctx, ref.canonical(), Command{Verb: VerbCancel, Reason: why})
}

// Terminate ends an instance at once. Its code is not run again.
func (c *Client) Terminate(ctx context.Context, ref Ref, why string) error {
	return c.transport.Control(ctx, ref.canonical(), Command{Verb: VerbTerminate, Reason: why})
}

// Termination says how [Client.TerminateWith] ends an instance.
type Termination struct {
	Reason string

	// Result is the encoded result of the instance, which [Info.Result] has then.
	Result []byte

	// Recursive also terminates the children that the instance waits for, whatever their close policies
	// are, and their children.
	Recursive bool
}

// TerminateWith ends an instance at once, as Terminate does, with a result or together with its children.
func (c *Client) TerminateWith(ctx context.Context, ref Ref, how Termination) error {
	return c.transport.Control(ctx, ref.canonical(), Command{
		Verb: VerbTerminate, Reason: how.Reason, Result: how.Result, Recursive: how.Recursive,
	})
}

// Suspend stops an instance from making progress until it is resumed. Messages for it are kept.
func (c *Client) Suspend(ctx context.Context, ref Ref, why string) error {
	return c.transport.Control(ctx, ref.canonical(), Command{Verb: VerbSuspend, Reason: why})
}

// Correct replaces the payload of an event that does not fit its type, or drops the event, and
// resumes the instance, which has stalled or is suspended. The correction is recorded in the history,
// and the code receives the corrected payload. The input of the orchestration, events, and results of
// activities and children can be corrected. It returns what [Client.Resume] returns.
func (c *Client) Correct(ctx context.Context, ref Ref, fix Correction) error {
	return c.transport.Control(ctx, ref.canonical(), Command{Verb: VerbCorrect, Correction: fix})
}

// Resume resumes a suspended or stalled instance. It waits up to three seconds for its next turn. If
// the instance stalls again, it returns an error that matches [ErrStalled] and has the reason.
func (c *Client) Resume(ctx context.Context, ref Ref) error {
	return c.transport.Control(ctx, ref.canonical(), Command{Verb: VerbResume})
}

// Restart starts an ended instance again, with the same ID and input. The history of the ended
// instance, its result and its values are deleted.
func (c *Client) Restart(ctx context.Context, ref Ref) error {
	return c.transport.Control(ctx, ref.canonical(), Command{Verb: VerbRestart})
}

// RestartAs starts a new instance with the orchestration, the tags and the input of the latest execution
// of another one, which stays as it is. An empty id means a random one; the ID of the instance itself
// restarts it, see [Client.Restart]. If there is an instance with the ID, it returns [ErrExists].
func (c *Client) RestartAs(ctx context.Context, ref Ref, id string) (Ref, error) {
	id = cmp.Or(id, newID())
	err := c.transport.Control(ctx, ref.canonical(), Command{Verb: VerbRestart, RestartID: id})
	return Ref{Tenant: ref.Tenant, ID: id}.canonical(), err
}

// Rewind has an instance that has failed go on from before its failure, under the same ID: its last turn
// runs again, after the activities whose failures it failed of, and failed children are rewound with it. What
// has succeeded does not run again, and failures that the code has handled in an earlier turn stay. A
// parent that was told of the failure is not informed: rewind the parent. It returns an error that matches [ErrState] if the
// instance has not failed, or has lost the locks of entities that it held.
func (c *Client) Rewind(ctx context.Context, ref Ref, why string) error {
	return c.transport.Control(ctx, ref.canonical(), Command{Verb: VerbRewind, Reason: why})
}

// Fork starts a new instance with a copy of another instance's history, up to an event of its
// latest execution. An empty id means a random one. The activities and timers that are open at
// that event are scheduled again. Children are not: no child may be open at that event. Both
// instances draw the same random numbers from there on, see [NewID] and [Rand].
func (c *Client) Fork(ctx context.Context, from Ref, event int, id string) (Ref, error) {
	id = cmp.Or(id, newID())
	err := c.transport.Control(ctx, from.canonical(), Command{Verb: VerbFork, Event: event, ForkID: id})
	return Ref{Tenant: from.Tenant, ID: id}.canonical(), err
}

// MoveTimer changes when the pending timers with a name fire. Without such a timer it returns
// [ErrNotFound]. The timer of [Event.Wait] has the name of the event.
func (c *Client) MoveTimer(ctx context.Context, ref Ref, timer string, at time.Time) error {
	return c.transport.Control(ctx, ref.canonical(), Command{Verb: VerbMoveTimer, Timer: timer, At: at})
}

// Delete deletes an ended instance and its history.
func (c *Client) Delete(ctx context.Context, ref Ref) error {
	return c.transport.Control(ctx, ref.canonical(), Command{Verb: VerbDelete})
}

// DeleteWith deletes an ended instance and its history, as Delete does. If recursive, it also deletes the
// children that have ended, and their children: those that the histories of its latest two executions
// name. They are deleted before it, so that a call that failed can be repeated.
func (c *Client) DeleteWith(ctx context.Context, ref Ref, how Deletion) error {
	return c.transport.Control(ctx, ref.canonical(), Command{Verb: VerbDelete, Recursive: how.Recursive})
}

// Deletion says what [Client.DeleteWith] deletes beyond the instance.
type Deletion struct{ Recursive bool }

// Changes streams changes of instances, see [Watcher]. Over a transport that is no Watcher the
// sequence ends with [errors.ErrUnsupported].
func (c *Client) Changes(ctx context.Context, after string) iter.Seq2[Change, error] {
	if w, ok := c.transport.(Watcher); ok {
		return w.Changes(ctx, after)
	}
	return func(yield func(Change, error) bool) { yield(Change{}, unsupported("changes")) }
}
