package main

import (
	"context"
	"fmt"
	"time"

	"github.com/abidehq/abide"
)

// Inputs of activities and orchestrations.
type (
	// Mail is a mail.
	Mail struct{ To, Text string }

	// Newsletter is a text for many.
	Newsletter struct {
		To   []string
		Text string
	}

	// ChargeIn is what to charge, once.
	ChargeIn struct {
		Customer string
		Month    int
	}

	// Resource is what a customer gets.
	Resource struct{ Kind, Customer string }

	// RefundIn is what a customer wants back.
	RefundIn struct {
		Customer string `json:"customer"`
		Cents    int    `json:"cents"`
	}

	// Decision is that of a person about a refund.
	Decision struct {
		Approved bool   `json:"approved"`
		By       string `json:"by"`
	}

	// Push is the part of GitHub's event that is needed here.
	Push struct {
		After string `json:"after"` // the commit
	}
)

// guide: activities
// Activities talk to the world. Each may run more than once: what they call must be idempotent.
var (
	SendMail = abide.NewActivity("send-mail", func(_ context.Context, m Mail) (abide.None, error) {
		fmt.Println("mail to", m.To+":", m.Text)
		return abide.None{}, nil
	})
	Charge = abide.NewActivity("charge", func(_ context.Context, in ChargeIn) (string, error) {
		return fmt.Sprintf("%s-%d", in.Customer, in.Month), nil // the key of the payment: charging twice is charging once
	}, abide.Retry(5).Backoff(time.Hour, 2, day), abide.StartToClose(time.Minute))
	Create = abide.NewActivity("create", func(_ context.Context, r Resource) (string, error) {
		return r.Kind + "-" + r.Customer, nil
	}, abide.Retry(3))
	Destroy = abide.NewActivity("destroy", func(context.Context, string) (abide.None, error) {
		return abide.None{}, nil
	})
	PayBack = abide.NewActivity("pay-back", func(context.Context, RefundIn) (abide.None, error) {
		return abide.None{}, nil
	})
	Count = abide.NewActivity("count", func(_ context.Context, date string) (string, error) {
		return "report of " + date, nil
	})
	Release = abide.NewActivity("release", func(_ context.Context, commit string) (string, error) {
		return "released " + commit, nil
	})
)

// definitions are what this program serves. What is not among them waits for another process.
var definitions = []abide.Definition{
	Trial, Billing, Provision, News, Refund, Report, Deploy,
	SendMail, Charge, Create, Destroy, PayBack, Count, Release,
}
