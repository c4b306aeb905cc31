package claimloop

import (
	"context"
	"time"

	"github.com/abidehq/abide/internal/base"
)

// pace makes batches larger under load: after a batch that is not small, the next claim waits
// until every has passed since, so that more messages come together.
type pace struct {
	clock base.Clock
	every time.Duration

	last time.Time // of the latest batch, if it was not small
}

// smallBatch is the largest batch that delays nothing.
const smallBatch = 4

// took notes a batch of n. One that was full is followed at once: there is more to claim.
func (p *pace) took(n int, full bool) {
	p.last = time.Time{}
	if n > smallBatch && !full {
		p.last = p.clock.Now()
	}
}

// wait returns when the next batch may be claimed, or ctx has ended.
func (p *pace) wait(ctx context.Context) {
	if !p.last.IsZero() {
		_ = base.Sleep(ctx, p.clock, min(p.every-p.clock.Now().Sub(p.last), p.every))
	}
}
