package timer_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/abidehq/abide/bus"
	"github.com/abidehq/abide/bus/outbox"
	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/timer"
)

// delivery returns what became of the envelope of a timer of acme at a sink.
func (r *rig) delivery(key, sink string) timer.Delivery {
	r.t.Helper()
	for _, d := range r.get(key).Deliveries {
		if d.Sink == sink {
			return d
		}
	}
	return timer.Delivery{}
}

// twoSinks has a second sink.
func twoSinks(second *recorder) func(*timer.Config) {
	return func(c *timer.Config) {
		c.Sinks = append(c.Sinks, outbox.Sink{Name: "second", Bus: second})
	}
}

var errDown = errors.New("the sink is down")

func TestADeliveryIsPendingUntilSomebodyTries(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, func(c *timer.Config) { c.SinksOf = func(string) []string { return []string{"elsewhere"} } })
		r.run()
		r.schedule(timer.Request{Key: "k"})
		r.pass(time.Hour)
		wantEqual(t, "delivery", r.delivery("k", "elsewhere"), timer.Delivery{Sink: "elsewhere", State: outbox.Pending})
		wantEqual(t, "envelopes", r.sink.count(), 0)

		elsewhere := &recorder{}
		other := newRigOn(t, r.store, func(c *timer.Config) {
			c.Sinks = []outbox.Sink{{Name: "elsewhere", Bus: elsewhere}}
		})
		other.run()
		r.pass(0)
		wantEqual(t, "delivery", r.delivery("k", "elsewhere").State, outbox.Published)
		wantEqual(t, "envelopes elsewhere", elsewhere.count(), 1)
	})
}

func TestADeliveryTellsWhenItIsTriedAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		r.sink.set(func(bus.Envelope) error { return errDown })
		r.run()
		r.schedule(timer.Request{Key: "k"})
		r.pass(0)
		first := r.delivery("k", "sink")
		if wait := first.Next.Sub(r.begun); wait <= 890*time.Millisecond || wait > time.Second {
			t.Errorf("it is tried again after %v, want about a second", wait)
		}
		wantEqual(t, "delivery", first, timer.Delivery{Sink: "sink", State: outbox.Retrying, Attempts: 1, At: r.at(0), Next: first.Next, Error: errDown.Error()})
		r.pass(first.Next.Sub(r.begun))
		second := r.delivery("k", "sink")
		wantEqual(t, "attempts", second.Attempts, 2)
		wantTime(t, "at", second.At, first.Next)
		r.sink.set(nil)
		r.pass(3 * time.Second)
		third := r.delivery("k", "sink")
		wantEqual(t, "delivery", third, timer.Delivery{Sink: "sink", State: outbox.Published, Attempts: 3, At: second.Next})
	})
}

func TestADeliveryThatFailedIsInQuarantine(t *testing.T) {
	for name, tt := range map[string]struct {
		err      error
		reason   string
		attempts int
	}{
		"after the last attempt": {errDown, store.ReasonAttempts, 3},
		"for good":               {fmt.Errorf("no such topic: %w", bus.ErrPermanent), outbox.ReasonRefused, 1},
		"with much to say":       {fmt.Errorf("%s: %w", strings.Repeat("ä", 2000), bus.ErrPermanent), outbox.ReasonRefused, 1},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := newRig(t)
				r.sink.set(func(bus.Envelope) error { return tt.err })
				r.run()
				r.schedule(timer.Request{Key: "k", Payload: []byte("1")})
				r.pass(time.Minute)
				got := r.delivery("k", "sink")
				wantEqual(t, "state", got.State, outbox.Failed)
				wantEqual(t, "attempts", got.Attempts, tt.attempts)
				wantEqual(t, "next", got.Next, time.Time{})
				if !strings.HasPrefix(tt.err.Error(), got.Error) || len(got.Error) < min(len(tt.err.Error()), 500) || len(got.Error) > 512 {
					t.Errorf("its error is %q, want %q", got.Error, tt.err)
				}
				kept := r.quarantine()
				if len(kept) != 1 {
					t.Fatalf("%d messages are in quarantine, want 1", len(kept))
				}
				wantEqual(t, "reason", kept[0].Status, tt.reason)
				wantEqual(t, "queue", kept[0].Name, outbox.Queue)
				if text := kept[0].Tags[store.TagError]; !strings.HasPrefix(tt.err.Error(), text) || text == "" {
					t.Errorf("quarantine says %q, want %q", text, tt.err)
				}

				r.sink.set(nil)
				r.redrive()
				r.pass(0)
				got = r.delivery("k", "sink")
				wantEqual(t, "delivery", got, timer.Delivery{Sink: "sink", State: outbox.Published, Attempts: 1, At: got.At})
				wantEqual(t, "envelopes", r.sink.count(), 1)
				wantEqual(t, "ID", r.sink.got[0].ID, r.get("k").EnvelopeID)
				wantEqual(t, "payload", string(r.get("k").Payload), "1")
			})
		})
	}
}

