package soak

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/abidehq/abide/action"
	"github.com/abidehq/abide/bus"
	"github.com/abidehq/abide/internal/bench"
)

// Kinds of durations that are recorded.
const (
	latencies = iota // of orchestrations
	timersLate
	actionsLate
	kinds
)

// load counts what was asked of the services, and what of it is done. It is safe for
// concurrent use, but for its first fields.
type load struct {
	run     string
	phase   byte // tells the keys of the probe from those of the measurement
	probing bool

	accepted, completed atomic.Int64 // operations
	refused             atomic.Int64 // starts that were refused because the process was behind
	started, deleted    atomic.Int64 // instances, those of the probe included
	timers, actions     expected
	again               atomic.Int64 // timers and actions that came twice
	mu                  sync.Mutex
	interval, window    [kinds]*bench.Histogram // since the last sample, and since the window began
}

// errEarly is the error of a timer that fired before it was due, by the clock of the store.
var errEarly = errors.New("bench: a timer fired before it was due")

func (l *load) init(run string) {
	l.run, l.phase = run, 'p'
	l.take()
	l.takeWindow()
}

// reset begins the measurement after the probe: nothing of it is recorded.
func (l *load) reset() {
	l.phase = 's'
	l.accepted.Store(0)
	l.completed.Store(0)
	l.refused.Store(0)
	l.take()
	l.takeWindow()
}

func (l *load) record(kind int, d time.Duration) {
	l.mu.Lock()
	interval, window := l.interval[kind], l.window[kind]
	l.mu.Unlock()
	interval.Record(d)
	window.Record(d)
}

// take returns what was recorded since it was last called.
func (l *load) take() [kinds]*bench.Histogram { return l.swap(&l.interval) }

// takeWindow returns what was recorded in the window, and begins the next one.
func (l *load) takeWindow() [kinds]*bench.Histogram { return l.swap(&l.window) }

func (l *load) swap(current *[kinds]*bench.Histogram) (before [kinds]*bench.Histogram) {
	var empty [kinds]*bench.Histogram
	for i := range empty {
		empty[i] = &bench.Histogram{}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	before, *current = *current, empty
	return before
}

// lost returns the error of a run in which nothing happens any more.
func (l *load) lost(patience time.Duration) error {
	accepted, completed := l.accepted.Load(), l.completed.Load()
	return fmt.Errorf("bench: %d of %d operations are not completed (%d timers and %d actions among them), and nothing has happened for %v",
		accepted-completed, accepted, l.timers.len(), l.actions.len(), patience)
}

// key returns the name of a timer or an action.
func (l *load) key(i int64) string { return l.run + string(l.phase) + strconv.FormatInt(i, 10) }

// parse is the inverse of key. It reports false for a name of another run or of the probe.
func (l *load) parse(name string) (i int64, ours bool) {
	rest, ok := bytes.CutPrefix([]byte(name), append([]byte(l.run), l.phase))
	if !ok {
		return 0, false
	}
	i, err := strconv.ParseInt(string(rest), 10, 64)
	return i, err == nil
}

// noteTimer is the subscriber of timers.
func (l *load) noteTimer(_ context.Context, e bus.Envelope) error {
	now := time.Now()
	key, ok := bench.TimerKey(e.Payload)
	if !ok {
		return fmt.Errorf("bench: envelope %s does not begin with the key of its timer: %w", e.ID, bus.ErrPermanent)
	}
	i, ours := l.parse(string(key))
	if !ours {
		return nil
	}
	due, ok := l.timers.came(i, func(due time.Time) error {
		if e.Time().Before(due) {
			return errEarly
		}
		return nil
	})
	l.noted(timersLate, now, due, ok)
	return nil
}

// noteAction is the target of actions.
func (l *load) noteAction(_ context.Context, run action.Run) (action.Outcome, error) {
	now := time.Now()
	if i, ours := l.parse(run.Action.ID); ours {
		due, ok := l.actions.came(i, func(time.Time) error { return nil })
		l.noted(actionsLate, now, due, ok)
	}
	return action.Outcome{}, nil
}

// noted records how late something came. One that is not expected came before, or was
// cancelled.
func (l *load) noted(kind int, now, due time.Time, ok bool) {
	if !ok {
		l.again.Add(1)
		return
	}
	l.record(kind, now.Sub(due))
}

// expected is the timers or actions that have yet to come, by number. The zero value is empty.
type expected struct {
	mu sync.Mutex
	by map[int64]expectation
}

type expectation struct {
	due  time.Time
	came chan error
}

// expect adds one, and returns a channel that receives a value when it comes.
func (e *expected) expect(i int64, due time.Time) <-chan error {
	came := make(chan error, 1)
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.by == nil {
		e.by = map[int64]expectation{}
	}
	e.by[i] = expectation{due, came}
	return came
}

// came removes one that has come, and sends the error of check. It reports false for one that
// is not expected.
func (e *expected) came(i int64, check func(due time.Time) error) (due time.Time, ok bool) {
	e.mu.Lock()
	x, ok := e.by[i]
	delete(e.by, i)
	e.mu.Unlock()
	if ok {
		x.came <- check(x.due)
	}
	return x.due, ok
}

func (e *expected) len() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.by)
}
