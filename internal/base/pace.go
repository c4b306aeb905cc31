package base

import (
	"context"
	"time"
)

// Pace keeps something that is done again and again from being done in very small
// portions when there is a lot of it: after a portion that is not small, the next one
// waits until Every has passed, so that more comes together.
type Pace struct {
	Clock Clock
	Every time.Duration

	last time.Time // of a portion that was not small
}

// smallPortion is what may follow another one at once.
const smallPortion = 4

// Took notes that a portion of n was taken.
func (p *Pace) Took(n int) {
	p.last = time.Time{}
	if n > smallPortion {
		p.last = p.Clock.Now()
	}
}

// Wait returns when the next portion may be taken, or ctx has ended.
func (p *Pace) Wait(ctx context.Context) {
	if !p.last.IsZero() {
		_ = Sleep(ctx, p.Clock, min(p.Every-p.Clock.Now().Sub(p.last), p.Every))
	}
}
