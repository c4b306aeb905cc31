package target_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/abidehq/abide/action"
	"github.com/abidehq/abide/action/target"
	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/store"
)

// serve runs a service with one target until stop is called.
func serve(t *testing.T, s store.Store, rate time.Duration, d action.Definition) (service *action.Service, stop func()) {
	t.Helper()
	service, err := action.New(action.Config{
		Store: s, Targets: map[string]action.Definition{"t": d}, Rate: rate, Logger: slog.New(slog.DiscardHandler),
	})
	check.OK(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- service.Run(ctx) }()
	return service, func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// TestService: a webhook that arrives starts an instance at the next tick.
func TestService(t *testing.T) {
	inWorld(t, func(w *world) {
		start, err := target.NewStart(target.StartConfig{Client: w, Orchestration: "echo"})
		s, stop := serve(w.T, w.store, time.Second, action.Definition{Target: ok(w.T, start, err), Idempotent: true})
		defer stop()
		a, _, err := s.Receive(w.Context(), action.Received{Tenant: "acme", Slug: "github", Target: "t", Body: []byte(`{"ref": "main"}`)})
		check.OK(t, err)
		bad, _, err := s.Receive(w.Context(), action.Received{Tenant: "acme", Slug: "github", Target: "t", Body: []byte("no JSON")})
		check.OK(t, err)
		w.pass(2 * time.Second)
		check.Equal(w.T, "the result", resultOf[string](w, "github/"+a.ID), `{"ref":"main"}`)
		a, err = s.Get(w.Context(), "acme", a.ID)
		check.Equal(w.T, "the status", ok(w.T, a, err).Status, action.Completed)
		bad, err = s.Get(w.Context(), "acme", bad.ID)
		check.Equal(w.T, "the status", ok(w.T, bad, err).Status, action.Failed)
		check.Equal(w.T, "the reason", bad.Reason, "target: start echo: the body of the webhook, of 7 bytes, is not JSON: invalid")
	})
}
