package timer_test

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/abidehq/abide/bus"
	"github.com/abidehq/abide/bus/outbox"
	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/store/storetest"
	"github.com/abidehq/abide/timer"
)

// deadly is a bus that has the process killed once some envelopes were accepted, before it
// gets to know that, and counts what it is given.
type deadly struct {
	bus.EventBus
	mu    sync.Mutex
	left  int // calls until it kills; it does not if it is 0
	kill  func()
	times map[string]int // by ID
}

func (d *deadly) Publish(ctx context.Context, envelopes []bus.Envelope) error {
	err := d.EventBus.Publish(ctx, envelopes)
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range envelopes {
		d.times[envelopes[i].ID]++
	}
	if d.left > 0 && err == nil {
		if d.left--; d.left == 0 {
			d.kill()
		}
	}
	return err
}

// again returns how many envelopes were published more than once.
func (d *deadly) again() (n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, times := range d.times {
		if times > 1 {
			n++
		}
	}
	return n
}

// broker is what envelopes are taken to in a test, in real time.
type broker struct {
	bus      bus.EventBus
	trouble  func()                // happens while envelopes are published
	received func() []bus.Envelope // in the end; not set if the world's sink notes them itself
}

// brokerWorld is a world with one sink.
func brokerWorld(t *testing.T) *faultWorld {
	w := newFaultWorld(t)
	w.sinks = w.sinks[:1]
	return w
}

// run has a process publish to the broker and be killed meanwhile, and a second one take
// over while the broker is in trouble.
func (b *broker) run(t *testing.T, w *faultWorld) {
	t.Helper()
	const timers = 150
	faulty := storetest.NewFaulty(w.Store, nil)
	dead := make(chan struct{})
	publish := &deadly{EventBus: b.bus, left: 3, times: map[string]int{}, kill: func() {
		faulty.Kill()
		close(dead)
	}}
	sinks := func(c *timer.Config) {
		c.LeaseDuration = time.Second
		c.Sinks = []outbox.Sink{{
			Name: w.sinks[0].name, Bus: publish, Batch: 10,
			Retry: outbox.Retry{Attempts: 1000, First: 20 * time.Millisecond, Cap: 200 * time.Millisecond},
		}}
	}
	first := w.process(faulty, sinks)
	client := w.service(w.Store)
	for i := range timers {
		check.OK(t, w.schedule(client, "tenant"+strconv.Itoa(i%3), strconv.Itoa(i), w.At(time.Duration(5*i)*time.Millisecond)))
	}
	<-dead
	first.running.Cancel()
	w.process(w.Store, sinks)
	b.trouble()
	w.WaitUntil(5 * timers * time.Millisecond)
	w.WaitIdle()
	if b.received != nil {
		noteAll(t, w, b.received())
		for about, times := range w.sinks[0].arrived() {
			if times != 1 {
				t.Errorf("the envelope of %s is there %d times", about, times)
			}
		}
	}
	w.check()
	if publish.again() == 0 {
		t.Error("no envelope was published twice: that is no test of what happens then")
	}
}

// noteAll gives the world's sink what a broker has.
func noteAll(t *testing.T, w *faultWorld, envelopes []bus.Envelope) {
	t.Helper()
	for _, e := range envelopes {
		check.OK(t, w.sinks[0].note(e, time.Now()))
	}
}
