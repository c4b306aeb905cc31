package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/action"
	"github.com/abidehq/abide/action/hook"
	"github.com/abidehq/abide/internal/config"
	"github.com/abidehq/abide/internal/demo"
	"github.com/abidehq/abide/server"
	"github.com/abidehq/abide/server/auth"
	"github.com/abidehq/abide/server/durabletask"
	"github.com/abidehq/abide/server/operation"
	"github.com/abidehq/abide/server/telemetry"
	"github.com/abidehq/abide/server/workers"
	"github.com/abidehq/abide/timer"
)

// parts are what a daemon consists of.
type parts struct {
	telemetry  *telemetry.Telemetry
	engine     *abide.Engine
	timers     *timer.Service
	actions    *action.Service
	hooks      http.Handler
	operations *operation.Service
	guard      *auth.Guard
	server     *server.Server
	connected  *workers.Service     // nil if no workers can connect
	taskHubs   *durabletask.Service // nil if no SDKs can connect

	more    []runner
	closers []func()
}

// assemble makes all parts, as the configuration says. Nothing runs yet.
func assemble(ctx context.Context, d *daemon) (*parts, error) {
	p := &parts{}
	for _, build := range []func(context.Context, *daemon) error{
		p.makeTelemetry, p.makeEngine, p.makeTimers, p.makeActions, p.makeGuard, p.makeHooks, p.makeServer,
	} {
		if err := build(ctx, d); err != nil {
			p.close(d.log)
			return nil, err
		}
	}
	return p, nil
}

// workers are the parts that claim work.
func (p *parts) workers() []runner {
	return append([]runner{{"engine", p.runEngine}, {"timers", p.timers.Run}, {"actions", p.actions.Run}}, p.more...)
}

// runEngine returns when ctx ends, or why the engine serves nothing any more.
func (p *parts) runEngine(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-p.engine.Done():
		return p.engine.Err()
	}
}

// house are the parts that are there until the end.
func (p *parts) house() []runner {
	return []runner{{"telemetry", p.telemetry.Run}, {"server", p.server.Run}}
}

// close gives back what the parts hold, the latest first.
func (p *parts) close(log *slog.Logger) {
	for _, closer := range slices.Backward(p.closers) {
		closer()
	}
	p.closers = nil
	if p.engine != nil {
		if err := p.engine.Close(); err != nil {
			log.Warn("engine closed with an error", "error", err)
		}
	}
	if p.telemetry != nil {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := p.telemetry.Close(ctx); err != nil {
			log.Warn("telemetry shutdown incomplete", "error", err)
		}
	}
}

func (p *parts) makeTelemetry(_ context.Context, d *daemon) (err error) {
	t := &d.cfg.Telemetry
	interval := t.OTLP.Interval
	if !t.OTLP.Metrics {
		interval = -1
	}
	p.telemetry, err = telemetry.New(telemetry.Config{
		Service: t.Service, Version: d.Version, Attributes: t.Attributes,
		OTLP: telemetry.OTLP{
			Endpoint: t.OTLP.Endpoint, Headers: reveal(t.OTLP.Headers), Interval: interval, Ratio: t.OTLP.TraceRatio,
		},
		Store: telemetry.BacklogOf(d.Store), Clock: d.clock, Logger: d.log,
	})
	return err
}

func (p *parts) makeEngine(_ context.Context, d *daemon) (err error) {
	cfg := abide.Config{
		Logger: d.log, MaxTurns: d.cfg.Instances.MaxTurns, MaxActivities: d.cfg.Instances.MaxActivities,
		Retention: d.cfg.Instances.Retention, DrainTimeout: d.cfg.Drain, WorkerName: worker(d.cfg),
		Quota:         abide.Quota{Open: d.cfg.Instances.Quota, Unserved: d.cfg.Instances.UnservedQuota},
		MeterProvider: p.telemetry.MeterProvider(),
	}
	if d.cfg.Telemetry.OTLP.Endpoint != "" && d.cfg.Telemetry.OTLP.TraceRatio > 0 {
		cfg.TracerProvider = p.telemetry.TracerProvider() // nil if traces are not exported
	}
	if d.cfg.Demo {
		cfg.Register = demo.Serve()
	}
	p.engine, err = abide.New(d.Store, cfg)
	return err
}

// worker is the name under which the process shows among workers.
func worker(cfg *config.Config) string {
	if cfg.Worker != "" {
		return cfg.Worker
	}
	if name, err := os.Hostname(); err == nil && name != "" {
		return name
	}
	return "abide"
}

func (p *parts) makeTimers(ctx context.Context, d *daemon) error {
	sinks, err := p.makeSinks(ctx, d)
	if err != nil {
		return err
	}
	t := &d.cfg.Timers
	cfg := timer.Config{
		Store: d.Store, Sinks: sinks, SinksOf: sinksOf(d.cfg, sinks), Quota: t.Quota, MaxPayload: int(t.MaxPayload),
		Retention: t.Retention, Logger: d.log, MeterProvider: p.telemetry.MeterProvider(), Clock: d.clock,
	}
	if len(t.Quotas) > 0 {
		cfg.QuotaOf = func(tenant string) int {
			if quota, has := t.Quotas[tenant]; has {
				return quota
			}
			return t.Quota
		}
	}
	if p.timers, err = timer.New(cfg); err != nil {
		return err
	}
	if !t.Commands.URL.IsZero() {
		p.more = append(p.more, runner{"commands from NATS", p.commands(d)})
	}
	return nil
}

