package waitlist

import (
	"time"

	"github.com/abidehq/abide/internal/base"
)

// Alarm calls a function of the store when the next thing happens by itself: a message is
// due, a lease ends, a message without a route expires. It is guarded by the store's mutex,
// and the function is called without it.
//
// An alarm may go off early, never late: it stays set when the time that it was set for
// moves into the future, and the function that it calls sets the next one. So most changes of the next
// due time cost a comparison, and not a timer.
type Alarm struct {
	clock base.Clock
	ring  func()
	at    time.Time // zero if it is not set
	stop  func() bool
}

// NewAlarm returns an alarm that is not set and calls ring. The function must lock the mutex
// and call [Alarm.Rung] first.
func NewAlarm(clock base.Clock, ring func()) *Alarm {
	return &Alarm{clock: clock, ring: ring, stop: func() bool { return false }}
}

// Set sets the alarm for at, which is wait from now on, unless it is set for an earlier
// time.
func (a *Alarm) Set(at time.Time, wait time.Duration) {
	if !a.at.IsZero() && !at.Before(a.at) {
		return
	}
	a.stop()
	a.at = at
	a.stop = a.clock.AfterFunc(wait, a.ring)
}

// Rung notes that the alarm has gone off: it is not set any more.
func (a *Alarm) Rung() { a.at = time.Time{} }

// Stop stops the alarm.
func (a *Alarm) Stop() {
	a.stop()
	a.at = time.Time{}
}
