package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/abidehq/abide"
)

// Customer is who subscribes.
type Customer struct {
	ID   string `json:"id"`
	Mail string `json:"mail"`
	Plan string `json:"plan"`
}

// Orchestrations, and the events that reach them.
var (
	Trial     = abide.NewOrchestration("trial", trial)
	Billing   = abide.NewOrchestration("billing", billing)
	Provision = abide.NewOrchestration("provision", provision)
	News      = abide.NewOrchestration("news", news)
	Refund    = abide.NewOrchestration("refund", refund)
	Report    = abide.NewOrchestration("report", report)
	Deploy    = abide.NewOrchestration("deploy", deploy)

	Upgraded  = abide.NewEvent[string]("upgraded") // with the plan
	Cancelled = abide.NewEvent[abide.None]("cancelled")
	Decided   = abide.NewEvent[Decision]("decided")
)

// guide: trial
const day = 24 * time.Hour

// trial lasts 14 days, with reminders on days 7 and 13. It returns how it ended.
func trial(ctx abide.Context, c Customer) (string, error) {
	upgraded, cancelled := Upgraded.Receive(ctx), Cancelled.Receive(ctx)
	began := abide.Now(ctx)
	for _, d := range []int{7, 13, 14} {
		abide.SetStatus(ctx, fmt.Sprintf("in trial until day %d", d))
		timer := abide.NewTimerAt(ctx, began.Add(time.Duration(d)*day), abide.Named(fmt.Sprintf("day-%d", d)))
		switch abide.Select(ctx, upgraded, cancelled, timer) {
		case 0:
			plan, err := upgraded.Get(ctx)
			if err != nil {
				return "", err
			}
			timer.Cancel(ctx)
			c.Plan = plan
			Billing.Detach(ctx, Bill{Customer: c}, abide.ID("billing-"+c.ID))
			return "upgraded to " + plan, nil
		case 1:
			timer.Cancel(ctx)
			return "cancelled", nil
		}
		if _, err := SendMail.Call(ctx, Mail{To: c.Mail, Text: fmt.Sprintf("day %d of your trial", d)}); err != nil {
			return "", err
		}
	}
	return "expired", nil
}

// guide: billing
// Bill is the state of a subscription from month to month.
type Bill struct {
	Customer Customer `json:"customer"`
	Months   int      `json:"months"` // paid so far
}

// billing charges once a month. A charge that fails is tried again for three days; then the
// customer is reminded, three times at most. Each month is an execution of its own, so that the
// history does not grow for ever.
func billing(ctx abide.Context, bill Bill) (string, error) {
	for reminder := 0; ; reminder++ {
		_, err := Charge.Call(ctx, ChargeIn{Customer: bill.Customer.ID, Month: bill.Months + 1})
		if err == nil {
			break
		}
		if reminder == 3 {
			return "suspended for lack of payment", nil
		}
		if _, err := SendMail.Call(ctx, Mail{To: bill.Customer.Mail, Text: "your payment failed"}); err != nil {
			return "", err
		}
		if err := abide.Sleep(ctx, 3*day, abide.Named("dunning")); err != nil {
			return "", err
		}
	}
	bill.Months++
	abide.SetStatus(ctx, fmt.Sprintf("paid for %d months", bill.Months))
	_, err := Cancelled.Wait(ctx, abide.Timeout(30*day))
	switch {
	case err == nil:
		return fmt.Sprintf("cancelled after %d months", bill.Months), nil
	case errors.Is(err, abide.ErrTimeout):
		return "", abide.ContinueAsNew(ctx, bill)
	default:
		return "", err
	}
}

// guide: provision
// provision creates what a customer needs, or nothing of it.
func provision(ctx abide.Context, c Customer) ([]string, error) {
	var made []string
	err := abide.RunSaga(ctx, func(saga *abide.Saga) error {
		for _, kind := range []string{"database", "bucket", "domain"} {
			id, err := Create.Call(ctx, Resource{Kind: kind, Customer: c.ID})
			if err != nil {
				return err
			}
			saga.Undo(func(ctx abide.Context) error {
				_, err := Destroy.Call(ctx, id, abide.Retry(0)) // until it succeeds
				return err
			})
			made = append(made, id)
		}
		return nil
	})
	return made, err
}

// guide: news
// news sends a text to everybody, and returns how many got it.
func news(ctx abide.Context, n Newsletter) (int, error) {
	sending := make([]*abide.Future[abide.None], len(n.To))
	for i, to := range n.To {
		sending[i] = SendMail.Go(ctx, Mail{To: to, Text: n.Text})
	}
	sent := 0
	for _, f := range sending {
		if _, err := f.Get(ctx); err == nil {
			sent++
		}
	}
	return sent, nil
}

// guide: refund
// refund waits three days for a person to decide. Nobody is no.
func refund(ctx abide.Context, in RefundIn) (string, error) {
	abide.SetStatus(ctx, "waits for a decision")
	d, err := Decided.Wait(ctx, abide.Timeout(3*day))
	switch {
	case errors.Is(err, abide.ErrTimeout):
		return "refused: nobody decided", nil
	case err != nil:
		return "", err
	case !d.Approved:
		return "refused by " + d.By, nil
	}
	if _, err := PayBack.Call(ctx, in); err != nil {
		return "", err
	}
	return "approved by " + d.By, nil
}

// guide: report
// report is started by a schedule, every night.
func report(ctx abide.Context, _ abide.None) (string, error) {
	return Count.Call(ctx, abide.Now(ctx).AddDate(0, 0, -1).Format(time.DateOnly))
}

// deploy is started by a push to GitHub.
func deploy(ctx abide.Context, push Push) (string, error) {
	return Release.Call(ctx, push.After)
}
