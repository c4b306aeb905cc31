package abide

import (
	"context"
	"errors"
	"time"

	"github.com/abidehq/abide/internal/engine"
	"github.com/abidehq/abide/store"
)

// client is a [Client] of a store.
type client struct {
	c     *engine.Client
	codec Codec

	// What the process of the client serves.
	routes     []string
	activities []string
}

// Codec returns the codec of the client.
func (c *client) Codec() Codec { return c.codec }

// Start starts up to 1,000 instances in one commit: all of them or none.
func (c *client) Start(ctx context.Context, requests ...StartRequest) ([]Started, error) {
	starts := make([]engine.Start, len(requests))
	for i := range requests {
		starts[i] = requests[i].s
	}
	done, err := c.c.Start(ctx, starts...)
	if err != nil {
		return nil, asInvalid(err)
	}
	started := make([]Started, len(done))
	for i := range done {
		started[i] = Started{Ref: Ref(done[i].Ref), Existed: done[i].Existed, Revision: done[i].Revision}
	}
	return started, nil
}

// Raise raises events in one commit, all of them or none, see [Client].
func (c *client) Raise(ctx context.Context, requests ...RaiseRequest) error {
	raises := make([]engine.Raise, len(requests))
	for i := range requests {
		raises[i] = requests[i].r
	}
	return asInvalid(c.c.Raise(ctx, raises...))
}

// Get returns the current state of an instance, or [ErrNotFound].
func (c *client) Get(ctx context.Context, ref Ref) (Info, error) {
	return c.info(c.c.Get(ctx, refOf(ref)))
}

// Await waits until the revision of an instance is greater than after, and returns its state.
func (c *client) Await(ctx context.Context, ref Ref, after int64) (Info, error) {
	return c.info(c.c.Await(ctx, refOf(ref), after))
}

// Wait waits until an instance has ended, and returns its state.
func (c *client) Wait(ctx context.Context, ref Ref) (Info, error) {
	return c.info(c.c.Wait(ctx, refOf(ref)))
}

func (c *client) info(i engine.Info, err error) (Info, error) {
	if err != nil {
		return Info{}, asInvalid(err)
	}
	return infoFrom(&i, c.codec), nil
}

// List returns a page of instances, ordered by the time of their start.
func (c *client) List(ctx context.Context, f Filter) (Page, error) {
	statuses := make([]engine.Status, len(f.Statuses))
	for i, s := range f.Statuses {
		statuses[i] = engine.Status(s)
	}
	infos, next, err := c.c.List(ctx, engine.Query{
		Tenant: filterOf(f.Tenant), Orchestrations: f.Orchestrations, Statuses: statuses, From: f.From, To: f.To,
		Tags: f.Tags, Descending: f.Descending, Limit: f.Limit, Cursor: f.Cursor,
	})
	if err != nil {
		return Page{}, asInvalid(err)
	}
	page := Page{Instances: make([]Info, len(infos)), Next: next}
	for i := range infos {
		page.Instances[i] = infoFrom(&infos[i], c.codec)
	}
	return page, nil
}

// filterOf returns the tenant by which to filter, if any.
func filterOf(tenant *string) *string {
	if tenant == nil {
		return nil
	}
	return new(tenantOf(*tenant))
}

// Cancel requests the cancellation of an instance, whose code decides how it ends.
func (c *client) Cancel(ctx context.Context, ref Ref, why string) error {
	return c.c.Cancel(ctx, refOf(ref), why)
}

// Terminate ends an instance at once. Its code is not run again.
func (c *client) Terminate(ctx context.Context, ref Ref, why string) error {
	return c.c.Terminate(ctx, refOf(ref), why)
}

// Suspend stops an instance from making progress until it is resumed.
func (c *client) Suspend(ctx context.Context, ref Ref, why string) error {
	return c.c.Suspend(ctx, refOf(ref), why)
}

// Resume resumes a suspended or stalled instance.
func (c *client) Resume(ctx context.Context, ref Ref) error {
	return c.c.Resume(ctx, refOf(ref))
}

// Restart starts an ended instance again, with the same ID and input. Its history is deleted.
func (c *client) Restart(ctx context.Context, ref Ref) error {
	return c.c.Restart(ctx, refOf(ref))
}

// Fork starts a new instance with a copy of another instance's history, up to an event, see
// [Client]. An empty id means a random one.
func (c *client) Fork(ctx context.Context, from Ref, event int, id string) (Ref, error) {
	if id == "" {
		id = randomID()
	}
	err := c.c.Fork(ctx, refOf(from), int32(min(max(event, 0), 1<<31-1)), id)
	return Ref{Tenant: tenantOf(from.Tenant), ID: id}, err
}

// Waits returns the activities, timers and children that an instance waits for.
func (c *client) Waits(ctx context.Context, ref Ref) ([]Waiting, error) {
	open, err := c.c.Waits(ctx, refOf(ref))
	return waitsFrom(open), err
}

func waitsFrom(open []engine.Wait) []Waiting {
	waits := make([]Waiting, len(open))
	for i, w := range open {
		waits[i] = Waiting{
			Event: int(w.Event), Kind: w.Kind.String(), Name: w.Name, Child: w.Child, At: w.At,
			Attempt: w.Attempt, Err: errorOf(w.Last),
		}
	}
	return waits
}

// MoveTimer changes when the pending timers with a name fire.
func (c *client) MoveTimer(ctx context.Context, ref Ref, timer string, at time.Time) error {
	return asInvalid(c.c.MoveTimer(ctx, refOf(ref), timer, at))
}

// Delete deletes an ended instance and its history.
func (c *client) Delete(ctx context.Context, ref Ref) error {
	return c.c.Delete(ctx, refOf(ref))
}

// asInvalid lets what the store calls invalid match [ErrInvalid] as well.
func asInvalid(err error) error {
	if errors.Is(err, store.ErrInvalid) {
		return errors.Join(err, ErrInvalid)
	}
	return err
}
