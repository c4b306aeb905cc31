package memstore

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/abidehq/abide/store"
)

// ReadLog returns entries of a log.
func (s *Store) ReadLog(ctx context.Context, key store.Key, from int) (store.LogPage, error) {
	if err := store.ValidateReadLog(key, from); err != nil {
		return store.LogPage{}, err
	}
	if err := ctx.Err(); err != nil {
		return store.LogPage{}, err
	}
	if _, err := s.lock("read log"); err != nil {
		return store.LogPage{}, err
	}
	defer s.mu.Unlock()
	k := s.find(key)
	if k == nil {
		return store.LogPage{First: from}, nil
	}
	page := store.LogPage{First: max(from, k.logBase), Length: k.logLength()}
	size := 0
	for i := page.First; i < page.Length; i++ {
		entry := k.log[i-k.logBase]
		if size += len(entry); size > store.LogPageBytes && len(page.Entries) > 0 {
			break
		}
		page.Entries = append(page.Entries, bytes.Clone(entry))
	}
	return page, nil
}

// Pending returns the messages of a key.
func (s *Store) Pending(ctx context.Context, key store.Key, limit int) ([]store.Message, error) {
	if err := store.ValidatePending(key, limit); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if _, err := s.lock("pending"); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	if limit == 0 {
		limit = store.MaxPage
	}
	k := s.find(key)
	if k == nil {
		return nil, nil
	}
	var messages []store.Message
	size := 0
	for _, m := range k.messages[:min(limit, len(k.messages))] {
		if size += len(m.Body); size > store.PageBytes && len(messages) > 0 {
			break
		}
		messages = append(messages, k.copy(m))
	}
	return messages, nil
}

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
	r, ok := s.records[key]
	if !ok {
		return store.Record{}, store.NotFound("get", key)
	}
	return copyRecord(r), nil
}

// Await returns a record when it is past a version.
func (s *Store) Await(ctx context.Context, key store.RecordKey, after int64) (store.Record, error) {
	if err := store.ValidateAwait(key, after); err != nil {
		return store.Record{}, err
	}
	for {
		if err := ctx.Err(); err != nil {
			return store.Record{}, err
		}
		if _, err := s.lock("await"); err != nil {
			return store.Record{}, err
		}
		r, ok := s.records[key]
		changed := s.recordsChanged
		s.mu.Unlock()
		switch {
		case ok && r.Version > after:
			return copyRecord(r), nil
		case !ok && after > 0:
			return store.Record{}, store.NotFound("await", key)
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
}

// position is where a walk through a list has come to.
type position struct {
	MS     int64  `json:"ms"`
	Tenant []byte `json:"tenant"`
	ID     []byte `json:"id"`
	Desc   bool   `json:"desc,omitempty"`
	Kind   string `json:"kind"`
}

// List returns records that match q.
func (s *Store) List(ctx context.Context, q store.Query) (store.Page, error) {
	if err := q.Validate(); err != nil {
		return store.Page{}, err
	}
	after, err := parseCursor(q)
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
	var found []store.Record
	for _, r := range s.records {
		if matches(&q, &r) && (after == nil || order(&q, at(&r), *after) > 0) {
			found = append(found, r)
		}
	}
	slices.SortFunc(found, func(a, b store.Record) int { return order(&q, at(&a), at(&b)) })
	limit := q.Limit
	if limit == 0 {
		limit = store.DefaultPage
	}
	page := store.Page{}
	size := 0
	for i := range found {
		size += len(found[i].Body)
		if i == limit || (i > 0 && size > store.PageBytes) {
			page.Next = cursor(&q, &found[i-1])
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
	for _, r := range s.records {
		if n == limit {
			break
		}
		if matches(&q, &r) {
			n++
		}
	}
	return n, nil
}

func at(r *store.Record) position {
	return position{MS: r.Time.UnixMilli(), Tenant: []byte(r.Key.Tenant), ID: []byte(r.Key.ID)}
}

// order compares two places in the list that q asks for.
func order(q *store.Query, a, b position) int {
	c := cmp.Or(cmp.Compare(a.MS, b.MS), bytes.Compare(a.Tenant, b.Tenant), bytes.Compare(a.ID, b.ID))
	if q.Descending {
		return -c
	}
	return c
}

func cursor(q *store.Query, r *store.Record) string {
	p := at(r)
	p.Desc, p.Kind = q.Descending, q.Kind
	b, err := json.Marshal(p)
	if err != nil {
		panic(err) // bytes and numbers always marshal
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

func parseCursor(q store.Query) (*position, error) {
	if q.Cursor == "" {
		return nil, nil
	}
	var p position
	b, err := base64.RawURLEncoding.DecodeString(q.Cursor)
	if err == nil {
		err = json.Unmarshal(b, &p)
	}
	if err != nil || p.Desc != q.Descending || p.Kind != q.Kind {
		return nil, fmt.Errorf("store: list: cursor %q is not from this query: %w", q.Cursor, store.ErrInvalid)
	}
	return &p, nil
}

func matches(q *store.Query, r *store.Record) bool {
	switch {
	case r.Key.Kind != q.Kind,
		q.Tenant != nil && *q.Tenant != r.Key.Tenant,
		len(q.Statuses) > 0 && !slices.Contains(q.Statuses, r.Status),
		len(q.Names) > 0 && !slices.Contains(q.Names, r.Name),
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

func copyRecord(r store.Record) store.Record {
	r.Tags = maps.Clone(r.Tags)
	r.Body = bytes.Clone(r.Body)
	return r
}

// Stats counts what there is.
func (s *Store) Stats(ctx context.Context) (store.Stats, error) {
	if err := ctx.Err(); err != nil {
		return store.Stats{}, err
	}
	nowMS, err := s.lock("stats")
	if err != nil {
		return store.Stats{}, err
	}
	defer s.mu.Unlock()
	stats := store.Stats{Now: store.FromMillis(nowMS)}
	rows := map[[2]string]*store.RouteStats{}
	for name, q := range s.queues {
		stats.Waiting += len(q.waiters)
		for _, k := range q.keys {
			if k.leased(nowMS) {
				stats.Leases++
			}
			row := rows[[2]string{name, k.route}]
			if row == nil {
				row = &store.RouteStats{Queue: name, Route: k.route}
				rows[[2]string{name, k.route}] = row
			}
			k.count(row, nowMS)
		}
	}
	for _, row := range rows {
		if row.Pending > 0 {
			stats.Routes = append(stats.Routes, *row)
		}
	}
	slices.SortFunc(stats.Routes, func(a, b store.RouteStats) int {
		return cmp.Or(strings.Compare(a.Queue, b.Queue), strings.Compare(a.Route, b.Route))
	})
	return stats, nil
}

// count adds the key's messages to a row.
func (k *keyState) count(row *store.RouteStats, nowMS int64) {
	row.Pending += len(k.messages)
	if k.route == "" {
		return
	}
	for _, m := range k.messages {
		if m.visibleMS <= nowMS && row.Ready < store.ReadyCap {
			row.Ready++
		}
		if row.Oldest.IsZero() || m.VisibleAt.Before(row.Oldest) {
			row.Oldest = m.VisibleAt
		}
	}
}
