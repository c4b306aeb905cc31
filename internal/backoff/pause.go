// Package backoff holds the delays between attempts. [Exponential] is for durable operations,
// whose attempts are counted in the store; [Pause] is for a goroutine that waits until
// another call may succeed; [Retry] repeats a read-modify-write that met a conflict.
package backoff

import (
	"context"
	"strconv"
	"time"

	"github.com/abidehq/abide/internal/base"
)

// Pause is a wait that doubles each time, from Min to Max, less [Jitter]. The instant at which
// a wait begins takes part in the hash, so that processes that lost the same server, and
// goroutines of one process, come back to it at different times. It is used by one goroutine
// at a time.
type Pause struct {
	Clock    base.Clock
	Min, Max time.Duration

	last  time.Duration
	count int
}

// Outage returns the pause of callers whose store cannot be reached: 50 ms to 5 s.
func Outage(clock base.Clock) Pause {
	return Pause{Clock: clock, Min: 50 * time.Millisecond, Max: 5 * time.Second}
}

// Contention returns the pause of callers whose commit met a conflict: 1 ms to 100 ms. The
// commit that won may not be durable yet, and cannot be read before it is.
func Contention(clock base.Clock) Pause {
	return Pause{Clock: clock, Min: time.Millisecond, Max: 100 * time.Millisecond}
}

// Reset makes the next wait the shortest again.
func (p *Pause) Reset() { p.last = 0 }

// Sleep waits, or returns the error of ctx if that ends first.
func (p *Pause) Sleep(ctx context.Context) error {
	return base.Sleep(ctx, p.Clock, p.Next())
}

// Next returns the next wait, for callers that do not sleep.
func (p *Pause) Next() time.Duration {
	p.last = min(max(p.Min, 2*p.last), p.Max)
	p.count++
	return Jitter(p.last, strconv.FormatInt(p.Clock.Now().UnixNano(), 36), p.count)
}
