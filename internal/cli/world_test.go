package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/action"
	"github.com/abidehq/abide/bus"
	"github.com/abidehq/abide/bus/outbox"
	"github.com/abidehq/abide/server"
	"github.com/abidehq/abide/server/auth"
	"github.com/abidehq/abide/server/operation"
	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/timer"
)

// order is what the world of the scripts serves: it charges, and then waits for what its
// input says.
type order struct {
	Item string `json:"item,omitempty"`
	Fail int    `json:"fail,omitempty"` // how many attempts fail
	Wait string `json:"wait,omitempty"` // event or timer
}

var (
	errDeclinedCard = abide.NewError("card-declined", "the card was declined")
	orderApproved   = abide.NewEvent[string]("approved")
	orderCharge     = abide.NewActivity("charge", func(ctx context.Context, in order) (string, error) {
		info, _ := abide.ActivityOf(ctx)
		if info.Attempt <= in.Fail {
			return "", errDeclinedCard
		}
		return "ch_1", nil
	}, abide.Retry(2).Backoff(time.Millisecond, 1, time.Millisecond))
	worldOrder = abide.NewOrchestration("order", func(ctx abide.Context, in order) (string, error) {
		abide.SetStatus(ctx, "charging")
		charge, err := orderCharge.Call(ctx, in)
		if err != nil {
			return "", err
		}
		abide.SetStatus(ctx, "charged")
		switch in.Wait {
		case "event":
			by, err := orderApproved.Wait(ctx)
			return charge + " by " + by, err
		case "timer":
			return charge, abide.Sleep(ctx, 72*time.Hour, abide.Named("return-window"))
		default:
			return charge, nil
		}
	})
	worldExported = abide.NewActivity("write", func(_ context.Context, customer string) (string, error) { return "wrote " + customer, nil })
	worldExports  = abide.NewLimit("exports", abide.Concurrency(2), abide.Rate(1000, time.Second))
	worldCustomer = abide.NewLimit("customer", abide.Concurrency(1), abide.PerKey())
	worldExport   = abide.NewOrchestration("export", func(ctx abide.Context, customer string) (string, error) {
		return worldExported.Call(ctx, customer, abide.Under(worldExports), abide.UnderKey(worldCustomer, customer))
	})
	worldGreet = abide.NewOrchestration("greet", func(_ abide.Context, name string) (string, error) {
		return "hello, " + name, nil
	})
)

// refusing is a sink that takes nothing.
type refusing struct{}

func (refusing) Publish(context.Context, []bus.Envelope) error {
	return fmt.Errorf("nobody wants it: %w", bus.ErrPermanent)
}

// world is a program that serves a store with a few orchestrations, at its socket and at a
// port, whose address it writes to the file url. It ends with SIGTERM.
//
//	world DIR [TOKEN]
//
// With a token, who comes to the port needs it.
func world() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	err := serveWorld(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func serveWorld(ctx context.Context, args []string) (err error) {
	dir, err := filepath.Abs(args[0])
	if err != nil {
		return err
	}
	st, err := store.Open(ctx, "pebble://"+dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	engine, err := abide.New(st, abide.Config{Register: []abide.Definition{worldOrder, worldGreet, worldExport, orderCharge, worldExported}, Logger: log, WorkerName: "world"})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, engine.Close()) }()
	timers, err := timer.New(timer.Config{Store: st, Logger: log, Sinks: []outbox.Sink{
		{Name: "good", Bus: &bus.Local{}}, {Name: "bad", Bus: refusing{}},
	}})
	if err != nil {
		return err
	}
	actions, err := action.New(action.Config{Store: st, Logger: log})
	if err != nil {
		return err
	}
	operations, err := operation.New(operation.Config{Store: st, Client: engine.Client, Logger: log})
	if err != nil {
		return err
	}
	config := server.Config{Store: st, Engine: engine, Timers: timers, Actions: actions, Operations: operations, Version: "v0", Logger: log, Socket: true}
	handler, err := worldServer(config, args[1:])
	if err != nil {
		return err
	}
	port, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	var wg sync.WaitGroup
	for _, run := range []func(context.Context) error{timers.Run, handler.Run} {
		wg.Go(func() {
			if err := run(ctx); err != nil {
				fmt.Fprintln(os.Stderr, err)
			}
		})
	}
	others := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	wg.Go(func() { _ = others.Serve(port) })
	if err := os.WriteFile("url", []byte("http://"+port.Addr().String()), 0o600); err != nil {
		return err
	}
	<-ctx.Done()
	handler.Drain()
	err = others.Close()
	wg.Wait()
	return err
}

// worldServer returns a server at which everybody may do everything, or which wants a token.
func worldServer(config server.Config, token []string) (s *server.Server, err error) {
	guard := auth.Config{Store: config.Store, Logger: config.Logger}
	if len(token) == 0 {
		guard.Anonymous = &auth.Identity{Kind: auth.Local, Subject: "local", Name: "local", Role: auth.Admin}
	} else {
		guard.AdminToken = token[0]
	}
	if config.Auth, err = auth.New(guard); err != nil {
		return nil, err
	}
	return server.New(config)
}
