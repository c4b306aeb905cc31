package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/action"
	"github.com/abidehq/abide/bus"
	"github.com/abidehq/abide/bus/outbox"
	"github.com/abidehq/abide/internal/bench"
	"github.com/abidehq/abide/server"
	"github.com/abidehq/abide/server/auth"
	"github.com/abidehq/abide/server/telemetry"
	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/timer"
)

// stack is a server with all that stands behind it, as "abide serve" has it: callers from
// this machine are administrators, and their calls are in the audit log.
type stack struct {
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

	// closeTimeout is how long it may take to give back what the stack holds.
	closeTimeout = 5 * time.Second
)

// sleeper is the orchestration of instances that sleep for longer than a run takes.
var sleeper = abide.NewOrchestration(bench.Prefix+"asleep", func(ctx abide.Context, until time.Time) (abide.None, error) {
	return abide.None{}, abide.SleepUntil(ctx, until)
})

// greet and hello are what clients start.
var (
	greet = abide.NewActivity(bench.Prefix+"greet", func(_ context.Context, name string) (string, error) {
		return "Hello, " + name, nil
	})
	hello = abide.NewOrchestration(bench.Prefix+"hello", func(ctx abide.Context, name string) (string, error) {
		return greet.Call(ctx, name)
	})
)

// What a client says to hello, and gets.
const (
	helloInput  = "world"
	helloResult = "Hello, world"
)

// openStack serves a store. A part that fails calls fail.
func openStack(ctx context.Context, s store.Store, log *slog.Logger, fail func(error)) (*stack, error) {
	h := &stack{store: s}
	if err := h.build(log); err != nil {
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
func (h *stack) build(log *slog.Logger) (err error) {
	if h.telemetry, err = telemetry.New(telemetry.Config{Service: bench.Prefix + "serve", Store: telemetry.BacklogOf(h.store), Logger: log}); err != nil {
		return err
	}
	meter := h.telemetry.MeterProvider()
	h.engine, err = abide.New(h.store, abide.Config{Register: []abide.Definition{hello, greet, sleeper}, Logger: log, MeterProvider: meter, WorkerName: tenant})
	if err != nil {
		return err
	}
	h.timers, err = timer.New(timer.Config{
		Store: h.store, Sinks: []outbox.Sink{{Name: tenant, Bus: &bus.Local{}}}, Logger: log, MeterProvider: meter,
	})
	if err != nil {
		return err
	}
	if h.actions, err = action.New(action.Config{Store: h.store, Logger: log, MeterProvider: meter}); err != nil {
		return err
	}
	local := auth.Identity{Kind: auth.Local, Subject: "local", Name: "local", Role: auth.Admin}
	guard, err := auth.New(auth.Config{Store: h.store, Anonymous: &local, Logger: log})
	if err != nil {
		return err
	}
	h.server, err = server.New(server.Config{
		Store: h.store, Engine: h.engine, Timers: h.timers, Actions: h.actions, Auth: guard, Telemetry: h.telemetry,
		Page: true, Version: "bench", Logger: log,
	})
	return err
}

// serve runs all parts until the stack is closed.
func (h *stack) serve(ctx context.Context, listener net.Listener, fail func(error)) {
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

// close ends all parts that there are.
func (h *stack) close() error {
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
	return errors.Join(errs...)
}
