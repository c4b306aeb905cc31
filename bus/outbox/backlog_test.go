package outbox_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/abidehq/abide/bus"
	"github.com/abidehq/abide/bus/outbox"
	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/internal/rig"
)

// slow is a bus that takes a while for each Publish, and may fail.
type slow struct {
	takes time.Duration
	err   error
}

func (s slow) Publish(ctx context.Context, _ []bus.Envelope) error {
	select {
	case <-time.After(s.takes):
		return s.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func TestCatchUpWaitsWhileThereIsMoreThanABatch(t *testing.T) {
	for _, tt := range []struct {
		name string
		err  error
		put  int
		want time.Duration // of ten seconds
	}{
		{"nothing waits", nil, 0, 0},
		{"less than a batch", nil, 1, 0},
		{"three batches", nil, 6, 3 * time.Second},
		{"more than there is patience for", nil, 60, 10 * time.Second},
		{"a sink that accepts nothing", errors.New("down"), 60, time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *fixture) {
				cfg := r.config()
				cfg.Notes = nil
				cfg.Sinks = []outbox.Sink{{Name: "sink", Bus: slow{time.Second, tt.err}, Batch: 2, Publishers: 1}}
				relay, err := outbox.New(cfg)
				check.OK(t, err)
				ctx, stop := context.WithCancel(context.Background())
				done := make(chan error)
				go func() { done <- relay.Run(ctx) }()
				numbers := make([]int, tt.put)
				for i := range numbers {
					numbers[i] = i
				}
				r.put(numbers...)
				rig.Pass(0)
				began := time.Now()
				relay.CatchUp(t.Context(), 10*time.Second)
				check.Equal(t, "it waited for", time.Since(began), tt.want)
				stop()
				if err := <-done; err != nil {
					t.Error(err)
				}
			})
		})
	}
}
