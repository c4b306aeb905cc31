package main

import (
	"context"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/server"
	"github.com/abidehq/abide/server/telemetry"
)

// open opens an engine that serves these definitions.
func open(ctx context.Context, serves ...abide.Definition) (*abide.Engine, error) {
	return abide.Open(ctx, abide.Config{Store: os.Getenv("ABIDE_STORE"), Register: serves})
}

// raise upgrades a customer who must be there.
func raise(ctx context.Context, engine *abide.Engine, id string) error {
	return Upgraded.Raise(ctx, engine, id, "pro", abide.MustExist())
}

// metrics serves the metrics of a mounted server.
func metrics(ctx context.Context, listener net.Listener) error {
	measured, err := telemetry.New(telemetry.Config{Service: "saas"})
	if err != nil {
		return err
	}
	engine, err := abide.Open(ctx, abide.Config{Store: os.Getenv("ABIDE_STORE"), Register: definitions, MeterProvider: measured.MeterProvider()})
	if err != nil {
		return err
	}
	defer engine.Close()
	mounted, err := server.New(server.Config{Prefix: "/abide", Store: engine.Store(), Engine: engine, Telemetry: measured, Page: true})
	if err != nil {
		return err
	}
	web := &http.Server{Handler: mounted}
	context.AfterFunc(ctx, func() { _ = web.Close() })
	return web.Serve(listener)
}

// configure sets the ID of the build, which Go notes in binaries of committed sources, and the lease.
func configure(cfg *abide.Config) {
	cfg.Build = os.Getenv("BUILD")
	cfg.LeaseDuration, _ = time.ParseDuration(os.Getenv("LEASE")) // none is the default
}
