package workerlink

import (
	"context"
	"sync"
)

// Outbox sends messages of one kind. All that is added while one is being sent goes out in the next.
type Outbox[M any] struct {
	mu     sync.Mutex
	next   *M
	ended  bool
	notify chan struct{}
}

// NewOutbox returns an empty outbox.
func NewOutbox[M any]() *Outbox[M] {
	return &Outbox[M]{notify: make(chan struct{}, 1)}
}

// Add has f add to the message that is sent next. After the outbox has ended it does nothing.
func (o *Outbox[M]) Add(f func(next *M)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ended {
		return
	}
	if o.next == nil {
		o.next = new(M)
	}
	f(o.next)
	select {
	case o.notify <- struct{}{}:
	default:
	}
}

// Run sends messages until ctx ends or one cannot be sent.
func (o *Outbox[M]) Run(ctx context.Context, send func(*M) error) error {
	defer o.end()
	for {
		select {
		case <-o.notify:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		o.mu.Lock()
		m := o.next
		o.next = nil
		o.mu.Unlock()
		if m == nil {
			continue
		}
		if err := send(m); err != nil {
			return err
		}
	}
}

func (o *Outbox[M]) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ended, o.next = true, nil
}
