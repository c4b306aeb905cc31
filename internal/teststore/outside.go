package teststore

import "context"

// hand is a goroutine that lives outside of all bubbles and does one thing. Its channels
// and its context were made there too: who waits for it inside a bubble does not wait
// durably, so that no virtual time passes.
type hand struct {
	ctx    context.Context
	cancel context.CancelFunc
	work   chan func(context.Context)
	done   chan struct{}
}

// hands are there for everybody, and cancels ends the context of one: by a message, since
// what is started by the end of a context must live outside as well.
var (
	hands   = make(chan *hand)
	cancels = make(chan context.CancelFunc)
)

// What starts a goroutine decides in which bubble it lives, and an init function is in
// none.
func init() {
	go func() {
		for {
			hands <- newHand()
		}
	}()
	go func() {
		for cancel := range cancels {
			cancel()
		}
	}()
}

func newHand() *hand {
	h := &hand{work: make(chan func(context.Context)), done: make(chan struct{})}
	h.ctx, h.cancel = context.WithCancel(context.Background())
	go h.lend()
	return h
}

// lend does what it is given. It ends well also if that gives up its goroutine, as the
// end of a test does.
func (h *hand) lend() {
	defer close(h.done)
	defer h.cancel()
	(<-h.work)(h.ctx)
}

// outside does f outside of the bubble, and returns when it is done. The context that f
// gets ends when ctx does.
func outside(ctx context.Context, f func(context.Context)) {
	h := <-hands
	if ctx.Err() != nil {
		h.cancel() // nobody has it yet, so that nothing is started here
	}
	h.work <- f
	select {
	case <-h.done:
	case <-ctx.Done():
		cancels <- h.cancel
		<-h.done
	}
}
