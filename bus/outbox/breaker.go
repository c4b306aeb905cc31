package outbox

import (
	"context"
	"sync"
	"time"

	"github.com/abidehq/abide/bus"
	"github.com/abidehq/abide/internal/backoff"
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
	pause backoff.Pause
}

func newBreaker(clock base.Clock) *breaker {
	return &breaker{pause: backoff.Pause{Clock: clock, Min: minBreak, Max: maxBreak}}
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
			b.until = time.Time{}
			b.pause.Reset()
			return
		}
		if d, ok := bus.RetryDelay(it.Err); ok {
			wish = max(wish, min(d, time.Minute))
		}
	}
	b.until = now.Add(max(b.pause.Next(), wish))
}
