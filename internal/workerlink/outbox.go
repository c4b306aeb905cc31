package workerlink

import (
	"context"
	"runtime"
	"slices"
	"sync"
)

// maxBatch is how much goes into one message: far less than [MaxMessage], which nothing that is sent alone
// exceeds.
const maxBatch = 16 << 20

// Outbox sends messages of one kind. All that is added while one is being sent goes out in the next, or in
// several if it is much.
//
// It is not bounded: those who add to it are. There is never more in it of what a worker runs than the worker
// has slots.
type Outbox[M any] struct {
	mu     sync.Mutex
	queue  []*M
	size   int // of the last one in the queue
	ended  bool
	notify chan struct{}
}

// NewOutbox returns an empty outbox.
func NewOutbox[M any]() *Outbox[M] {
	return &Outbox[M]{notify: make(chan struct{}, 1)}
}

// Add has f add to a message what takes few bytes. After the outbox has ended it does nothing.
func (o *Outbox[M]) Add(f func(next *M)) { o.AddSized(0, f) }

// AddSized has f add to a message what takes about size bytes.
func (o *Outbox[M]) AddSized(size int, f func(next *M)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ended {
		return
	}
	if len(o.queue) == 0 || o.size > 0 && o.size+size > maxBatch {
		o.queue, o.size = append(o.queue, new(M)), 0
	}
	o.size += size
	f(o.queue[len(o.queue)-1])
	o.wake()
}

func (o *Outbox[M]) wake() {
	select {
	case o.notify <- struct{}{}:
	default:
	}
}

// take returns the next message, or nil if there is none.
func (o *Outbox[M]) take() *M {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.queue) == 0 {
		return nil
	}
	m := o.queue[0]
	o.queue = slices.Delete(o.queue, 0, 1)
	if len(o.queue) > 0 {
		o.wake()
	}
	return m
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
		runtime.Gosched() // those who are about to add something do so: one message costs less than several
		m := o.take()
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
	o.ended, o.queue = true, nil
}

// SizeOf returns about how many bytes encoded things take.
func SizeOf(encoded ...[]byte) int {
	size := 0
	for _, data := range encoded {
		size += len(data) + 16
	}
	return size
}
