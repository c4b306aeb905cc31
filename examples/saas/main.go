// Command saas is a subscription service: trials with reminders, billing, provisioning, mails to many,
// refunds that a person approves, a report every night, and deployments that GitHub starts.
// docs/guide.md builds it up part by part.
//
//	go run ./examples/saas
//	curl -d '{"id": "customer7", "mail": "customer7@example.com", "plan": "free"}' http://127.0.0.1:8080/signup
//	curl -H 'Content-Type: application/json' -d '"pro"' http://127.0.0.1:8080/abide/api/v1/instances/default/trial-customer7/events/upgraded
//	open http://127.0.0.1:8080/abide/
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/action"
	"github.com/abidehq/abide/server"

	_ "github.com/abidehq/abide/store/pebblestore" // the embedded store
)

func main() {
	if err := serve(); err != nil {
		log.Fatal(err)
	}
}

// serve serves until the process is asked to stop.
func serve() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	listener, err := net.Listen("tcp", "127.0.0.1:8080")
	if err != nil {
		return err
	}
	fmt.Println("the service is at http://127.0.0.1:8080/, and Abide at http://127.0.0.1:8080/abide/")
	return run(ctx, abide.Config{Store: os.Getenv("ABIDE_STORE")}, listener, os.Getenv("GITHUB_SECRET"))
}

// guide: run
// run serves until ctx ends. Then it stops in this order: requests, actions, the engine, the store.
func run(ctx context.Context, cfg abide.Config, listener net.Listener, secret string) (err error) {
	cfg.Register = definitions
	engine, err := abide.Open(ctx, cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, engine.Close()) }() // last: it lets activities end, and closes the store

	actions, err := newActions(engine.Store(), engine, slog.Default())
	if err != nil {
		return err
	}
	if _, err := actions.AddSchedule(ctx, nightly); err != nil && !errors.Is(err, action.ErrExists) {
		return err
	}
	abideServer, err := newServer(engine, actions, secret)
	if err != nil {
		return err
	}
	background, stopBackground := context.WithCancel(context.Background())
	var services sync.WaitGroup
	defer services.Wait()
	defer stopBackground() // after the requests, which may need them
	for _, service := range []interface {
		Run(ctx context.Context) error
	}{actions, abideServer} {
		services.Go(func() {
			if err := service.Run(background); err != nil {
				slog.Error("service stopped", "error", err)
			}
		})
	}

	web := &http.Server{Handler: routes(engine, abideServer), ReadHeaderTimeout: 10 * time.Second}
	web.RegisterOnShutdown(abideServer.Drain) // or those who watch would hold it up
	failed := make(chan error, 1)
	go func() { failed <- web.Serve(listener) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	late, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return web.Shutdown(late) // returns when the requests under way are answered
}

// newServer returns Abide's page, API and webhooks. The command line reaches it by a socket beside the
// store. There is no guard: see docs/security.md before others can reach it.
func newServer(engine *abide.Engine, actions *action.Service, secret string) (*server.Server, error) {
	cfg := server.Config{Prefix: "/abide", Store: engine.Store(), Engine: engine, Actions: actions, Page: true, Socket: true}
	if secret != "" {
		hooks, err := newHooks(actions, secret, slog.Default())
		if err != nil {
			return nil, err
		}
		cfg.Hooks = hooks
	}
	return server.New(cfg)
}
