package memstore

import (
	"bytes"
	"cmp"
	"context"
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

// Leases returns live leases.
func (s *Store) Leases(ctx context.Context, q store.LeaseQuery) ([]store.LeaseInfo, error) {
	if err := q.Validate(); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if _, err := s.lock("leases"); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	limit := cmp.Or(q.Limit, store.DefaultPage)
	if q.Key.Name != "" {
		if k := s.find(q.Key); k != nil && k.lease != nil {
			return []store.LeaseInfo{k.leaseInfo()}, nil
		}
		return nil, nil
	}
	var leases []store.LeaseInfo
	for name, queue := range s.queues {
		if q.Queue != "" && q.Queue != name {
			continue
		}
		n := 0 // each queue has its own order: no more than limit of one are among the first
		queue.leased.Scan(func(k *keyState) bool {
			leases = append(leases, k.leaseInfo())
			n++
			return n < limit
		})
	}
	slices.SortStableFunc(leases, func(a, b store.LeaseInfo) int { return a.Until.Compare(b.Until) })
	return leases[:min(limit, len(leases))], nil
}

func (k *keyState) leaseInfo() store.LeaseInfo {
	return store.LeaseInfo{Key: k.key, Route: k.route, Owner: k.lease.owner, Until: store.FromMillis(k.lease.untilMS)}
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
	stats := store.Stats{Now: store.FromMillis(nowMS), ClockLead: s.time.Lead(), Waiting: s.waits.Waiting()}
	for name, q := range s.queues {
		stats.Leases += q.leased.Len()
		for i := 0; i < q.messages.Len(); {
			row := q.count(i, nowMS)
			row.Queue = name
			stats.Routes = append(stats.Routes, row)
			i += row.Pending
		}
	}
	slices.SortFunc(stats.Routes, func(a, b store.RouteStats) int {
		return cmp.Or(strings.Compare(a.Queue, b.Queue), strings.Compare(a.Route, b.Route))
	})
	return stats, nil
}

// count returns what the queue holds for the route whose messages begin at i.
func (q *queue) count(i int, nowMS int64) store.RouteStats {
	first, _ := q.messages.GetAt(i)
	route := first.place.route
	upTo := func(p place) int {
		return rank(q.messages, func(m *message) bool { return m.place.compare(p) < 0 }) - i
	}
	row := store.RouteStats{Route: route, Pending: upTo(after(route, ""))}
	if route != "" {
		row.Ready = min(upTo(place{route: route, ms: nowMS + 1}), store.ReadyCap)
		row.Leased = min(q.delivered[route], store.ReadyCap)
		row.Oldest = first.VisibleAt
	}
	return row
}
