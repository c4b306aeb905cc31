package redisstore

import (
	"context"

	"github.com/abidehq/abide/store"
)

// noteExpiry sets the alarm for the expiry of a message without a route, so that it is
// quarantined in time even if no call claims from its queue. at is -1 for none. Every process
// that learns of the message notes it, so no particular one needs to live until then.
func (s *Store) noteExpiry(seg *segment, now, at int64) {
	if at < 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	due := s.ticker().Now().Add(durationMS(max(at-now, 1)))
	if seg.expireAt.IsZero() || due.Before(seg.expireAt) {
		seg.expireAt = due
		s.setAlarm()
	}
}

// sweep ends expired leases and quarantines expired messages of a segment: a claim without
// routes does that first, and leases nothing.
func (s *Store) sweep(ctx context.Context, seg *segment) error {
	_, err := s.claimOnce(ctx, seg, &store.ClaimRequest{Max: 1})
	return err
}

// sweepAll sweeps all segments.
func (s *Store) sweepAll(ctx context.Context) error {
	return s.forAll(func(_ int, seg *segment) error { return s.sweep(ctx, seg) })
}
