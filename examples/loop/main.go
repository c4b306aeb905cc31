// Command loop sends a report at every full hour, or whatever the period is, for ever.
// Every so often it continues as new, so that its history does not grow for ever too.
//
//	go run ./examples/loop
//
// Stop it with Ctrl-C. Started again, it continues counting, and makes up for the report
// that was due meanwhile.
package main

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/abidehq/abide"

	_ "github.com/abidehq/abide/store/pebblestore" // the embedded store
)

// Schedule is when reports are due, and how many were sent.
type Schedule struct {
	Every time.Duration
	Sent  int
}

// Report is one report.
type Report struct {
	Number int
	Due    time.Time
}

var (
	Reports = abide.NewOrchestration("reports", reports)
	Send    = abide.NewActivity("send", send)
)

// perExecution is how many reports one execution sends.
const perExecution = 10

func reports(ctx abide.Context, s Schedule) (abide.None, error) {
	for range perExecution {
		due := abide.Now(ctx).Truncate(s.Every).Add(s.Every)
		if err := abide.SleepUntil(ctx, due, abide.Named("next report")); err != nil {
			return abide.None{}, err
		}
		s.Sent++
		if _, err := Send.Call(ctx, Report{Number: s.Sent, Due: due}); err != nil {
			return abide.None{}, err
		}
	}
	return abide.None{}, abide.ContinueAsNew(ctx, s)
}

func send(_ context.Context, r Report) (abide.None, error) {
	fmt.Printf("report %d, due at %s\n", r.Number, r.Due.Format(time.TimeOnly))
	return abide.None{}, nil
}

func main() {
	ctx := context.Background()
	engine, err := abide.Open(ctx, abide.Config{Register: []abide.Definition{Reports, Send}})
	check(err)
	defer engine.Close()
	instance, err := Reports.Start(ctx, engine, Schedule{Every: 2 * time.Second}, abide.ID("reports"))
	check(err)
	_, err = instance.Result(ctx)
	check(err)
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
