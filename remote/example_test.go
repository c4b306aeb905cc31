package remote_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"net/http/httptest"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/bus"
	"github.com/abidehq/abide/bus/outbox"
	"github.com/abidehq/abide/remote"
	"github.com/abidehq/abide/server"
	"github.com/abidehq/abide/store/memstore"
	"github.com/abidehq/abide/timer"
)

var hello = abide.NewOrchestration("hello", func(_ abide.Context, name string) (string, error) { return "hello " + name, nil })

// newServer returns a server with an engine and timers.
func newServer() *httptest.Server {
	quiet := slog.New(slog.DiscardHandler)
	s := memstore.New(memstore.Options{})
	e, err := abide.New(s, abide.Config{Register: []abide.Definition{hello}, Logger: quiet})
	if err != nil {
		log.Fatal(err)
	}
	timers, err := timer.New(timer.Config{Store: s, Sinks: []outbox.Sink{{Name: "local", Bus: &bus.Local{}}}, Logger: quiet})
	if err != nil {
		log.Fatal(err)
	}
	h, err := server.New(server.Config{Store: s, Engine: e, Timers: timers, Logger: quiet})
	if err != nil {
		log.Fatal(err)
	}
	return httptest.NewServer(h)
}

// An orchestration is started over HTTP as it is on an engine in the same process.
func ExampleClient_Engine() {
	ctx := context.Background()
	srv := newServer()
	defer srv.Close()
	c, err := remote.New(srv.URL)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	greeting, err := hello.Start(ctx, c.Engine(), "Ada", abide.ID("greeting-1"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(greeting.Result(ctx))
	// Output: hello Ada <nil>
}

// Timers of a server are scheduled and listed over HTTP.
func ExampleClient_Timers() {
	ctx := context.Background()
	srv := newServer()
	defer srv.Close()
	c, err := remote.New(srv.URL)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	t, err := c.Timers().Schedule(ctx, timer.Request{Tenant: "acme", Key: "invoice-7", Delay: time.Hour})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(t.Tenant, t.Key, t.Status)
	// Output: acme invoice-7 armed
}