func (p *parts) makeActions(_ context.Context, d *daemon) error {
	targets, err := p.makeTargets(d)
	if err != nil {
		return err
	}
	a := &d.cfg.Actions
	output := int(a.Output)
	if output == 0 {
		output = -1
	}
	p.actions, err = action.New(action.Config{
		Store: d.Store, Targets: targets, Rate: a.TickRate, Slots: a.Slots, DrainTimeout: d.cfg.Drain, Output: output,
		Retention: a.Retention, WorkerName: worker(d.cfg), Logger: d.log, MeterProvider: p.telemetry.MeterProvider(), Clock: d.clock,
	})
	if err != nil {
		return err
	}
	if d.cfg.Demo {
		p.more = append(p.more, runner{"demo", func(ctx context.Context) error {
			return demo.Run(ctx, demo.Config{Client: p.engine, Timers: p.timers, Actions: p.actions, Clock: d.clock, Logger: d.log})
		}})
	}
	return nil
}

func (p *parts) makeHooks(_ context.Context, d *daemon) error {
	var hooks []hook.Hook
	for i := range d.cfg.Hooks {
		h := &d.cfg.Hooks[i]
		verifier := h.Verifier()
		hooks = append(hooks, hook.Hook{
			Slug: h.Slug, Tenant: h.Tenant, Target: h.Target, Verify: verifier, Unverified: verifier == nil,
			MaxBody: int(h.MaxBody), Rate: h.Rate, Burst: h.Burst, Headers: h.Headers, Events: h.Events,
		})
	}
	if d.cfg.Demo {
		hooks = append(hooks, hook.Hook{
			Slug: demo.HookSlug, Tenant: "default", Target: demo.TargetOrder, Unverified: true, Rate: 5, MaxBody: 16 << 10,
		})
	}
	handler, err := hook.New(hook.Config{
		Receiver: p.actions, Hooks: hooks, Logger: d.log, MeterProvider: p.telemetry.MeterProvider(), Clock: d.clock, Remote: p.guard.Remote,
	})
	if err != nil {
		return err
	}
	p.hooks = handler
	return nil
}

// anonymous is the identity of callers on loopback where authentication is off: any user of this
// machine. What lasts longer than that, such as tokens, is not for them.
var anonymous = auth.Identity{Kind: auth.Local, Subject: "anonymous", Name: "anonymous", Role: auth.Operate}

func (p *parts) makeGuard(ctx context.Context, d *daemon) (err error) {
	a := &d.cfg.Auth
	cfg := auth.Config{
		Store: d.Store, Prefix: d.cfg.Prefix, URL: d.cfg.URL, AdminToken: a.AdminToken.Reveal(), Rate: a.Rate,
		AuditRetention: a.Audit.Retention, AuditRequired: a.Audit.Required, Logger: d.log, Clock: d.clock,
	}
	if !d.cfg.Guarded() {
		anybody := anonymous
		cfg.Anonymous = &anybody
	}
	for _, network := range a.Proxies {
		prefix, err := netip.ParsePrefix(network)
		if err != nil {
			return fmt.Errorf("auth.proxies: %w", err)
		}
		cfg.Proxies = append(cfg.Proxies, prefix)
	}
	for i := range a.Certificates {
		c := &a.Certificates[i]
		cfg.Certificates = append(cfg.Certificates, auth.Certificate{
			CommonName: c.CommonName, DNS: c.DNS, URI: c.URI, Email: c.Email, Name: c.Name,
			Role: auth.Role(c.Role), Tenants: c.Tenants, Serve: c.Serve,
		})
	}
	if o := &a.OIDC; o.Issuer != "" {
		roles := map[auth.Role][]string{}
		for role, values := range o.Roles {
			roles[auth.Role(role)] = values
		}
		cfg.OIDC = &auth.OIDC{
			Name: o.Name, Issuer: o.Issuer, ClientID: o.ClientID, ClientSecret: o.ClientSecret.Reveal(), Scopes: o.Scopes,
			RoleClaim: o.RoleClaim, Roles: roles, TenantClaim: o.TenantClaim, Tenants: o.Tenants,
		}
	}
	if p.guard, err = auth.New(cfg); err != nil || !d.cfg.Guarded() {
		return err
	}
	unproved, err := p.guard.FirstGuarded(ctx)
	if err != nil {
		return err
	}
	for i := range unproved {
		t := &unproved[i]
		d.log.Warn("token created while authentication was off", "id", t.ID, "name", t.Name, "role", t.Role,
			"tenants", t.Tenants, "created_at", t.CreatedAt, "revoke", "abide tokens revoke "+t.ID)
	}
	return nil
}
