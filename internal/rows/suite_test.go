package rows

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
	"testing"
	"time"

	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/store/storetest"
)

// tableStore is a whole store on tables.
type tableStore struct {
	*Core
	d *tables
}

var _ store.Store = (*tableStore)(nil)

func newTableStore(clock base.Clock, d *tables) *tableStore {
	s := &tableStore{Core: New(Options{Clock: clock, Writers: 2}), d: d}
	d.frames = append(d.frames, s.Core)
	d.shared.Store(len(d.frames) > 1)
	s.Start(d)
	return s
}

func (s *tableStore) Close() error {
	s.CloseCore()
	return nil
}

func (s *tableStore) ReadLog(ctx context.Context, key store.Key, from int) (store.LogPage, error) {
	if err := store.ValidateReadLog(key, from); err != nil {
		return store.LogPage{}, err
	}
	if err := s.Check(ctx, "read log"); err != nil {
		return store.LogPage{}, err
	}
	s.d.mu.Lock()
	defer s.d.mu.Unlock()
	row := s.d.keys[IDOf(key)]
	if row == nil {
		return store.LogPage{First: from}, nil
	}
	page := store.LogPage{First: max(from, row.LogFirst), Length: row.LogLength}
	size := 0
	for i := page.First; i < row.LogLength; i++ {
		e := s.d.entries[row.ID][i]
		if size += len(e); len(page.Entries) > 0 && size > store.LogPageBytes {
			break
		}
		page.Entries = append(page.Entries, bytes.Clone(e))
	}
	return page, nil
}

func (s *tableStore) Pending(ctx context.Context, key store.Key, limit int) (pending []store.Message, _ error) {
	if err := store.ValidatePending(key, limit); err != nil {
		return nil, err
	}
	if err := s.Check(ctx, "pending"); err != nil {
		return nil, err
	}
	s.d.mu.Lock()
	defer s.d.mu.Unlock()
	row := s.d.keys[IDOf(key)]
	if row == nil {
		return nil, nil
	}
	size := 0
	for _, m := range s.d.visible(row, Never) {
		if size += len(m.Body); len(pending) == cmp.Or(limit, store.MaxPage) || (len(pending) > 0 && size > store.PageBytes) {
			break
		}
		if slices.Contains(row.Delivered, m.Seq) {
			m.Attempt++
		}
		m.Body = bytes.Clone(m.Body)
		pending = append(pending, m.Message(key, row.Route))
	}
	return pending, nil
}

func (s *tableStore) Get(ctx context.Context, key store.RecordKey) (store.Record, error) {
	if err := store.ValidateGet(key); err != nil {
		return store.Record{}, err
	}
	if err := s.Check(ctx, "get"); err != nil {
		return store.Record{}, err
	}
	return s.d.Record(ctx, key)
}

type position struct {
	MS         int64
	Tenant, ID string
	Kind       string
	Desc       bool
}

func (s *tableStore) List(ctx context.Context, q store.Query) (page store.Page, _ error) {
	if err := q.Validate(); err != nil {
		return page, err
	}
	if err := s.Check(ctx, "list"); err != nil {
		return page, err
	}
	var from *position
	if q.Cursor != "" {
		b, err := base64.RawURLEncoding.DecodeString(q.Cursor)
		if err == nil {
			err = json.Unmarshal(b, &from)
		}
		if err != nil || from.Kind != q.Kind || from.Desc != q.Descending {
			return page, fmt.Errorf("store: list: cursor: %w", store.ErrInvalid)
		}
	}
	size := 0
	for _, r := range s.matching(&q) {
		at := positionOf(&r, &q)
		if from != nil && comparePositions(at, *from) <= 0 {
			continue
		}
		if size += len(r.Body); len(page.Records) == cmp.Or(q.Limit, store.DefaultPage) || (len(page.Records) > 0 && size > store.PageBytes) {
			b, _ := json.Marshal(positionOf(&page.Records[len(page.Records)-1], &q))
			page.Next = base64.RawURLEncoding.EncodeToString(b)
			break
		}
		page.Records = append(page.Records, r)
	}
	return page, nil
}

func positionOf(r *store.Record, q *store.Query) position {
	return position{
		MS: r.Time.UnixMilli(), Tenant: fmt.Sprintf("%x", r.Key.Tenant), ID: fmt.Sprintf("%x", r.Key.ID),
		Kind: q.Kind, Desc: q.Descending,
	}
}

func comparePositions(a, b position) int {
	c := cmp.Or(cmp.Compare(a.MS, b.MS), strings.Compare(a.Tenant, b.Tenant), strings.Compare(a.ID, b.ID))
	if a.Desc {
		return -c
	}
	return c
}

