package action_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"log/slog"
	"time"

	"github.com/abidehq/abide/action"
	"github.com/abidehq/abide/store/memstore"
)

// newService returns a service with one target, which ticks every 10 ms.
func newService(target action.Func) *action.Service {
	s, err := action.New(action.Config{
		Store: memstore.New(memstore.Options{}), Logger: slog.New(slog.DiscardHandler), Rate: 10 * time.Millisecond,
		Targets: map[string]action.Definition{"report": {Target: target, Timeout: time.Minute, Attempts: 3}},
	})
	if err != nil {
		log.Fatal(err)
	}
	return s
}

// An action runs once, at the first tick at or after its time.
func ExampleService_Add() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ran := make(chan string, 1)
	s := newService(func(_ context.Context, r action.Run) (action.Outcome, error) {
		ran <- fmt.Sprintf("%s for %s: %s", r.Action.ID, r.Action.Tenant, r.Action.Payload)
		return action.Outcome{Output: "done"}, nil
	})
	go func() { _ = s.Run(ctx) }() // it returns nil when ctx ends

	_, existed, err := s.Add(ctx, action.Request{
		Tenant: "acme", Slug: "billing", Target: "report", ID: "march", Payload: json.RawMessage(`{"month":3}`),
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(<-ran, existed)
	// Output: march for acme: {"month":3} false
}

// A schedule creates an action on every weekday, in the time zone of the office.
func ExampleService_AddSchedule() {
	s := newService(nil)
	schedule, err := s.AddSchedule(context.Background(), action.Plan{
		Tenant: "acme", Slug: "billing", Target: "report", ID: "daily-report",
		Cron: "30 8 * * MON-FRI", Zone: "Europe/Berlin", Overlap: action.OverlapSkip, CatchUp: action.CatchUpOne,
		From: time.Date(2100, 3, 6, 0, 0, 0, 0, time.UTC), // a Saturday
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(schedule.Status, schedule.Next.UTC().Format("Monday 15:04"))
	// Output: active Monday 07:30
}

// Preview shows the runs of a plan, here over the night in which clocks are set forward.
func ExamplePreview() {
	times, err := action.Preview(action.Plan{
		Tenant: "acme", Slug: "billing", Target: "report", ID: "nightly", Cron: "30 2 * * *", Zone: "Europe/Berlin", Gap: action.GapRunAfter,
	}, time.Date(2026, 3, 28, 0, 0, 0, 0, time.UTC), 3)
	if err != nil {
		log.Fatal(err)
	}
	for _, t := range times {
		fmt.Println(t.Format("2006-01-02 15:04 -0700"))
	}
	// Output:
	// 2026-03-28 02:30 +0100
	// 2026-03-29 03:00 +0200
	// 2026-03-30 02:30 +0200
}

// All iterates over the actions that match a filter, here over those that are due on a day.
func ExampleService_All() {
	ctx := context.Background()
	s := newService(nil)
	day := time.Date(2100, 3, 1, 0, 0, 0, 0, time.UTC)
	for id, at := range map[string]time.Duration{"evening": 20 * time.Hour, "morning": 8 * time.Hour, "tomorrow": 30 * time.Hour} {
		_, _, err := s.Add(ctx, action.Request{Tenant: "acme", Slug: "billing", Target: "report", ID: id, At: day.Add(at)})
		if err != nil {
			log.Fatal(err)
		}
	}
	for a, err := range s.All(ctx, action.Filter{Tenant: "acme", From: day, To: day.AddDate(0, 0, 1)}) {
		if err != nil {
			log.Fatal(err) // the sequence has ended
		}
		fmt.Println(a.ID, a.Status, a.Due().Format(time.TimeOnly))
	}
	// Output:
	// morning pending 08:00:00
	// evening pending 20:00:00
}

// AllSchedules iterates over schedules in the order of their next runs.
func ExampleService_AllSchedules() {
	ctx := context.Background()
	s := newService(nil)
	from := time.Date(2100, 3, 1, 0, 0, 0, 0, time.UTC)
	for id, cron := range map[string]string{"nightly": "30 2 * * *", "hourly": "0 * * * *", "weekly": "0 9 * * MON"} {
		_, err := s.AddSchedule(ctx, action.Plan{Tenant: "acme", Slug: "billing", Target: "report", ID: id, Cron: cron, From: from})
		if err != nil {
			log.Fatal(err)
		}
	}
	for schedule, err := range s.AllSchedules(ctx, action.ScheduleFilter{Tenant: "acme"}) {
		if err != nil {
			log.Fatal(err) // the sequence has ended
		}
		fmt.Println(schedule.ID, schedule.Next.UTC().Format("Monday 15:04"))
	}
	// Output:
	// hourly Monday 00:00
	// nightly Monday 02:30
	// weekly Monday 09:00
}
