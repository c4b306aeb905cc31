// Package clock has the wall clock in orchestration code.
package clock

import (
	"context"
	"time"

	"github.com/abidehq/abide"
)

var Order = abide.NewOrchestration("order", order)

func order(ctx abide.Context, in string) (string, error) {
	start := time.Now()          // want `^time.Now uses the wall clock: use abide.Now\(ctx\) \(in orchestration "order"\)$`
	_ = time.Since(start)        // want `time.Since uses the wall clock: use abide.Now`
	_ = time.Until(start)        // want `time.Until uses the wall clock: use abide.Now`
	time.Sleep(time.Second)      // want `time.Sleep uses the wall clock: use abide.Sleep`
	_ = time.After(time.Second)  // want `time.After uses the wall clock: use abide.NewTimer`
	time.AfterFunc(1, func() {}) // want `time.AfterFunc uses the wall clock: use abide.NewTimer`
	_ = time.Tick(1)             // want `time.Tick uses the wall clock: use abide.NewTimer`
	timer := time.NewTimer(1)    // want `time.NewTimer uses the wall clock: use abide.NewTimer`
	timer.Stop()
	_ = time.NewTicker(1)                               // want `time.NewTicker uses the wall clock: use abide.NewTimer`
	_, _ = context.WithTimeout(context.Background(), 1) // want `context.WithTimeout uses the wall clock: use abide.NewTimer`

	// Two on one line are one finding.
	_ = time.Now().Sub(time.Now()) // want `time.Now uses the wall clock`
	now := time.Now
	_ = now() // want `time.Now uses the wall clock`

	// The arithmetic of package time is fine, and so is the clock of the history.
	at := abide.Now(ctx).Add(3 * time.Hour).Truncate(time.Minute)
	_ = at.Sub(time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC))
	_, err := time.Parse(time.RFC3339, in)
	if err != nil {
		return "", err
	}
	return at.Format(time.RFC3339), abide.Sleep(ctx, time.Hour)
}

// nobody is not called by an orchestration.
func nobody() time.Time { return time.Now() }
