package hook_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/abidehq/abide/action"
	"github.com/abidehq/abide/action/hook"
	"github.com/abidehq/abide/internal/check"
)

// TestEvents: only events that a hook selects become actions, and a ping never does.
func TestEvents(t *testing.T) {
	t.Parallel()
	all, pushes := githubHook("all"), githubHook("pushes")
	pushes.Events = []string{"push", "release"}
	k := newFixture(t, all, pushes)
	for i, c := range []struct {
		slug, event string
		status      int
	}{
		{"all", "ping", http.StatusNoContent},
		{"all", "issues", http.StatusAccepted},
		{"pushes", "ping", http.StatusNoContent},
		{"pushes", "issues", http.StatusNoContent},
		{"pushes", "", http.StatusNoContent},
		{"pushes", "push", http.StatusAccepted},
		{"pushes", "release", http.StatusAccepted},
	} {
		body := []byte(`{"n":` + string(rune('0'+i)) + `}`)
		h := github("d"+string(rune('0'+i)), body)
		h.Set("X-GitHub-Event", c.event)
		if got := k.post(c.slug, h, body); got.Status != c.status {
			t.Errorf("%s of %q: %d %v, want %d", c.event, c.slug, got.Status, got, c.status)
		}
	}
	if got := len(k.actions()); got != 3 {
		t.Errorf("%d actions, want 3", got)
	}
	if got := k.outcomes(); got["ignored"] != 4 || got["accepted"] != 3 {
		t.Errorf("outcomes %v", got)
	}
	if body := []byte(`{}`); k.post("all", header("X-GitHub-Event", "ping"), body).Status != http.StatusUnauthorized {
		t.Error("a ping without a signature is not refused")
	}
}

// TestStripeEvents: the type is in the body.
func TestStripeEvents(t *testing.T) {
	t.Parallel()
	s := open(t, hook.Stripe{Secrets: secrets("whsec_x")})
	for body, want := range map[string]string{`{"id":"evt_1","type":"invoice.paid"}`: "invoice.paid", `{}`: "", `no JSON`: ""} {
		check.Equal(t, body, s.Event(nil, []byte(body)), want)
	}
}

// TestNoTenantIsTheDefault, as everywhere else.
func TestNoTenantIsTheDefault(t *testing.T) {
	t.Parallel()
	var tenant string
	h, err := hook.New(hook.Config{
		Receiver: receiver(func(_ context.Context, r action.Received) (action.Action, bool, error) {
			tenant = r.Tenant
			return action.Action{}, false, nil
		}),
		Hooks: []hook.Hook{{Slug: "s", Target: "do", Unverified: true}},
	})
	check.OK(t, err)
	h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/hooks/s", strings.NewReader("{}")))
	check.Equal(t, "tenant", tenant, "default")
}

// TestEventsNeedTypes: a hook cannot select events of a sender that has no types.
func TestEventsNeedTypes(t *testing.T) {
	t.Parallel()
	_, err := hook.New(hook.Config{Receiver: receiver(nil), Hooks: []hook.Hook{{Slug: "s", Target: "do", Unverified: true, Events: []string{"push"}}}})
	if err == nil || !strings.Contains(err.Error(), "knows no types of events") {
		t.Errorf("got %v", err)
	}
}
