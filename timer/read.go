package timer

import (
	"context"
	"strings"
	"time"

	"github.com/abidehq/abide/store"
)

// Get returns a timer, or [ErrNotFound].
func (s *Service) Get(ctx context.Context, tenant, key string) (Timer, error) {
	const verb = "get"
	if err := checkName(verb, tenant, key); err != nil {
		return Timer{}, err
	}
	return s.get(ctx, verb, tenant, key)
}

func (s *Service) get(ctx context.Context, verb, tenant, key string) (Timer, error) {
	rec, err := s.store.Get(ctx, recordKey(tenant, key))
	if err != nil {
		return Timer{}, wrap(verb, tenant, key, err)
	}
	return parseRecord(rec)
}

// Filter selects timers that match all fields that are set.
type Filter struct {
	// Tenant, if not empty.
	Tenant string

	// Statuses selects timers with one of these, unless it is empty.
	Statuses []Status

	// From and To bound when the timer is due, or when it fired or was cancelled:
	// From <= t < To.
	From, To time.Time

	// CorrelationID, if not empty.
	CorrelationID string

	// KeyPrefix selects keys with this prefix.
	KeyPrefix string

	// Descending reverses the order: latest first.
	Descending bool
}

// Page is one page of a list.
type Page struct {
	Timers []Timer

	// Next is the cursor of the next page; it is empty on the last page. A page may hold fewer
	// timers than the limit, even none, and still have a Next.
	Next string
}

// List returns a page of the timers that match f, ordered by the time at which they are due,
// fired or were cancelled. Limit is the size of the page; 0 means [DefaultPage]. Cursor is the
// Next of the previous page.
func (s *Service) List(ctx context.Context, f Filter, limit int, cursor string) (Page, error) {
	const verb = "list"
	if limit == 0 {
		limit = DefaultPage
	}
	if limit < 0 || limit > MaxPage {
		return Page{}, invalid(verb, "a page of %d timers; 1 to %d is allowed", limit, MaxPage)
	}
	q, err := f.query(verb)
	if err != nil {
		return Page{}, err
	}
	q.Limit, q.Cursor = limit, cursor
	return s.list(ctx, verb, f, q)
}

func (s *Service) list(ctx context.Context, verb string, f Filter, q store.Query) (Page, error) {
	records, err := s.store.List(ctx, q)
	if err != nil {
		return Page{}, wrap(verb, f.Tenant, "", err)
	}
	page := Page{Next: records.Next, Timers: make([]Timer, 0, len(records.Records))}
	for _, rec := range records.Records {
		if !strings.HasPrefix(rec.Key.ID, f.KeyPrefix) {
			continue
		}
		t, err := parseRecord(rec)
		if err != nil {
			return Page{}, err
		}
		page.Timers = append(page.Timers, t)
	}
	return page, nil
}

// query returns what to ask the store for.
func (f *Filter) query(verb string) (store.Query, error) {
	q := store.Query{Kind: kind, From: f.From, To: f.To, Descending: f.Descending}
	if f.Tenant != "" {
		q.Tenant = &f.Tenant
	}
	for _, status := range f.Statuses {
		if status != Armed && status != Fired && status != Cancelled {
			return q, invalid(verb, "unknown status %q; %s, %s and %s are allowed", status, Armed, Fired, Cancelled)
		}
		q.Statuses = append(q.Statuses, string(status))
	}
	if f.CorrelationID != "" {
		q.Names = []string{f.CorrelationID}
	}
	return q, nil
}
