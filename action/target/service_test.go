package target_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/abidehq/abide"
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
		check.Equal(w.T, "the result", resultOf[string](w, "github-2000-01-01-"+a.ID), `{"ref":"main"}`)
		a, err = s.Get(w.Context(), "acme", a.ID)
		check.Equal(w.T, "the status", ok(w.T, a, err).Status, action.Completed)
		bad, err = s.Get(w.Context(), "acme", bad.ID)
		check.Equal(w.T, "the status", ok(w.T, bad, err).Status, action.Failed)
		check.Equal(w.T, "the reason", bad.Reason, "target: start echo: the body of the webhook, of 7 bytes, is not JSON: invalid")
	})
}

// TestRaiseForEnded: an event for an instance that has ended is dropped. Webhooks, and actions that
// are run again, complete and say so; others fail at once.
func TestRaiseForEnded(t *testing.T) {
	inWorld(t, func(w *world) {
		raise, err := target.NewRaise(target.RaiseConfig{Client: w, Event: "deployed", Instance: "{slug}"})
		s, stop := serve(w.T, w.store, time.Second, action.Definition{Target: ok(w.T, raise, err), Attempts: 5, Idempotent: true})
		defer stop()
		if _, err := echo.Start(w.Context(), w, []byte(`{}`), abide.ID("ended"), abide.Tenant("acme")); err != nil {
			t.Fatal(err)
		}
		resultOf[string](w, "ended")
		hook, _, err := s.Receive(w.Context(), action.Received{Tenant: "acme", Slug: "ended", Target: "t", Body: []byte(`{"late": true}`)})
		check.OK(t, err)
		planned, _, err := s.Add(w.Context(), action.Request{Tenant: "acme", Slug: "ended", Target: "t"})
		check.OK(t, err)
		w.pass(10 * time.Minute)

		hook, err = s.Get(w.Context(), "acme", hook.ID)
		check.Equal(w.T, "the status of a webhook", ok(w.T, hook, err).Status, action.Completed)
		const dropped = `dropped deployed for instance "acme/ended", which has ended: it is completed`
		check.Equal(w.T, "the outcome of a webhook", hook.Outcome.Output, dropped)
		planned, err = s.Get(w.Context(), "acme", planned.ID)
		check.Equal(w.T, "the status", ok(w.T, planned, err).Status, action.Failed)
		check.Equal(w.T, "attempts", planned.Attempt, 1)
		check.Equal(w.T, "the reason", planned.Reason, `target: raise deployed for "acme/ended": abide: raise "deployed": "acme/ended" is completed: not possible in this state`)

		again := scheduled("{}")
		again.Action.Slug, again.Action.Attempt = "ended", 2
		out, err := raise.Run(w.Context(), again)
		check.Equal(w.T, "the outcome of a second run", ok(w.T, out, err).Output, dropped)
		info, err := w.Get(w.Context(), abide.Ref{Tenant: "acme", ID: "ended"})
		check.Equal(w.T, "the status of the instance", ok(w.T, info, err).Status, abide.Completed)
	})
}
