package demo

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/action"
)

// HookSlug is the last part of the path of the hook: /hooks/demo.
const HookSlug = "demo"

// Names of targets.
const (
	targetHello = "demo-hello"
	TargetOrder = "demo-order" // of the hook: a webhook is an order
)

// Targets returns what the actions of the demo do.
func Targets(client abide.Caller) map[string]action.Definition {
	return map[string]action.Definition{
		targetHello: {Target: action.Func(hello), Attempts: 2, Idempotent: true, Timeout: time.Minute},
		TargetOrder: {Target: ordering(client), Idempotent: true, Timeout: time.Minute},
	}
}

// hello greets, and fails now and then.
func hello(_ context.Context, r action.Run) (action.Outcome, error) {
	if r.Action.Attempt == 1 && r.Action.Trigger.At.Unix()/10%6 == 0 {
		return action.Outcome{}, errors.New("nobody listens; it is tried again")
	}
	return action.Outcome{Output: "hello, " + r.Action.Slug + "\n"}, nil
}

// ordering starts an order for each webhook.
func ordering(client abide.Caller) action.Func {
	return func(ctx context.Context, r action.Run) (action.Outcome, error) {
		in := Order{Number: r.Action.Trigger.At.Unix(), Cents: 4200, Item: "whatever the webhook says"}
		started, err := Orders.Start(ctx, client, in, abide.ID("webhook-"+r.Action.ID), abide.Tag("by", "webhook"))
		if err != nil {
			return action.Outcome{}, err
		}
		return action.Outcome{Output: fmt.Sprintf("started %s for %d bytes\n", started.ID(), len(r.Body))}, nil
	}
}

// plans are the schedules.
func plans() []action.Plan {
	return []action.Plan{
		{
			Tenant: tenants[0], ID: "demo-every-minute", Slug: "minute", Target: targetHello,
			Cron: "* * * * *", Zone: "Europe/Berlin", Payload: []byte(`{"greeting":"hello"}`),
		},
		{Tenant: tenants[1], ID: "demo-every-ten-seconds", Slug: "ten-seconds", Target: targetHello, Every: 10 * time.Second},
		{
			Tenant: tenants[1], ID: "demo-workday-morning", Slug: "morning", Target: targetHello,
			Cron: "0 9 * * MON-FRI", Zone: "America/New_York",
		},
	}
}

// schedule adds the schedules that are not there. One that was paused or changed
// stays as it is.
func schedule(ctx context.Context, actions *action.Service) error {
	for _, p := range plans() {
		if _, err := actions.AddSchedule(ctx, p); err != nil && !errors.Is(err, action.ErrExists) {
			return err
		}
	}
	return nil
}
