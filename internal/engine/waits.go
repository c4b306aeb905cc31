package engine

import (
	"context"
	"slices"
	"time"

	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/internal/catalog"
	"github.com/abidehq/abide/internal/schema"
)

// Wait is an activity, timer, child, call of an entity, request for locks or event that an instance waits for. It is derived from the history
// by the ledger, without the code; attempts of activities are read from their tasks, and awaited events
// from the record.
type Wait struct {
	// Event is the ID of the event by which it was asked for, and Kind that event's. An awaited
	// event has the kind EventReceived and no ID.
	Event int32
	Kind  history.Kind

	// Name is that of the activity, the timer, the child's orchestration or the entity's operation,
	// and Child the ID of the child or of the entity.
	Name  string
	Child string

	// At is when a timer fires, when an activity is tried next, or when the wait for an event ends.
	At time.Time

	// Since is when the code began to wait for an event, and Schema what it has to be; nil if that
	// is not known.
	Since  time.Time
	Schema *schema.Schema

	// Attempt is how often an activity was begun, and Last how the last attempt failed.
	Attempt int
	Last    *history.Failure

	// Limit is what an activity waits for that was not admitted yet, or the instance itself, as a wait of kind
	// ExecutionStarted; nil if it does not.
	Limit *LimitWait

	// Lease is that of an activity which a worker has claimed; nil if none has.
	Lease *Lease
}

// maxWaits bounds for how many activities it is looked up how often they were tried.
const maxWaits = 100

// Waits returns what an instance waits for. It reads the history of the latest execution page by
// page, and the next time only what was appended since; that of an instance that has ended it does
// not read.
func (c *Client) Waits(ctx context.Context, ref Ref) ([]Wait, error) {
	info, err := c.Get(ctx, ref)
	if err != nil || info.Status.Ended() {
		return nil, err
	}
	if info.limited() {
		w, err := c.LimitWait(ctx, &info)
		if err != nil || w == nil {
			return nil, err
		}
		return []Wait{{Kind: history.ExecutionStarted, Name: info.Name, Since: w.Since, Limit: w}}, nil
	}
	f := c.folds.take(&info)
	if err := f.read(ctx, c.store, &info); err != nil {
		return nil, err
	}
	waits, err := c.waitsOf(ctx, &info, f)
	c.folds.put(f)
	return waits, err
}

// WaitsAmong returns what the latest execution of an instance asked for in events and has
// not got an answer to in events. It reads the record and the tasks of activities, and not
// the log: the caller has read the events, which are consecutive and end with the last one
// of the history.
func (c *Client) WaitsAmong(ctx context.Context, ref Ref, events []history.Event) ([]Wait, error) {
	info, err := c.Get(ctx, ref)
	if err != nil {
		return nil, err
	}
	f := &fold{}
	for i := range events {
		f.note(&events[i])
	}
	return c.waitsOf(ctx, &info, f)
}

func (c *Client) waitsOf(ctx context.Context, info *Info, f *fold) ([]Wait, error) {
	if f.book.ended || info.Status.Ended() {
		return nil, nil
	}
	var waits []Wait
	held := leases{store: c.store}
	for _, e := range f.book.inOrder() {
		w := Wait{Event: e.ID, Kind: e.Kind, Name: e.Name, Child: e.Target, At: e.At}
		if e.Kind == history.ActivityScheduled && len(waits) < maxWaits {
			if err := c.lookUp(ctx, info, &w, &held); err != nil {
				return nil, err
			}
		}
		waits = append(waits, w)
	}
	return c.appendAwaited(ctx, info, f.received, waits)
}

// appendAwaited adds the events that the code waits for. A wait that is limited has a timer with the
// name of the event.
func (c *Client) appendAwaited(ctx context.Context, info *Info, received map[string]time.Time, waits []Wait) ([]Wait, error) {
	if len(info.Awaited) == 0 {
		return waits, nil
	}
	book := c.catalog
	if book == nil {
		book = catalog.New(c.store, c.clock, nil)
	}
	of := catalog.Name{Route: info.Route()}
	signatures, err := book.Get(ctx, of)
	if err != nil {
		return nil, wrap("waits", err)
	}
	if own := book.Own(of); own != nil {
		signatures = append([]Signature{*own}, signatures...)
	}
	open := len(waits)
	for _, a := range info.Awaited {
		w := Wait{
			Kind: history.EventReceived, Name: a.Name, Since: base.Later(a.Since, received[a.Name]),
			Schema: catalog.EventSchema(signatures, a.Name, a.Schema),
		}
		if i := slices.IndexFunc(waits[:open], func(w Wait) bool { return w.Kind == history.TimerCreated && w.Name == a.Name }); i >= 0 {
			w.At = waits[i].At
		}
		waits = append(waits, w)
	}
	return waits, nil
}

// lookUp says of an activity how often it was tried, and who has claimed it. A task that was never
// delivered has no lease.
func (c *Client) lookUp(ctx context.Context, info *Info, w *Wait, held *leases) error {
	key := taskKey(info.Ref, info.run, w.Event)
	pending, err := c.store.Pending(ctx, key, 1)
	if err == nil && len(pending) == 0 {
		w.Limit, err = c.limitWait(ctx, key.Tenant, taskWork(key))
	}
	if err != nil || len(pending) == 0 {
		return wrap("waits", err)
	}
	// One that cannot be read will be put into quarantine by who claims it.
	if spec, err := decodeTask(pending[0].Body); err == nil {
		w.At, w.Attempt, w.Last = pending[0].VisibleAt, int(spec.attempts)+pending[0].Attempt, spec.last
	}
	if pending[0].Attempt > 0 {
		w.Lease, err = held.of(ctx, key)
	}
	return wrap("waits", err)
}
