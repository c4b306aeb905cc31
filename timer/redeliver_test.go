package timer_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/abidehq/abide/bus"
	"github.com/abidehq/abide/bus/outbox"
	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/internal/rig"
	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/store/storetest"
	"github.com/abidehq/abide/timer"
)

// redeliver has the envelope of a timer of acme published once more.
func (r *fixture) redeliver(key, sink string) timer.Timer {
	r.T.Helper()
	got, err := r.Redeliver(r.T.Context(), "acme", key, sink)
	check.OK(r.T, err)
	return got
}

func TestSinksAreThoseOfTheProcess(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := newFixture(t, twoSinks(&rig.Recorder{}))
		got := r.Sinks()
		check.Equal(t, "the sinks", got, []string{"sink", "second"})
		got[0] = "changed"
		check.Equal(t, "the first sink", r.Sinks()[0], "sink")
	})
}

// TestRedeliverPublishesTheSameEnvelope, byte for byte, soon after it has fired and long after.
func TestRedeliverPublishesTheSameEnvelope(t *testing.T) {
	for _, after := range []time.Duration{time.Second, time.Hour} {
		t.Run(fmt.Sprint(after), func(t *testing.T) {
			rig.Bubble(t, func(t *testing.T) {
				r := newFixture(t)
				r.run()
				rig.Pass(123 * time.Microsecond) // what is kept is kept in whole milliseconds
				r.schedule(timer.Request{Key: "a/ö \"q\"", CorrelationID: "corr", Payload: []byte(`{"a": [1, "<x>"]}`)})
				rig.Pass(after)
				fired := r.get("a/ö \"q\"")
				for i := range 3 {
					got := r.redeliver(fired.Key, "sink")
					check.Equal(t, "state", got.Deliveries[0].State, outbox.Pending)
					rig.Pass(time.Millisecond)
					now := r.get(fired.Key)
					check.Equal(t, "delivery", now.Deliveries[0], timer.Delivery{Sink: "sink", State: outbox.Published, Attempts: 1, At: now.Deliveries[0].At})
					check.Equal(t, "envelopes", len(r.sink.Accepted()), i+2)
					first, last := r.sink.Accepted()[0], r.sink.Accepted()[i+1]
					if first.ID != last.ID || first.CorrelationID != last.CorrelationID || first.TimestampMs != last.TimestampMs || string(first.Payload) != string(last.Payload) {
						t.Errorf("the envelope is\n%+v %s\nand was\n%+v %s", last, last.Payload, first, first.Payload)
					}
					check.Equal(t, "status", now.Status, timer.Fired)
					check.Equal(t, "payload", string(now.Payload), string(fired.Payload))
					check.Equal(t, "fired at", now.FiredAt, fired.FiredAt)
					check.Equal(t, "due at", now.DueAt, fired.DueAt)
					check.Equal(t, "arming", now.Arming, fired.Arming)
				}
			})
		})
	}
}

// TestRedeliverRedrivesWhatIsInQuarantine, and publishes nothing besides.
func TestRedeliverRedrivesWhatIsInQuarantine(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		second := &rig.Recorder{}
		r := newFixture(t, twoSinks(second))
		r.sink.Refuse(func(bus.Envelope) error { return errDown })
		r.run()
		r.schedule(timer.Request{Key: "other"})
		r.schedule(timer.Request{Key: "k"})
		rig.Pass(time.Hour)
		check.Equal(t, "messages in quarantine", len(r.Quarantine()), 2)
		r.sink.Refuse(nil)
		r.redeliver("k", "sink")
		rig.Pass(time.Hour)
		check.Equal(t, "messages in quarantine", len(r.Quarantine()), 1)
		check.Equal(t, "envelopes", len(r.sink.Accepted()), 1)
		check.Equal(t, "ID", r.sink.Accepted()[0].ID, r.get("k").EnvelopeID)
		check.Equal(t, "state", r.delivery("k", "sink").State, outbox.Published)
		check.Equal(t, "state of the other", r.delivery("other", "sink").State, outbox.Failed)
		check.Equal(t, "envelopes of the second sink", len(second.Accepted()), 2)

		// What was discarded is published all the same: the record has what it takes.
		rec := r.Quarantine()[0]
		check.OK(t, r.Store.Commit(t.Context(), &store.Tx{DeleteRecords: []store.DeleteRecord{{Key: rec.Key, Expect: rec.Version}}}))
		r.redeliver("other", "sink")
		rig.Pass(time.Second)
		check.Equal(t, "envelopes", len(r.sink.Accepted()), 2)
		check.Equal(t, "state of the other", r.delivery("other", "sink").State, outbox.Published)
	})
}

