package remote

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/server/api"
	"github.com/abidehq/abide/store"
)

// Quarantine lists messages that could not be handled.
func (e *transport) Quarantine(ctx context.Context, f abide.QuarantineFilter) (abide.QuarantinePage, error) {
	q := url.Values{}
	if f.Limit != 0 {
		q.Set("page_size", strconv.Itoa(f.Limit))
	}
	set(q, "page_token", f.Cursor)
	if f.Tenant != nil {
		q.Set("tenant", *f.Tenant)
	}
	var out api.QuarantineList
	if err := e.call(ctx, http.MethodGet, "/api/v1/quarantine", q, nil, &out); err != nil {
		return abide.QuarantinePage{}, err
	}
	page := abide.QuarantinePage{Messages: make([]abide.Quarantined, len(out.Messages)), Next: out.NextPageToken}
	for i := range out.Messages {
		page.Messages[i] = out.Messages[i].Quarantined()
	}
	return page, nil
}

// Redrive puts a quarantined message back, as if it had never been tried.
func (e *transport) Redrive(ctx context.Context, tenant, id string) error {
	return e.quarantined(ctx, http.MethodPost, tenant, id, "redrive")
}

// Discard removes a quarantined message for good.
func (e *transport) Discard(ctx context.Context, tenant, id string) error {
	return e.quarantined(ctx, http.MethodDelete, tenant, id)
}

func (e *transport) quarantined(ctx context.Context, method, tenant, id string, verb ...string) error {
	if id == "" {
		return fmt.Errorf("remote: quarantine: no ID: %w", abide.ErrInvalid)
	}
	return e.call(ctx, method, where("quarantine", tenant, id, verb...), nil, nil, nil)
}

// Stats returns what the server's store holds.
func (c *Client) Stats(ctx context.Context) (store.Stats, error) {
	var out api.Stats
	if _, err := c.call(ctx, http.MethodGet, "/api/v1/stats", nil, nil, &out); err != nil {
		return store.Stats{}, err
	}
	return out.Stats(), nil
}

// Orchestrations returns the orchestrations that a worker serves, or that nobody does
// although messages wait for it.
func (c *Client) Orchestrations(ctx context.Context) ([]api.Orchestration, error) {
	var out api.OrchestrationList
	_, err := c.call(ctx, http.MethodGet, "/api/v1/orchestrations", nil, nil, &out)
	return out.Orchestrations, err
}
