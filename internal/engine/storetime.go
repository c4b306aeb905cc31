package engine

import (
	"sync"
	"time"
)

// storeTime knows the time of the store from claims, between them by the clock of this process. It is
// never later than the store's own, but for what the clocks differ in speed within storeTimeFor.
type storeTime struct {
	mu    sync.Mutex
	store time.Time // of the latest claim that was the furthest ahead
	local time.Time // when it returned
}

// storeTimeFor is for how long a claim tells the time, and storeTimeBest for how long one is preferred
// that was further ahead.
const (
	storeTimeFor  = time.Minute
	storeTimeBest = 5 * time.Second
)

// note notes the time of a claim that has returned.
func (s *storeTime) note(claimed, local time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if since := local.Sub(s.local); s.store.IsZero() || since > storeTimeBest || claimed.After(s.store.Add(since)) {
		s.store, s.local = claimed, local
	}
}

// now returns the time of the store, in whole milliseconds as claims have it, if it is known.
func (s *storeTime) now(local time.Time) (time.Time, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	since := local.Sub(s.local)
	if s.store.IsZero() || since > storeTimeFor || since < 0 {
		return time.Time{}, false
	}
	return s.store.Add(since).Truncate(time.Millisecond), true
}
