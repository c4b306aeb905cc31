package admission

import (
	"container/list"
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/internal/errs"
)

// ErrBusy means that the process has more to do than it can: nothing was done, and a later call may
// succeed.
var ErrBusy = errs.ErrBusy

// Limits and times of a [Limiter].
const (
	// MaxLimit is how many calls are in flight at most. Whatever the backlog, StaleLimit may be, and
	// whatever the signal, as many as are needed for a call in each Pass, for as long as they take.
	MaxLimit   = 256
	StaleLimit = 4
	Pass       = 20 * time.Millisecond

	// leastPace is the first interval between calls if StaleLimit of them at a time are too many. It is
	// doubled each time that the process is still behind, up to Pass.
	leastPace = 500 * time.Microsecond

	// MaxWaiting is how many calls wait at most, and MaxWait for how long. If there were calls that
	// wait for all of MaxWait, others wait for StandingWait only: to wait longer makes each of them
	// later, and none more likely to be admitted.
	MaxWaiting   = 10_000
	MaxWait      = 500 * time.Millisecond
	StandingWait = 100 * time.Millisecond

	// Slow is how long an admitted call may take before the process counts as behind, and SlowEach
	// how much longer for each thing that it commits.
	Slow     = 250 * time.Millisecond
	SlowEach = time.Millisecond

	// lowerEvery is how often the limit is lowered at most, and sampleEvery how often the store is
	// asked for its pressure.
	lowerEvery  = 250 * time.Millisecond
	sampleEvery = 250 * time.Millisecond

	// raiseEvery is how often the limit is raised, once the process was not behind for calm.
	raiseEvery = 50 * time.Millisecond
	calm       = 500 * time.Millisecond

	// logEvery is how long no call must have been refused before that is logged as over.
	logEvery = 10 * time.Second
)

// Config configures a [Limiter].
type Config struct {
	Clock base.Clock

	// Logger receives a line when refusals begin and one when they end. Nil means none.
	Logger *slog.Logger

	// Pressure, if not nil, returns the pressure of the store: 1 and more mean that it is behind.
	Pressure func() float64

	// Refused, if not nil, is called for each call that is refused. It must not block.
	Refused func()
}

// Limiter admits calls. All methods are safe for concurrent use, and those of a nil Limiter admit
// everything.
//
// Invariants, while mu is not held: inFlight <= MaxLimit; if calls wait, then inFlight >= 1, so that a
// release admits the next one, or paced is set for when the next one may be admitted; if calls wait, alarm is set for the time at which the first of them has
// waited too long, or earlier. All calls may wait equally long at a time, so they are refused in the order
// in which they came, and one timer serves all.
type Limiter struct {
	cfg Config

	mu       sync.Mutex
	limit    int
	inFlight int
	peak     int           // of inFlight, since the limit was lowered
	took     time.Duration // by calls, on average of the latest
	lowered  time.Time     // when the limit was lowered
	raised   time.Time     // when it was raised, or raising was put off
	pace     time.Duration // the least interval between calls that are admitted
	admitted time.Time     // when the last one was
	paced    func() bool   // stops the timer that admits the next one; nil if it is not set
	sampled  time.Time     // when the store was asked for its pressure

	waiting list.List   // of *waiter
	queued  time.Time   // since when calls have been waiting, if they are
	alarm   func() bool // stops the timer that refuses calls; nil if it is not set

	refused  int64       // calls, since the limiter was made
	refusals refusals    // those that are logged
	overdue  func() bool // stops the timer that looks whether refusals have ended
	closed   bool        // refusals are logged no more
}

// refusals are a period in which calls are refused.
type refusals struct {
	began time.Time // zero if there is none
	first int64     // calls refused before it
	seen  int64     // calls refused as of the last look
}

// waiter is a call that waits.
type waiter struct {
	since  time.Time
	result chan error
	at     *list.Element // nil if it waits no more
}

// New returns a limiter.
func New(cfg Config) *Limiter {
	return &Limiter{cfg: cfg, limit: MaxLimit}
}

// Permit is the right to make a call. It is released once.
type Permit struct {
	l     *Limiter
	n     int
	began time.Time
}

// Acquire admits a call that commits n things. It waits if there is no room, and then returns
// [ErrBusy] after [MaxWait] or the error of ctx.
func (l *Limiter) Acquire(ctx context.Context, n int) (Permit, error) {
	if l == nil {
		return Permit{}, nil
	}
	now := l.cfg.Clock.Now()
	l.mu.Lock()
	if l.waiting.Len() == 0 && l.room(now) {
		l.admit(now)
		l.mu.Unlock()
		return Permit{l, n, now}, nil
	}
	if l.waiting.Len() >= MaxWaiting {
		begins := l.refuse(now)
		l.mu.Unlock()
		l.tell(1, begins)
		return Permit{}, ErrBusy
	}
	w := &waiter{since: now, result: make(chan error, 1)}
	if l.waiting.Len() == 0 {
		l.queued = now
	}
	w.at = l.waiting.PushBack(w)
	if l.alarm == nil {
		l.alarm = l.cfg.Clock.AfterFunc(l.patience(now), l.expire)
	}
	l.next(now)
	l.mu.Unlock()
	select {
	case err := <-w.result:
		return Permit{l, n, l.cfg.Clock.Now()}, err
	case <-ctx.Done():
		l.leave(w)
		return Permit{}, ctx.Err()
	}
}

// patience returns how long calls may wait now. The lock is held.
func (l *Limiter) patience(now time.Time) time.Duration {
	if now.Sub(l.queued) >= MaxWait {
		return StandingWait
	}
	return MaxWait
}

