package daemon

import (
	"context"
	"strings"

	"github.com/abidehq/abide/server"
	"github.com/abidehq/abide/server/operation"
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
