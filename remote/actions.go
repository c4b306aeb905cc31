package remote

import (
	"context"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/abidehq/abide/action"
	"github.com/abidehq/abide/internal/pages"
	"github.com/abidehq/abide/server/api"
)

// Actions are the actions and schedules of a server. Its methods do what those of
// [action.Service] with these names do.
type Actions struct{ c *Client }

// Add adds an action.
func (a *Actions) Add(ctx context.Context, r action.Request) (action.Action, bool, error) {
	var out api.Action
	status, err := a.c.call(ctx, http.MethodPost, "/api/v1/actions", nil, api.ToNewAction(r), &out)
	return out.Action(), status == http.StatusOK, err
}

// Get returns an action.
func (a *Actions) Get(ctx context.Context, tenant, id string) (action.Action, error) {
	return a.one(ctx, http.MethodGet, where("actions", tenant, id), nil)
}

// Body returns the body of a webhook.
func (a *Actions) Body(ctx context.Context, tenant, id string) ([]byte, error) {
	var body []byte
	_, err := a.c.call(ctx, http.MethodGet, where("actions", tenant, id, "body"), nil, nil, &body)
	return body, err
}

// List returns a page of the actions that match f, as [action.Service.List] does.
func (a *Actions) List(ctx context.Context, f action.Filter) (action.Page, error) {
	q := page(f.Limit, f.Cursor)
	set(q, "tenant", f.Tenant)
	set(q, "slug", f.Slug)
	for i, status := range f.Statuses {
		if i > 0 {
			q.Set("status", q.Get("status")+","+string(status))
		} else {
			q.Set("status", string(status))
		}
	}
	setTime(q, "from", f.From)
	setTime(q, "to", f.To)
	if f.Descending {
		q.Set("latest", "true")
	}
	var list api.ActionList
	if _, err := a.c.call(ctx, http.MethodGet, "/api/v1/actions", q, nil, &list); err != nil {
		return action.Page{}, err
	}
	return action.Page{Actions: actions(list), Next: list.NextPageToken}, nil
}

// All returns the actions that match f, page by page. It is [action.Service.All] of the server: the
// sequence is no snapshot, and ends after the first error.
func (a *Actions) All(ctx context.Context, f action.Filter) iter.Seq2[action.Action, error] {
	return pages.All(f.Cursor, func(cursor string) ([]action.Action, string, error) {
		f := f
		f.Cursor = cursor
		page, err := a.List(ctx, f)
		return page.Actions, page.Next, err
	})
}

// Cancel cancels an action.
func (a *Actions) Cancel(ctx context.Context, tenant, id, why string) (action.Action, error) {
	q := url.Values{}
	set(q, "reason", why)
	return a.one(ctx, http.MethodPost, where("actions", tenant, id, "cancel"), q)
}

// Retry has an action happen again.
func (a *Actions) Retry(ctx context.Context, tenant, id string) (action.Action, error) {
	return a.one(ctx, http.MethodPost, where("actions", tenant, id, "retry"), nil)
}

func (a *Actions) one(ctx context.Context, method, path string, q url.Values) (action.Action, error) {
	var out api.Action
	_, err := a.c.call(ctx, method, path, q, nil, &out)
	return out.Action(), err
}

func actions(list api.ActionList) []action.Action {
	out := make([]action.Action, len(list.Actions))
	for i := range list.Actions {
		out[i] = list.Actions[i].Action()
	}
	return out
}

func page(limit int, cursor string) url.Values {
	q := url.Values{}
	if limit > 0 {
		q.Set("page_size", strconv.Itoa(limit))
	}
	set(q, "page_token", cursor)
	return q
}

func set(q url.Values, name, value string) {
	if value != "" {
		q.Set(name, value)
	}
}

func setTime(q url.Values, name string, t time.Time) {
	if !t.IsZero() {
		q.Set(name, t.UTC().Format(time.RFC3339Nano))
	}
}
