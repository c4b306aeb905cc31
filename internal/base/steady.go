package base

import (
	"sync"
	"time"
)

// Steady is a time, in milliseconds, that follows a clock and does not run backwards. If
// the clock is set back, or a time ahead of it was observed, Steady goes on at half the
// speed of the clock until that has caught up, so that whatever waits for a time comes.
type Steady struct {
	clock Clock

	mu   sync.Mutex
	told int64         // the latest time
	read time.Time     // what the clock showed then
	rest time.Duration // what is left of half the time that has passed, less than a millisecond

	behind Behind
}

// NewSteady returns the time of a clock. If the clock is behind by more than two seconds,
// behind is called, once until the clock has caught up; it may be nil.
func NewSteady(clock Clock, behind func(lead time.Duration)) *Steady {
	return &Steady{clock: clock, behind: Behind{Report: behind}}
}

// Now returns the time.
func (s *Steady) Now() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now()
}

func (s *Steady) now() int64 {
	read := s.clock.Now()
	ms := read.UnixMilli()
	if ms >= s.told {
		s.told, s.rest = ms, 0
	} else if passed := read.Sub(s.read); passed > 0 { // by the monotonic reading, if there is one
		s.rest += passed / 2
		s.told += s.rest.Milliseconds()
		s.rest %= time.Millisecond
	}
	s.read = read
	s.behind.Note(time.Duration(s.told-ms) * time.Millisecond)
	return s.told
}

// Observe makes the time no earlier than ms, unless that is ahead of the clock by more than
// limit. It reports whether it did.
func (s *Steady) Observe(ms int64, limit time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	if ms > s.read.Add(limit).UnixMilli() {
		return false
	}
	s.told = max(now, ms)
	return true
}

// Lead returns how far the time is ahead of the clock.
func (s *Steady) Lead() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	return time.Duration(now-s.read.UnixMilli()) * time.Millisecond
}
