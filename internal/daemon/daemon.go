package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"

	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/internal/config"
	"github.com/abidehq/abide/store"
)

// Options are given by the program that starts a daemon.
type Options struct {
	Config *config.Config

	// Store is open, and stays the caller's.
	Store store.Store

	// Socket is where others on this machine are served who may read the store anyway; nil
	// if there is none. Who comes in there may do everything.
	Socket net.Listener

	// Version is that of the program.
	Version string

	Logger *slog.Logger
	Clock  base.Clock

	// Notify tells the service manager how the process is doing.
	Notify func(ctx context.Context, state string) error

	// Ready is called when everything is served.
	Ready func(Serving)

	// Reload has certificates read again, each time that something comes out of it.
	Reload <-chan struct{}
}

// Serving says what is served, and where.
type Serving struct {
	URL     string // of the page and the API
	Workers string // where workers connect; empty if none can

	TaskHubs string // where Durable Task SDKs connect besides; empty if they have no port of their own

	Admin   string // of profiles and metrics; empty if there is none
	Guarded bool   // who comes in has to say who they are
	Exposed bool   // others than this machine reach it
	TLS     bool
}

// daemon is one that runs.
type daemon struct {
	Options
	cfg   *config.Config
	log   *slog.Logger
	clock base.Clock
	parts *parts

	// draining ends when the daemon is to stop.
	draining context.Context //nolint:containedctx // that of all streams
	drain    context.CancelFunc

	fail context.CancelCauseFunc // ends the daemon because a part of it has failed
}

// Run serves until ctx ends, and then comes to an end in good order. It returns an error
// if it cannot begin, or if a part of it fails.
func Run(ctx context.Context, o Options) error {
	d := &daemon{Options: o, cfg: o.Config, log: o.Logger, clock: o.Clock}
	if d.clock == nil {
		d.clock = base.System{}
	}
	if d.log == nil {
		d.log = slog.Default()
	}
	d.draining, d.drain = context.WithCancel(context.Background())
	defer d.drain()
	alive, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	d.fail = fail

	var err error
	if d.parts, err = assemble(ctx, d); err != nil {
		return err
	}
	defer d.parts.close(d.log)
	front, err := d.open(ctx)
	if err != nil {
		return err
	}
	defer front.close()

	work := d.begin(ctx, d.parts.workers())
	defer work.end()
	house := d.begin(ctx, d.parts.house())
	defer house.end()
	front.serve(d)
	d.tell(ctx, "READY=1")
	if o.Ready != nil {
		o.Ready(front.serving)
	}
	d.wait(alive, front)
	d.end(front, work)
	if cause := context.Cause(alive); ctx.Err() == nil && cause != nil && !errors.Is(cause, context.Canceled) {
		return cause
	}
	return nil
}

// runner is a part that does something until its context ends.
type runner struct {
	name string
	run  func(ctx context.Context) error
}

// group are parts that run.
type group struct {
	stop    context.CancelFunc
	running sync.WaitGroup
}

// begin runs parts until their group is ended.
func (d *daemon) begin(ctx context.Context, all []runner) *group {
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	g := &group{stop: stop}
	for _, p := range all {
		g.running.Go(func() { d.keep(ctx, p) })
	}
	return g
}

// end has the parts come to their end, and waits for them.
func (g *group) end() {
	g.stop()
	g.running.Wait()
}

// keep runs a part. If it cannot go on, neither can the rest: something that looks healthy
// and does nothing is worse than something that is down.
func (d *daemon) keep(ctx context.Context, p runner) {
	err := p.run(ctx)
	if err == nil && ctx.Err() == nil {
		err = errors.New("it has ended")
	}
	if err != nil && ctx.Err() == nil {
		d.log.Error("component failed", "part", p.name, "error", err)
		d.fail(fmt.Errorf("%s: %w", p.name, err))
	} else if err != nil && !errors.Is(err, context.Canceled) {
		d.log.Warn("component stopped with an error", "part", p.name, "error", err)
	}
}

// wait returns when the daemon is to stop.
func (d *daemon) wait(ctx context.Context, f *front) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-d.Reload:
			f.reload(d.log)
		}
	}
}

// end comes to an end in good order. What is done about requests, such as the audit log,
// goes on until there are none.
func (d *daemon) end(f *front, work *group) {
	// Signals and failures have ended the other contexts; this one has the time that is
	// left.
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	defer d.clock.AfterFunc(d.cfg.Drain, cancel)()
	d.log.Info("server stopping, draining", "drain", d.cfg.Drain.String())
	d.parts.server.Drain() // before anything else: who looks at /readyz goes elsewhere
	f.leave()
	d.tell(ctx, "STOPPING=1")
	d.drain()
	work.stop()
	var workers sync.WaitGroup
	if d.parts.connected != nil {
		workers.Go(func() { d.parts.connected.Stop(ctx) })
	}
	if d.parts.taskHubs != nil {
		workers.Go(func() { d.parts.taskHubs.Stop(ctx) })
	}
	if err := d.parts.engine.Shutdown(ctx); err != nil {
		d.log.Warn("activities interrupted, they will run again", "error", err)
	}
	workers.Wait()
	work.end()
	_ = base.Sleep(ctx, d.clock, d.cfg.Linger) // an end of the time for it ends it
	f.stop(ctx, d)
	d.log.Info("server stopped")
}

func (d *daemon) tell(ctx context.Context, state string) {
	if d.Notify == nil {
		return
	}
	if err := d.Notify(ctx, state); err != nil {
		d.log.Warn("sd_notify failed", "state", state, "error", err)
	}
}
