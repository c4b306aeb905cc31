// Package tick provides a loop that calls a function at a fixed rate.
package tick

import (
	"context"
	"time"

	"github.com/abidehq/abide/clock"
	"github.com/abidehq/abide/internal/base"
)

// Loop calls Do once per Rate, one call at a time. A call that takes longer than Rate is
// followed immediately by one call; further missed ticks are dropped.
type Loop struct {
	// Rate is the interval between calls of Do.
	Rate time.Duration

	// Do performs a tick. Its context does not end with that of Run, so that a tick in progress
	// is completed.
	Do func(ctx context.Context)

	// Clock measures the interval. Nil means the system's clock.
	Clock clock.Clock

	wake chan struct{}
}

// New returns a loop. Its fields must not be changed once it runs.
func New(rate time.Duration, clock base.Clock, do func(ctx context.Context)) *Loop {
	if clock == nil {
		clock = base.System{}
	}
	return &Loop{Rate: rate, Do: do, Clock: clock, wake: make(chan struct{}, 1)}
}

// Wake makes the next tick follow immediately.
func (l *Loop) Wake() {
	select {
	case l.wake <- struct{}{}:
	default: // it will, anyway
	}
}

// Run ticks until ctx ends, immediately for the first time, and waits for a tick in progress.
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