// TestASinkThatFailsLeavesTheOtherAlone: the other gets each envelope once.
func TestASinkThatFailsLeavesTheOtherAlone(t *testing.T) {
	bubble(t, func(t *testing.T) {
		second := &recorder{}
		r := newRig(t, twoSinks(second))
		r.sink.set(func(bus.Envelope) error { return errDown })
		r.run()
		if _, err := r.ScheduleAll(t.Context(), many("acme", 20)); err != nil {
			t.Fatal(err)
		}
		r.pass(2 * time.Hour)
		wantEqual(t, "envelopes of the one that fails", r.sink.count(), 0)
		wantEqual(t, "envelopes of the other", second.count(), 20)
		for i := range 20 {
			key := fmt.Sprintf("k%05d", i)
			wantEqual(t, key+" at the one", r.delivery(key, "sink").State, outbox.Failed)
			wantEqual(t, key+" at the other", r.delivery(key, "second").State, outbox.Published)
		}
		wantEqual(t, "messages in quarantine", len(r.quarantine()), 20)
	})
}

func TestSinksOfSaysWhereATenantsEnvelopesGo(t *testing.T) {
	bubble(t, func(t *testing.T) {
		second := &recorder{}
		r := newRig(t, twoSinks(second), func(c *timer.Config) {
			c.SinksOf = func(tenant string) []string {
				return map[string][]string{"acme": {"second", "second"}, "both": {"sink", "second"}, "wrong": {"a/b", "sink", ""}}[tenant]
			}
		})
		r.run()
		for _, tenant := range []string{"acme", "both", "nowhere", "wrong"} {
			r.schedule(timer.Request{Tenant: tenant, Key: "k"})
		}
		r.pass(time.Second) // what two sinks say of a timer at once is noted one after another
		for tenant, want := range map[string]string{
			"acme": "second published", "both": "sink published, second published", "nowhere": "",
			"wrong": "a/b failed, sink published,  failed",
		} {
			got, err := r.Get(t.Context(), tenant, "k")
			check.OK(t, err)
			var states []string
			for _, d := range got.Deliveries {
				states = append(states, d.Sink+" "+string(d.State))
				if d.State == outbox.Failed && !strings.Contains(d.Error, "name") {
					t.Errorf("the error of sink %q is %q", d.Sink, d.Error)
				}
			}
			wantEqual(t, tenant+": status", got.Status, timer.Fired)
			wantEqual(t, tenant+": deliveries", strings.Join(states, ", "), want)
		}
		wantEqual(t, "envelopes of the first", r.sink.count(), 2)
		wantEqual(t, "envelopes of the second", second.count(), 2)
	})
}

// TestDeliveriesAreThoseOfWhenItFired: sinks may come and go before they are noted.
func TestDeliveriesAreThoseOfWhenItFired(t *testing.T) {
	bubble(t, func(t *testing.T) {
		sinks := []string{"sink", "elsewhere"}
		r := newRig(t, func(c *timer.Config) { c.SinksOf = func(string) []string { return sinks } })
		r.sink.set(func(bus.Envelope) error { sinks = []string{"sink"}; return nil })
		r.run()
		r.schedule(timer.Request{Key: "k"})
		r.pass(0)
		wantEqual(t, "state", r.delivery("k", "sink").State, outbox.Published)
		wantEqual(t, "state", r.delivery("k", "elsewhere").State, outbox.Pending)
	})
}

// TestAnArmingTellsOfItsOwnEnvelope: what becomes of the one before is not noted with it.
func TestAnArmingTellsOfItsOwnEnvelope(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		r.sink.set(func(bus.Envelope) error { return errDown })
		r.run()
		r.schedule(timer.Request{Key: "k"})
		r.pass(0)
		armed := r.schedule(timer.Request{Key: "k", Delay: time.Hour})
		r.sink.set(nil)
		r.pass(time.Minute)
		wantEqual(t, "envelopes", r.sink.count(), 1)
		got := r.get("k")
		wantEqual(t, "version", got.Version, armed.Version)
		wantEqual(t, "deliveries", len(got.Deliveries), 0)

		// One that has fired again has a delivery of its own.
		r.sink.set(func(bus.Envelope) error { return errDown })
		r.schedule(timer.Request{Key: "k"})
		r.pass(0)
		r.schedule(timer.Request{Key: "k"})
		r.sink.set(func(e bus.Envelope) error {
			if e.ID == r.get("k").EnvelopeID {
				return bus.RetryAfter(errDown, time.Hour)
			}
			return nil
		})
		r.pass(time.Minute)
		wantEqual(t, "envelopes", r.sink.count(), 2)
		wantEqual(t, "state of the second", r.delivery("k", "sink").State, outbox.Retrying)
	})
}
