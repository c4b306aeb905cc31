package abide

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/internal/pages"
)

// Operator is what operators need of a [Transport] beyond instances. The transports of [Engine],
// [NewClient] and package remote implement it; over one that does not, the methods of [Client]
// with these names return [errors.ErrUnsupported].
type Operator interface {
	// Waits returns what the latest execution of an instance waits for. If events is not empty,
	// it is the last part of the history; then only what these events began is returned, and
	// the history is not read.
	Waits(ctx context.Context, ref Ref, events []history.Event) ([]Waiting, error)

	// TurnLease returns the lease of the turn of an instance, or nil if no worker holds it.
	TurnLease(ctx context.Context, ref Ref) (*Lease, error)

	// Undelivered returns the messages of an instance that its code has not received.
	Undelivered(ctx context.Context, ref Ref) ([]Undelivered, error)

	// Signatures returns the signatures that workers have published.
	Signatures(ctx context.Context) ([]Signature, error)

	// HistoryLength returns the number of events of an execution, without reading them.
	HistoryLength(ctx context.Context, ref Ref, execution int) (int, error)

	// Quarantine returns a page of messages that could not be processed.
	Quarantine(ctx context.Context, filter QuarantineFilter) (QuarantinePage, error)

	// Redrive puts a quarantined message back into its queue.
	Redrive(ctx context.Context, tenant, id string) error

	// Discard deletes a quarantined message.
	Discard(ctx context.Context, tenant, id string) error

	// Workers returns the workers that have reported within the last minute.
	Workers(ctx context.Context) ([]Worker, error)

	// DrainWorker asks the worker with an ID to claim nothing more.
	DrainWorker(ctx context.Context, id string) error

	// Held returns the turns and activities that the worker with an ID has leased.
	Held(ctx context.Context, id string) ([]Held, error)

	// Unserved returns the routes with pending work that no live worker serves.
	Unserved(ctx context.Context) ([]Unserved, error)
}

// Waiting is an activity, timer, child or event that an instance waits for.
type Waiting struct {
	// Event is the ID of the history event that scheduled it, and Kind the kind of that
	// event: ActivityScheduled, TimerCreated or ChildStarted. For an event that the code waits
	// for, Kind is EventReceived and Event is 0.
	Event int
	Kind  history.Kind

	// Name is the name of the activity, the timer, the child's orchestration or the event.
	Name string

	// Child is the ID of a child.
	Child string

	// At is when the timer fires, when the activity is attempted next, or when the wait for the
	// event ends because of [Timeout]; zero if it does not end.
	At time.Time

	// Since is when the code began to wait for the event, and Schema the JSON Schema of its
	// payload; nil if it is not known.
	Since  time.Time
	Schema json.RawMessage

	// Attempt is the number of attempts of an activity that have begun, and Err the error of
	// the last one.
	Attempt int
	Err     error

	// Limit is what an activity waits for before it can begin, or the instance itself: then Kind is
	// ExecutionStarted, and Event is 0. It is nil for what does not wait for a limit.
	Limit *LimitWait

	// Lease is the lease of an activity that a worker has claimed, and nil if none has. It
	// outlives a process that was killed: the activity is attempted again when it has ended.
	Lease *Lease
}

// Lease is the exclusive right of a worker to a turn or to an attempt of an activity.
type Lease struct {
	// Worker is the host and the process ID of the worker, after its [Config.WorkerName] if it has
	// one: shop:42, or till@shop:42. WorkerID is its [Worker.ID]. Both are empty if the worker is
	// of a release that does not tell.
	Worker   string
	WorkerID string

	// Until is when the lease ends, by the store's clock. A worker that lives renews it before;
	// after that any worker can claim what was leased.
	Until time.Time

	// SeenAt is when the worker last reported to the store, zero if it is not listed. A worker
	// reports every 20 seconds: one that has not for longer is likely to be dead.
	SeenAt time.Time
}

// Undelivered is a message that the code of an instance has not received: the instance waits for
// its first turn, is suspended or has stalled.
type Undelivered struct {
	// Message is the ID of the message.
	Message string

	// Event is the event that the message brings: the start with the input, an event that was
	// raised, the result of an activity or a child. It has no ID yet.
	Event history.Event

	// At is when the message became, or becomes, visible.
	At time.Time
}

// Undelivered returns the messages with payloads that the code of an instance has not received, in
// order, at most 1,000 of them: the input of an instance that has not begun, and what has reached
// one that is suspended or has stalled.
func (c *Client) Undelivered(ctx context.Context, ref Ref) ([]Undelivered, error) {
	o, err := c.operator("undelivered")
	if err != nil {
		return nil, err
	}
	return o.Undelivered(ctx, ref.canonical())
}

// Signatures returns the signatures that workers have published: of each orchestration and activity
// those of its latest builds, the latest first.
func (c *Client) Signatures(ctx context.Context) ([]Signature, error) {
	o, err := c.operator("signatures")
	if err != nil {
		return nil, err
	}
	return o.Signatures(ctx)
}

