package action

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"slices"
	"time"

	"github.com/abidehq/abide/internal/pages"
	"github.com/abidehq/abide/store"
)

// Get returns an action, or [ErrNotFound].
func (s *Service) Get(ctx context.Context, tenant, id string) (Action, error) {
	a, err := s.get(ctx, "get", tenant, id)
	if err == nil && a.Status == Pending {
		a.Warning = s.warning(ctx, tenant, a.Target)
	}
	return a, err
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

	// Limit is the size of a page, at most [MaxPage]; 0 means [DefaultPage].
	Limit int

	// Cursor is the Next of the previous page; it is empty for the first page.
	Cursor string
}

// Page is one page of a list.
type Page struct {
	Actions []Action

	// Next is the cursor of the next page; it is empty on the last page.
	Next string
}

// List returns a page of the actions that match f, ordered by the time at which they are due,
// began or ended. It returns [ErrInvalid] if f has an unknown status, a limit that is out of range
// or a cursor that is not from such a list.
func (s *Service) List(ctx context.Context, f Filter) (Page, error) {
	const verb = "list"
	q, err := f.query(verb)
	if err != nil {
		return Page{}, err
	}
	actions, next, err := readPage(ctx, s.store, q, verb, "actions", parseRecord)
	return Page{Actions: actions, Next: next}, err
}

// All returns the actions that match f, in the order of [Service.List], and reads them page by page
// while the caller iterates. [Filter.Limit] is the size of a page and does not bound the sequence;
// [Filter.Cursor], if not empty, is where it begins.
//
// The sequence is no snapshot. An action that matches f throughout, and whose status and time do
// not change, is yielded exactly once. One that is added, begins, ends or is retried meanwhile may
// be yielded once, twice with different states, or not at all.
//
// The sequence ends after the first error, which it yields with a zero Action: an error of
// [Service.List], or that of ctx.
func (s *Service) All(ctx context.Context, f Filter) iter.Seq2[Action, error] {
	return pages.All(f.Cursor, func(cursor string) ([]Action, string, error) {
		f := f
		f.Cursor = cursor
		page, err := s.List(ctx, f)
		return page.Actions, page.Next, err
	})
}

func (f *Filter) query(verb string) (store.Query, error) {
	q, err := pageQuery(verb, kind, f.Tenant, f.Limit, f.Cursor)
	if err != nil {
		return q, err
	}
	q.From, q.To, q.Descending = f.From, f.To, f.Descending
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

// pageQuery returns the query of a page of records of a kind: those of a tenant, or of all tenants
// if it is empty.
func pageQuery(verb, kind, tenant string, limit int, cursor string) (store.Query, error) {
	q := store.Query{Kind: kind, Limit: cmp.Or(limit, DefaultPage), Cursor: cursor}
	if q.Limit < 0 || q.Limit > MaxPage {
		return q, invalid(verb, "a page of %d; 1 to %d is allowed", limit, MaxPage)
	}
	if tenant != "" {
		q.Tenant = &tenant
	}
	return q, nil
}

// readPage returns the page of records that q asks for, parsed, and the cursor of the next one.
func readPage[T any](ctx context.Context, s store.Store, q store.Query, verb, what string, parse func(store.Record) (T, error)) ([]T, string, error) {
	records, err := s.List(ctx, q)
	if err != nil {
		return nil, "", wrap(verb, what, err)
	}
	items := make([]T, len(records.Records))
	for i, rec := range records.Records {
		if items[i], err = parse(rec); err != nil {
			return nil, "", err
		}
	}
	return items, records.Next, nil
}

func (s Status) valid() bool { return slices.Contains(Statuses, s) }
