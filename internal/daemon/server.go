package daemon

import (
	"context"
	"crypto/tls"
	"strings"

	"github.com/abidehq/abide/server"
	"github.com/abidehq/abide/server/durabletask"
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
		MaxSlots: max(d.cfg.Instances.MaxTurns, d.cfg.Instances.MaxActivities), WorkerQuota: d.cfg.Instances.WorkerQuota, Drain: d.cfg.Drain, Version: d.Version,
		MeterProvider: p.telemetry.MeterProvider(), Logger: d.log, Clock: d.clock,
	}
	if d.traced() {
		cfg.TracerProvider = p.telemetry.TracerProvider()
	}
	cfg.Register = p.durableTask(d).Register
	p.connected = workers.New(cfg)
}

// traced reports whether spans are sent.
func (d *daemon) traced() bool {
	return d.cfg.Telemetry.OTLP.Endpoint != "" && d.cfg.Telemetry.OTLP.TraceRatio > 0
}

// durableTask returns the backend of Durable Task SDKs, which is made when it is first asked for.
func (p *parts) durableTask(d *daemon) *durabletask.Service {
	if p.taskHubs != nil {
		return p.taskHubs
	}
	cfg := durabletask.Config{
		Engine: p.engine, Auth: p.guard, Retention: d.cfg.Instances.Retention, MaxSlots: max(d.cfg.Instances.MaxTurns, d.cfg.Instances.MaxActivities),
		MeterProvider: p.telemetry.MeterProvider(), Logger: d.log, Clock: d.clock,
	}
	if d.traced() {
		cfg.TracerProvider = p.telemetry.TracerProvider()
	}
	p.taskHubs = durabletask.New(cfg)
	return p.taskHubs
}
