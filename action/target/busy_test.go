package target_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/action/target"
	"github.com/abidehq/abide/internal/check"
)

// busy is a transport that refuses the first starts and events.
type busy struct {
	abide.Transport
	left int
}

func (b *busy) Start(ctx context.Context, requests []abide.StartRequest) ([]abide.Started, error) {
	if b.left--; b.left >= 0 {
		return nil, abide.ErrBusy
	}
	return b.Transport.Start(ctx, requests)
}

func (b *busy) Raise(ctx context.Context, requests []abide.RaiseRequest) ([]abide.Raised, error) {
	if b.left--; b.left >= 0 {
		return nil, abide.ErrBusy
	}
	return b.Transport.Raise(ctx, requests)
}

// TestABusyEngineIsWaitedFor: an action that was accepted does not fail because the engine has too much
// to do.
func TestABusyEngineIsWaitedFor(t *testing.T) {
	inWorld(t, func(w *world) {
		over := &busy{Transport: w.Transport()}
		client := abide.ClientOver(over, nil)
		start, err := target.NewStart(target.StartConfig{Client: client, Orchestration: "listen", ID: "one"})
		check.OK(w.T, err)
		raise, err := target.NewRaise(target.RaiseConfig{Client: client, Event: "deployed", Instance: "one"})
		check.OK(w.T, err)
		for _, run := range []func() error{
			func() error { _, err := start.Run(w.Context(), scheduled("")); return err },
			func() error { _, err := raise.Run(w.Context(), scheduled("")); return err },
		} {
			over.left = 3
			began := time.Now()
			check.OK(w.T, run())
			check.Equal(w.T, "it took", time.Since(began), 3*time.Second)
		}
		over.left = 1_000
		ctx, cancel := context.WithTimeout(w.Context(), time.Minute)
		defer cancel()
		if _, err := start.Run(ctx, scheduled("")); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("after a minute: %v", err)
		}
	})
}
