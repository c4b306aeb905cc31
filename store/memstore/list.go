package memstore

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"maps"
	"slices"
	"strings"

	"github.com/abidehq/abide/internal/cursor"
	"github.com/abidehq/abide/internal/waitlist"
	"github.com/abidehq/abide/store"
)

// Get returns a record.
func (s *Store) Get(ctx context.Context, key store.RecordKey) (store.Record, error) {
	if err := store.ValidateGet(key); err != nil {
		return store.Record{}, err
	}
	if err := ctx.Err(); err != nil {
		return store.Record{}, err
	}
	if _, err := s.lock("get"); err != nil {
		return store.Record{}, err
	}
	defer s.mu.Unlock()
	r := s.records.byKey[key]
	if r == nil {
		return store.Record{}, store.NotFound("get", key)
	}
	return copyRecord(r), nil
}

// Await returns a record when it is past a version.
func (s *Store) Await(ctx context.Context, key store.RecordKey, after int64) (store.Record, error) {
	if err := store.ValidateAwait(key, after); err != nil {
		return store.Record{}, err
	}
	reader := waitlist.NewReader[struct{}]()
	for joined := false; ; joined = true {
		if err := ctx.Err(); err != nil {
			return store.Record{}, err
		}
		if _, err := s.lock("await"); err != nil {
			return store.Record{}, err
		}
		r := s.records.byKey[key]
		switch {
		case r != nil && r.Version > after:
			found := copyRecord(r)
			s.mu.Unlock()
			return found, nil
		case r == nil && after > 0:
			s.mu.Unlock()
			return store.Record{}, store.NotFound("await", key)
		}
		if !joined {
			s.records.awaited.Join(key, &reader)
			defer s.leave(key, &reader) //nolint:gocritic // once: joined is set below
		}
		s.mu.Unlock()
		select {
		case <-reader.News:
		case <-ctx.Done():
		}
	}
}

// leave ends an Await call that has waited.
func (s *Store) leave(key store.RecordKey, r *waitlist.Reader[struct{}]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.records.awaited.Leave(key, r)
}

// position is where a walk through a list has come to.
type position struct {
	ms         int64
	tenant, id string
}

// List returns records that match q.
func (s *Store) List(ctx context.Context, q store.Query) (store.Page, error) {
	if err := q.Validate(); err != nil {
		return store.Page{}, err
	}
	after, err := parseCursor(&q)
	if err != nil {
		return store.Page{}, err
	}
	if err := ctx.Err(); err != nil {
		return store.Page{}, err
	}
	if _, err := s.lock("list"); err != nil {
		return store.Page{}, err
	}
	defer s.mu.Unlock()
	limit := cmp.Or(q.Limit, store.DefaultPage)
	var found []*store.Record
	for _, st := range s.records.streams(&q) {
		enough := len(found) + limit + 1 // of each stream, since the others may have none
		st.walk(&q, after, func(r *store.Record) bool {
			if matches(&q, r) {
				found = append(found, r)
			}
			return len(found) < enough
		})
	}
	slices.SortFunc(found, func(a, b *store.Record) int { return order(&q, at(a), at(b)) })
	page := store.Page{}
	size := 0
	for i := range found {
		size += len(found[i].Body)
		if i == limit || (i > 0 && size > store.PageBytes) {
			page.Next = formatCursor(&q, found[i-1])
			break
		}
		page.Records = append(page.Records, copyRecord(found[i]))
	}
	return page, nil
}

// Count counts the records that match q, up to limit.
func (s *Store) Count(ctx context.Context, q store.Query, limit int) (n int, err error) {
	if err := store.ValidateCount(&q, limit); err != nil {
		return 0, err
	}
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if _, err := s.lock("count"); err != nil {
		return 0, err
	}
	defer s.mu.Unlock()
	for _, st := range s.records.streams(&q) {
		if q.ByFields() {
			n += st.count(&q)
			continue
		}
		st.walk(&q, nil, func(r *store.Record) bool {
			if matches(&q, r) {
				n++
			}
			return n < limit
		})
	}
	return min(n, limit), nil
}

func at(r *store.Record) position {
	return position{ms: r.Time.UnixMilli(), tenant: r.Key.Tenant, id: r.Key.ID}
}

// order compares two places in the list that q asks for.
func order(q *store.Query, a, b position) int {
	c := cmp.Or(cmp.Compare(a.ms, b.ms), strings.Compare(a.tenant, b.tenant), strings.Compare(a.id, b.id))
	if q.Descending {
		return -c
	}
	return c
}

// formatCursor returns the cursor of a record. Records of the same time are told apart by
// their tenant, with its length before it, and ID.
func formatCursor(q *store.Query, r *store.Record) string {
	p := at(r)
	tie := binary.AppendUvarint(nil, uint64(len(p.tenant)))
	return cursor.Format(q, cursor.Position{Millis: p.ms, Tie: append(append(tie, p.tenant...), p.id...)})
}

func parseCursor(q *store.Query) (*position, error) {
	p, ok, err := cursor.Parse(q, cursor.AnyTie)
	if !ok || err != nil {
		return nil, err
	}
	n, size := binary.Uvarint(p.Tie)
	if size <= 0 || n > uint64(len(p.Tie)-size) {
		return nil, cursor.Invalid(q)
	}
	names := p.Tie[size:]
	return &position{p.Millis, string(names[:n]), string(names[n:])}, nil
}

func matches(q *store.Query, r *store.Record) bool {
	switch {
	case r.Key.Kind != q.Kind,
		q.Tenant != nil && *q.Tenant != r.Key.Tenant,
		len(q.Statuses) > 0 && !slices.Contains(q.Statuses, r.Status),
		len(q.Names) > 0 && !slices.Contains(q.Names, r.Name),
		!strings.HasPrefix(r.Key.ID, q.Prefix),
		!q.From.IsZero() && r.Time.Before(q.From),
		!q.To.IsZero() && !r.Time.Before(q.To):
		return false
	}
	for name, value := range q.Tags {
		if v, ok := r.Tags[name]; !ok || v != value {
			return false
		}
	}
	return true
}

func copyRecord(r *store.Record) store.Record {
	c := *r
	c.Tags = maps.Clone(r.Tags)
	c.Body = bytes.Clone(r.Body)
	return c
}
