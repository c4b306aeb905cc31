package engine

import (
	"sync"
	"time"

	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/store"
)

// A message that was delivered several times and never led to a commit may be what takes its process
// down; or it was only there when another one did. Both have the same count. So that the one does not
// take the other to quarantine with it, suspects are worked on one at a time in each process: each gets
// some time alone (probation). If the process dies then, only the suspect's count has grown. The others
// are released meanwhile, and that they were claimed does not count.
//
// Probation is bounded in time rather than by the end of the work: an activity may run for hours, and code
// that has run for five seconds has most likely passed the point at which it kills its process.
const (
	// suspectAfter is after how many deliveries something is suspect.
	suspectAfter = 3

	// probation is how long a suspect is alone.
	probation = 5 * time.Second

	// suspectDelay is how long a suspect waits that finds another one at work.
	suspectDelay = 100 * time.Millisecond
)

// suspects is the probation of a process: it has room for one.
type suspects struct {
	mu    sync.Mutex
	taken bool
}

// take takes the place, if it is free.
func (s *suspects) take() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.taken {
		return false
	}
	s.taken = true
	return true
}

func (s *suspects) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken = false
}

// probe has run work on a suspect if no other one is on probation.
func (e *Engine) probe(j *job, run func(*job)) {
	if !e.suspects.take() {
		e.postpone(j.Claim)
		return
	}
	leave := sync.OnceFunc(e.suspects.leave)
	defer leave()
	stop := e.clock.AfterFunc(probation, leave)
	defer stop()
	run(j)
}

// postpone releases a claim, to be claimed after suspectDelay.
func (e *Engine) postpone(c *store.Claim) {
	if c.Key.Queue == QueueActivities {
		e.release(c, suspectDelay)
		return
	}
	// Not with a delay: the messages of an instance must stay in order.
	_ = base.Sleep(e.claiming, e.clock, suspectDelay)
	e.release(c, 0)
}
