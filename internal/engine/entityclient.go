package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/store"
)

// EntityInfo is the current state of an entity: its record.
type EntityInfo struct {
	Ref

	// State is nil if it has none: it was deleted, or no operation has run yet, and it is locked.
	State      []byte
	ModifiedAt time.Time

	// LockedBy is the ID of the instance that holds its lock; empty if none does.
	LockedBy string

	// Backlog is how many operations and requests wait until the lock is released, and Waiting are the first
	// of them.
	Backlog int
	Waiting []EntityWaiting

	// Revision is the version of the record.
	Revision int64
}

// EntityWaiting is an operation, or a request for its lock, that waits until an entity is unlocked.
type EntityWaiting struct {
	Kind      history.Kind // EntityCalled, EntitySignaled or EntityLockRequested
	Operation string
	From      string // the ID of the instance that sent it; empty if none did
}

// maxWaiting is how many of the operations that wait are in an EntityInfo.
const maxWaiting = 100

// SignalEntity sends an operation to an entity, which need not exist, and does not wait for it. It is delivered not
// before at; the zero time means at once. A request that is not empty makes a signal that is sent again the
// same one, as long as it is among the last that the entity has received.
func (c *Client) SignalEntity(ctx context.Context, ref Ref, operation string, input []byte, at time.Time, request string) error {
	to, err := entityRef(ref.Tenant, ref.ID)
	if err != nil {
		return err
	}
	if err := checkOperation(operation, input); err != nil {
		return err
	}
	if len(request) > MaxID {
		return fmt.Errorf("abide: signal entity: the request ID has %d bytes, at most %d are allowed: %w", len(request), MaxID, ErrInvalid)
	}
	if at.Year() > MaxYear {
		return fmt.Errorf("abide: signal entity: %v is too late, up to the year %d is allowed: %w", at, MaxYear, ErrInvalid)
	}
	permit, err := c.acquire(ctx, 1)
	if err != nil {
		return wrap("signal entity", err)
	}
	defer permit.Release()
	m := entityMessage{kind: entitySignal, name: operation, input: input, request: request, once: request != ""}
	if request == "" {
		m.request = unique()
	}
	return wrap("signal entity", c.store.Commit(ctx, &store.Tx{Put: []store.Message{to.entityMessage(prefixSignal+"/"+m.request, &m, at)}}))
}

// GetEntity returns the current state of an entity, or [ErrNotFound].
func (c *Client) GetEntity(ctx context.Context, ref Ref) (EntityInfo, error) {
	to, err := entityRef(ref.Tenant, ref.ID)
	if err != nil {
		return EntityInfo{}, err
	}
	r, err := c.store.Get(ctx, to.entityRecord())
	if errors.Is(err, store.ErrNotFound) {
		return EntityInfo{}, fmt.Errorf("abide: get entity %v: %w", to, ErrNotFound)
	}
	if err != nil {
		return EntityInfo{}, wrap("get entity", err)
	}
	return entityInfo(r)
}

func entityInfo(r store.Record) (EntityInfo, error) {
	s, err := entityOf(r)
	if err != nil {
		return EntityInfo{}, err
	}
	info := EntityInfo{
		Ref: Ref{Tenant: r.Key.Tenant, ID: r.Key.ID}, ModifiedAt: r.Time, Backlog: len(s.backlog), Revision: r.Version,
	}
	if s.exists {
		info.State = s.state
	}
	if s.holder != nil {
		info.LockedBy = s.holder.instance
	}
	for i := range min(len(s.backlog), maxWaiting) {
		item := &s.backlog[i]
		e := item.asEvent(r.Key.ID)
		info.Waiting = append(info.Waiting, EntityWaiting{Kind: e.Kind, Operation: e.Name, From: item.from})
	}
	return info, nil
}

