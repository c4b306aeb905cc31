package timer

import (
	"cmp"
	"context"
	"iter"
	"strings"
	"time"

	"github.com/abidehq/abide/internal/pages"
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

	// Limit is the size of a page, at most [MaxPage]; 0 means [DefaultPage].
	Limit int

	// Cursor is the Next of the previous page; it is empty for the first page.
	Cursor string
}

// Page is one page of a list.
type Page struct {
	Timers []Timer

	// Next is the cursor of the next page; it is empty on the last page. A page may hold fewer
	// timers than the limit, even none, and still have a Next.
	Next string
}

// List returns a page of the timers that match f, ordered by the time at which they are due,
// fired or were cancelled. It returns [ErrInvalid] if f has an unknown status, a limit that is out
// of range or a cursor that is not from such a list.
func (s *Service) List(ctx context.Context, f Filter) (Page, error) {
	const verb = "list"
	if f.Limit < 0 || f.Limit > MaxPage {
		return Page{}, invalid(verb, "a page of %d timers; 1 to %d is allowed", f.Limit, MaxPage)
	}
	q, err := f.query(verb)
	if err != nil {
		return Page{}, err
	}
	q.Limit, q.Cursor = cmp.Or(f.Limit, DefaultPage), f.Cursor
	return s.list(ctx, verb, f, q)
}

// All returns the timers that match f, in the order of [Service.List], and reads them page by page
// while the caller iterates. [Filter.Limit] is the size of a page and does not bound the sequence;
// [Filter.Cursor], if not empty, is where it begins.
//
// The sequence is no snapshot. A timer that matches f throughout, and whose time does not change,
// is yielded exactly once. One that is scheduled, moved, fired or cancelled meanwhile may be
// yielded once, twice with different states, or not at all.
//
// The sequence ends after the first error, which it yields with a zero Timer: an error of
// [Service.List], or that of ctx.
func (s *Service) All(ctx context.Context, f Filter) iter.Seq2[Timer, error] {
	return pages.All(f.Cursor, func(cursor string) ([]Timer, string, error) {
		f := f
		f.Cursor = cursor
		page, err := s.List(ctx, f)
		return page.Timers, page.Next, err
	})
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
