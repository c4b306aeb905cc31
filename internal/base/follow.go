package base

import (
	"sync"
	"time"
)

// Follower keeps the latest time, in milliseconds, that the clock of a server has shown. It
// does not run backwards if the clock is set back by up to a limit; it follows a clock that
// is set back by more.
//
// Answers arrive in any order, and one that was on its way for long looks like a clock that
// was set back. So each call is a [Question], which remembers the latest time when it was
// asked: the server answers after that, so a time before it shows that the clock was set
// back, however late it arrives. An answer to a question that was asked before a set-back
// was seen may be from before it, and is dropped.
type Follower struct {
	limit int64

	mu     sync.Mutex
	latest int64
	backs  uint64 // how often the clock was set back by more than the limit
}

// Question is what was known when a server was asked for its time.
type Question struct {
	// Floor is the latest time then.
	Floor int64

	limit int64
	backs uint64
}

// NewFollower returns a time that does not run backwards if the clock is set back by up to limit.
func NewFollower(limit time.Duration) *Follower { return &Follower{limit: limit.Milliseconds()} }

// Ask returns a question. The server is asked after that.
func (f *Follower) Ask() Question {
	f.mu.Lock()
	defer f.mu.Unlock()
	return Question{Floor: f.latest, limit: f.limit, backs: f.backs}
}

// Time returns the time if the clock shows ms: no earlier than the floor, unless the clock is
// behind that by more than the limit.
func (q Question) Time(ms int64) int64 {
	if q.Floor-ms > q.limit {
		return ms
	}
	return max(q.Floor, ms)
}

// Outdated reports whether the clock was seen to be set back after the question was asked:
// its answer may be from before that.
func (f *Follower) Outdated(q Question) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return q.backs != f.backs
}

// Answer notes what the clock showed when it was asked, and returns the latest time. It
// reports whether that is a time before the latest one because the clock was set back.
func (f *Follower) Answer(q Question, ms int64) (latest int64, back bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if q.backs != f.backs {
		return f.latest, false
	}
	if q.Floor-ms > f.limit {
		f.backs++
		f.latest = ms
		return ms, true
	}
	f.latest = max(f.latest, ms)
	return f.latest, false
}
