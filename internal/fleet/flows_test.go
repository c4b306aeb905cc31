package fleet

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/abidehq/abide"
)

// purchase is what an order begins an execution with.
type purchase struct {
	Number   int
	Round    int
	Approval int
	Receipts []string
}

// deed is what an activity is to do.
type deed struct {
	Step  string
	Takes time.Duration
	Flaky bool // the first attempt fails
}

var (
	approved = abide.NewEvent[int]("approved")
	effect   = abide.NewActivity("effect", func(ctx context.Context, d deed) (string, error) {
		info, _ := abide.ActivityOf(ctx)
		return theLedger.perform(ctx, attempt{info.Instance.ID, info.Key, info.Attempt}, d)
	}, abide.Retry(0).Backoff(50*time.Millisecond, 2, 500*time.Millisecond))

	parcel = abide.NewOrchestration("parcel", runParcel)
	order1 = abide.NewOrchestration("order", runOrder1, abide.Version("1"))
	order2 = abide.NewOrchestration("order", runOrder2, abide.Version("2"))

	everything = []abide.Definition{effect, parcel, order1, order2}
)

// stepsOf are what an order of a version has done, in the order of its result. The last
// one is done by its child.
var stepsOf = map[string][]string{
	"1": {"charge", "mail", "stock", "pack"},
	"2": {"gift", "charge", "mail", "stock", "pack"},
}

func orderID(number int) string  { return fmt.Sprintf("order-%d", number) }
func parcelID(number int) string { return fmt.Sprintf("parcel-%d", number) }

// runParcel is an order's child: a timer, and an activity.
func runParcel(ctx abide.Context, _ int) (string, error) {
	if err := nap(ctx, 200); err != nil {
		return "", err
	}
	return effect.Call(ctx, deed{Step: "pack", Takes: 50 * time.Millisecond})
}

// nap sleeps for up to so many milliseconds.
func nap(ctx abide.Context, most int) error {
	return abide.Sleep(ctx, time.Duration(1+abide.Rand(ctx).IntN(most))*time.Millisecond)
}

// runOrder1 charges, sleeps, waits for the approval, continues as new, and then has things
// done beside each other: by a child, by activities, one of which fails at first, and by a
// step within the turn.
func runOrder1(ctx abide.Context, in purchase) (string, error) {
	if in.Round == 0 {
		charge, err := effect.Call(ctx, deed{Step: "charge", Takes: 100 * time.Millisecond})
		if err != nil {
			return "", err
		}
		in.Receipts = append(in.Receipts, charge)
		return continueApproved(ctx, in)
	}
	return finishOrder(ctx, "1", in)
}

// runOrder2 is what the next version does: one thing more, and before all others, so that
// neither can go on with what the other has begun.
func runOrder2(ctx abide.Context, in purchase) (string, error) {
	if in.Round == 0 {
		gift, err := effect.Call(ctx, deed{Step: "gift", Takes: 20 * time.Millisecond})
		if err != nil {
			return "", err
		}
		charge, err := effect.Call(ctx, deed{Step: "charge", Takes: 100 * time.Millisecond})
		if err != nil {
			return "", err
		}
		in.Receipts = append(in.Receipts, gift, charge)
		return continueApproved(ctx, in)
	}
	return finishOrder(ctx, "2", in)
}

func continueApproved(ctx abide.Context, in purchase) (string, error) {
	if err := nap(ctx, 400); err != nil {
		return "", err
	}
	var err error
	if in.Approval, err = approved.Wait(ctx); err != nil {
		return "", err
	}
	in.Round++
	return "", abide.ContinueAsNew(ctx, in)
}

func finishOrder(ctx abide.Context, version string, in purchase) (string, error) {
	child := parcel.Go(ctx, in.Number, abide.ID(parcelID(in.Number)))
	mail := effect.Go(ctx, deed{Step: "mail", Takes: 50 * time.Millisecond})
	stock := effect.Go(ctx, deed{Step: "stock", Flaky: true})
	weight, err := abide.Step(ctx, "weigh", func(ctx context.Context) (int, error) {
		return in.Number % 7, theLedger.weigh(ctx, orderID(in.Number))
	}, abide.Retry(0).Backoff(50*time.Millisecond, 2, 500*time.Millisecond))
	if err != nil {
		return "", err
	}
	rest, err := abide.All(ctx, mail, stock, child)
	if err != nil {
		return "", err
	}
	return resultOf(version, in.Approval, weight, append(in.Receipts, rest...)), nil
}

// resultOf is what an order returns.
func resultOf(version string, approval, weight int, receipts []string) string {
	return fmt.Sprintf("version %s, approved by %d, weighs %d: %s", version, approval, weight, strings.Join(receipts, " "))
}

// errFlaky is how the first attempt at something flaky fails.
var errFlaky = errors.New("try again")
