package daemon

import (
	"context"
	"crypto/tls"
	"strings"

	"github.com/abidehq/abide/server"
	"github.com/abidehq/abide/server/operation"
	"github.com/abidehq/abide/server/workers"
)

func (p *parts) makeServer(_ context.Context, d *daemon) (err error) {
	p.operations, err = operation.New(operation.Config{Store: d.Store, Client: p.engine.Client, Clock: d.clock, Logger: d.log})
	if err != nil {
		return err
	}
	p.server, err = server.New(server.Config{
		Prefix: d.cfg.Prefix, Store: d.Store, Engine: p.engine, Timers: p.timers, Actions: p.actions, Hooks: p.hooks,
		Operations: p.operations, Auth: p.guard, Telemetry: p.telemetry, Page: d.cfg.Page, Hosts: d.cfg.Hosts,
		URL: strings.TrimSuffix(d.cfg.URL, "/"), Version: d.Version, Logger: d.log, Clock: d.clock,
	})
	return err
}

// makeWorkers makes what has workers run code, over connections that are secured as certs says.
func (p *parts) makeWorkers(d *daemon, certs *tls.Config) {
	cfg := workers.Config{
		Engine: p.engine, API: p.server, Problem: p.server.Problem, Auth: p.guard, TLS: certs, Retention: d.cfg.Instances.Retention,
		MaxSlots: max(d.cfg.Instances.MaxTurns, d.cfg.Instances.MaxActivities), Drain: d.cfg.Drain, Version: d.Version,
		MeterProvider: p.telemetry.MeterProvider(), Logger: d.log, Clock: d.clock,
	}
	if d.cfg.Telemetry.OTLP.Endpoint != "" && d.cfg.Telemetry.OTLP.TraceRatio > 0 {
		cfg.TracerProvider = p.telemetry.TracerProvider()
	}
	p.connected = workers.New(cfg)
}
