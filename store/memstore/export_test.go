package memstore

import (
	"fmt"
	"maps"
	"slices"

	"github.com/abidehq/abide/store"
)

// CheckIndexes compares every index with a scan of the maps, and returns what differs.
func (s *Store) CheckIndexes() (problems []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	differ := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	for name, q := range s.queues {
		messages, leased, future, ready := 0, 0, 0, 0
		delivered := map[string]int{}
		for key, k := range q.keys {
			if k.key != key || k.queue != q {
				differ("key %v is kept as %v", k.key, key)
			}
			for i, m := range k.messages {
				messages++
				ms := m.visibleMS
				if k.route == "" {
					ms = m.expiresMS
				}
				if got, ok := q.messages.Get(m); !ok || got != m || m.place != (place{route: k.route, ms: ms, seq: m.seq}) {
					differ("message %v is not where it belongs: %+v", m.Ref(), m.place)
				}
				if m.owner != k || k.message(m.ID) != m || k.search(m) != i {
					differ("message %v is not found", m.Ref())
				}
			}
			want := (*index[*keyState])(nil)
			switch {
			case k.lease != nil:
				want = q.leased
				delivered[k.route] += len(k.lease.delivered)
				leased++
			case k.route == "" || len(k.messages) == 0:
			case k.messages[0].visibleMS > s.lastMS:
				want = q.future
				future++
			default:
				want = q.ready
				ready++
			}
			if k.index != want {
				differ("key %v is in another index than its state says", key)
			}
			if want == nil {
				continue
			}
			if got, ok := want.Get(k); !ok || got != k {
				differ("key %v is not at its place %+v", key, k.place)
			}
			if _, at := q.where(k, s.lastMS); at != k.place {
				differ("key %v is at %+v, and belongs to %+v", key, k.place, at)
			}
		}
		if !maps.Equal(q.delivered, delivered) {
			differ("queue %s: %v are counted as delivered, and %v are", name, q.delivered, delivered)
		}
		got := [...]int{len(q.ids), q.messages.Len(), q.leased.Len(), q.future.Len(), q.ready.Len()}
		if want := [...]int{messages, messages, leased, future, ready}; got != want {
			differ("queue %s: %v items in the indexes, and %v in the keys", name, got, want)
		}
	}
	for key, r := range s.records.byKey {
		tenant, _ := s.records.byTenant.Get(r)
		status, _ := s.records.byStatus.Get(r)
		if r.Key != key || tenant != r || status != r {
			differ("record %v is not where it belongs", key)
		}
	}
	if n := len(s.records.byKey); s.records.byTenant.Len() != n || s.records.byStatus.Len() != n {
		differ("%d records, %d by tenant, %d by status", n, s.records.byTenant.Len(), s.records.byStatus.Len())
	}
	return problems
}

// ScanRecords returns what a list by q has, from a look at every record.
func (s *Store) ScanRecords(q store.Query) (keys []store.RecordKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []*store.Record
	for _, r := range s.records.byKey {
		if matches(&q, r) {
			found = append(found, r)
		}
	}
	slices.SortFunc(found, func(a, b *store.Record) int { return order(&q, at(a), at(b)) })
	for _, r := range found {
		keys = append(keys, r.Key)
	}
	return keys
}

// Hide makes every key and record of the maps nil, so that a call that visits one which
// it does not name panics. The indexes stay as they are.
func (s *Store) Hide() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, q := range s.queues {
		for key := range q.keys {
			q.keys[key] = nil
		}
	}
	for key := range s.records.byKey {
		s.records.byKey[key] = nil
	}
}
