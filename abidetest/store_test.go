package abidetest_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/abidetest"
	"github.com/abidehq/abide/action"
	"github.com/abidehq/abide/action/hook"
	"github.com/abidehq/abide/action/target"
	"github.com/abidehq/abide/bus"
	"github.com/abidehq/abide/bus/outbox"
	"github.com/abidehq/abide/server"
	"github.com/abidehq/abide/timer"
)

// night sleeps for ten minutes and returns what it was given, and when it began.
var night = abide.NewOrchestration("night", func(ctx abide.Context, in string) (string, error) {
	began := abide.Now(ctx)
	err := abide.Sleep(ctx, 10*time.Minute)
	return in + " " + began.UTC().Format(time.RFC3339), err
})

// run runs a service until the test ends.
func run(t *testing.T, service interface {
	Run(ctx context.Context) error
}) {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- service.Run(t.Context()) }()
	t.Cleanup(func() {
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// newActions returns a service of actions on the store of a test, whose target "night" starts
// the orchestration.
func newActions(t *testing.T, env *abidetest.Env) *action.Service {
	t.Helper()
	start, err := target.NewStart(target.StartConfig{Client: env.Client(), Orchestration: night.Name(), ID: "{slug}"})
	if err != nil {
		t.Fatal(err)
	}
	service, err := action.New(action.Config{
		Store: env.Store(), Logger: env.Config.Logger,
		Targets: map[string]action.Definition{"night": {Target: start, Idempotent: true}},
	})
	if err != nil {
		t.Fatal(err)
	}
	run(t, service)
	return service
}

// TestSchedule: a schedule starts an orchestration at its hour, in virtual time.
func TestSchedule(t *testing.T) {
	t.Parallel()
	abidetest.Run(t, func(t *testing.T, env *abidetest.Env) {
		env.Register(night)
		service := newActions(t, env)
		_, err := service.AddSchedule(t.Context(), action.Plan{
			ID: "nightly", Tenant: abide.DefaultTenant, Slug: "report", Target: "night", Cron: "30 2 * * *", Payload: json.RawMessage(`"of the night"`),
		})
		if err != nil {
			t.Fatal(err)
		}
		env.Advance(2*time.Hour + 29*time.Minute)
		if _, err := env.Client().Get(t.Context(), abide.Ref{Tenant: abide.DefaultTenant, ID: "report"}); err == nil {
			t.Errorf("the instance is there at %v", env.Now())
		}
		env.Advance(2 * time.Minute)
		if got := abidetest.Find(env, night, "report").Result(); got != "of the night 2000-01-01T02:30:00Z" {
			t.Errorf("got %q", got)
		}
	})
}

// TestWebhook: a webhook is verified, stored and starts an orchestration.
func TestWebhook(t *testing.T) {
	t.Parallel()
	abidetest.Run(t, func(t *testing.T, env *abidetest.Env) {
		env.Register(night)
		hooks, err := hook.New(hook.Config{
			Receiver: newActions(t, env), Logger: env.Config.Logger,
			Hooks: []hook.Hook{{Slug: "deploy", Tenant: abide.DefaultTenant, Target: "night", Unverified: true}},
		})
		if err != nil {
			t.Fatal(err)
		}
		env.Advance(time.Hour)
		answer := httptest.NewRecorder()
		hooks.ServeHTTP(answer, httptest.NewRequest(http.MethodPost, "/hooks/deploy", strings.NewReader(`"pushed"`)))
		if answer.Code != http.StatusAccepted {
			t.Fatalf("%d %s", answer.Code, answer.Body)
		}
		env.Advance(2 * time.Minute)
		if got := abidetest.Find(env, night, "deploy").Result(); !strings.HasPrefix(got, "pushed 2000-01-01T01:0") {
			t.Errorf("got %q", got)
		}
	})
}

// TestTenantTimer: a timer of a tenant fires in virtual time, and raises an event.
func TestTenantTimer(t *testing.T) {
	t.Parallel()
	abidetest.Run(t, func(t *testing.T, env *abidetest.Env) {
		waits := abide.NewOrchestration("waits", func(ctx abide.Context, _ abide.None) (time.Time, error) {
			_, err := Approved.Wait(ctx)
			return abide.Now(ctx), err
		})
		env.Register(waits)
		began := env.Now()
		instance := abidetest.Start(env, waits, abide.None{}, abide.ID("invoice-7"))
		var local bus.Local
		local.Subscribe(bus.Filter{Type: timer.TypeDueTimeReached}, func(ctx context.Context, e bus.Envelope) error {
			var due timer.DueTimeReached
			if err := json.Unmarshal(e.Payload, &due); err != nil {
				return err
			}
			return Approved.Raise(ctx, env.Client(), due.ServiceCallID, Approval{By: "timer"})
		})
		timers, err := timer.New(timer.Config{Store: env.Store(), Logger: env.Config.Logger, Sinks: []outbox.Sink{{Name: "local", Bus: &local}}})
		if err != nil {
			t.Fatal(err)
		}
		run(t, timers)
		if _, err := timers.Schedule(t.Context(), timer.Request{Tenant: "acme", Key: "invoice-7", Delay: 72 * time.Hour}); err != nil {
			t.Fatal(err)
		}
		if got := instance.Result().Sub(began); got != 72*time.Hour {
			t.Errorf("the timer fired after %v", got)
		}
	})
}

// TestServer: the API of a server works in virtual time.
func TestServer(t *testing.T) {
	t.Parallel()
	abidetest.Run(t, func(t *testing.T, env *abidetest.Env) {
		env.Register(night)
		api, err := server.New(server.Config{Store: env.Store(), Engine: env.Client(), Logger: env.Config.Logger, Prefix: "/abide", Page: true})
		if err != nil {
			t.Fatal(err)
		}
		run(t, api)
		call := func(method, path, body string) string {
			t.Helper()
			r := httptest.NewRequest(method, "http://localhost/abide"+path, strings.NewReader(body))
			r.Header.Set("Content-Type", "application/json")
			answer := httptest.NewRecorder()
			api.ServeHTTP(answer, r)
			if answer.Code/100 != 2 {
				t.Fatalf("%s %s: %d %s", method, path, answer.Code, answer.Body)
			}
			return answer.Body.String()
		}
		call(http.MethodPost, "/api/v1/instances", `{"orchestration": "night", "id": "n1", "input": "by HTTP"}`)
		env.Settle()
		if got := call(http.MethodGet, "/api/v1/instances/default/n1", ""); !strings.Contains(got, `"running"`) {
			t.Errorf("it is %s", got)
		}
		env.Advance(10 * time.Minute)
		if got := call(http.MethodGet, "/api/v1/instances/default/n1", ""); !strings.Contains(got, "by HTTP 2000-01-01T00:00:00Z") {
			t.Errorf("it is %s", got)
		}
	})
}
