package engine

import (
	"sync"
	"time"

	"github.com/abidehq/abide/internal/base"
)

// watchdog finds code of orchestrations that makes no progress, and has its instance stalled. Code that
// waits for a channel, a mutex or a sleep of its own would otherwise hold its claim for ever: the lease is
// renewed for as long as the turn runs.
//
// Progress is a counter that the execution increments with everything that the code does through its
// context. It is sampled once in every; a counter that stands still for limit, and for minTicks samples, is
// blocked code. Within a step the clock does not run, as a step may take its time. The sample is one atomic
// load, so code pays nothing for being watched.
//
// The watchdog cannot stop code. It takes the claim away from the turn, which finds out when its code
// returns, and its goroutine counts as abandoned until then. mu is not held while an instance is stalled:
// that has a goroutine of its own.
type watchdog struct {
	clock base.Clock
	limit time.Duration // how long code may make no progress; not positive means for ever
	every time.Duration

	mu      sync.Mutex
	watched map[*turn]*progress
	ticking bool
	stopped bool
	cancel  func() bool // of the next tick
}

// progress is what was seen of code.
type progress struct {
	exec  Execution
	seen  uint64    // how far it had come
	since time.Time // that it has been there
	ticks int       // for how many ticks
}

// minTicks is how often code must have been seen to do nothing: a process that was
// stopped for a while, and its code with it, is not blocked.
const minTicks = 3

// maxTick bounds the interval between two looks.
const maxTick = time.Second

func newWatchdog(clock base.Clock, limit time.Duration) *watchdog {
	return &watchdog{
		clock: clock, limit: limit, every: max(min(maxTick, limit/4), time.Millisecond),
		watched: map[*turn]*progress{},
	}
}

// watch watches the code of a turn, until it is called with nil.
func (w *watchdog) watch(t *turn, exec Execution) {
	if w.limit <= 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if exec == nil {
		delete(w.watched, t)
		return
	}
	t.progress = progress{exec: exec}
	w.watched[t] = &t.progress
	if !w.ticking && !w.stopped {
		w.ticking = true
		w.cancel = w.clock.AfterFunc(w.every, w.tick)
	}
}

// stop ends all watching.
func (w *watchdog) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopped = true
	if w.cancel != nil {
		w.cancel()
	}
}

// tick samples all code that runs. It schedules the next tick only while there is something to watch, so that an
// idle engine has no timer.
func (w *watchdog) tick() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ticking = len(w.watched) > 0 && !w.stopped
	if !w.ticking {
		return
	}
	now := w.clock.Now()
	for t, p := range w.watched {
		if p.isBlocked(now, w.limit) {
			delete(w.watched, t)
			go t.blocked()
		}
	}
	w.cancel = w.clock.AfterFunc(w.every, w.tick)
}

// isBlocked reports whether the code has done nothing for as long as limit. The
// watchdog's lock is held.
func (p *progress) isBlocked(now time.Time, limit time.Duration) bool {
	n, inStep := p.exec.Progress()
	if inStep || p.since.IsZero() || n != p.seen {
		p.seen, p.since, p.ticks = n, now, 0
		return false
	}
	p.ticks++
	return now.Sub(p.since) >= limit && p.ticks >= minTicks
}