// EntityQuery says which entities to list.
type EntityQuery struct {
	Tenant *string // nil means all
	Prefix string  // of the ID
	Names  []string

	// ModifiedFrom and ModifiedTo bound when they were modified last; zero means unbounded.
	ModifiedFrom, ModifiedTo time.Time

	// IncludeEmpty lists those too that have no state.
	IncludeEmpty bool

	// Descending lists the one first that was modified last.
	Descending bool

	Limit  int
	Cursor string
}

// ListEntities returns entities in the order in which they were modified, and the cursor of the next page, which
// is empty if there is none. One that is modified during a walk along the cursors may be listed again.
func (c *Client) ListEntities(ctx context.Context, q EntityQuery) ([]EntityInfo, string, error) {
	query := store.Query{
		Kind: kindEntity, Tenant: q.Tenant, Statuses: []string{entityUnlocked, entityLocked}, Prefix: entityPrefix(q.Prefix),
		From: q.ModifiedFrom, To: q.ModifiedTo, Descending: q.Descending, Limit: q.Limit, Cursor: q.Cursor,
	}
	if q.IncludeEmpty {
		query.Statuses = nil
	}
	for _, name := range q.Names {
		query.Names = append(query.Names, strings.ToLower(name))
	}
	page, err := c.store.List(ctx, query)
	if err != nil {
		return nil, "", wrap("list entities", err)
	}
	list := make([]EntityInfo, 0, len(page.Records))
	for _, r := range page.Records {
		info, err := entityInfo(r)
		if err != nil {
			return nil, "", err
		}
		list = append(list, info)
	}
	return list, page.Next, nil
}

// entityPrefix returns what IDs begin with, the name in lower case.
func entityPrefix(prefix string) string {
	rest, ok := strings.CutPrefix(prefix, "@")
	if !ok {
		return prefix
	}
	name, key, found := strings.Cut(rest, "@")
	if !found {
		return "@" + strings.ToLower(name)
	}
	return EntityID(name, key)
}

// CleanEntities looks at a page of the entities of a tenant, or of all. With removeEmpty it removes records of
// entities without a state, for which nothing waits. With releaseOrphaned it releases locks whose holder does
// not run any more. It returns how many were removed and released, and the cursor of the next page. The engine
// leaves neither behind; they come from records that were restored or written by other means.
func (c *Client) CleanEntities(ctx context.Context, tenant *string, removeEmpty, releaseOrphaned bool, cursor string) (removed, released int, next string, err error) {
	page, err := c.store.List(ctx, store.Query{Kind: kindEntity, Tenant: tenant, Cursor: cursor})
	if err != nil {
		return 0, 0, "", wrap("clean entities", err)
	}
	for _, r := range page.Records {
		s, err := entityOf(r)
		if err != nil {
			return removed, released, "", err
		}
		ref := Ref{Tenant: r.Key.Tenant, ID: r.Key.ID}
		var tx store.Tx
		orphaned := false
		if releaseOrphaned && s.holder != nil {
			if orphaned, err = c.orphaned(ctx, ref.Tenant, s.holder); err != nil {
				return removed, released, "", err
			}
		}
		switch {
		case orphaned:
			h := s.holder
			m := entityMessage{kind: entityUnlock, from: h.instance, run: h.run, event: h.event}
			tx.Put = append(tx.Put, ref.entityMessage(messageID(prefixUnlock, h.run, h.event), &m, noTime))
			released++
		case removeEmpty && s.nothing():
			tx.DeleteRecords = append(tx.DeleteRecords, store.DeleteRecord{Key: r.Key, Expect: r.Version})
			removed++
		}
		if err := c.store.Commit(ctx, &tx); err != nil && !errors.Is(err, store.ErrConflict) {
			return removed, released, "", wrap("clean entities", err)
		}
	}
	return removed, released, page.Next, nil
}

// orphaned reports whether the execution that holds a lock does not run any more.
func (c *Client) orphaned(ctx context.Context, tenant string, h *lockHolder) (bool, error) {
	info, err := c.Get(ctx, Ref{Tenant: tenant, ID: h.instance})
	if errors.Is(err, ErrNotFound) {
		return true, nil
	}
	return err == nil && (info.Status.Ended() || info.run != h.run), err
}
