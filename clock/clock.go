// Package clock has the clock that Abide reads. Programs need it only to run a service under
// another clock than the machine's, such as that of a simulation.
package clock

import "time"

// Clock tells the time and calls functions after a delay.
type Clock interface {
	// Now returns the current time.
	Now() time.Time

	// AfterFunc calls f after d has passed, in another goroutine than that of the caller of
	// AfterFunc. Stop cancels the call, and reports whether it did before f was called.
	AfterFunc(d time.Duration, f func()) (stop func() bool)
}
