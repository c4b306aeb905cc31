// Package shipping is code that a worker runs for a server elsewhere: see docs/workers.md. In three
// terminals:
//
//	go run ./cmd/abide serve
//	go run ./examples/worker/run
//	go run ./examples/worker/start
package shipping

import (
	"context"
	"fmt"
	"time"

	"github.com/abidehq/abide"
)

// Server is where the server of the example is.
const Server = "abide://127.0.0.1:7172"

// Parcel is what is sent.
type Parcel struct {
	Order    string
	Customer string
}

// Ship packs a parcel, waits for the carrier, and tells the customer.
var Ship = abide.NewOrchestration("ship", func(ctx abide.Context, p Parcel) (string, error) {
	label, err := Pack.Call(ctx, p)
	if err != nil {
		return "", err
	}
	if err := abide.Sleep(ctx, 2*time.Second); err != nil { // or two days
		return "", err
	}
	_, err = Notify.Call(ctx, fmt.Sprintf("%s: parcel %s is on its way", p.Customer, label))
	return label, err
})

// Pack packs a parcel, and returns its label.
var Pack = abide.NewActivity("pack", func(_ context.Context, p Parcel) (string, error) {
	return "P-" + p.Order, nil
})

// Notify tells the customer something.
var Notify = abide.NewActivity("notify", func(_ context.Context, text string) (abide.None, error) {
	fmt.Println(time.Now().Format(time.TimeOnly), text)
	return abide.None{}, nil
})
