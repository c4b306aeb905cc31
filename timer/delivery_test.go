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
	"github.com/abidehq/abide/internal/rig"
	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/timer"
)

// delivery returns the delivery of the envelope of a timer of acme to a sink.
func (r *fixture) delivery(key, sink string) timer.Delivery {
	r.T.Helper()
	for _, d := range r.get(key).Deliveries {
		if d.Sink == sink {
			return d
		}
	}
	return timer.Delivery{}
}

// twoSinks has a second sink.
func twoSinks(second *rig.Recorder) func(*timer.Config) {
	return func(c *timer.Config) {
		c.Sinks = append(c.Sinks, outbox.Sink{Name: "second", Bus: second})
	}
}

var errDown = errors.New("the sink is down")

func TestADeliveryIsPendingUntilItIsTried(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := newFixture(t, func(c *timer.Config) { c.SinksOf = func(string) []string { return []string{"elsewhere"} } })
		r.run()
		r.schedule(timer.Request{Key: "k"})
		rig.Pass(time.Hour)
		check.Equal(t, "delivery", r.delivery("k", "elsewhere"), timer.Delivery{Sink: "elsewhere", State: outbox.Pending})
		check.Equal(t, "envelopes", len(r.sink.Accepted()), 0)

		elsewhere := &rig.Recorder{}
		other := newFixtureOn(t, r.Store, func(c *timer.Config) {
			c.Sinks = []outbox.Sink{{Name: "elsewhere", Bus: elsewhere}}
		})
		other.run()
		rig.Pass(0)
		check.Equal(t, "delivery", r.delivery("k", "elsewhere").State, outbox.Published)
		check.Equal(t, "envelopes elsewhere", len(elsewhere.Accepted()), 1)
	})
}

func TestADeliveryTellsWhenItIsTriedAgain(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := newFixture(t)
		r.sink.Refuse(func(bus.Envelope) error { return errDown })
		r.run()
		r.schedule(timer.Request{Key: "k"})
		rig.Pass(0)
		first := r.delivery("k", "sink")
		if wait := first.Next.Sub(r.Began); wait <= 890*time.Millisecond || wait > time.Second {
			t.Errorf("it is tried again after %v, want about a second", wait)
		}
		check.Equal(t, "delivery", first, timer.Delivery{Sink: "sink", State: outbox.Retrying, Attempts: 1, At: r.At(0), Next: first.Next, Error: errDown.Error()})
		rig.Pass(first.Next.Sub(r.Began))
		second := r.delivery("k", "sink")
		check.Equal(t, "attempts", second.Attempts, 2)
		check.Equal(t, "at", second.At, first.Next)
		r.sink.Refuse(nil)
		rig.Pass(3 * time.Second)
		third := r.delivery("k", "sink")
		check.Equal(t, "delivery", third, timer.Delivery{Sink: "sink", State: outbox.Published, Attempts: 3, At: second.Next})
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
			rig.Bubble(t, func(t *testing.T) {
				r := newFixture(t)
				r.sink.Refuse(func(bus.Envelope) error { return tt.err })
				r.run()
				r.schedule(timer.Request{Key: "k", Payload: []byte("1")})
				rig.Pass(time.Minute)
				got := r.delivery("k", "sink")
				check.Equal(t, "state", got.State, outbox.Failed)
				check.Equal(t, "attempts", got.Attempts, tt.attempts)
				check.Equal(t, "next", got.Next, time.Time{})
				if !strings.HasPrefix(tt.err.Error(), got.Error) || len(got.Error) < min(len(tt.err.Error()), 500) || len(got.Error) > 512 {
					t.Errorf("its error is %q, want %q", got.Error, tt.err)
				}
				kept := r.Quarantine()
				if len(kept) != 1 {
					t.Fatalf("%d messages are in quarantine, want 1", len(kept))
				}
				check.Equal(t, "reason", kept[0].Status, tt.reason)
				check.Equal(t, "queue", kept[0].Name, outbox.Queue)
				if text := kept[0].Tags[store.TagError]; !strings.HasPrefix(tt.err.Error(), text) || text == "" {
					t.Errorf("quarantine says %q, want %q", text, tt.err)
				}

				r.sink.Refuse(nil)
				r.Redrive()
				rig.Pass(0)
				got = r.delivery("k", "sink")
				check.Equal(t, "delivery", got, timer.Delivery{Sink: "sink", State: outbox.Published, Attempts: 1, At: got.At})
				check.Equal(t, "envelopes", len(r.sink.Accepted()), 1)
				check.Equal(t, "ID", r.sink.Accepted()[0].ID, r.get("k").EnvelopeID)
				check.Equal(t, "payload", string(r.get("k").Payload), "1")
			})
		})
	}
}

