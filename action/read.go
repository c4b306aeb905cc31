package action

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/abidehq/abide/store"
)

// Get returns an action, or [ErrNotFound].
func (s *Service) Get(ctx context.Context, tenant, id string) (Action, error) {
	return s.get(ctx, "get", tenant, id)
}

func (s *Service) get(ctx context.Context, verb, tenant, id string) (Action, error) {
	if id == "" {
		return Action{}, invalid(verb, "no ID")
	}
	rec, err := s.store.Get(ctx, recordKey(tenant, id))
	if err != nil {
		return Action{}, wrap(verb, tenant+"/"+id, err)
	}
	return parseRecord(rec)
}

// Body returns the body of a webhook as it was received. It is kept until the action completes
// or is removed; after that, and for actions that are no webhooks, Body returns [ErrNotFound].
func (s *Service) Body(ctx context.Context, tenant, id string) ([]byte, error) {
	const verb = "read body"
	for range 2 { // it may move while we look
		a, err := s.get(ctx, verb, tenant, id)
		if err != nil {
			return nil, err
		}
		if a.Trigger.Kind != Webhook {
			break
		}
		rec, err := s.store.Get(ctx, bodyKey(tenant, id))
		if err == nil {
			return rec.Body, nil
		}
		if !errors.Is(err, store.ErrNotFound) {
			return nil, wrap(verb, tenant+"/"+id, err)
		}
		pending, err := s.store.Pending(ctx, messageRef(tenant, id, a.Version).Key, 1)
		if err != nil {
			return nil, wrap(verb, tenant+"/"+id, err)
		}
		if len(pending) > 0 {
			_, body, err := parseMessage(&pending[0])
			return body, err
		}
	}
	return nil, wrap(verb, tenant+"/"+id, store.ErrNotFound)
}

// Filter selects actions that match all fields that are set.
type Filter struct {
	Tenant   string
	Slug     string
	Statuses []Status

	// From and To bound when the action is due, began or ended, whichever comes last:
	// From <= t < To.
	From, To time.Time

	// Descending reverses the order: latest first.
	Descending bool
}

// Page is one page of a list.
type Page struct {
	Actions []Action

	// Next is the cursor of the next page; it is empty on the last page.
	Next string
}

// List returns a page of the actions that match f, ordered by the time at which they are due,
// began or ended. Limit is the size of the page; 0 means [DefaultPage]. Cursor is the Next of
// the previous page.
func (s *Service) List(ctx context.Context, f Filter, limit int, cursor string) (Page, error) {
	const verb = "list"
	q, err := f.query(verb, limit, cursor)
	if err != nil {
		return Page{}, err
	}
	records, err := s.store.List(ctx, q)
	if err != nil {
		return Page{}, wrap(verb, "actions", err)
	}
	page := Page{Next: records.Next, Actions: make([]Action, 0, len(records.Records))}
	for _, rec := range records.Records {
		a, err := parseRecord(rec)
		if err != nil {
			return Page{}, err
		}
		page.Actions = append(page.Actions, a)
	}
	return page, nil
}

func (f *Filter) query(verb string, limit int, cursor string) (store.Query, error) {
	q := store.Query{Kind: kind, From: f.From, To: f.To, Descending: f.Descending, Limit: limit, Cursor: cursor}
	if limit == 0 {
		q.Limit = DefaultPage
	}
	if q.Limit < 0 || q.Limit > MaxPage {
		return q, invalid(verb, "a page of %d; 1 to %d is allowed", limit, MaxPage)
	}
	if f.Tenant != "" {
		q.Tenant = &f.Tenant
	}
	if f.Slug != "" {
		q.Names = []string{f.Slug}
	}
	for _, status := range f.Statuses {
		if !status.valid() {
			return q, invalid(verb, "unknown status %q; %v are allowed", status, Statuses)
		}
		q.Statuses = append(q.Statuses, string(status))
	}
	return q, nil
}

func (s Status) valid() bool { return slices.Contains(Statuses, s) }
