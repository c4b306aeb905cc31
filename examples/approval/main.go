// Command approval has each item of an expense report approved by a person. Who does
// not decide is reminded every day; after three days the next one is asked as well, and
// when the last one does not decide either, the item is not approved.
//
//	go run ./examples/approval
//
// A day is two seconds here. Type "1 yes" or "2 no" to decide on an item.
package main

import (
	"bufio"
	"context"
	"fmt"
	"log"
	"os"
	"strings"
	"time"

	"github.com/abidehq/abide"

	_ "github.com/abidehq/abide/store/pebblestore" // the embedded store
)

// Report is what an employee hands in.
type Report struct {
	Items []Item
}

// Item is one expense, and who can approve it, in the order in which they are asked.
type Item struct {
	What      string
	Cents     int
	Approvers []string
	Day       time.Duration // how long a day is; shorter than 24 h to try it out
}

var (
	Settle  = abide.NewOrchestration("settle", settle)
	Approve = abide.NewOrchestration("approve", approve)
	Ask     = abide.NewActivity("ask", ask)
	Decided = abide.NewEvent[bool]("decided")
)

// settle returns how much the employee gets, in cents. Each item is a child, with an ID
// that people can be told: report-1/2 is the second item of report-1.
func settle(ctx abide.Context, report Report) (int, error) {
	var decisions []*abide.Future[bool]
	for i, item := range report.Items {
		id := fmt.Sprintf("%s/%d", abide.Self(ctx).ID, i+1)
		decisions = append(decisions, Approve.Go(ctx, item, abide.ID(id)))
	}
	approved, err := abide.All(ctx, decisions...)
	if err != nil {
		return 0, err
	}
	cents := 0
	for i, item := range report.Items {
		if approved[i] {
			cents += item.Cents
		}
	}
	return cents, nil
}

// approve asks one approver after the other, and takes the first decision of any
// of them.
func approve(ctx abide.Context, item Item) (bool, error) {
	decision := Decided.Receive(ctx)
	for _, approver := range item.Approvers {
		escalation := abide.NewTimer(ctx, 3*item.Day, abide.Named("escalation"))
		for !escalation.Fired() {
			if _, err := Ask.Call(ctx, Question{approver, item.What}); err != nil {
				return false, err
			}
			reminder := abide.NewTimer(ctx, item.Day, abide.Named("reminder"))
			if abide.Select(ctx, decision, escalation, reminder) == 0 {
				return decision.Get(ctx)
			}
			reminder.Cancel(ctx)
		}
	}
	return false, nil
}

// Question is what an approver is asked.
type Question struct {
	Approver string
	What     string
}

func ask(_ context.Context, q Question) (abide.None, error) {
	fmt.Printf("to the %s: please decide about %s\n", q.Approver, q.What)
	return abide.None{}, nil
}

func main() {
	ctx := context.Background()
	engine, err := abide.Open(ctx, abide.Config{Register: []abide.Definition{Settle, Approve, Ask}})
	check(err)
	defer engine.Close()
	const day = 2 * time.Second
	approvers := []string{"team lead", "manager"}
	report, err := Settle.Start(ctx, engine, Report{Items: []Item{
		{"a train ticket", 8900, approvers, day},
		{"a dinner", 4200, approvers, day},
	}}, abide.ID("report-1"))
	check(err)
	go func() {
		for in := bufio.NewScanner(os.Stdin); in.Scan(); {
			item, answer, _ := strings.Cut(in.Text(), " ")
			check(Decided.Raise(ctx, engine, report.ID()+"/"+item, answer == "yes"))
		}
	}()
	cents, err := report.Result(ctx)
	check(err)
	fmt.Println("the employee gets", cents, "cents")
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