// TestRedeliverDoesNotWait: what is to be tried again later is tried now, once.
func TestRedeliverDoesNotWait(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := newFixture(t)
		r.sink.Refuse(func(bus.Envelope) error { return bus.RetryAfter(errDown, 5*time.Hour) })
		r.run()
		r.schedule(timer.Request{Key: "k"})
		rig.Pass(time.Hour)
		check.Equal(t, "state", r.delivery("k", "sink").State, outbox.Retrying)
		r.sink.Refuse(nil)
		got := r.redeliver("k", "sink")
		check.Equal(t, "state", got.Deliveries[0].State, outbox.Retrying)
		check.Equal(t, "attempts", got.Deliveries[0].Attempts, 1)
		rig.Pass(time.Second)
		check.Equal(t, "attempts", r.delivery("k", "sink").Attempts, 2)
		check.Equal(t, "state", r.delivery("k", "sink").State, outbox.Published)
		rig.Pass(10 * time.Hour)
		check.Equal(t, "envelopes", len(r.sink.Accepted()), 1)
	})
}

// TestRedeliverOfWhatWaitsChangesNothing: it is published once, when a relay runs.
func TestRedeliverOfWhatWaitsChangesNothing(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := newFixture(t, func(c *timer.Config) { c.SinksOf = func(string) []string { return []string{"elsewhere"} } })
		r.run()
		r.schedule(timer.Request{Key: "k"})
		rig.Pass(time.Second)
		before := r.get("k")
		for range 3 {
			check.Equal(t, "version", r.redeliver("k", "elsewhere").Version, before.Version)
		}
		elsewhere := &rig.Recorder{}
		other := newFixtureOn(t, r.Store, func(c *timer.Config) { c.Sinks = []outbox.Sink{{Name: "elsewhere", Bus: elsewhere}} })
		other.run()
		rig.Pass(time.Second)
		check.Equal(t, "envelopes", len(elsewhere.Accepted()), 1)
	})
}

// TestRedeliverToAnotherSink that the tenant has by now: it is one more delivery.
func TestRedeliverToAnotherSink(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		second := &rig.Recorder{}
		sinks := []string{"sink"}
		r := newFixture(t, twoSinks(second), func(c *timer.Config) { c.SinksOf = func(string) []string { return sinks } })
		r.run()
		r.schedule(timer.Request{Key: "k", Payload: []byte("1")})
		rig.Pass(time.Second)
		sinks = []string{"second"}
		r.redeliver("k", "sink") // it went there before
		rig.Pass(time.Second)
		check.Equal(t, "envelopes of the first", len(r.sink.Accepted()), 2)
		r.redeliver("k", "second")
		rig.Pass(time.Second)
		check.Equal(t, "envelopes of the first", len(r.sink.Accepted()), 2)
		check.Equal(t, "envelopes of the second", len(second.Accepted()), 1)
		check.Equal(t, "ID", second.Accepted()[0].ID, r.sink.Accepted()[0].ID)
		check.Equal(t, "state", r.delivery("k", "second").State, outbox.Published)
		check.Equal(t, "deliveries", len(r.get("k").Deliveries), 2)
	})
}

// TestRedeliverRefusesSinksOfOtherTenants: nothing is published there, and the error does not
// name them.
func TestRedeliverRefusesSinksOfOtherTenants(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		second := &rig.Recorder{}
		r := newFixture(t, twoSinks(second), func(c *timer.Config) {
			c.SinksOf = func(tenant string) []string {
				return map[string][]string{"acme": {"sink"}, "north": {"second"}}[tenant]
			}
		})
		r.run()
		r.schedule(timer.Request{Key: "k"})
		rig.Pass(time.Second)
		for _, sink := range []string{"second", "none"} {
			_, err := r.Redeliver(t.Context(), "acme", "k", sink)
			check.ErrorOf(t, "timer", err, timer.ErrInvalid, "it can be one of: sink:")
		}
		rig.Pass(time.Hour)
		check.Equal(t, "envelopes of the other tenant's sink", len(second.Accepted()), 0)
	})
}

