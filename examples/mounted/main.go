// Command mounted is a shop with a web page of its own, in which Abide runs: its page with charts,
// its API, its metrics and its webhooks are mounted beside the shop's routes, at /abide/.
//
//	go run ./examples/mounted
//	curl -X POST http://127.0.0.1:8080/orders/17
//	open http://127.0.0.1:8080/abide/
//	abide instances list --db abide-data
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
	"github.com/abidehq/abide/server"
	"github.com/abidehq/abide/server/telemetry"

	_ "github.com/abidehq/abide/store/pebblestore" // the embedded store
)

// Order waits for the event paid, for two weeks at most, and ships.
var Order = abide.NewOrchestration("order", func(ctx abide.Context, number string) (string, error) {
	abide.SetStatus(ctx, "waits for the money")
	if _, err := Paid.Wait(ctx, abide.Timeout(14*24*time.Hour)); err != nil {
		return "", err
	}
	return Ship.Call(ctx, number)
})

// Paid is raised when the money is there.
var Paid = abide.NewEvent[bool]("paid")

// Ship sends the parcel.
var Ship = abide.NewActivity("ship", func(_ context.Context, number string) (string, error) {
	return "parcel of order " + number, nil
})

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
	fmt.Println("the shop is at http://127.0.0.1:8080/, and Abide at http://127.0.0.1:8080/abide/")
	return run(ctx, abide.Config{}, listener)
}

// run serves until ctx ends. Then it stops in this order: requests, what runs beside them, the engine.
func run(ctx context.Context, cfg abide.Config, listener net.Listener) (err error) {
	measured, err := telemetry.New(telemetry.Config{Service: "shop"})
	if err != nil {
		return err
	}
	cfg.Register, cfg.MeterProvider = []abide.Definition{Order, Ship}, measured.MeterProvider()
	engine, err := abide.Open(ctx, cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, engine.Close()) }() // last: requests under way need it
	mux, abideServer, err := routes(engine, measured)
	if err != nil {
		return err
	}
	background, stopBackground := context.WithCancel(context.Background())
	var services sync.WaitGroup
	defer services.Wait()
	defer stopBackground()
	for _, service := range []func(context.Context) error{abideServer.Run, measured.Run} {
		services.Go(func() {
			if err := service(background); err != nil {
				slog.Error("service stopped", "error", err)
			}
		})
	}
	web := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
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
	return web.Shutdown(late) // returns when the requests under way are answered; Serve returned before
}

// routes returns the routes of the shop, with Abide beside them. There is no guard:
// everybody who reaches /abide/ may do everything, so put the shop's own login in front of it, or
// give server.Config an Auth.
func routes(engine *abide.Engine, measured *telemetry.Telemetry) (*http.ServeMux, *server.Server, error) {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /orders/{number}", func(w http.ResponseWriter, r *http.Request) {
		number := r.PathValue("number")
		if _, err := Order.Start(r.Context(), engine, number, abide.ID("order-"+number)); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.WriteHeader(http.StatusAccepted)
	})
	s, err := server.New(server.Config{Prefix: "/abide", Store: engine.Store(), Engine: engine, Telemetry: measured, Page: true, Socket: true})
	if err != nil {
		return nil, nil, err
	}
	mux.Handle("/abide/", s)
	return mux, s, nil
}
