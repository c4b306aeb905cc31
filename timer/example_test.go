package timer_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"time"

	"github.com/abidehq/abide/bus"
	"github.com/abidehq/abide/bus/outbox"
	"github.com/abidehq/abide/store/memstore"
	"github.com/abidehq/abide/timer"
)

// newService returns a service that publishes to a bus in this process.
func newService(local *bus.Local) *timer.Service {
	s, err := timer.New(timer.Config{
		Store: memstore.New(memstore.Options{}), Logger: slog.New(slog.DiscardHandler),
		Sinks: []outbox.Sink{{Name: "local", Bus: local}},
	})
	if err != nil {
		log.Fatal(err)
	}
	return s
}

// A timer of a tenant becomes an event on the bus when it is due.
func ExampleService_Schedule() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var local bus.Local
	fired := make(chan bus.Envelope, 1)
	local.Subscribe(bus.Filter{Type: timer.TypeDueTimeReached}, func(_ context.Context, e bus.Envelope) error {
		fired <- e
		return nil
	})
	s := newService(&local)
	go func() { _ = s.Run(ctx) }() // it returns nil when ctx ends

	_, err := s.Schedule(ctx, timer.Request{Tenant: "acme", Key: "invoice-7", Delay: time.Millisecond, Payload: json.RawMessage(`{"cents":4200}`)})
	if err != nil {
		log.Fatal(err)
	}
	e := <-fired
	var due timer.DueTimeReached
	if err := json.Unmarshal(e.Payload, &due); err != nil {
		log.Fatal(err)
	}
	fmt.Println(e.TenantID, due.ServiceCallID, string(due.Payload))
	// Output: acme invoice-7 {"cents":4200}
}

// A cancelled timer never fires.
func ExampleService_Cancel() {
	ctx := context.Background()
	s := newService(&bus.Local{})
	if _, err := s.Schedule(ctx, timer.Request{Tenant: "acme", Key: "invoice-7", Delay: time.Hour}); err != nil {
		log.Fatal(err)
	}
	cancelled, err := s.Cancel(ctx, "acme", "invoice-7")
	fmt.Println(cancelled.Status, err)
	_, err = s.Snooze(ctx, "acme", "invoice-7", time.Hour)
	fmt.Println(errors.Is(err, timer.ErrState))
	// Output:
	// cancelled <nil>
	// true
}

// Scheduling a timer again moves it, and IfAbsent refuses that.
func ExampleRequest_ifAbsent() {
	ctx := context.Background()
	s := newService(&bus.Local{})
	noon := time.Date(2100, 3, 1, 12, 0, 0, 0, time.UTC)
	for _, due := range []time.Time{noon, noon.Add(time.Hour)} {
		moved, err := s.Schedule(ctx, timer.Request{Tenant: "acme", Key: "invoice-7", DueAt: due})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(moved.DueAt.Format(time.TimeOnly), moved.Arming)
	}
	_, err := s.Schedule(ctx, timer.Request{Tenant: "acme", Key: "invoice-7", DueAt: noon, IfAbsent: true})
	fmt.Println(errors.Is(err, timer.ErrExists))
	// Output:
	// 12:00:00 1
	// 13:00:00 1
	// true
}

// All iterates over the timers that match a filter, in the order of their times, and reads the
// next page only when it is needed.
func ExampleService_All() {
	ctx := context.Background()
	s := newService(&bus.Local{})
	noon := time.Date(2100, 3, 1, 12, 0, 0, 0, time.UTC)
	for i, key := range []string{"invoice-9", "invoice-8", "reminder-1", "invoice-7"} {
		if _, err := s.Schedule(ctx, timer.Request{Tenant: "acme", Key: key, DueAt: noon.Add(-time.Duration(i) * time.Hour)}); err != nil {
			log.Fatal(err)
		}
	}
	for t, err := range s.All(ctx, timer.Filter{Tenant: "acme", KeyPrefix: "invoice-", Limit: 2}) {
		if err != nil {
			log.Fatal(err) // the sequence has ended
		}
		fmt.Println(t.Key, t.DueAt.Format(time.TimeOnly))
	}
	// Output:
	// invoice-7 09:00:00
	// invoice-8 11:00:00
	// invoice-9 12:00:00
}