// TestRedeliverRefuses what has no envelope, and sinks that nobody has.
func TestRedeliverRefuses(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := newFixture(t)
		r.run()
		r.schedule(timer.Request{Key: "armed", Delay: time.Hour})
		r.schedule(timer.Request{Key: "cancelled", Delay: time.Hour})
		r.cancel("cancelled")
		r.schedule(timer.Request{Key: "fired"})
		rig.Pass(time.Second)
		for _, tt := range []struct {
			key, sink string
			is        error
			says      string
		}{
			{"armed", "sink", timer.ErrState, "it is armed"},
			{"cancelled", "sink", timer.ErrState, "it is cancelled"},
			{"none", "sink", timer.ErrNotFound, "acme/none"},
			{"fired", "snik", timer.ErrInvalid, `unknown sink "snik"; it can be one of: sink`},
			{"fired", "", timer.ErrInvalid, "unknown sink"},
			{"", "sink", timer.ErrInvalid, "key is empty"},
			{"a\x00b", "sink", timer.ErrInvalid, "control character"},
		} {
			_, err := r.Redeliver(t.Context(), "acme", tt.key, tt.sink)
			check.ErrorOf(t, "timer", err, tt.is, tt.says)
		}
		check.Equal(t, "envelopes", len(r.sink.Accepted()), 1)
	})
}

// TestRedeliverSurvivesAFaultAtEveryCall: after a call of which nobody knows what became, and
// another one, the envelope is there again, and quarantine is empty.
func TestRedeliverSurvivesAFaultAtEveryCall(t *testing.T) {
	t.Parallel()
	for _, how := range []storetest.Fault{storetest.FailBefore, storetest.FailAfter} {
		for k, more := 1, true; more; k++ {
			t.Run(fmt.Sprint(how, " ", k), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					r := newFixture(t)
					r.sink.Refuse(func(bus.Envelope) error { return errDown })
					r.run()
					r.schedule(timer.Request{Key: "k"})
					rig.Pass(time.Hour)
					r.sink.Refuse(nil)
					faulty := storetest.NewFaulty(r.Store, func(c storetest.Call) storetest.Fault {
						if c.N == k {
							return how
						}
						return storetest.NoFault
					})
					other := newFixtureOn(t, faulty)
					_, err := other.Redeliver(t.Context(), "acme", "k", "sink")
					if more = faulty.Calls() >= k; err != nil {
						if !errors.Is(err, storetest.ErrFault) {
							t.Fatal(err)
						}
						rig.Pass(time.Second)
						if _, err = other.Redeliver(t.Context(), "acme", "k", "sink"); err != nil {
							t.Fatal(err)
						}
					}
					rig.Pass(time.Second)
					check.Equal(t, "state", r.delivery("k", "sink").State, outbox.Published)
					check.Equal(t, "messages in quarantine", len(r.Quarantine()), 0)
					if n := len(r.sink.Accepted()); n < 1 || n > 2 {
						t.Errorf("%d envelopes", n)
					}
				})
			})
		}
	}
}

// TestListTheLatestFirst, page by page.
func TestListTheLatestFirst(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := newFixture(t)
		for i := range 5 {
			r.schedule(timer.Request{Key: fmt.Sprint("k", i), Delay: time.Duration(i+1) * time.Hour})
		}
		for _, descending := range []bool{false, true} {
			var got []string
			for _, listed := range check.All(t, r.All(t.Context(), timer.Filter{Tenant: "acme", Descending: descending, Limit: 2})) {
				got = append(got, listed.Key)
			}
			want := []string{"k0", "k1", "k2", "k3", "k4"}
			if descending {
				slices.Reverse(want)
			}
			if !slices.Equal(got, want) {
				t.Errorf("descending %v: %v", descending, got)
			}
		}
	})
}
