package outbox

import (
	"context"
	"sync"
	"time"
)

// backlog knows whether more waits in the outbox than is being published.
type backlog struct {
	mu     sync.Mutex
	behind int           // publishers that claimed as much as they could the last time
	over   chan struct{} // closed when there are none
}

func (b *backlog) add(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.over == nil {
		b.over = make(chan struct{})
		close(b.over)
	}
	before := b.behind
	b.behind += n
	switch {
	case before == 0 && b.behind > 0:
		b.over = make(chan struct{})
	case before > 0 && b.behind == 0:
		close(b.over)
	}
}

// CatchUp waits until the relay has published most of what waits for it, but not longer than d.
// A producer of many messages should call it now and then: what is published soon after it was
// put costs less than what has been written to disk and must be read again.
func (r *Relay) CatchUp(ctx context.Context, d time.Duration) {
	r.backlog.mu.Lock()
	over, behind := r.backlog.over, r.backlog.behind
	r.backlog.mu.Unlock()
	if behind == 0 {
		return
	}
	timeout := make(chan struct{})
	stop := r.clock.AfterFunc(d, func() { close(timeout) })
	defer stop()
	select {
	case <-over:
	case <-timeout:
	case <-ctx.Done():
	}
}
