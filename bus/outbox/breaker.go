package outbox

import (
	"context"
	"sync"
	"time"

	"github.com/abidehq/abide/bus"
	"github.com/abidehq/abide/internal/base"
)

// How long a sink that accepts nothing is left alone: from minBreak on, twice as long
// each time, with jitter. All that waits for it waits with it, and no attempts are spent in vain.
const (
	minBreak = 100 * time.Millisecond
	maxBreak = 5 * time.Second
)

// breaker leaves a sink alone that accepts nothing.
type breaker struct {
	mu    sync.Mutex
	until time.Time
	last  time.Duration
}

// wait returns when the sink may be tried, or ctx has ended.
func (b *breaker) wait(ctx context.Context, clock base.Clock) {
	for {
		b.mu.Lock()
		left := b.until.Sub(clock.Now())
		b.mu.Unlock()
		if left <= 0 || base.Sleep(ctx, clock, left) != nil {
			return
		}
	}
}

// open reports whether the sink is left alone now.
func (b *breaker) open(clock base.Clock) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.until.After(clock.Now())
}

// note learns from a batch.
func (b *breaker) note(items []*item, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	wish := time.Duration(0)
	for _, it := range items {
		if it.State != Retrying {
			b.last, b.until = 0, time.Time{}
			return
		}
		if d, ok := bus.RetryDelay(it.Err); ok {
			wish = max(wish, min(d, time.Minute))
		}
	}
	b.last = min(max(minBreak, 2*b.last), maxBreak)
	b.until = now.Add(max(base.Jitter(b.last, now.Format(time.RFC3339Nano), 0), wish))
}
