package ratelimit

import (
	"sync"
	"time"

	"github.com/abidehq/abide/internal/base"
)

// sampleEvery is the least time between two lines of a sampler.
const sampleEvery = time.Second

// Sampler writes one line a second at most, with how many events it stands for.
type Sampler struct {
	clock base.Clock

	mu      sync.Mutex
	last    time.Time // of a line, or zero
	events  int       // since the last line
	pending func(events int)
}

// NewSampler returns a sampler that goes by a clock.
func NewSampler(clock base.Clock) *Sampler { return &Sampler{clock: clock} }

// Note counts an event. It calls write with the number of events since the last line: at
// once, or when a second has passed since then, for the latest event alone.
func (s *Sampler) Note(write func(events int)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events++
	now := s.clock.Now()
	since := now.Sub(s.last)
	switch {
	case s.pending != nil:
		s.pending = write
	case s.last.IsZero() || since < 0 || since >= sampleEvery:
		s.last = now
		write(s.events)
		s.events = 0
	default:
		s.pending = write
		s.clock.AfterFunc(sampleEvery-since, s.flush)
	}
}

func (s *Sampler) flush() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = s.clock.Now()
	s.pending(s.events)
	s.pending, s.events = nil, 0
}