func (s *tableStore) matching(q *store.Query) (all []store.Record) {
	s.d.mu.Lock()
	defer s.d.mu.Unlock()
	for _, r := range s.d.records {
		if matches(q, &r) {
			r.Body, r.Tags = bytes.Clone(r.Body), maps.Clone(r.Tags)
			all = append(all, r)
		}
	}
	slices.SortFunc(all, func(a, b store.Record) int { return comparePositions(positionOf(&a, q), positionOf(&b, q)) })
	return all
}

func matches(q *store.Query, r *store.Record) bool {
	for name, value := range q.Tags {
		if v, ok := r.Tags[name]; !ok || v != value {
			return false
		}
	}
	return r.Key.Kind == q.Kind && (q.Tenant == nil || *q.Tenant == r.Key.Tenant) &&
		(len(q.Statuses) == 0 || slices.Contains(q.Statuses, r.Status)) &&
		strings.HasPrefix(r.Key.ID, q.Prefix) && (len(q.Names) == 0 || slices.Contains(q.Names, r.Name)) &&
		(q.From.IsZero() || !r.Time.Before(q.From)) && (q.To.IsZero() || r.Time.Before(q.To))
}

func (s *tableStore) Count(ctx context.Context, q store.Query, limit int) (int, error) {
	if err := store.ValidateCount(&q, limit); err != nil {
		return 0, err
	}
	if err := s.Check(ctx, "count"); err != nil {
		return 0, err
	}
	return min(len(s.matching(&q)), limit), nil
}

func (s *tableStore) Leases(ctx context.Context, q store.LeaseQuery) ([]store.LeaseInfo, error) {
	if err := q.Validate(); err != nil {
		return nil, err
	}
	if err := s.Check(ctx, "leases"); err != nil {
		return nil, err
	}
	s.d.mu.Lock()
	defer s.d.mu.Unlock()
	now := s.d.now()
	var leases []store.LeaseInfo
	for _, row := range s.d.keys {
		if row.Token == "" || row.Until <= now || q.Queue != "" && q.Queue != row.Key.Queue || q.Key.Name != "" && q.Key != row.Key {
			continue
		}
		leases = append(leases, store.LeaseInfo{
			Key: row.Key, Route: row.Route, Owner: store.TokenOwner(store.Token(row.Token)), Until: store.FromMillis(row.Until),
		})
	}
	slices.SortFunc(leases, func(a, b store.LeaseInfo) int { return a.Until.Compare(b.Until) })
	return leases[:min(cmp.Or(q.Limit, store.DefaultPage), len(leases))], nil
}

func (s *tableStore) Stats(ctx context.Context) (store.Stats, error) {
	if err := s.Check(ctx, "stats"); err != nil {
		return store.Stats{}, err
	}
	waiting := s.Waiting()
	s.d.mu.Lock()
	defer s.d.mu.Unlock()
	now := s.d.now()
	stats := store.Stats{Now: store.FromMillis(now), Waiting: waiting}
	for partition, n := range s.d.tally {
		if n > 0 {
			stats.Routes = append(stats.Routes, store.RouteStats{Queue: partition[0], Route: partition[1], Pending: n})
		}
	}
	slices.SortFunc(stats.Routes, func(a, b store.RouteStats) int {
		return cmp.Or(strings.Compare(a.Queue, b.Queue), strings.Compare(a.Route, b.Route))
	})
	for _, row := range s.d.keys {
		live := row.Token != "" && row.Until > now
		if live {
			stats.Leases++
		}
		for i := range stats.Routes {
			if r := &stats.Routes[i]; r.Route != "" && r.Queue == row.Key.Queue && r.Route == row.Route && row.Count > 0 {
				r.Ready = min(r.Ready+len(s.d.visible(row, now)), store.ReadyCap)
				if live {
					r.Leased += len(row.Delivered)
				}
				if at := store.FromMillis(row.First); r.Oldest.IsZero() || at.Before(r.Oldest) {
					r.Oldest = at
				}
			}
		}
	}
	return stats, nil
}

func newBackend(t testing.TB) *storetest.Backend {
	t.Helper()
	clock := base.NewManual(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	d := newTables(clock)
	b := &storetest.Backend{Store: newTableStore(clock, d), Advance: clock.Advance}
	b.Reopen = func() {
		if err := b.Store.Close(); err != nil {
			t.Fatal(err)
		}
		d.frames = nil
		b.Store = newTableStore(clock, d)
	}
	t.Cleanup(func() {
		if err := b.Store.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return b
}

// TestContract runs the suite that every backend passes.
func TestContract(t *testing.T) {
	t.Parallel()
	storetest.Run(t, newBackend)
}

// TestModel compares the store with the model.
func TestModel(t *testing.T) {
	t.Parallel()
	storetest.RunModel(t, newBackend)
}
