// Command mounted is a shop with a web page of its own, in which Abide runs: its page with charts,
// its API, its metrics and its webhooks are mounted beside the shop's routes, at /abide/.
//
//	go run ./examples/mounted
//	curl -X POST http://127.0.0.1:8080/orders/17
//	open http://127.0.0.1:8080/abide/
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"os"
	"os/signal"
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
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	measured, err := telemetry.New(telemetry.Config{Service: "shop"})
	check(err)
	engine, err := abide.Open(ctx, abide.Config{Register: []abide.Definition{Order, Ship}, MeterProvider: measured.MeterProvider()})
	check(err)
	defer engine.Close()
	mux, abideServer, err := routes(engine, measured)
	check(err)
	go func() { check(abideServer.Run(ctx)) }()
	go func() { check(measured.Run(ctx)) }()

	web := &http.Server{Addr: "127.0.0.1:8080", Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	web.RegisterOnShutdown(abideServer.Drain) // or those who watch would hold it up
	context.AfterFunc(ctx, func() { _ = web.Shutdown(context.Background()) })
	fmt.Println("the shop is at http://127.0.0.1:8080/, and Abide at http://127.0.0.1:8080/abide/")
	if err := web.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		check(err)
	}
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
	s, err := server.New(server.Config{Prefix: "/abide", Store: engine.Store(), Engine: engine, Telemetry: measured, Page: true})
	if err != nil {
		return nil, nil, err
	}
	mux.Handle("/abide/", s)
	return mux, s, nil
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
