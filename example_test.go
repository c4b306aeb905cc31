package abide_test

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/abidehq/abide"
)

var (
	exampleCharge = abide.NewActivity("charge", func(_ context.Context, amount int) (string, error) {
		return fmt.Sprintf("charged %d", amount), nil
	})
	exampleApproved = abide.NewEvent[bool]("approved")
	exampleOrder    = abide.NewOrchestration("order", func(ctx abide.Context, amount int) (string, error) {
		ok, err := exampleApproved.Wait(ctx, abide.Timeout(24*time.Hour))
		if err != nil {
			return "", err
		}
		if !ok {
			return "refused", nil
		}
		return exampleCharge.Call(ctx, amount, abide.Retry(5))
	})
)

// An order waits for an approval, for a day at most, and then charges a card.
func Example() {
	ctx := context.Background()
	e, err := abide.Open(ctx, abide.Config{
		Store: "memory:", Register: []abide.Definition{exampleOrder, exampleCharge}, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer e.Close()
	order, err := exampleOrder.Start(ctx, e, 42, abide.ID("order-1"))
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := exampleApproved.Raise(ctx, e, order.ID(), true); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(order.Result(ctx))
	// Output: charged 42 <nil>
}
