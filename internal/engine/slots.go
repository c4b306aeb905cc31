package engine

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/abidehq/abide/internal/admission"
	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/internal/claimloop"
	"github.com/abidehq/abide/store"
)

// returnWithin is how long users' code may take to return after its context has ended. Then
// it is abandoned: what it does is not waited for, and its slot is free for other work.
const returnWithin = 10 * time.Second

// slots bounds how many claims of a queue are worked on at a time.
//
// Code that does not return cannot be ended from outside, so its goroutine stays. It gives
// its slot back all the same, or a few of its kind would keep all other work waiting. At
// most as many abandoned goroutines as there are slots have given theirs back; those beyond
// keep them, so that code which blocks whenever it is run cannot fill the memory.
type slots struct {
	clock base.Clock
	log   *slog.Logger
	what  string // the kind of code that runs in the slots, for the log

	// taken is the semaphore: it has an element for each slot that is taken, and its capacity is
	// the number of slots.
	taken chan struct{}

	// queue watches how old claimed messages are, and who holds the slots. Nil means that nobody does.
	queue *admission.Queue

	// caps limits those of one route. Nil means that there are no caps.
	caps *claimloop.Caps

	// running is the number of jobs that are not abandoned. It may be less than len(taken): the
	// claim loop takes slots before it claims.
	running atomic.Int64

	mu sync.Mutex

	// abandoned is the number of goroutines that have not returned, and freed how many of them
	// have given their slot back: freed <= cap(taken).
	abandoned int
	freed     int

	// warned is true from the warning at 10 % of the slots until fewer than 5 % are abandoned.
	warned bool
}

func newSlots(e *Engine, what string, limit int) *slots {
	return &slots{clock: e.clock, log: e.log, what: what, taken: make(chan struct{}, limit)}
}

// checkCaps reports whether caps are valid.
func (c *Config) checkCaps() error {
	for name, most := range c.MaxInFlight {
		if most < 1 {
			return fmt.Errorf("abide: at most %d attempts of activity %q in flight, at least 1 has to be allowed: %w", most, name, ErrInvalid)
		}
	}
	return nil
}

// take waits for a free slot, takes up to most of them, and returns how many: none if ctx
// ends first.
func (s *slots) take(ctx context.Context, most int) int {
	select {
	case s.taken <- struct{}{}:
	case <-ctx.Done():
		return 0
	}
	for n := 1; n < most; n++ {
		select {
		case s.taken <- struct{}{}:
		default:
			return n
		}
	}
	return most
}

// give returns n slots.
func (s *slots) give(n int) {
	for range n {
		<-s.taken
	}
}

// count returns the number of abandoned goroutines that have not returned.
func (s *slots) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.abandoned
}

// abandon counts a goroutine that does not return, and reports whether a slot that it holds
// may be given back.
func (s *slots) abandon(holds bool) (free bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	limit := cap(s.taken)
	s.abandoned++
	if free = holds && s.freed < limit; free {
		s.freed++
	}
	if !s.warned && s.abandoned*10 >= limit {
		s.warned = true
		s.log.Error("code does not return, its goroutines are abandoned", "code", s.what, "goroutines", s.abandoned, "slots", limit)
	}
	return free
}

// returned counts an abandoned goroutine that has returned after all.
func (s *slots) returned(freed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.abandoned--
	if freed {
		s.freed--
	}
	if s.abandoned*20 < cap(s.taken) {
		s.warned = false
	}
}

// job is a claim that is worked on, and its slot. Its states are running, asked to end (an alarm is set),
// abandoned, and ended; abandoned code that returns after all becomes ended too. The slot is given back
// once: by abandon if there is room for one more abandoned goroutine, or else by end. mu is taken before
// slots.mu.
type job struct {
	*store.Claim
	slots *slots

	adopted bool // a sibling has claimed it: its slot is in running only

	begun   time.Time
	users   time.Duration // for how long the function of an activity has run
	stepped atomic.Bool   // the turn has run a step

	mu sync.Mutex

	// alarm stops the timer that abandons the job. It is set from shouldEnd to the end.
	alarm func() bool

	abandoned bool
	freed     bool // abandon has given the slot back, so end does not
	ended     bool
}

// enter counts a job that no claim loop of the engine has taken a slot for, unless it runs as many as it may
// beside others. Slots that are taken for claims that wait are free.
func (s *slots) enter(others int) bool {
	for {
		n := s.running.Load()
		if int(n)+others >= cap(s.taken) {
			return false
		}
		if s.running.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// begin counts the job, whose slot is taken.
func (j *job) begin() {
	if !j.adopted {
		j.slots.running.Add(1)
	}
	j.begun = j.slots.clock.Now()
}

// shouldEnd has the job abandoned if its code has not returned within returnWithin.
func (j *job) shouldEnd() {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.alarm == nil && !j.abandoned && !j.ended {
		j.alarm = j.slots.clock.AfterFunc(returnWithin, j.abandon)
	}
}

// abandon gives the slot of a job back whose code does not return.
func (j *job) abandon() {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.abandoned || j.ended {
		return
	}
	j.abandoned = true
	j.freed = j.slots.abandon(true)
	j.slots.running.Add(-1)
	if j.freed {
		j.give()
	}
}

func (j *job) give() {
	if !j.adopted {
		j.slots.give(1)
		j.slots.caps.Give(j.Route)
	}
}

// end ends the job, and gives its slot back if it was not before.
func (j *job) end() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.ended = true
	if j.alarm != nil {
		j.alarm()
	}
	if j.abandoned {
		j.slots.returned(j.freed)
	} else {
		j.slots.running.Add(-1)
		j.worked()
	}
	if !j.freed {
		j.give()
	}
}

// closers closes executions that are not used any more: evicted from the cache, ended or lost. Closing
// runs their deferred functions, which may block, so each is closed in a goroutine of its own. Only
// Engine.Close waits for them. One that takes longer than returnWithin counts as abandoned.
type closers struct {
	slots *slots          // in which those that do not return are counted
	drop  func(*instance) // is called for each instance before, if it is not nil

	mu   sync.Mutex
	n    int
	none chan struct{} // closed when n is 0; nil if nobody waits for it
}

// end closes the execution of an instance. One that has ended has no code left to run and is closed at
// once.
func (c *closers) end(in *instance) {
	exec := in.exec
	in.exec = nil
	if exec == nil {
		return
	}
	if c.drop != nil {
		c.drop(in)
	}
	if exec.Ended() { // nothing of it is left to run
		exec.Close()
		return
	}
	c.mu.Lock()
	c.n++
	c.mu.Unlock()
	go func() {
		var late atomic.Bool
		stop := c.slots.clock.AfterFunc(returnWithin, func() {
			if late.CompareAndSwap(false, true) {
				c.slots.abandon(false)
			}
		})
		exec.Close()
		stop()
		if !late.CompareAndSwap(false, true) {
			c.slots.returned(false)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.n--; c.n == 0 && c.none != nil {
			close(c.none)
			c.none = nil
		}
	}()
}

// wait returns a channel that is closed when all executions are closed.
func (c *closers) wait() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.none == nil {
		c.none = make(chan struct{})
	}
	none := c.none
	if c.n == 0 {
		close(none)
		c.none = nil
	}
	return none
}
