package base

import (
	"context"
	"time"
)

// Pause is a wait that doubles each time.
type Pause struct {
	Clock       Clock
	Least, Most time.Duration

	last time.Duration
}

// Reset has the next wait be the least.
func (p *Pause) Reset() { p.last = 0 }

// Sleep waits, or returns the error of ctx if that ends first.
func (p *Pause) Sleep(ctx context.Context) error {
	p.last = min(max(p.Least, 2*p.last), p.Most)
	return Sleep(ctx, p.Clock, p.last)
}
