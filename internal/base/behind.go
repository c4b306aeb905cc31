package base

import (
	"sync/atomic"
	"time"
)

// Behind reports that a clock is behind the time by more than two seconds, once until it has
// caught up.
type Behind struct {
	// Report is called with how far the clock is behind; it may be nil.
	Report func(lead time.Duration)

	reported atomic.Bool
}

// behindLimit is how far a clock may be behind before it is reported.
const behindLimit = 2 * time.Second

// Note notes how far the clock is behind.
func (b *Behind) Note(lead time.Duration) {
	switch {
	case lead <= 0:
		b.reported.Store(false)
	case lead > behindLimit && b.reported.CompareAndSwap(false, true) && b.Report != nil:
		b.Report(lead)
	}
}
