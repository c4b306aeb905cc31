package remote

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/server/api"
)

var _ abide.EntityTransport = (*transport)(nil)

// Signal sends an operation to an entity.
func (e *transport) Signal(ctx context.Context, r abide.SignalRequest) error {
	if r.Ref.ID == "" {
		return fmt.Errorf("remote: signal: no ID: %w", abide.ErrInvalid)
	}
	body := api.NewSignal{Operation: r.Operation, Input: api.FromPayload(r.Input), ID: r.ID, At: r.At}
	if r.After > 0 {
		body.At = base.System{}.Now().Add(r.After).UTC().Truncate(time.Millisecond)
	}
	return e.call(ctx, http.MethodPost, where("entities", r.Ref.Tenant, r.Ref.ID, "signal"), nil, body, nil)
}

// Entity returns the current state of an entity.
func (e *transport) Entity(ctx context.Context, ref abide.Ref) (abide.EntityInfo, error) {
	if ref.ID == "" {
		return abide.EntityInfo{}, fmt.Errorf("remote: entity: no ID: %w", abide.ErrInvalid)
	}
	var out api.Entity
	if err := e.call(ctx, http.MethodGet, where("entities", ref.Tenant, ref.ID), nil, nil, &out); err != nil {
		return abide.EntityInfo{}, err
	}
	return out.Entity()
}

// Entities returns a page of entities.
func (e *transport) Entities(ctx context.Context, f abide.EntityFilter) (abide.EntityPage, error) {
	q := url.Values{}
	if f.Limit != 0 {
		q.Set("page_size", strconv.Itoa(f.Limit))
	}
	set(q, "page_token", f.Cursor)
	set(q, "prefix", f.Prefix)
	setTime(q, "from", f.From)
	setTime(q, "to", f.To)
	if f.Tenant != nil {
		q.Set("tenant", *f.Tenant)
	}
	if f.Empty {
		q.Set("empty", "true")
	}
	var out api.EntityList
	if err := e.call(ctx, http.MethodGet, "/api/v1/entities", q, nil, &out); err != nil {
		return abide.EntityPage{}, err
	}
	page := abide.EntityPage{Entities: make([]abide.EntityInfo, len(out.Entities)), Next: out.NextPageToken}
	for i := range out.Entities {
		var err error
		if page.Entities[i], err = out.Entities[i].Entity(); err != nil {
			return abide.EntityPage{}, err
		}
	}
	return page, nil
}
