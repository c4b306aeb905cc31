package abide

import (
	"cmp"
	"context"
	"time"

	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/internal/engine"
)

// SignalOption is an option of [Operation.Send]: [ID], [Tenant], [Delay] or [DelayUntil].
type SignalOption interface{ signal(r *SignalRequest) }

func (id IDOption) signal(r *SignalRequest)    { r.ID = string(id) }
func (t TenantOption) signal(r *SignalRequest) { r.Ref.Tenant = string(t) }

// DelayOption delays the delivery of a signal, see [Delay] and [DelayUntil].
type DelayOption struct {
	after time.Duration
	at    time.Time
}

func (d DelayOption) signal(r *SignalRequest) { r.At, r.After = d.at, d.after }

// from returns when a signal that is sent at a time is delivered.
func (d DelayOption) from(now time.Time) time.Time {
	if d.after > 0 {
		return now.Add(d.after)
	}
	return d.at
}

// joined returns the last of the options.
func joined(all []DelayOption) (d DelayOption) {
	for _, opt := range all {
		d = opt
	}
	return d
}

// Delay delivers a signal to an entity after d.
func Delay(d time.Duration) DelayOption { return DelayOption{after: d} }

// DelayUntil delivers a signal to an entity at a time.
func DelayUntil(t time.Time) DelayOption { return DelayOption{at: t} }

// SignalRequest describes a signal to an entity. [Operation.Send] makes one.
type SignalRequest struct {
	// Ref is the tenant and the ID of the entity, as [EntityID.String] returns it.
	Ref Ref

	// Operation is the name of the operation, and Input its encoded input.
	Operation string
	Input     []byte

	// ID is a deduplication ID. Empty means none.
	ID string

	// At delays the delivery until a time. After delays it by a duration; then At is ignored.
	At    time.Time
	After time.Duration
}

// EntityInfo is the current state of an entity.
type EntityInfo struct {
	// Ref is the tenant and the ID of the entity, see [ParseEntityID].
	Ref Ref

	// State is the encoded state; nil if there is none, because the entity is only locked.
	State []byte

	// ModifiedAt is when an operation ran last.
	ModifiedAt time.Time

	// LockedBy is the ID of the instance that has locked the entity; empty if none has.
	LockedBy string

	// Backlog is the number of operations and requests for the lock that wait until the entity is unlocked, and
	// Waiting has the first 100 of them.
	Backlog int
	Waiting []EntityWaiting
}

// EntityWaiting is an operation, or a request for the lock, that waits until an entity is unlocked.
type EntityWaiting struct {
	// Kind is EntityCalled, EntitySignaled or EntityLockRequested.
	Kind history.Kind

	// Operation is the name of the operation; empty for a request for the lock.
	Operation string

	// From is the ID of the instance that sent it; empty if none did.
	From string
}

// EntityFilter selects entities.
type EntityFilter struct {
	// Tenant, if not nil, is the tenant whose entities match.
	Tenant *string

	// Prefix is what the ID begins with, such as @account@.
	Prefix string

	// From and To bound when the entity was modified: From <= ModifiedAt < To. Zero means unbounded.
	From, To time.Time

	// Empty also selects entities that have no state, and are only locked.
	Empty bool

	// Limit is the largest number of entities of a page, and Cursor the Next of the page before.
	Limit  int
	Cursor string
}

// EntityPage is a page of entities, in the order in which they were modified.
type EntityPage struct {
	Entities []EntityInfo

	// Next is the cursor of the next page, and empty if there is none.
	Next string
}

// EntityTransport is what a [Transport] offers for entities. The transports of [Engine], [NewClient] and
// package remote implement it; over one that does not, the methods of [Client] for entities return [errors.ErrUnsupported].
type EntityTransport interface {
	// Signal sends an operation to an entity.
	Signal(ctx context.Context, r SignalRequest) error

	// Entity returns the current state of an entity, or [ErrNotFound].
	Entity(ctx context.Context, ref Ref) (EntityInfo, error)

	// Entities returns a page of entities.
	Entities(ctx context.Context, filter EntityFilter) (EntityPage, error)
}

func (c *Client) entities(call string) (EntityTransport, error) {
	t, ok := c.transport.(EntityTransport)
	if !ok {
		return nil, unsupported(call)
	}
	return t, nil
}

// Signal sends an operation to an entity. It returns when the operation is durable, not when it has run.
func (c *Client) Signal(ctx context.Context, r SignalRequest) error {
	t, err := c.entities("signal")
	if err != nil {
		return err
	}
	r.Ref = r.Ref.canonical()
	return t.Signal(ctx, r)
}

// Entity returns the current state of an entity, or [ErrNotFound].
func (c *Client) Entity(ctx context.Context, ref Ref) (EntityInfo, error) {
	t, err := c.entities("entity")
	if err != nil {
		return EntityInfo{}, err
	}
	return t.Entity(ctx, ref.canonical())
}

// Entities returns a page of entities. One that is modified while the pages are read may be on two of them.
func (c *Client) Entities(ctx context.Context, filter EntityFilter) (EntityPage, error) {
	t, err := c.entities("entities")
	if err != nil {
		return EntityPage{}, err
	}
	filter.Tenant = canonicalFilter(filter.Tenant)
	return t.Entities(ctx, filter)
}

var _ EntityTransport = (*storeTransport)(nil)

func (t *storeTransport) Signal(ctx context.Context, r SignalRequest) error {
	at := r.At
	if r.After > 0 {
		at = base.System{}.Now().Add(r.After)
	}
	return t.client.SignalEntity(ctx, refOf(r.Ref), r.Operation, r.Input, at, r.ID)
}

func (t *storeTransport) Entity(ctx context.Context, ref Ref) (EntityInfo, error) {
	info, err := t.client.GetEntity(ctx, refOf(ref))
	if err != nil {
		return EntityInfo{}, err
	}
	return entityFrom(&info), nil
}

func (t *storeTransport) Entities(ctx context.Context, f EntityFilter) (EntityPage, error) {
	list, next, err := t.client.ListEntities(ctx, engine.EntityQuery{
		Tenant: filterOf(f.Tenant), Prefix: f.Prefix, ModifiedFrom: f.From, ModifiedTo: f.To, IncludeEmpty: f.Empty, Limit: f.Limit, Cursor: f.Cursor,
	})
	if err != nil {
		return EntityPage{}, err
	}
	page := EntityPage{Entities: make([]EntityInfo, len(list)), Next: next}
	for i := range list {
		page.Entities[i] = entityFrom(&list[i])
	}
	return page, nil
}

func entityFrom(e *engine.EntityInfo) EntityInfo {
	info := EntityInfo{
		Ref: Ref{Tenant: cmp.Or(e.Tenant, DefaultTenant), ID: e.ID}, State: e.State, ModifiedAt: e.ModifiedAt, LockedBy: e.LockedBy, Backlog: e.Backlog,
	}
	for _, w := range e.Waiting {
		info.Waiting = append(info.Waiting, EntityWaiting(w))
	}
	return info
}
