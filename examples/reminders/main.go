// Command reminders is a clock for other programs: it takes appointments of two shops and
// says so when their time has come. Kill it at any moment and run it again: no reminder
// is lost, and each is sent once.
//
//	go run ./examples/reminders
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/abidehq/abide/bus"
	"github.com/abidehq/abide/bus/outbox"
	"github.com/abidehq/abide/store"
	_ "github.com/abidehq/abide/store/pebblestore"
	"github.com/abidehq/abide/timer"
)

func main() {
	ctx, stop := context.WithCancel(context.Background())
	st, err := store.Open(ctx, "pebble://abide-reminders")
	check(err)
	defer st.Close()

	timers, local, err := open(st)
	check(err)
	last := make(chan bool)
	local.Subscribe(bus.Filter{Type: timer.TypeDueTimeReached}, func(_ context.Context, e bus.Envelope) error {
		line, key, err := remind(e)
		if err != nil {
			return err // then it is tried again
		}
		fmt.Println(time.Now().Format(time.TimeOnly), line)
		if key == "order-3" {
			close(last)
		}
		return nil
	})
	done := make(chan error)
	go func() { done <- timers.Run(ctx) }()

	check(schedule(ctx, timers))
	if sent, err := isSent(ctx, timers, "florist", "order-3"); err != nil || sent {
		check(err)
		fmt.Println("all reminders were sent; delete abide-reminders to start again")
	} else {
		<-last
	}
	stop()
	check(<-done)
}

// open returns timers whose events go to a bus in this process.
func open(st store.Store) (*timer.Service, *bus.Local, error) {
	local := &bus.Local{}
	timers, err := timer.New(timer.Config{
		Store: st,
		Sinks: []outbox.Sink{{Name: "local", Bus: local}},
		Quota: 1000, // armed timers, for each shop
	})
	return timers, local, err
}

// schedule makes the appointments. Those that were made before are left as they are.
func schedule(ctx context.Context, timers *timer.Service) error {
	for _, r := range []timer.Request{
		{Tenant: "bakery", Key: "order-1", Delay: 2 * time.Second, Payload: []byte(`{"text":"take the bread out of the oven"}`)},
		{Tenant: "bakery", Key: "order-2", Delay: 4 * time.Second, Payload: []byte(`{"text":"deliver the cake"}`)},
		{Tenant: "florist", Key: "order-3", Delay: 6 * time.Second, Payload: []byte(`{"text":"water the roses"}`)},
	} {
		r.IfAbsent = true
		if _, err := timers.Schedule(ctx, r); err != nil && !errors.Is(err, timer.ErrExists) {
			return err
		}
	}
	// The customer called: no cake today.
	if _, err := timers.Cancel(ctx, "bakery", "order-2"); err != nil && !errors.Is(err, timer.ErrState) {
		return err
	}
	return nil
}

// isSent reports whether everybody was told of a timer.
func isSent(ctx context.Context, timers *timer.Service, tenant, key string) (bool, error) {
	t, err := timers.Get(ctx, tenant, key)
	return t.Status == timer.Fired && t.Deliveries[0].State == outbox.Published, err
}

// remind returns what to say when a due time is reached.
func remind(e bus.Envelope) (line, key string, err error) {
	var due timer.DueTimeReached
	if err := json.Unmarshal(e.Payload, &due); err != nil {
		return "", "", err
	}
	var reminder struct{ Text string }
	if err := json.Unmarshal(due.Payload, &reminder); err != nil {
		return "", "", err
	}
	return fmt.Sprintf("to the %s: %s (%s)", e.TenantID, reminder.Text, due.ServiceCallID), due.ServiceCallID, nil
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
