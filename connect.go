package abide

import (
	"context"
	"fmt"

	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/internal/dial"
	"github.com/abidehq/abide/internal/engine"
	"github.com/abidehq/abide/internal/schema"
	"github.com/abidehq/abide/store"
)

func init() {
	dial.Observed = func(e any) store.Store { return e.(*Engine).e.Observed() }
}

// connect returns an engine that a server elsewhere has, and which has this process run its code.
func connect(ctx context.Context, cfg Config) (*Engine, error) {
	open := dial.Lookup(dial.Scheme)
	if open == nil {
		return nil, fmt.Errorf("abide: open: no package for URLs of scheme %q: import _ \"github.com/abidehq/abide/remote\": %w", dial.Scheme, ErrInvalid)
	}
	cfg.setDefaults()
	p, err := cfg.program()
	if err != nil {
		return nil, err
	}
	if cfg.Clock == nil {
		cfg.Clock = base.System{}
	}
	link, err := open(ctx, dial.Program{
		URL: cfg.Store, Token: cfg.Token, Executor: p.code, Routes: p.routes, Pins: p.pins, Activities: p.activities, Entities: p.entities, Signatures: p.signatures,
		Ready: func(learn func(route, event string, s *schema.Schema) string) { p.learner.learn = learn },
		Clock: cfg.Clock, Logger: cfg.Logger, MeterProvider: cfg.MeterProvider, TracerProvider: cfg.TracerProvider, MaxTurns: cfg.MaxTurns, MaxActivities: cfg.MaxActivities, MaxInFlight: cfg.MaxInFlight, CacheSize: cfg.CacheSize,
		LeaseDuration: cfg.LeaseDuration, Retention: cfg.Retention, StepCommitInterval: cfg.StepCommitInterval, DeadlockTimeout: cfg.DeadlockTimeout,
		MaxHistory: cfg.MaxHistory, MaxHistoryBytes: cfg.MaxHistoryBytes, Build: cfg.Build, WorkerName: cfg.workerName(),
	})
	if err != nil {
		return nil, fmt.Errorf("abide: open: %w", err)
	}
	all, ok := link.Transport().(operatorTransport)
	if !ok {
		return nil, fmt.Errorf("abide: open: the package for URLs of scheme %q is of another release: %w", dial.Scheme, ErrInvalid)
	}
	t := &linkTransport{operatorTransport: all, link: link}
	return &Engine{Client: ClientOver(t, cfg.Codec), link: link, drain: cfg.DrainTimeout, close: func() error { return nil }}, nil
}

// operatorTransport is all that a transport can do.
type operatorTransport interface {
	Transport
	Operator
	BuildOperator
	EntityTransport
	LimitTransport
	Watcher
}

// linkTransport is the transport to a server by the connection of a worker. What is called most often goes
// the way of turns and activities, and the rest that of the HTTP API.
type linkTransport struct {
	operatorTransport
	link dial.Link
}

func (t *linkTransport) Start(ctx context.Context, requests []StartRequest) ([]Started, error) {
	return startWith(ctx, requests, t.link.Start)
}

func (t *linkTransport) WaitChange(ctx context.Context, ref Ref, after int64) (Info, error) {
	return infoFrom(t.link.Await(ctx, refOf(ref), after))
}

// startWith starts instances by a call of the engine's client, here or elsewhere.
func startWith(ctx context.Context, requests []StartRequest, start func(context.Context, ...engine.Start) ([]engine.Started, error)) ([]Started, error) {
	starts := make([]engine.Start, len(requests))
	for i := range requests {
		r := &requests[i]
		starts[i] = engine.Start{
			Ref: refOf(r.Ref), Name: r.Orchestration, Version: r.Version, Input: r.Input, Tags: r.Tags, At: r.At, After: r.After,
			IfExists: engine.IfExists(r.IfExists), Schema: r.schema, Unchecked: r.Unchecked, New: r.newID, Limits: r.Limits, Priority: clamp(r.Priority),
		}
		for _, status := range r.ReplaceIf {
			starts[i].Replaceable = append(starts[i].Replaceable, engine.Status(status))
		}
	}
	done, err := start(ctx, starts...)
	if err != nil {
		return nil, err
	}
	started := make([]Started, len(done))
	for i := range done {
		started[i] = Started{Ref: refFrom(done[i].Ref), Existed: done[i].Existed, Unserved: done[i].Unserved, Revision: done[i].Revision}
	}
	return started, nil
}
