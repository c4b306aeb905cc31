package demo

import (
	"fmt"
	"sync"
	"time"

	"github.com/abidehq/abide"
)

// Order is what a customer wants.
type Order struct {
	Number int64  `json:"number"`
	Cents  int    `json:"cents"`
	Item   string `json:"item"`
}

// Receipt is what the customer gets.
type Receipt struct {
	Charge  string `json:"charge"`
	Parcel  string `json:"parcel"`
	Shipped string `json:"shipped"`
}

// Expense is a claim for reimbursement.
type Expense struct {
	What  string `json:"what"`
	Cents int    `json:"cents"`
}

// Decision is what was decided about an expense.
type Decision struct {
	Approved bool   `json:"approved"`
	By       string `json:"by"`
}

// Report is a report of several pages.
type Report struct {
	Pages int `json:"pages"`
}

// Delivery is a parcel on its way.
type Delivery struct {
	Courier string `json:"courier"`
	Seconds int    `json:"seconds"`
}

// Limits: the bank takes so many charges at a time, and each courier one parcel.
var (
	Bank     = abide.NewLimit("demo-bank", abide.Concurrency(4), abide.Rate(120, time.Minute))
	Couriers = abide.NewLimit("demo-courier", abide.Concurrency(1), abide.PerKey())
)

// Orchestrations, and the event that one of them waits for.
var (
	Orders     = abide.NewOrchestration("demo-order", order)
	Approvals  = abide.NewOrchestration("demo-approval", approval)
	Reports    = abide.NewOrchestration("demo-report", report)
	Pages      = abide.NewOrchestration("demo-page", page)
	Imports    = abide.NewOrchestration("demo-import", importAll)
	Broken     = abide.NewOrchestration("demo-broken", broken)
	Trials     = abide.NewOrchestration("demo-trial", trial)
	Deliveries = abide.NewOrchestration("demo-delivery", deliver)
	Approved   = abide.NewEvent[Decision]("approved")
	definition = []abide.Definition{Orders, Approvals, Reports, Pages, Imports, Broken, Trials, Deliveries, Charge, Ship, Render, Read, Mail}
)

// Serve returns what an engine runs for the demo.
func Serve() []abide.Definition { return definition }

// charged is the ID of the charge of an order.
var charged = abide.NewValue[string]("charge")

// order charges, packs for a few seconds, and ships.
func order(ctx abide.Context, in Order) (Receipt, error) {
	abide.SetStatus(ctx, "charging")
	charge, err := Charge.Call(ctx, in, abide.Retry(4).Backoff(time.Second, 2, 10*time.Second))
	if err != nil {
		return Receipt{}, err
	}
	charged.Set(ctx, charge)
	abide.SetStatus(ctx, "packing")
	if err := abide.Sleep(ctx, time.Duration(3+in.Number%9)*time.Second, abide.Named("packing")); err != nil {
		return Receipt{}, err
	}
	abide.SetStatus(ctx, "shipping")
	parcel, err := Ship.Call(ctx, in)
	if err != nil {
		return Receipt{}, err
	}
	abide.SetStatus(ctx, "shipped")
	return Receipt{Charge: charge, Parcel: parcel, Shipped: abide.Now(ctx).UTC().Format(time.RFC3339)}, nil
}

// decideWithin is how long an expense waits for a decision.
const decideWithin = 5 * time.Minute

// approval waits for a person, who is reminded after a while.
func approval(ctx abide.Context, in Expense) (Decision, error) {
	abide.SetStatus(ctx, "waits for the event approved")
	decided := Approved.Receive(ctx)
	reminder := abide.NewTimer(ctx, time.Minute, abide.Named("reminder"))
	deadline := abide.NewTimer(ctx, decideWithin, abide.Named("deadline"))
	if abide.Select(ctx, decided, reminder) == 1 {
		if err := reminder.Wait(ctx); err != nil {
			return Decision{}, err
		}
		if _, err := Mail.Call(ctx, "please decide about "+in.What); err != nil {
			return Decision{}, err
		}
		abide.SetStatus(ctx, "waits for the event approved; a reminder was sent")
	}
	if abide.Select(ctx, decided, deadline) == 1 {
		if err := deadline.Wait(ctx); err != nil {
			return Decision{}, err
		}
		abide.SetStatus(ctx, "nobody has decided")
		return Decision{By: "nobody"}, nil
	}
	return decided.Get(ctx)
}

// report has its pages made by children, all at a time.
func report(ctx abide.Context, in Report) (string, error) {
	var pages []*abide.Future[int]
	for i := range in.Pages {
		id := fmt.Sprintf("%s/page-%d", abide.Self(ctx).ID, i+1)
		pages = append(pages, Pages.Go(ctx, i+1, abide.ID(id)))
	}
	words, err := abide.All(ctx, pages...)
	if err != nil {
		return "", err
	}
	total := 0
	for _, n := range words {
		total += n
	}
	return fmt.Sprintf("%d pages, %d words", in.Pages, total), nil
}

// page renders one page, and takes a little longer for each.
func page(ctx abide.Context, number int) (int, error) {
	if err := abide.Sleep(ctx, time.Duration(number)*time.Second); err != nil {
		return 0, err
	}
	return Render.Call(ctx, number)
}

// importAll fails: what it is to read is not there.
func importAll(ctx abide.Context, name string) (int, error) {
	abide.SetStatus(ctx, "reading "+name)
	return Read.Call(ctx, name, abide.Retry(3).Backoff(time.Second, 2, 5*time.Second))
}

// met are those who have come to where the code was broken: IDs that instances have drawn.
var met sync.Map

// broken has a mistake, which is mended when it is resumed: it panics the first
// time, and the instance stalls. Code that is not for a show never asks a variable.
func broken(ctx abide.Context, _ abide.None) (string, error) {
	if err := abide.Sleep(ctx, 2*time.Second); err != nil {
		return "", err
	}
	if _, again := met.LoadOrStore(abide.NewID(ctx), true); !again {
		panic("this code has a mistake, on purpose: resume the instance, and the mistake is mended")
	}
	return "it went on where it was", nil
}

// deliver is under way with a parcel for a while.
func deliver(ctx abide.Context, in Delivery) (string, error) {
	abide.SetStatus(ctx, "on the way with "+in.Courier)
	return "delivered by " + in.Courier, abide.Sleep(ctx, time.Duration(in.Seconds)*time.Second, abide.Named("on-the-way"))
}

// trial sleeps for days: its timer can be moved on the page.
func trial(ctx abide.Context, customer string) (string, error) {
	abide.SetStatus(ctx, "on trial")
	if err := abide.Sleep(ctx, 3*24*time.Hour, abide.Named("trial-ends")); err != nil {
		return "", err
	}
	return Mail.Call(ctx, customer+": the trial is over")
}
