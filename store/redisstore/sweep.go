package redisstore

import (
	"context"

	"github.com/abidehq/abide/store"
)

// noteExpiry sees to it that a message which waits too long for a route goes to quarantine
// in time, also if nobody claims from its queue.
func (s *Store) noteExpiry(now, at int64) {
	if at < 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	due := s.ticker().Now().Add(durationMS(max(at-now, 1)))
	if s.expireAt.IsZero() || due.Before(s.expireAt) {
		s.expireAt = due
		s.setAlarm()
	}
}

// sweep has all messages go to quarantine that have waited too long: a claim of nothing
// does that first.
func (s *Store) sweep(ctx context.Context) error {
	_, err := s.look(ctx, &store.ClaimRequest{Max: 1})
	return err
}
