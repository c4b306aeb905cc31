package main

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/action"
	"github.com/abidehq/abide/action/hook"
	"github.com/abidehq/abide/action/target"
	"github.com/abidehq/abide/server"
	"github.com/abidehq/abide/store"
)

// guide: actions
// newActions returns the service that runs schedules and webhooks: the targets start orchestrations.
func newActions(s store.Store, client abide.Caller, log *slog.Logger) (*action.Service, error) {
	nightly, err := target.NewStart(target.StartConfig{Client: client, Orchestration: Report.Name(), ID: "report-{date}"})
	if err != nil {
		return nil, err
	}
	pushed, err := target.NewStart(target.StartConfig{Client: client, Orchestration: Deploy.Name(), ID: "deploy-{id}"})
	if err != nil {
		return nil, err
	}
	return action.New(action.Config{Store: s, Logger: log, Rate: time.Second, Targets: map[string]action.Definition{
		"report": {Target: nightly, Idempotent: true},
		"deploy": {Target: pushed, Idempotent: true, HooksOnly: true},
	}})
}

// nightly is the schedule of the report.
var nightly = action.Plan{ID: "nightly", Slug: "report", Target: "report", Cron: "30 2 * * *", Zone: "Europe/Berlin"}

// newHooks returns the endpoint of GitHub, /hooks/github. A ping starts nothing.
func newHooks(actions *action.Service, secret string, log *slog.Logger) (*hook.Handler, error) {
	return hook.New(hook.Config{Receiver: actions, Logger: log, Hooks: []hook.Hook{{
		Slug: "github", Target: "deploy", Events: []string{"push"},
		Verify: hook.GitHub{Secrets: []hook.Secret{hook.NewSecret(secret)}},
	}}})
}

// guide: routes
// routes returns the routes of the service, with Abide's page, API and webhooks at /abide/.
func routes(client abide.Caller, abideServer *server.Server) *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /signup", func(w http.ResponseWriter, r *http.Request) {
		var c Customer
		if err := json.NewDecoder(r.Body).Decode(&c); err != nil || c.ID == "" {
			http.Error(w, "a customer has an id, a mail and a plan", http.StatusBadRequest)
			return
		}
		instance, err := Trial.Start(r.Context(), client, c, abide.ID("trial-"+c.ID), abide.Tag("customer", c.ID))
		switch {
		case err != nil:
			http.Error(w, err.Error(), http.StatusInternalServerError)
		case instance.Existed():
			http.Error(w, "this customer has a trial", http.StatusConflict)
		default:
			w.WriteHeader(http.StatusCreated)
		}
	})
	mux.HandleFunc("POST /refunds/{customer}", func(w http.ResponseWriter, r *http.Request) {
		id := r.PathValue("customer")
		if _, err := Refund.Start(r.Context(), client, RefundIn{Customer: id, Cents: 4200}, abide.ID("refund-"+id)); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.WriteHeader(http.StatusAccepted)
	})
	mux.Handle("/abide/", abideServer)
	return mux
}
