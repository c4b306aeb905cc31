package redisstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/abidehq/abide/store"
)

// Leases returns live leases. Those of several segments are of almost the same moment.
func (s *Store) Leases(ctx context.Context, q store.LeaseQuery) ([]store.LeaseInfo, error) {
	if err := q.Validate(); err != nil {
		return nil, err
	}
	done, err := s.begin(ctx, "leases")
	if err != nil {
		return nil, err
	}
	defer done()
	limit := cmp.Or(q.Limit, store.DefaultPage)
	a := args{"", q.Queue, itoa(int64(limit))}
	if q.Key.Name != "" {
		a[0] = keyID(q.Key)
		return s.segmentLeases(ctx, s.segmentOf(q.Key.Tenant), a)
	}
	lists := make([][]store.LeaseInfo, len(s.segments))
	err = s.forAll(func(i int, seg *segment) (err error) {
		lists[i], err = s.segmentLeases(ctx, seg, a)
		return err
	})
	if err != nil || !s.several() {
		return lists[0], err
	}
	all := slices.Concat(lists...)
	slices.SortStableFunc(all, func(a, b store.LeaseInfo) int { return a.Until.Compare(b.Until) })
	return all[:min(limit, len(all))], nil
}

// segmentLeases returns the live leases of a segment.
func (s *Store) segmentLeases(ctx context.Context, seg *segment, a args) ([]store.LeaseInfo, error) {
	m, err := s.eval(ctx, seg, leasesScript, a)
	if err != nil {
		return nil, err
	}
	answer := read(m)
	answer.text()
	var leases []store.LeaseInfo
	for rows := answer.sub(); rows.more(); {
		row := rows.sub()
		id := row.text()
		l := store.LeaseInfo{Route: row.text(), Owner: store.TokenOwner(store.Token(row.text())), Until: store.FromMillis(row.num())}
		if l.Key, err = parseKey(id); err != nil {
			return nil, err
		}
		answer.note(row.err)
		leases = append(leases, l)
	}
	if answer.err != nil {
		return nil, fmt.Errorf("redisstore: leases: %w", answer.err)
	}
	return leases, nil
}

// Renew makes leases last for d from now, and returns those that were lost before. It renews
// in batches of 2,000; after an error some may have been renewed. If some segments could not be
// reached and others could, it returns a [*store.NotRenewedError].
func (s *Store) Renew(ctx context.Context, d time.Duration, leases []store.Lease) (lost []store.Lease, err error) {
	if err := store.ValidateRenew(d, leases); err != nil {
		return nil, err
	}
	done, err := s.begin(ctx, "renew")
	if err != nil {
		return nil, err
	}
	defer done()
	if !s.several() {
		return s.renew(ctx, s.segments[0], d, leases)
	}
	bySegment := map[*segment][]store.Lease{}
	for _, l := range leases {
		seg := s.segmentOf(l.Key.Tenant)
		bySegment[seg] = append(bySegment[seg], l)
	}
	list := slices.Collect(maps.Keys(bySegment))
	gone := make([][]store.Lease, len(list))
	errs := forEach(list, func(i int, seg *segment) (err error) {
		gone[i], err = s.renew(ctx, seg, d, bySegment[seg])
		return err
	})
	var left []store.Lease
	for i, err := range errs {
		if err != nil {
			left = append(left, bySegment[list[i]]...)
		}
	}
	switch {
	case len(left) == len(leases):
		return nil, errors.Join(errs...)
	case len(left) > 0:
		return slices.Concat(gone...), fmt.Errorf("redisstore: renew: %w: %w", &store.NotRenewedError{Leases: left}, errors.Join(errs...))
	}
	return slices.Concat(gone...), nil
}

// renew renews leases of one segment.
func (s *Store) renew(ctx context.Context, seg *segment, d time.Duration, leases []store.Lease) (lost []store.Lease, err error) {
	const atOnce = 2000
	for ; len(leases) > 0; leases = leases[min(atOnce, len(leases)):] {
		some := leases[:min(atOnce, len(leases))]
		a := args{itoa(millis(d)), itoa(int64(len(some)))}
		for _, l := range some {
			a.add(keyID(l.Key), string(l.Token))
		}
		m, err := s.eval(ctx, seg, renewScript, a)
		if err != nil {
			return nil, err
		}
		answer := read(m)
		answer.text()
		for places := answer.sub(); places.more(); {
			lost = append(lost, some[places.num()-1])
		}
		if answer.err != nil {
			return nil, fmt.Errorf("redisstore: renew: %w", answer.err)
		}
	}
	return lost, nil
}

// Release ends a lease without consuming its messages, or returns [store.ErrClaimLost].
func (s *Store) Release(ctx context.Context, r store.Release) error {
	if err := r.Validate(); err != nil {
		return err
	}
	done, err := s.begin(ctx, "release")
	if err != nil {
		return err
	}
	return runDetached(ctx, done, func(ctx context.Context) error { return s.release(ctx, r) })
}

func (s *Store) release(ctx context.Context, r store.Release) error {
	seg := s.segmentOf(r.Lease.Key.Tenant)
	a := args{s.listenArg(seg), itoa(millis(r.After)), yesNo(r.Uncounted), keyID(r.Lease.Key), string(r.Lease.Token)}
	m, err := s.evalDurably(ctx, seg, releaseScript, a)
	if err != nil {
		return err
	}
	answer := read(m)
	if answer.text() == "lost" {
		return store.ClaimLost("release", r.Lease)
	}
	now := answer.num()
	s.wake(seg, now, s.parseReady(answer.sub()))
	if answer.err != nil {
		return fmt.Errorf("redisstore: release: %w", answer.err)
	}
	return nil
}
