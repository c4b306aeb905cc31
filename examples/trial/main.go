// Command trial lets a customer try something for 14 days. Then the account is locked,
// unless the customer subscribes before. An operator can move the end of the trial.
//
//	go run ./examples/trial
//
// A day is a second here. Press Enter to give the customer another week.
package main

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/abidehq/abide"

	_ "github.com/abidehq/abide/store/pebblestore" // the embedded store
)

// Account is what a customer has.
type Account struct {
	Customer string
	Day      time.Duration // how long a day is; shorter than 24 h to try it out
}

var (
	Trial      = abide.NewOrchestration("trial", trial)
	Lock       = abide.NewActivity("lock", lock)
	Subscribed = abide.NewEvent[string]("subscribed") // with it comes the plan
)

// trialEnd is the name of the timer, for those who move it.
const trialEnd = "trial-end"

// trial returns the plan that the customer has in the end.
func trial(ctx abide.Context, account Account) (string, error) {
	end := abide.NewTimer(ctx, 14*account.Day, abide.Named(trialEnd))
	plan := Subscribed.Receive(ctx)
	if abide.Select(ctx, plan, end) == 0 {
		return plan.Get(ctx)
	}
	if _, err := Lock.Call(ctx, account); err != nil {
		return "", err
	}
	return "none", nil
}

func lock(_ context.Context, account Account) (abide.None, error) {
	fmt.Println("the trial is over: locked the account of", account.Customer)
	return abide.None{}, nil
}

// extend has a trial end at another time.
func extend(ctx context.Context, client abide.Caller, id string, until time.Time) error {
	return client.AsClient().MoveTimer(ctx, abide.Ref{ID: id}, trialEnd, until)
}

func main() {
	ctx := context.Background()
	engine, err := abide.Open(ctx, abide.Config{Register: []abide.Definition{Trial, Lock}})
	check(err)
	defer engine.Close()
	const day = time.Second
	account, err := Trial.Start(ctx, engine, Account{Customer: "the customer", Day: day}, abide.ID("account-1"))
	check(err)
	go func() {
		fmt.Scanln() //nolint:errcheck // whatever is typed means yes
		info, err := account.Info(ctx)
		check(err)
		check(extend(ctx, engine, account.ID(), info.StartedAt.Add(21*day)))
		fmt.Println("the trial is extended by a week")
	}()
	plan, err := account.Result(ctx)
	check(err)
	fmt.Println("plan:", plan)
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
