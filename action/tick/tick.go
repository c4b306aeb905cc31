// Package tick is the loop that does something again and again, at a rate.
package tick

import (
	"context"
	"time"

	"github.com/abidehq/abide/clock"
	"github.com/abidehq/abide/internal/base"
)

// Loop calls Do once in each Rate. Only one call is under way at a time. After a call it
// sleeps for what is left of the rate; if the call took longer than that, the next one
// follows at once, and only that one: the ticks that were missed do not pile up.
type Loop struct {
	// Rate is how often Do is called.
	Rate time.Duration

	// Do is what a tick does. It gets a context that does not end with that of Run, so
	// that a tick which has begun comes to its end.
	Do func(ctx context.Context)

	// Clock measures. Nil means the system's.
	Clock clock.Clock

	wake chan struct{}
}

// New returns a loop. Its fields are not to be changed once it runs.
func New(rate time.Duration, clock base.Clock, do func(ctx context.Context)) *Loop {
	if clock == nil {
		clock = base.System{}
	}
	return &Loop{Rate: rate, Do: do, Clock: clock, wake: make(chan struct{}, 1)}
}

// Wake has the next tick follow at once, and not only when the rate is over.
func (l *Loop) Wake() {
	select {
	case l.wake <- struct{}{}:
	default: // it will, anyway
	}
}

// Run ticks until ctx ends, at once for the first time. It returns when the tick that is
// under way has come to its end.
func (l *Loop) Run(ctx context.Context) {
	for ctx.Err() == nil {
		select {
		case <-l.wake: // this is the tick that was asked for
		default:
		}
		began := l.Clock.Now()
		l.Do(context.WithoutCancel(ctx))
		// A clock that was set back makes no tick wait longer than others.
		l.sleep(ctx, min(l.Rate-l.Clock.Now().Sub(began), l.Rate))
	}
}

// sleep returns after d, when it is woken, or when ctx ends.
func (l *Loop) sleep(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	over := make(chan struct{})
	stop := l.Clock.AfterFunc(d, func() { close(over) })
	defer stop()
	select {
	case <-over:
	case <-l.wake:
	case <-ctx.Done():
	}
}
