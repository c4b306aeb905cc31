package base

import (
	"context"
	"strconv"
	"time"
)

// Pause is a back-off: a wait that doubles each time, with [Jitter]. The instant at which a
// wait begins takes part in the hash, so that processes that lost the same server, and
// goroutines of one process, come back to it at different times.
type Pause struct {
	Clock       Clock
	Least, Most time.Duration

	last  time.Duration
	count int
}

// Reset makes the next wait the shortest again.
func (p *Pause) Reset() { p.last = 0 }

// Sleep waits, or returns the error of ctx if that ends first.
func (p *Pause) Sleep(ctx context.Context) error {
	return Sleep(ctx, p.Clock, p.next())
}

// next returns the next wait.
func (p *Pause) next() time.Duration {
	p.last = min(max(p.Least, 2*p.last), p.Most)
	p.count++
	return Jitter(p.last, strconv.FormatInt(p.Clock.Now().UnixNano(), 36), p.count)
}
