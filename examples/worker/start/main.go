// Command start is the client: it has a parcel sent, and waits for its label.
package main

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/abidehq/abide"
	shipping "github.com/abidehq/abide/examples/worker"

	_ "github.com/abidehq/abide/remote" // for URLs that begin with abide://
)

func main() {
	if err := start(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func start(ctx context.Context) error {
	engine, err := abide.Open(ctx, abide.Config{Store: shipping.Server})
	if err != nil {
		return err
	}
	defer engine.Close()
	parcel, err := shipping.Ship.Start(ctx, engine, shipping.Parcel{Order: "1001", Customer: "a customer"})
	if err != nil {
		return err
	}
	fmt.Println(time.Now().Format(time.TimeOnly), "started", parcel.Ref().ID)
	label, err := parcel.Result(ctx)
	if err != nil {
		return err
	}
	fmt.Println(time.Now().Format(time.TimeOnly), "sent with label", label)
	return nil
}
