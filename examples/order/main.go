// Command order takes an order that has to be approved. Until it is, it
// sends reminders; after the third one it waits once more and then gives the order up.
//
//	go run ./examples/order
//
// Press Enter to approve. What it does is kept in the folder abide-data: stop it while it
// waits, start it again, and it waits on.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/abidehq/abide"

	_ "github.com/abidehq/abide/store/pebblestore" // the embedded store
)

// Order is what a customer asks for.
type Order struct {
	Item        string
	Cents       int
	RemindEvery time.Duration
}

// Receipt is what the customer gets.
type Receipt struct {
	ApprovedBy string
	Charge     string
	Parcel     string
}

var (
	Place    = abide.NewOrchestration("order", place)
	Remind   = abide.NewActivity("remind", remind)
	Charge   = abide.NewActivity("charge", charge)
	Ship     = abide.NewActivity("ship", ship)
	Approved = abide.NewEvent[string]("approved") // with it comes who did

	ErrNotApproved = abide.NewError("not-approved", "nobody approved the order")
)

func place(ctx abide.Context, order Order) (Receipt, error) {
	who, err := approval(ctx, order)
	if err != nil {
		return Receipt{}, err
	}
	abide.SetStatus(ctx, "approved by "+who)
	charge, err := Charge.Call(ctx, order, abide.Retry(10))
	if err != nil {
		return Receipt{}, err
	}
	parcel, err := Ship.Call(ctx, order)
	if err != nil {
		return Receipt{}, err
	}
	return Receipt{ApprovedBy: who, Charge: charge, Parcel: parcel}, nil
}

const maxReminders = 3

// approval waits until the order is approved, and sends reminders.
func approval(ctx abide.Context, order Order) (who string, err error) {
	for sent := 0; ; sent++ {
		abide.SetStatus(ctx, fmt.Sprintf("waiting for approval, %d reminders sent", sent))
		who, err := Approved.Wait(ctx, abide.Timeout(order.RemindEvery))
		if !errors.Is(err, abide.ErrTimeout) {
			return who, err
		}
		if sent == maxReminders {
			return "", ErrNotApproved
		}
		if _, err := Remind.Call(ctx, order); err != nil {
			return "", err
		}
	}
}

func remind(_ context.Context, order Order) (abide.None, error) {
	fmt.Printf("reminder: %s for %d cents waits for approval\n", order.Item, order.Cents)
	return abide.None{}, nil
}

// charge may be tried more than once. The key is the same each time, so that the
// payment provider moves the money once.
func charge(ctx context.Context, order Order) (string, error) {
	info, _ := abide.ActivityOf(ctx)
	fmt.Printf("charged %d cents\n", order.Cents)
	return "charge " + info.Key, nil
}

func ship(_ context.Context, order Order) (string, error) {
	fmt.Println("shipped", order.Item)
	return "parcel with " + order.Item, nil
}

func main() {
	ctx := context.Background()
	engine, err := abide.Open(ctx, abide.Config{Register: []abide.Definition{Place, Remind, Charge, Ship}})
	check(err)
	defer engine.Close()
	order, err := Place.Start(ctx, engine, Order{Item: "a teapot", Cents: 2500, RemindEvery: 5 * time.Second}, abide.ID("order-1"))
	check(err)
	go func() {
		fmt.Scanln() //nolint:errcheck // whatever is typed means yes
		check(Approved.Raise(ctx, engine, order.ID(), "the manager"))
	}()
	receipt, err := order.Result(ctx)
	check(err)
	fmt.Printf("%+v\n", receipt)
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
