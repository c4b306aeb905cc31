package remote

import (
	"context"
	"net/http"

	"github.com/abidehq/abide/server/api"
)

// Sinks returns the sinks that the server publishes to, and others for which something waits.
func (c *Client) Sinks(ctx context.Context) ([]api.Sink, error) {
	var list api.SinkList
	_, err := c.call(ctx, http.MethodGet, "/api/v1/sinks", nil, nil, &list)
	return list.Sinks, err
}

// DeliveryFilter says which deliveries are meant: those that match all that is set.
type DeliveryFilter struct {
	Tenant string
	Sink   string
	State  string // pending, published, retrying or failed

	// Limit is the size of a page; 0 leaves it to the server. Cursor is the NextPageToken of the
	// previous page; it is empty for the first page.
	Limit  int
	Cursor string
}

// Deliveries returns a page of the deliveries of fired timers that match f, the latest first. A page
// may be empty and have a NextPageToken.
func (c *Client) Deliveries(ctx context.Context, f DeliveryFilter) (api.DeliveryList, error) {
	q := page(f.Limit, f.Cursor)
	set(q, "tenant", f.Tenant)
	set(q, "sink", f.Sink)
	set(q, "state", f.State)
	var list api.DeliveryList
	_, err := c.call(ctx, http.MethodGet, "/api/v1/deliveries", q, nil, &list)
	return list, err
}