// room reports whether a call may be admitted now. The lock is held.
func (l *Limiter) room(now time.Time) bool {
	return l.inFlight < l.limit && now.Sub(l.admitted) >= l.pace
}

// admit counts a call in flight. The lock is held.
func (l *Limiter) admit(now time.Time) {
	l.admitted = now
	l.inFlight++
	l.peak = max(l.peak, l.inFlight)
}

// leave removes a call that has stopped waiting. If it was admitted meanwhile, the next one is.
func (l *Limiter) leave(w *waiter) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if w.at != nil {
		l.remove(w)
		return
	}
	if err := <-w.result; err == nil {
		l.inFlight--
		l.next(l.cfg.Clock.Now())
	}
}

func (l *Limiter) remove(w *waiter) {
	l.waiting.Remove(w.at)
	w.at = nil
}

// next admits calls that wait, as many as there is room for, and has the next one admitted when the
// pace allows it. The lock is held.
func (l *Limiter) next(now time.Time) {
	for l.room(now) && l.waiting.Len() > 0 {
		w := l.waiting.Front().Value.(*waiter)
		l.remove(w)
		l.admit(now)
		w.result <- nil
	}
	if l.waiting.Len() > 0 && l.inFlight < l.limit && l.paced == nil {
		l.paced = l.cfg.Clock.AfterFunc(l.pace-now.Sub(l.admitted), func() {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.paced = nil
			l.next(l.cfg.Clock.Now())
		})
	}
}

// expire refuses calls that have waited too long.
func (l *Limiter) expire() {
	now := l.cfg.Clock.Now()
	n, begins := 0, false
	l.mu.Lock()
	l.alarm = nil
	patience := l.patience(now)
	for front := l.waiting.Front(); front != nil; front = l.waiting.Front() {
		w := front.Value.(*waiter)
		if left := patience - now.Sub(w.since); left > 0 {
			l.alarm = l.cfg.Clock.AfterFunc(left, l.expire)
			break
		}
		l.remove(w)
		begins = l.refuse(now) || begins
		n++
		w.result <- ErrBusy
	}
	l.mu.Unlock()
	l.tell(n, begins)
}

// Release ends the call.
func (p Permit) Release() {
	l := p.l
	if l == nil {
		return
	}
	now := l.cfg.Clock.Now()
	l.mu.Lock()
	l.inFlight--
	l.learn(now.Sub(p.began))
	if now.Sub(p.began) > Slow+time.Duration(p.n)*SlowEach {
		l.lower(now, 1)
	} else {
		l.raise(now)
	}
	l.next(now)
	sample := l.cfg.Pressure != nil && now.Sub(l.sampled) >= sampleEvery
	if sample {
		l.sampled = now
	}
	l.mu.Unlock()
	if sample && l.cfg.Pressure() >= 1 {
		l.behind(1)
	}
}

// learn notes how long a call took, sooner if it took longer than others, and keeps the limit above what
// Pass needs then. The lock is held.
func (l *Limiter) learn(took time.Duration) {
	if took > l.took {
		l.took = (l.took + took) / 2
	} else {
		l.took -= (l.took - took) / 8
	}
	l.limit = max(l.limit, min(1+int(l.took/Pass), MaxLimit))
}

// Stale says that messages wait too long: the limit is lowered, but not below StaleLimit.
func (l *Limiter) Stale() { l.behind(StaleLimit) }

func (l *Limiter) behind(least int) {
	if l == nil {
		return
	}
	now := l.cfg.Clock.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lower(now, least)
}

// lower lowers the limit, to seven tenths of the calls that were in flight, or to its half if there were
// none, but not below least and what Pass needs: if calls take long because of what the process has accepted
// before, fewer of them would not take less. A limit that is there already, with calls that are quick, may
// still be too many in a second: then the interval between them grows. The lock is held.
func (l *Limiter) lower(now time.Time, least int) {
	l.raised = now.Add(calm)
	if now.Sub(l.lowered) < lowerEvery {
		return
	}
	next := l.limit / 2
	if l.peak > 0 {
		next = min(l.limit, l.peak) * 7 / 10
	}
	if least = min(least+int(l.took/Pass), l.limit); l.limit == least {
		l.pace = min(max(2*l.pace, leastPace), Pass)
	}
	l.limit = max(next, least)
	l.lowered, l.peak = now, l.inFlight
}

// raise raises the limit for the time that has passed since it was raised. The lock is held.
func (l *Limiter) raise(now time.Time) {
	if l.limit == MaxLimit && l.pace == 0 || now.Sub(l.raised) < raiseEvery {
		return
	}
	for steps := now.Sub(l.raised) / raiseEvery; steps > 0 && (l.limit < MaxLimit || l.pace > 0); steps-- {
		switch {
		case l.pace > leastPace:
			l.pace /= 2
		case l.pace > 0:
			l.pace = 0
		default:
			l.limit = min(l.limit+1+l.limit/32, MaxLimit)
		}
	}
	l.raised = now
}

// State is what a limiter does.
type State struct {
	Limit    int // calls that may be in flight
	InFlight int
	Waiting  int
	Refused  int64 // since the limiter was made
}

// State returns what the limiter does now.
func (l *Limiter) State() State {
	if l == nil {
		return State{}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return State{Limit: l.limit, InFlight: l.inFlight, Waiting: l.waiting.Len(), Refused: l.refused}
}

// Close ends what is logged. Calls are admitted and refused as before.
func (l *Limiter) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	if l.overdue != nil {
		l.overdue()
	}
}
