package remote

import (
	"sync"

	"github.com/abidehq/abide/internal/base"
)

// silence ends a connection on which nothing is heard for too long.
type silence struct {
	clock base.Clock
	end   func()

	mu      sync.Mutex
	cancel  func() bool
	stopped bool
}

func newSilence(clock base.Clock, end func()) *silence {
	s := &silence{clock: clock, end: end}
	s.reset()
	return s
}

// reset notes that something was heard.
func (s *silence) reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return
	}
	if s.cancel != nil {
		s.cancel()
	}
	s.cancel = s.clock.AfterFunc(streamSilence, s.end)
}

func (s *silence) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped = true
	if s.cancel != nil {
		s.cancel()
	}
}
