// Package base holds what everything else stands on: the clock, and names that are made
// of it.
package base

import "time"

// Clock tells the time and calls back when some of it has passed. It is the only
// way in which the project learns the time, so that tests can run hours in
// milliseconds.
type Clock interface {
	// Now returns the time.
	Now() time.Time

	// AfterFunc calls f in a goroutine of its own, or in that of whoever makes the
	// time pass, once d has passed. Stop cancels it, and reports whether it came in
	// time to do so.
	AfterFunc(d time.Duration, f func()) (stop func() bool)
}

// System is the clock of the machine, or that of a synctest bubble.
type System struct{}

var _ Clock = System{}

// Now returns the machine's time.
func (System) Now() time.Time { return time.Now() }

// AfterFunc calls f in a goroutine of its own once d has passed.
func (System) AfterFunc(d time.Duration, f func()) func() bool {
	return time.AfterFunc(d, f).Stop
}
