package admission

import (
	"sync"
	"time"
)

const (
	// Stale is how long a message may have been visible when it is claimed.
	Stale = 250 * time.Millisecond

	// A queue is judged after window, and after windowClaims claims.
	window       = 250 * time.Millisecond
	windowClaims = 8
)

// Queue watches how old the messages of a queue are when they are claimed, and lowers the limit if
// they are too old because of the engine.
//
// A backlog fills the slots of a loop, whatever causes it. What tells overload from long activities is
// how the slots are held: by the code of users, or by the engine that reads, runs turns and commits. So
// the limit is lowered if, within a window, more than half of the claims are older than [Stale] and the
// code of users has held the slots for less than half of the time.
//
// Messages that had been visible before the first claim count from that claim on: a process that is
// started with a backlog is not behind because it was not there.
type Queue struct {
	l *Limiter

	mu     sync.Mutex
	since  time.Time // of the store, at the first claim
	began  time.Time // of the window
	claims int
	stale  int
	held   time.Duration // slots
	users  time.Duration // of it, by the code of users
}

// NewQueue returns a watch on a queue that lowers the limit of l.
func NewQueue(l *Limiter) *Queue { return &Queue{l: l} }

// Claimed notes a claim at the time now of the store, of a message that has been visible since then.
func (q *Queue) Claimed(now, visible time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.since.IsZero() {
		q.since = now
	}
	if visible.Before(q.since) {
		visible = q.since
	}
	q.claims++
	if now.Sub(visible) > Stale {
		q.stale++
	}
}

// Worked notes that a slot was held for a while, and for how long of it by the code of users.
func (q *Queue) Worked(held, users time.Duration) {
	q.mu.Lock()
	q.held += held
	q.users += users
	q.mu.Unlock()
}

// Judge ends a window, if it is over.
func (q *Queue) Judge() {
	now := q.l.cfg.Clock.Now()
	q.mu.Lock()
	if q.began.IsZero() {
		q.began = now
	}
	if now.Sub(q.began) < window || q.claims < windowClaims {
		q.mu.Unlock()
		return
	}
	behind := 2*q.stale > q.claims && 2*q.users < q.held
	q.began, q.claims, q.stale, q.held, q.users = now, 0, 0, 0, 0
	q.mu.Unlock()
	if behind {
		q.l.Stale()
	}
}
