package bustest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/abidehq/abide/bus"
	"github.com/abidehq/abide/internal/base"
)

func ended(t *testing.T, sink Sink) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := soon(t, "Publish", func() error { return sink.Bus.Publish(ctx, envelopes(0, 3)) })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("Publish: %v, want that the context was cancelled", err)
	}
	wantReceived(t, sink, nil)
}

// ends: with a sink that hangs, only the context says when to give up. What happened
// is unknown then, so the envelopes are published again.
func ends(t *testing.T, sink Sink) {
	resume := func() {}
	if sink.Hang != nil {
		resume = sink.Hang()
	}
	list := envelopes(0, 300)
	ctx, cancel := context.WithCancel(t.Context())
	stop := base.System{}.AfterFunc(50*time.Millisecond, cancel)
	defer stop()
	err := soon(t, "Publish", func() error { return sink.Bus.Publish(ctx, list) })
	if sink.Hang != nil && !errors.Is(err, context.Canceled) {
		t.Errorf("Publish: %v, want that the context was cancelled", err)
	}
	if errors.Is(err, bus.ErrPermanent) {
		t.Errorf("Publish: %v, but this can be tried again", err)
	}
	resume()
	untilAccepted(t, sink, list)
	wantEach(t, sink, list)
}

func away(t *testing.T, sink Sink) {
	before, during := envelopes(0, 10), envelopes(10, 10)
	publish(t, sink, before...)
	if sink.Stop != nil {
		sink.Stop()
		for range 2 { // the second one meets a connection that is known to be broken
			err := soon(t, "Publish", func() error { return sink.Bus.Publish(t.Context(), during) })
			if err == nil || errors.Is(err, bus.ErrPermanent) {
				t.Fatalf("Publish: %v, want an error that goes away", err)
			}
		}
		sink.Start()
	}
	untilAccepted(t, sink, append(before[5:10:10], during...))
	wantEach(t, sink, append(before, during...))
}

// untilAccepted publishes as the outbox does: what was not accepted is tried again.
func untilAccepted(t *testing.T, sink Sink, list []bus.Envelope) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		err := sink.Bus.Publish(ctx, list)
		if err == nil {
			return
		}
		if ctx.Err() != nil {
			t.Fatalf("Publish does not succeed any more: %v", err)
		}
		var left []bus.Envelope
		for i, err := range bus.Outcomes(err, len(list)) {
			if err != nil {
				left = append(left, list[i])
			}
		}
		list = left
		_ = base.Sleep(ctx, base.System{}, 20*time.Millisecond) // the next round sees that ctx has ended
	}
}
