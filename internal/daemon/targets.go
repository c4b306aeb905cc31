package daemon

import (
	"fmt"
	"maps"
	"slices"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/action"
	"github.com/abidehq/abide/action/target"
	"github.com/abidehq/abide/internal/config"
	"github.com/abidehq/abide/internal/demo"
)

// makeTargets returns what actions can do.
func (p *parts) makeTargets(d *daemon) (map[string]action.Definition, error) {
	all := map[string]action.Definition{}
	for i := range d.cfg.Targets {
		t := &d.cfg.Targets[i]
		made, err := p.makeTarget(d, t)
		if err != nil {
			return nil, fmt.Errorf("targets[%d] (%s): %w", i, t.Name, err)
		}
		all[t.Name] = action.Definition{
			Target: made, Tenants: d.cfg.TenantsOf(t), HooksOnly: t.Only == config.OnlyHooks, Timeout: t.Timeout, Attempts: t.Attempts, Backoff: t.Backoff, Idempotent: t.Idempotent, MaxInFlight: t.MaxInFlight,
		}
	}
	if d.cfg.Demo {
		maps.Copy(all, demo.Targets(p.engine))
	}
	return all, nil
}

func (p *parts) makeTarget(d *daemon, t *config.Target) (action.Target, error) {
	switch t.Kind {
	case config.TargetCommand:
		return p.makeCommand(d, t)
	case config.TargetHTTP:
		allowed, err := prefixes(t.AllowedNetwork)
		if err != nil {
			return nil, err
		}
		return target.NewHTTP(target.HTTPConfig{
			Method: t.Method, URL: t.URL.Reveal(), AllowHTTP: t.AllowHTTP, Header: header(t.Headers),
			AllowPrivate: t.AllowPrivate, AllowedPrefixes: allowed,
		})
	case config.TargetOrchestration:
		return target.NewStart(target.StartConfig{
			Client: p.engine, Orchestration: t.Orchestration, Version: t.Version, ID: t.ID, All: t.Whole, Under: limitsOf(t.Under), Priority: t.Priority,
		})
	case config.TargetEvent:
		return target.NewRaise(target.RaiseConfig{Client: p.engine, Event: t.Event, Instance: t.Instance, All: t.Whole})
	case config.TargetTimer:
		return target.NewTimer(target.TimerConfig{Service: p.timers, Key: t.TimerKey, Delay: t.Delay})
	default:
		return nil, fmt.Errorf("unknown kind %q", t.Kind)
	}
}

// limitsOf returns limits under which instances are started.
func limitsOf(all []config.Under) []target.Under {
	var limits []target.Under
	for i := range all {
		u := &all[i]
		var opts []abide.LimitOption
		if u.Concurrency > 0 {
			opts = append(opts, abide.Concurrency(u.Concurrency))
		}
		if u.Rate != 0 || u.Per != 0 || u.Burst != 0 {
			opts = append(opts, abide.Rate(u.Rate, u.Per).Burst(u.Burst))
		}
		if u.Key != "" {
			opts = append(opts, abide.PerKey())
		}
		limits = append(limits, target.Under{Limit: abide.NewLimit(u.Limit, opts...), Key: u.Key})
	}
	return limits
}

// makeCommand returns a command that could be run right now.
func (p *parts) makeCommand(d *daemon, t *config.Target) (action.Target, error) {
	cfg := target.CommandConfig{Argv: t.Command, Dir: t.Dir, Grace: t.Grace, Clock: d.clock}
	if len(t.Inherit) > 0 {
		cfg.Inherit = append(slices.Clone(target.DefaultInherit), t.Inherit...)
	}
	for _, name := range slices.Sorted(maps.Keys(t.Env)) {
		cfg.Env = append(cfg.Env, name+"="+t.Env[name].Reveal())
	}
	command, err := target.NewCommand(cfg)
	if err != nil {
		return nil, err
	}
	if err := command.Check(); err != nil {
		return nil, err
	}
	return command, nil
}
