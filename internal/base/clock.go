// Package base holds what everything else stands on: the clock, and names that are made
// of it.
package base

import (
	"time"

	"github.com/abidehq/abide/clock"
)

// Clock is the only way in which the project reads the time, so that tests run hours in
// milliseconds.
type Clock = clock.Clock

// System is the clock of the machine, or that of a synctest bubble.
type System struct{}

var _ Clock = System{}

// Now returns the machine's time.
func (System) Now() time.Time { return time.Now() }

// AfterFunc calls f in a goroutine of its own once d has passed.
func (System) AfterFunc(d time.Duration, f func()) func() bool {
	return time.AfterFunc(d, f).Stop
}
