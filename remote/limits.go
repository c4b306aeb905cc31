package remote

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/server/api"
)

var _ abide.LimitTransport = (*transport)(nil)

// Limits returns the limits of a tenant, by name.
func (e *transport) Limits(ctx context.Context, tenant string) ([]abide.LimitInfo, error) {
	var list api.LimitList
	if err := e.call(ctx, http.MethodGet, "/api/v1/limits", url.Values{"tenant": {tenant}}, nil, &list); err != nil {
		return nil, err
	}
	limits := make([]abide.LimitInfo, len(list.Limits))
	for i := range list.Limits {
		limits[i] = list.Limits[i].Limit()
	}
	return limits, nil
}

// Limit returns a limit of a tenant, or [abide.ErrNotFound].
func (e *transport) Limit(ctx context.Context, tenant, name string) (abide.LimitInfo, error) {
	return e.limit(ctx, http.MethodGet, tenant, name, nil, nil)
}

// ChangeLimit changes a limit of a tenant. A change that only pauses, resumes or unsets it goes to the route of that name, which
// is what the audit log has.
func (e *transport) ChangeLimit(ctx context.Context, tenant, name string, change abide.LimitChange) (abide.LimitInfo, error) {
	if change.Revision == 0 && change.Set == nil {
		switch {
		case change.Unset && change.Paused == nil:
			return e.limit(ctx, http.MethodPost, tenant, name, nil, nil, "unset")
		case !change.Unset && change.Paused != nil && *change.Paused:
			return e.limit(ctx, http.MethodPost, tenant, name, nil, nil, "pause")
		case !change.Unset && change.Paused != nil:
			return e.limit(ctx, http.MethodPost, tenant, name, nil, nil, "resume")
		}
	}
	header := http.Header{}
	if change.Revision != 0 {
		header.Set("If-Match", strconv.Quote(strconv.FormatInt(change.Revision, 10)))
	}
	return e.limit(ctx, http.MethodPatch, tenant, name, header, api.FromLimitChange(change))
}

// limit makes a request about a limit.
func (e *transport) limit(ctx context.Context, method, tenant, name string, header http.Header, in any, verb ...string) (abide.LimitInfo, error) {
	if name == "" {
		return abide.LimitInfo{}, fmt.Errorf("remote: limit: no name: %w", abide.ErrInvalid)
	}
	var out api.Limit
	if err := e.send(ctx, method, where("limits", tenant, name, verb...), nil, header, in, &out); err != nil {
		return abide.LimitInfo{}, err
	}
	return out.Limit(), nil
}
