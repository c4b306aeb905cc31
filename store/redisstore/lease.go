package redisstore

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/abidehq/abide/store"
)

// Leases returns live leases.
func (s *Store) Leases(ctx context.Context, q store.LeaseQuery) ([]store.LeaseInfo, error) {
	if err := q.Validate(); err != nil {
		return nil, err
	}
	done, err := s.begin(ctx, "leases")
	if err != nil {
		return nil, err
	}
	defer done()
	a := args{"", q.Queue, itoa(int64(cmp.Or(q.Limit, store.DefaultPage)))}
	if q.Key.Name != "" {
		a[0] = keyID(q.Key)
	}
	m, err := s.eval(ctx, leasesScript, a)
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
// in batches of 2,000; after an error some may have been renewed.
func (s *Store) Renew(ctx context.Context, d time.Duration, leases []store.Lease) (lost []store.Lease, err error) {
	if err := store.ValidateRenew(d, leases); err != nil {
		return nil, err
	}
	done, err := s.begin(ctx, "renew")
	if err != nil {
		return nil, err
	}
	defer done()
	const atOnce = 2000
	for ; len(leases) > 0; leases = leases[min(atOnce, len(leases)):] {
		some := leases[:min(atOnce, len(leases))]
		a := args{itoa(millis(d)), itoa(int64(len(some)))}
		for _, l := range some {
			a.add(keyID(l.Key), string(l.Token))
		}
		m, err := s.eval(ctx, renewScript, a)
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
	a := args{s.listenArg(), itoa(millis(r.After)), yesNo(r.Uncounted), keyID(r.Lease.Key), string(r.Lease.Token)}
	m, err := s.evalDurably(ctx, releaseScript, a)
	if err != nil {
		return err
	}
	answer := read(m)
	if answer.text() == "lost" {
		return store.ClaimLost("release", r.Lease)
	}
	now := answer.num()
	s.wake(now, s.parseReady(answer.sub()))
	if answer.err != nil {
		return fmt.Errorf("redisstore: release: %w", answer.err)
	}
	return nil
}
