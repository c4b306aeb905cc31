package main

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/action"
	"github.com/abidehq/abide/action/hook"
	"github.com/abidehq/abide/action/target"
	"github.com/abidehq/abide/server"
	"github.com/abidehq/abide/store"
)

func main() {}

func open(ctx context.Context, serves ...abide.Definition) (*abide.Engine, error) {
	return abide.Open(ctx, abide.Config{Store: os.Getenv("ABIDE_STORE"), Serve: serves})
}

func raise(ctx context.Context, engine *abide.Engine, id string) error {
	return Upgraded.Raise(ctx, engine, id, "pro")
}

func newActions(s store.Store, client abide.Client, log *slog.Logger) (*action.Service, error) {
	nightly, err := target.NewStart(target.StartConfig{Client: client, Orchestration: Report.Name()})
	if err != nil {
		return nil, err
	}
	pushed, err := target.NewStart(target.StartConfig{Client: client, Orchestration: Deploy.Name(), ID: "deploy-{id}"})
	if err != nil {
		return nil, err
	}
	return action.New(action.Config{Store: s, Logger: log, Rate: time.Second, Targets: map[string]action.Definition{
		"report": {Target: nightly, Idempotent: true},
		"deploy": {Target: pushed, Idempotent: true},
	}})
}

// run is that of examples/saas, in the API of before.
func run(ctx context.Context, cfg abide.Config, listener net.Listener, secret string) error {
	cfg.Serve, cfg.Worker = definitions, "saas"
	engine, err := abide.Open(ctx, cfg)
	if err != nil {
		return err
	}
	defer engine.Close()
	actions, err := newActions(engine.Store(), engine, slog.Default())
	if err != nil {
		return err
	}
	plan := action.Plan{Tenant: "default", ID: "nightly", Slug: "report", Target: "report", Cron: "30 2 * * *", Zone: "Europe/Berlin"}
	if _, err := actions.AddSchedule(ctx, plan); err != nil && !errors.Is(err, action.ErrExists) {
		return err
	}
	hooks, err := hook.New(hook.Config{Receiver: actions, Logger: slog.Default(), Hooks: []hook.Hook{{
		Tenant: "default", Slug: "github", Target: "deploy", Verify: hook.GitHub{Secrets: []hook.Secret{hook.NewSecret(secret)}},
	}}})
	if err != nil {
		return err
	}
	mounted, err := server.New(server.Config{Prefix: "/abide", Store: engine.Store(), Engine: engine, Actions: actions, Hooks: hooks, Page: true})
	if err != nil {
		return err
	}
	go func() { _ = actions.Run(ctx) }()
	go func() { _ = mounted.Run(ctx) }()
	mux := http.NewServeMux()
	mux.Handle("/abide/", mounted)
	web := &http.Server{Handler: mux}
	context.AfterFunc(ctx, func() { _ = web.Close() })
	if err := web.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// metrics: the type that a server takes them from is internal.
func metrics(ctx context.Context, listener net.Listener) error {
	return run(ctx, abide.Config{Store: os.Getenv("ABIDE_STORE")}, listener, "a secret of sixteen or more")
}

// configure sets the lease; builds have no IDs.
func configure(cfg *abide.Config) { cfg.Lease, _ = time.ParseDuration(os.Getenv("LEASE")) }