// Waits returns the activities, timers, children and events that an instance waits for. It reads the
// history of the latest execution; a client on a store remembers what it has read of long ones, and
// reads what was appended since.
func (c *Client) Waits(ctx context.Context, ref Ref) ([]Waiting, error) {
	return c.WaitsAmong(ctx, ref, nil)
}

// WaitsAmong returns what the latest execution of an instance began in events and waits for. The
// events are consecutive, and the last one is the last of the history. Unlike [Client.Waits] it
// does not read the history.
func (c *Client) WaitsAmong(ctx context.Context, ref Ref, events []history.Event) ([]Waiting, error) {
	o, err := c.operator("waits")
	if err != nil {
		return nil, err
	}
	return o.Waits(ctx, ref.canonical(), events)
}

// TurnLease returns the lease of the turn of an instance, or nil if no worker holds it. While it
// lasts the instance does not go on elsewhere, even if the worker is dead. If the instance does not
// exist, TurnLease returns [ErrNotFound].
func (c *Client) TurnLease(ctx context.Context, ref Ref) (*Lease, error) {
	o, err := c.operator("lease")
	if err != nil {
		return nil, err
	}
	return o.TurnLease(ctx, ref.canonical())
}

// HistoryLength returns the number of events of an execution, the latest one if execution is 0,
// without reading them.
func (c *Client) HistoryLength(ctx context.Context, ref Ref, execution int) (int, error) {
	o, err := c.operator("history length")
	if err != nil {
		return 0, err
	}
	return o.HistoryLength(ctx, ref.canonical(), execution)
}

// Quarantine returns a page of messages that could not be processed.
func (c *Client) Quarantine(ctx context.Context, filter QuarantineFilter) (QuarantinePage, error) {
	o, err := c.operator("quarantine")
	if err != nil {
		return QuarantinePage{}, err
	}
	filter.Tenant = canonicalFilter(filter.Tenant)
	return o.Quarantine(ctx, filter)
}

// AllQuarantined returns the quarantined messages that a filter selects, page by page. The
// sequence ends after the first error.
func (c *Client) AllQuarantined(ctx context.Context, filter QuarantineFilter) iter.Seq2[Quarantined, error] {
	return pages.All(filter.Cursor, func(cursor string) ([]Quarantined, string, error) {
		f := filter
		f.Cursor = cursor
		page, err := c.Quarantine(ctx, f)
		return page.Messages, page.Next, err
	})
}

// Redrive puts a quarantined message back into its queue, with its attempts reset. It returns
// [ErrState] for the task of an activity whose result no instance waits for.
func (c *Client) Redrive(ctx context.Context, tenant, id string) error {
	o, err := c.operator("redrive")
	if err != nil {
		return err
	}
	return o.Redrive(ctx, cmp.Or(tenant, DefaultTenant), id)
}

// Discard deletes a quarantined message.
func (c *Client) Discard(ctx context.Context, tenant, id string) error {
	o, err := c.operator("discard")
	if err != nil {
		return err
	}
	return o.Discard(ctx, cmp.Or(tenant, DefaultTenant), id)
}

// Workers returns the workers that have reported within the last minute, see
// [Config.WorkerName].
func (c *Client) Workers(ctx context.Context) ([]Worker, error) {
	o, err := c.operator("workers")
	if err != nil {
		return nil, err
	}
	return o.Workers(ctx)
}

// DrainWorker asks the worker with that [Worker.ID] to claim nothing more. It ends what is under way, and its
// engine goes on as a client: see [Engine.Drained]. The request reaches a worker of another process with its
// next report, within 20 seconds, and holds until the program of the worker is started again. Asking again
// has no effect. DrainWorker returns [ErrNotFound] if no live worker has the ID, and [ErrState] if the worker
// serves targets of actions or is of an earlier release.
func (c *Client) DrainWorker(ctx context.Context, id string) error {
	o, err := c.operator("drain worker")
	if err != nil {
		return err
	}
	return o.DrainWorker(ctx, id)
}

// Held returns the turns and activities that the worker with that [Worker.ID] has leased, turns first. It
// looks at the 10,000 leases of each that end first.
func (c *Client) Held(ctx context.Context, id string) ([]Held, error) {
	o, err := c.operator("leases of worker")
	if err != nil {
		return nil, err
	}
	return o.Held(ctx, id)
}

// Unserved returns the orchestrations, activities and targets that have pending messages or
// schedules and that neither a live worker nor this client, if it is that of an [Engine], runs.
// Their messages wait until a process registers them.
func (c *Client) Unserved(ctx context.Context) ([]Unserved, error) {
	o, err := c.operator("unserved")
	if err != nil {
		return nil, err
	}
	return o.Unserved(ctx)
}

func (c *Client) operator(call string) (Operator, error) {
	o, ok := c.transport.(Operator)
	if !ok {
		return nil, unsupported(call)
	}
	return o, nil
}

func unsupported(call string) error {
	return fmt.Errorf("abide: %s: not offered by the transport of the client: %w", call, errors.ErrUnsupported)
}
