package shardstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/abidehq/abide/store"
)

// ReadLog returns entries of a log.
func (s *Store) ReadLog(ctx context.Context, key store.Key, from int) (store.LogPage, error) {
	if err := s.check(ctx, "read log"); err != nil {
		return store.LogPage{}, err
	}
	sh, st, err := s.storeOf(key.Tenant)
	if err != nil {
		return store.LogPage{}, err
	}
	page, err := st.ReadLog(ctx, key, from)
	return page, sh.failed(err)
}

// Pending returns the messages of a key.
func (s *Store) Pending(ctx context.Context, key store.Key, limit int) ([]store.Message, error) {
	if err := s.check(ctx, "pending"); err != nil {
		return nil, err
	}
	sh, st, err := s.storeOf(key.Tenant)
	if err != nil {
		return nil, err
	}
	messages, err := st.Pending(ctx, key, limit)
	return messages, sh.failed(err)
}

// Get returns a record.
func (s *Store) Get(ctx context.Context, key store.RecordKey) (store.Record, error) {
	if err := s.check(ctx, "get"); err != nil {
		return store.Record{}, err
	}
	if key.Kind == store.KindShards {
		return store.Record{}, store.NotFound("get", key)
	}
	sh, st, err := s.storeOf(key.Tenant)
	if err != nil {
		return store.Record{}, err
	}
	r, err := st.Get(ctx, key)
	return r, sh.failed(err)
}

// Await returns a record when it is past a version. If the tenant moves meanwhile, so does the call.
func (s *Store) Await(ctx context.Context, key store.RecordKey, after int64) (store.Record, error) {
	for {
		if err := s.check(ctx, "await"); err != nil {
			return store.Record{}, err
		}
		sh, st, err := s.storeOf(key.Tenant)
		if err != nil {
			return store.Record{}, err
		}
		followed, stop := s.follow(ctx, key.Tenant, sh)
		r, err := st.Await(followed, key, after)
		moved := followed.Err() != nil && ctx.Err() == nil
		stop()
		if err == nil || !moved {
			return r, sh.failed(err)
		}
	}
}

// all calls f for each shard at the same time, and returns the errors of all. Shards that are down
// are not called.
func (s *Store) all(ctx context.Context, verb string, f func(ctx context.Context, i int, st store.Store) error) ([]error, error) {
	if err := s.check(ctx, verb); err != nil {
		return nil, err
	}
	errs := make([]error, len(s.shards))
	var asking sync.WaitGroup
	for i, sh := range s.shards {
		if !sh.isUp() {
			errs[i] = sh.downError()
			continue
		}
		asking.Go(func() {
			_, errs[i] = bounded(ctx, sh, func(ctx context.Context, st store.Store) (struct{}, error) { return struct{}{}, f(ctx, i, st) })
		})
	}
	asking.Wait()
	return errs, s.check(ctx, verb)
}

// every is all, and returns the first error.
func (s *Store) every(ctx context.Context, verb string, f func(ctx context.Context, i int, st store.Store) error) error {
	errs, err := s.all(ctx, verb, f)
	return cmp.Or(err, errors.Join(errs...))
}

// Leases returns live leases. Those of a shard that is down are not known, and it returns an error.
func (s *Store) Leases(ctx context.Context, q store.LeaseQuery) ([]store.LeaseInfo, error) {
	if err := q.Validate(); err != nil {
		return nil, err
	}
	if q.Key.Name != "" {
		if err := s.check(ctx, "leases"); err != nil {
			return nil, err
		}
		sh, st, err := s.storeOf(q.Key.Tenant)
		if err != nil {
			return nil, err
		}
		leases, err := st.Leases(ctx, q)
		return leases, sh.failed(err)
	}
	found := make([][]store.LeaseInfo, len(s.shards))
	err := s.every(ctx, "leases", func(ctx context.Context, i int, st store.Store) (err error) {
		found[i], err = st.Leases(ctx, q)
		return err
	})
	if err != nil {
		return nil, err
	}
	r := s.routing.Load()
	for i, sh := range s.shards {
		found[i] = slices.DeleteFunc(found[i], func(l store.LeaseInfo) bool { return r.of(l.Key.Tenant) != sh })
	}
	leases := slices.Concat(found...)
	slices.SortStableFunc(leases, func(a, b store.LeaseInfo) int { return a.Until.Compare(b.Until) })
	return leases[:min(cmp.Or(q.Limit, store.DefaultPage), len(leases))], nil
}

