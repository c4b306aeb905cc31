package server_test

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/abidehq/abide/action"
	"github.com/abidehq/abide/bus"
	"github.com/abidehq/abide/bus/outbox"
	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/server"
	"github.com/abidehq/abide/timer"
)

// withOwners has targets and sinks of tenants acme and north: those of north have its name.
func withOwners(t *testing.T) func(*server.Config) {
	return func(c *server.Config) {
		run := action.Func(func(context.Context, action.Run) (action.Outcome, error) { return action.Outcome{}, nil })
		var err error
		c.Actions, err = action.New(action.Config{Store: c.Store, Logger: c.Logger, Targets: map[string]action.Definition{
			"acme-deploy":  {Target: run, Tenants: []string{"acme"}},
			"north-deploy": {Target: run, Tenants: []string{"north"}},
			"acme-hook":    {Target: run, Tenants: []string{"acme"}, HooksOnly: true},
		}})
		check.OK(t, err)
		c.Timers, err = timer.New(timer.Config{
			Store: c.Store, Logger: c.Logger,
			Sinks:   []outbox.Sink{{Name: "acme-billing", Bus: &bus.Local{}}, {Name: "north-billing", Bus: &bus.Local{}}},
			SinksOf: func(tenant string) []string { return []string{tenant + "-billing"} },
		})
		check.OK(t, err)
	}
}

// TestTargetsAndSinksOfOtherTenants are out of reach on every route and form that takes one, and
// no answer names them.
func TestTargetsAndSinksOfOtherTenants(t *testing.T) {
	t.Parallel()
	var cfg *server.Config
	w := newWhole(t, withOwners(t), func(c *server.Config) { cfg = c })
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- cfg.Timers.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-ended })
	for request, body := range map[string]string{
		"POST /api/v1/schedules":       `{"tenant":"acme","id":"own","slug":"x","target":"acme-deploy","every":"1h"}`,
		"POST /api/v1/actions":         `{"tenant":"acme","slug":"x","target":"acme-deploy","delay":"1h"}`,
		"PUT /api/v1/timers/acme/due":  `{"delay":"0s"}`,
		"PUT /api/v1/timers/acme/late": `{"delay":"1h"}`,
	} {
		if got := w.do("acme", request, body); got.status >= 300 {
			t.Fatalf("%s %s: %d %s", request, body, got.status, got.body)
		}
	}
	for { // until it has fired
		got := w.do("acme", "GET /api/v1/timers/acme/due", "")
		if got.object["status"] == "fired" {
			break
		}
		if t.Context().Err() != nil {
			t.Fatal(got.body)
		}
	}
	for _, target := range []string{"north-deploy", "acme-hook"} {
		for request, body := range map[string]string{
			"POST /api/v1/actions":           `{"tenant":"acme","slug":"x","target":"` + target + `"}`,
			"POST /api/v1/schedules":         `{"tenant":"acme","id":"new","slug":"x","target":"` + target + `","every":"1h"}`,
			"PUT /api/v1/schedules/acme/own": `{"id":"own","slug":"x","target":"` + target + `","every":"1h"}`,
		} {
			got := w.do("acme", request, body)
			detail, _ := got.object["detail"].(string)
			if got.status != http.StatusForbidden || got.object["code"] != "forbidden" || !strings.HasSuffix(detail, "it can use acme-deploy: forbidden") {
				t.Errorf("%s %s: %d %s", request, body, got.status, got.body)
			}
		}
		for page, form := range map[string]url.Values{
			"/actions/new":             {"tenant": {"acme"}, "slug": {"x"}, "target": {target}},
			"/schedules/new":           {"tenant": {"acme"}, "id": {"new"}, "slug": {"x"}, "target": {target}, "every": {"1h"}},
			"/schedules/acme/own/edit": {"slug": {"x"}, "target": {target}, "every": {"1h"}, "version": {"1"}},
		} {
			got := w.do("acme", "POST "+page+" Content-Type:application/x-www-form-urlencoded", form.Encode())
			if got.status < 400 || !strings.Contains(got.body, "it can use acme-deploy</p>") {
				t.Errorf("the form %s: %d %s", page, got.status, got.body)
			}
		}
	}
	for _, sink := range []string{"north-billing", "none"} {
		got := w.do("acme", "POST /api/v1/timers/acme/due/redeliver", `{"sink":"`+sink+`"}`)
		if detail, _ := got.object["detail"].(string); got.status != http.StatusBadRequest || !strings.HasSuffix(detail, "it can be one of: acme-billing: invalid") {
			t.Errorf("redeliver to %s: %d %s", sink, got.status, got.body)
		}
		got = w.do("acme", "POST /timers/acme/due/redeliver Content-Type:application/x-www-form-urlencoded", url.Values{"sink": {sink}}.Encode())
		if got.status < 400 || !strings.Contains(got.body, "it can be one of: acme-billing</p>") {
			t.Errorf("the form that redelivers to %s: %d %s", sink, got.status, got.body)
		}
	}
	for _, page := range []string{
		"/actions/new", "/schedules/new", "/schedules/acme/own/edit", "/timers/acme/due/redeliver", "/timers/acme/due", "/actions", "/schedules", "/sinks", "/timers", "/",
	} {
		if got := w.do("acme", "GET "+page, ""); got.status != http.StatusOK || strings.Contains(got.body, "north") {
			t.Errorf("%s: %d, names what is north's: %v", page, got.status, strings.Contains(got.body, "north"))
		}
	}
	for _, page := range []string{"/actions/new", "/schedules/new"} {
		got := w.do("acme", "GET "+page, "")
		if !strings.Contains(got.body, `<option value="acme-deploy">`) || strings.Contains(got.body, `"acme-hook"`) {
			t.Errorf("%s does not suggest acme's target alone: %s", page, got.body)
		}
	}
	if got := w.do("operator", "POST /api/v1/actions", `{"tenant":"north","slug":"x","target":"north-deploy"}`); got.status != http.StatusCreated {
		t.Errorf("who may act for north: %d %s", got.status, got.body)
	}
}
