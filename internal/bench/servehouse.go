package bench

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/action"
	"github.com/abidehq/abide/bus"
	"github.com/abidehq/abide/bus/outbox"
	"github.com/abidehq/abide/internal/telemetry"
	"github.com/abidehq/abide/server"
	"github.com/abidehq/abide/server/auth"
	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/timer"
)

// house is a server with all that stands behind it, as the verb serve has it: whoever is on
// this machine may do everything, and what they do is in the audit log.
type house struct {
	store     store.Store
	telemetry *telemetry.Telemetry
	engine    *abide.Engine
	timers    *timer.Service
	actions   *action.Service
	server    *server.Server
	http      *http.Server
	address   string // http://127.0.0.1:…

	stop    context.CancelFunc
	running sync.WaitGroup
}

const (
	// headerTimeout is how long a client may take to say what it wants.
	headerTimeout = 10 * time.Second

	// closeTimeout is how long it may take to give back what the house holds.
	closeTimeout = 5 * time.Second
)

// asleep is the orchestration of instances that sleep for longer than a run takes.
var asleep = abide.NewOrchestration(prefix+"asleep", func(ctx abide.Context, until time.Time) (abide.None, error) {
	return abide.None{}, abide.SleepUntil(ctx, until)
})

// greet and hello are what clients start.
var (
	greet = abide.NewActivity(prefix+"greet", func(_ context.Context, name string) (string, error) {
		return "Hello, " + name, nil
	})
	hello = abide.NewOrchestration(prefix+"hello", func(ctx abide.Context, name string) (string, error) {
		return greet.Call(ctx, name)
	})
)

// What a client says to hello, and gets.
const (
	helloInput  = "world"
	helloResult = "Hello, world"
)

// openHouse opens a store and serves it. What runs in the house and cannot go on is told to
// fail.
func openHouse(ctx context.Context, o *ServeOptions, fail func(error)) (*house, error) {
	s, err := openStore(ctx, o.Store)
	if err != nil {
		return nil, err
	}
	h := &house{store: s}
	if err := h.build(o); err != nil {
		return nil, errors.Join(fmt.Errorf("bench: make a server: %w", err), h.close())
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, errors.Join(fmt.Errorf("bench: listen: %w", err), h.close())
	}
	h.address = "http://" + listener.Addr().String()
	h.serve(ctx, listener, fail)
	return h, nil
}

// build makes all parts. Nothing runs yet but the engine.
func (h *house) build(o *ServeOptions) (err error) {
	if h.telemetry, err = telemetry.New(telemetry.Config{Service: prefix + "serve", Store: h.backlog, Logger: o.Logger}); err != nil {
		return err
	}
	meter := h.telemetry.Meter()
	h.engine, err = abide.New(h.store, abide.Config{Register: []abide.Definition{hello, greet, asleep}, Logger: o.Logger, MeterProvider: meter, WorkerName: tenant})
	if err != nil {
		return err
	}
	h.timers, err = timer.New(timer.Config{
		Store: h.store, Sinks: []outbox.Sink{{Name: localSink, Bus: &bus.Local{}}}, Logger: o.Logger, MeterProvider: meter,
	})
	if err != nil {
		return err
	}
	if h.actions, err = action.New(action.Config{Store: h.store, Logger: o.Logger, MeterProvider: meter}); err != nil {
		return err
	}
	anybody := auth.Identity{Kind: auth.Local, Subject: "local", Name: "local", Role: auth.Admin}
	guard, err := auth.New(auth.Config{Store: h.store, Anonymous: &anybody, Logger: o.Logger})
	if err != nil {
		return err
	}
	h.server, err = server.New(server.Config{
		Store: h.store, Engine: h.engine, Timers: h.timers, Actions: h.actions, Auth: guard, Telemetry: h.telemetry,
		Page: true, Version: "bench", Logger: o.Logger,
	})
	return err
}

// backlog says what waits in the store, for the charts of the page.
func (h *house) backlog(ctx context.Context) (telemetry.Backlog, error) {
	stats, err := h.store.Stats(ctx)
	if err != nil {
		return telemetry.Backlog{}, err
	}
	var b telemetry.Backlog
	for _, r := range stats.Routes {
		if r.Ready > 0 {
			b.Ready += r.Ready
			b.Age = max(b.Age, stats.Now.Sub(r.Oldest))
		}
	}
	return b, nil
}

// serve runs all parts until the house is closed.
func (h *house) serve(ctx context.Context, listener net.Listener, fail func(error)) {
	ctx, h.stop = context.WithCancel(context.WithoutCancel(ctx))
	h.http = &http.Server{Handler: h.server, ReadHeaderTimeout: headerTimeout}
	for name, run := range map[string]func(context.Context) error{
		"telemetry": h.telemetry.Run, "timers": h.timers.Run, "actions": h.actions.Run, "server": h.server.Run,
		"http": func(context.Context) error {
			if err := h.http.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
				return err
			}
			return nil
		},
	} {
		h.running.Go(func() {
			if err := run(ctx); err != nil && ctx.Err() == nil {
				fail(fmt.Errorf("bench: serve %s: %w", name, err))
			}
		})
	}
}

// close ends all parts that there are, and closes the store.
func (h *house) close() error {
	var errs []error
	if h.http != nil {
		h.server.Drain()
		errs = append(errs, h.http.Close())
		h.stop()
		h.running.Wait()
	}
	if h.engine != nil {
		errs = append(errs, h.engine.Close())
	}
	if h.telemetry != nil {
		ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
		defer cancel()
		errs = append(errs, h.telemetry.Close(ctx))
	}
	return errors.Join(append(errs, h.store.Close())...)
}