// TestASinkThatFailsLeavesTheOtherAlone: the other gets each envelope once.
func TestASinkThatFailsLeavesTheOtherAlone(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		second := &rig.Recorder{}
		r := newFixture(t, twoSinks(second))
		r.sink.Refuse(func(bus.Envelope) error { return errDown })
		r.run()
		if _, err := r.ScheduleAll(t.Context(), many("acme", 20)); err != nil {
			t.Fatal(err)
		}
		rig.Pass(2 * time.Hour)
		check.Equal(t, "envelopes of the one that fails", len(r.sink.Accepted()), 0)
		check.Equal(t, "envelopes of the other", len(second.Accepted()), 20)
		for i := range 20 {
			key := fmt.Sprintf("k%05d", i)
			check.Equal(t, key+" at the one", r.delivery(key, "sink").State, outbox.Failed)
			check.Equal(t, key+" at the other", r.delivery(key, "second").State, outbox.Published)
		}
		check.Equal(t, "messages in quarantine", len(r.Quarantine()), 20)
	})
}

func TestSinksOfSaysWhereATenantsEnvelopesGo(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		second := &rig.Recorder{}
		r := newFixture(t, twoSinks(second), func(c *timer.Config) {
			c.SinksOf = func(tenant string) []string {
				return map[string][]string{"acme": {"second", "second"}, "both": {"sink", "second"}, "wrong": {"a/b", "sink", ""}}[tenant]
			}
		})
		r.run()
		for _, tenant := range []string{"acme", "both", "nowhere", "wrong"} {
			r.schedule(timer.Request{Tenant: tenant, Key: "k"})
		}
		rig.Pass(time.Second) // what two sinks say of a timer at once is noted one after another
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
			check.Equal(t, tenant+": status", got.Status, timer.Fired)
			check.Equal(t, tenant+": deliveries", strings.Join(states, ", "), want)
		}
		check.Equal(t, "envelopes of the first", len(r.sink.Accepted()), 2)
		check.Equal(t, "envelopes of the second", len(second.Accepted()), 2)
	})
}

// TestDeliveriesAreThoseOfWhenItFired: sinks may come and go before they are noted.
func TestDeliveriesAreThoseOfWhenItFired(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		sinks := []string{"sink", "elsewhere"}
		r := newFixture(t, func(c *timer.Config) { c.SinksOf = func(string) []string { return sinks } })
		r.sink.Refuse(func(bus.Envelope) error { sinks = []string{"sink"}; return nil })
		r.run()
		r.schedule(timer.Request{Key: "k"})
		rig.Pass(0)
		check.Equal(t, "state", r.delivery("k", "sink").State, outbox.Published)
		check.Equal(t, "state", r.delivery("k", "elsewhere").State, outbox.Pending)
	})
}

// TestAnArmingTellsOfItsOwnEnvelope: what becomes of the one before is not noted with it.
func TestAnArmingTellsOfItsOwnEnvelope(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := newFixture(t)
		r.sink.Refuse(func(bus.Envelope) error { return errDown })
		r.run()
		r.schedule(timer.Request{Key: "k"})
		rig.Pass(0)
		armed := r.schedule(timer.Request{Key: "k", Delay: time.Hour})
		r.sink.Refuse(nil)
		rig.Pass(time.Minute)
		check.Equal(t, "envelopes", len(r.sink.Accepted()), 1)
		got := r.get("k")
		check.Equal(t, "version", got.Version, armed.Version)
		check.Equal(t, "deliveries", len(got.Deliveries), 0)

		// One that has fired again has a delivery of its own.
		r.sink.Refuse(func(bus.Envelope) error { return errDown })
		r.schedule(timer.Request{Key: "k"})
		rig.Pass(0)
		r.schedule(timer.Request{Key: "k"})
		r.sink.Refuse(func(e bus.Envelope) error {
			if e.ID == r.get("k").EnvelopeID {
				return bus.RetryAfter(errDown, time.Hour)
			}
			return nil
		})
		rig.Pass(time.Minute)
		check.Equal(t, "envelopes", len(r.sink.Accepted()), 2)
		check.Equal(t, "state of the second", r.delivery("k", "sink").State, outbox.Retrying)
	})
}
