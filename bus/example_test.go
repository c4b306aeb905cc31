package bus_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/abidehq/abide/bus"
)

var paid = bus.Envelope{
	ID: "01938a5e-7c00-7000-8000-000000000001", Type: "InvoicePaid", TenantID: "acme", TimestampMs: 1_772_366_400_000, Payload: []byte(`{"cents":4200}`),
}

// A handler is called for the envelopes that match its filter.
func ExampleLocal_Subscribe() {
	var local bus.Local
	cancel := local.Subscribe(bus.Filter{Type: "InvoicePaid", TenantID: "acme"}, func(_ context.Context, e bus.Envelope) error {
		fmt.Println(e.Type, e.Time().UTC().Format(time.DateOnly), string(e.Payload))
		return nil
	})
	defer cancel()
	other := paid
	other.TenantID = "globex"
	if err := local.Publish(context.Background(), []bus.Envelope{paid, other}); err != nil {
		log.Fatal(err)
	}
	// Output: InvoicePaid 2026-03-01 {"cents":4200}
}

// Envelopes are JSON on the wire.
func ExampleDecode() {
	data, err := paid.Encode()
	if err != nil {
		log.Fatal(err)
	}
	e, err := bus.Decode(data)
	fmt.Println(e.ID == paid.ID, string(e.Payload), err)
	_, err = bus.Decode([]byte(`{"id":"1"}`))
	fmt.Println(errors.Is(err, bus.ErrInvalid))
	// Output:
	// true {"cents":4200} <nil>
	// true
}

// A bus reports the outcome of each envelope, and which are worth another attempt.
func ExampleOutcomes() {
	err := bus.Join([]error{nil, bus.ErrPermanent, bus.RetryAfter(errors.New("busy"), time.Minute)})
	for i, outcome := range bus.Outcomes(err, 3) {
		delay, _ := bus.RetryDelay(outcome)
		fmt.Println(i, outcome == nil, errors.Is(outcome, bus.ErrPermanent), delay)
	}
	// Output:
	// 0 true false 0s
	// 1 false true 0s
	// 2 false false 1m0s
}
