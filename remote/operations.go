package remote

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/server/api"
)

// Operations are what is done to many instances of a server at a time. Errors match those of
// package abide: [abide.ErrNotFound], [abide.ErrExists], [abide.ErrState] and
// [abide.ErrInvalid].
type Operations struct{ c *Client }

// Operations returns the server's operations.
func (c *Client) Operations() *Operations { return &Operations{c} }

// Start starts an operation. It is durable when Start returns, and is done after that. With
// an ID that exists in the tenant, or among operations about all tenants, that operation is
// returned if it does the same.
func (o *Operations) Start(ctx context.Context, n api.NewOperation) (api.Operation, error) {
	return o.one(ctx, http.MethodPost, "/api/v1/operations", nil, n)
}

// Get returns an operation of a tenant. An empty tenant means the caller's only one, or, for a
// caller with access to all tenants, an operation about all of them.
func (o *Operations) Get(ctx context.Context, tenant, id string) (api.Operation, error) {
	return o.named(ctx, "get", http.MethodGet, tenant, id, "")
}

// Cancel has an operation of a tenant, as in Get, stop. What is done is done.
func (o *Operations) Cancel(ctx context.Context, tenant, id string) (api.Operation, error) {
	return o.named(ctx, "cancel", http.MethodPost, tenant, id, "/cancel")
}

// OperationFilter says which operations are meant: those that match all that is set.
type OperationFilter struct {
	Tenant   string   // whose instances they are about
	Statuses []string // one of them
	Kinds    []string // one of them

	// Limit is the size of a page; 0 leaves it to the server. Cursor is the NextPageToken of the
	// previous page; it is empty for the first page.
	Limit  int
	Cursor string
}

// List returns a page of the operations that match f, the latest first.
func (o *Operations) List(ctx context.Context, f OperationFilter) (api.OperationList, error) {
	q := page(f.Limit, f.Cursor)
	set(q, "tenant", f.Tenant)
	set(q, "status", strings.Join(f.Statuses, ","))
	set(q, "kind", strings.Join(f.Kinds, ","))
	var list api.OperationList
	_, err := o.c.call(ctx, http.MethodGet, "/api/v1/operations", q, nil, &list)
	return list, err
}

func (o *Operations) named(ctx context.Context, verb, method, tenant, id, path string) (api.Operation, error) {
	if id == "" {
		return api.Operation{}, fmt.Errorf("remote: %s: an ID of an operation is needed: %w", verb, abide.ErrInvalid)
	}
	q := url.Values{}
	set(q, "tenant", tenant)
	return o.one(ctx, method, "/api/v1/operations/"+element(id)+path, q, nil)
}

func (o *Operations) one(ctx context.Context, method, path string, q url.Values, in any) (api.Operation, error) {
	var out api.Operation
	_, err := o.c.call(ctx, method, path, q, in, &out)
	return out, err
}
