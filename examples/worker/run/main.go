// Command run is the worker: it runs the orchestration and the activities for the server. Start as many as
// you like, kill any of them.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"

	"github.com/abidehq/abide"
	shipping "github.com/abidehq/abide/examples/worker"

	_ "github.com/abidehq/abide/remote" // for URLs that begin with abide://
)

func main() {
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

func run() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	engine, err := abide.Open(ctx, abide.Config{
		Store:    shipping.Server,
		Register: []abide.Definition{shipping.Ship, shipping.Pack, shipping.Notify},
	})
	if err != nil {
		return err
	}
	fmt.Println("the worker runs; Ctrl-C ends it")
	<-ctx.Done()
	return engine.Close()
}
