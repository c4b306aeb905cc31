package workers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/internal/bench"
	"github.com/abidehq/abide/server"
	"github.com/abidehq/abide/server/auth"
	"github.com/abidehq/abide/server/telemetry"
	"github.com/abidehq/abide/server/workers"
	"github.com/abidehq/abide/store"
)

// stack is a server that takes workers, as "abide serve" does.
type stack struct {
	telemetry *telemetry.Telemetry
	engine    *abide.Engine
	api       *server.Server
	service   *workers.Service
	url       string

	stop    context.CancelFunc
	running sync.WaitGroup
}

// closeTimeout is how long it may take to give back what the stack holds.
const closeTimeout = 5 * time.Second

// openStack serves a store. A part that fails calls fail.
func openStack(ctx context.Context, s store.Store, log *slog.Logger, fail func(error)) (*stack, error) {
	h := &stack{}
	if err := h.build(s, log); err != nil {
		return nil, errors.Join(fmt.Errorf("bench: make a server: %w", err), h.close())
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, errors.Join(fmt.Errorf("bench: listen: %w", err), h.close())
	}
	h.url = "abide://" + listener.Addr().String()
	ctx, h.stop = context.WithCancel(context.WithoutCancel(ctx))
	for name, run := range map[string]func(context.Context) error{
		"telemetry": h.telemetry.Run, "server": h.api.Run, "workers": func(context.Context) error { return h.service.Serve(listener) },
	} {
		h.running.Go(func() {
			if err := run(ctx); err != nil && ctx.Err() == nil {
				fail(fmt.Errorf("bench: serve %s: %w", name, err))
			}
		})
	}
	return h, nil
}

// build makes all parts. Nothing runs yet but the engine.
func (h *stack) build(s store.Store, log *slog.Logger) (err error) {
	if h.telemetry, err = telemetry.New(telemetry.Config{Service: bench.Prefix + "workers", Store: telemetry.BacklogOf(s), Logger: log}); err != nil {
		return err
	}
	meter := h.telemetry.MeterProvider()
	if h.engine, err = abide.New(s, abide.Config{Logger: log, MeterProvider: meter, Unlisted: true}); err != nil {
		return err
	}
	local := auth.Identity{Kind: auth.Local, Subject: "local", Name: "local", Role: auth.Admin}
	guard, err := auth.New(auth.Config{Store: s, Anonymous: &local, Logger: log})
	if err != nil {
		return err
	}
	h.api, err = server.New(server.Config{Store: s, Engine: h.engine, Auth: guard, Telemetry: h.telemetry, Page: true, Version: "bench", Logger: log})
	if err != nil {
		return err
	}
	h.service = workers.New(workers.Config{
		Engine: h.engine, API: h.api, Problem: h.api.Problem, Auth: guard, MeterProvider: meter, Version: "bench", Logger: log,
	})
	return nil
}

// close ends all parts that there are.
func (h *stack) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	if h.stop != nil {
		h.service.Stop(ctx)
		h.stop()
		h.running.Wait()
	}
	var errs []error
	if h.engine != nil {
		errs = append(errs, h.engine.Close())
	}
	if h.telemetry != nil {
		errs = append(errs, h.telemetry.Close(ctx))
	}
	return errors.Join(errs...)
}