// Count counts the records that match q, on the tenant's shard or on all.
func (s *Store) Count(ctx context.Context, q store.Query, limit int) (int, error) {
	if err := store.ValidateCount(&q, limit); err != nil {
		return 0, err
	}
	if q.Kind == store.KindShards {
		return 0, s.check(ctx, "count")
	}
	if q.Tenant != nil {
		if err := s.check(ctx, "count"); err != nil {
			return 0, err
		}
		sh, st, err := s.storeOf(*q.Tenant)
		if err != nil {
			return 0, err
		}
		n, err := st.Count(ctx, q, limit)
		return n, sh.failed(err)
	}
	counts := make([]int, len(s.shards))
	err := s.every(ctx, "count", func(ctx context.Context, i int, st store.Store) (err error) {
		counts[i], err = s.countOwned(ctx, s.shards[i], st, q, limit)
		return err
	})
	if err != nil {
		return 0, err
	}
	total := 0
	for _, n := range counts {
		total += n
	}
	return min(total, limit), nil
}

// countOwned counts the records of the tenants that are on a shard: without those of a copy that a move
// makes there, or has left there.
func (s *Store) countOwned(ctx context.Context, sh *shard, st store.Store, q store.Query, limit int) (int, error) {
	d := s.Directory()
	if d.Move == nil || d.Move.From != sh.name && d.Move.To != sh.name || d.on(d.Move.Unit) == sh.name {
		return st.Count(ctx, q, limit)
	}
	copies := []string{d.Move.Tenant}
	if d.Move.Slot >= 0 {
		copies = nil
		if err := eachTenant(ctx, st, func(tenant string) {
			if d.covers(tenant) {
				copies = append(copies, tenant)
			}
		}); err != nil {
			return 0, err
		}
	}
	foreign := 0
	for _, tenant := range copies {
		of := q
		of.Tenant = &tenant
		n, err := st.Count(ctx, of, store.MaxCount)
		if err != nil {
			return 0, err
		}
		foreign += n
	}
	n, err := st.Count(ctx, q, min(limit+foreign, store.MaxCount))
	return max(n-foreign, 0), err
}

// eachTenant calls f with each tenant of a store whose tenants can be moved.
func eachTenant(ctx context.Context, st store.Store, f func(tenant string)) error {
	m, ok := st.(store.Movable)
	if !ok {
		return nil
	}
	return m.Tenants(ctx, func(tenant string) error {
		f(tenant)
		return nil
	})
}

// Stats returns what the shards hold together, but for those that are down. It fails if all are.
func (s *Store) Stats(ctx context.Context) (store.Stats, error) {
	found := make([]store.Stats, len(s.shards))
	errs, err := s.all(ctx, "stats", func(ctx context.Context, i int, st store.Store) (err error) {
		found[i], err = st.Stats(ctx)
		return err
	})
	if err != nil {
		return store.Stats{}, err
	}
	var sum store.Stats
	var times []time.Time
	for i := range found {
		if errs[i] != nil {
			continue
		}
		// A call that waits does so on all shards.
		if f := &found[i]; len(times) == 0 || f.Waiting < sum.Waiting {
			sum.Waiting = f.Waiting
		}
		times = append(times, found[i].Now)
		addStats(&sum, &found[i])
	}
	if len(times) == 0 {
		return store.Stats{}, fmt.Errorf("shardstore: stats: %w", errors.Join(errs...))
	}
	slices.SortFunc(times, time.Time.Compare)
	sum.Now = times[(len(times)-1)/2]
	return sum, nil
}

// addStats adds what a shard holds to a sum, whose routes stay in order.
func addStats(sum, more *store.Stats) {
	for i := range more.Routes {
		row := &more.Routes[i]
		at, found := slices.BinarySearchFunc(sum.Routes, row, func(a store.RouteStats, b *store.RouteStats) int {
			return cmp.Or(strings.Compare(a.Queue, b.Queue), strings.Compare(a.Route, b.Route))
		})
		if !found {
			sum.Routes = slices.Insert(sum.Routes, at, *row)
			continue
		}
		to := &sum.Routes[at]
		to.Pending += row.Pending
		to.Ready = min(to.Ready+row.Ready, store.ReadyCap)
		to.Leased = min(to.Leased+row.Leased, store.ReadyCap)
		if !row.Oldest.IsZero() && (to.Oldest.IsZero() || row.Oldest.Before(to.Oldest)) {
			to.Oldest = row.Oldest
		}
	}
	sum.Rest.Routes += more.Rest.Routes
	sum.Rest.Pending += more.Rest.Pending
	sum.Leases += more.Leases
	sum.Bytes += more.Bytes
	sum.ClockLead = max(sum.ClockLead, more.ClockLead)
}
