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
	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/store/storetest"
	"github.com/abidehq/abide/timer"
)

// redeliver has the envelope of a timer of acme published once more.
func (r *rig) redeliver(key, sink string) timer.Timer {
	r.t.Helper()
	got, err := r.Redeliver(r.t.Context(), "acme", key, sink)
	check.OK(r.t, err)
	return got
}

func TestSinksAreThoseOfTheProcess(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, twoSinks(&recorder{}))
		got := r.Sinks()
		check.Equal(t, "the sinks", got, []string{"sink", "second"})
		got[0] = "changed"
		wantEqual(t, "the first sink", r.Sinks()[0], "sink")
	})
}

// TestRedeliverPublishesTheSameEnvelope, byte for byte, soon after it has fired and long after.
func TestRedeliverPublishesTheSameEnvelope(t *testing.T) {
	for _, after := range []time.Duration{time.Second, time.Hour} {
		t.Run(fmt.Sprint(after), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := newRig(t)
				r.run()
				r.pass(123 * time.Microsecond) // what is kept is kept in whole milliseconds
				r.schedule(timer.Request{Key: "a/ö \"q\"", CorrelationID: "corr", Payload: []byte(`{"a": [1, "<x>"]}`)})
				r.pass(after)
				fired := r.get("a/ö \"q\"")
				for i := range 3 {
					got := r.redeliver(fired.Key, "sink")
					wantEqual(t, "state", got.Deliveries[0].State, outbox.Pending)
					r.pass(time.Millisecond)
					now := r.get(fired.Key)
					wantEqual(t, "delivery", now.Deliveries[0], timer.Delivery{Sink: "sink", State: outbox.Published, Attempts: 1, At: now.Deliveries[0].At})
					wantEqual(t, "envelopes", r.sink.count(), i+2)
					first, last := r.sink.got[0], r.sink.got[i+1]
					if first.ID != last.ID || first.CorrelationID != last.CorrelationID || first.TimestampMs != last.TimestampMs || string(first.Payload) != string(last.Payload) {
						t.Errorf("the envelope is\n%+v %s\nand was\n%+v %s", last, last.Payload, first, first.Payload)
					}
					wantEqual(t, "status", now.Status, timer.Fired)
					wantEqual(t, "payload", string(now.Payload), string(fired.Payload))
					wantTime(t, "fired at", now.FiredAt, fired.FiredAt)
					wantTime(t, "due at", now.DueAt, fired.DueAt)
					wantEqual(t, "arming", now.Arming, fired.Arming)
				}
			})
		})
	}
}

// TestRedeliverRedrivesWhatIsInQuarantine, and publishes nothing besides.
func TestRedeliverRedrivesWhatIsInQuarantine(t *testing.T) {
	bubble(t, func(t *testing.T) {
		second := &recorder{}
		r := newRig(t, twoSinks(second))
		r.sink.set(func(bus.Envelope) error { return errDown })
		r.run()
		r.schedule(timer.Request{Key: "other"})
		r.schedule(timer.Request{Key: "k"})
		r.pass(time.Hour)
		wantEqual(t, "messages in quarantine", len(r.quarantine()), 2)
		r.sink.set(nil)
		r.redeliver("k", "sink")
		r.pass(time.Hour)
		wantEqual(t, "messages in quarantine", len(r.quarantine()), 1)
		wantEqual(t, "envelopes", r.sink.count(), 1)
		wantEqual(t, "ID", r.sink.got[0].ID, r.get("k").EnvelopeID)
		wantEqual(t, "state", r.delivery("k", "sink").State, outbox.Published)
		wantEqual(t, "state of the other", r.delivery("other", "sink").State, outbox.Failed)
		wantEqual(t, "envelopes of the second sink", second.count(), 2)

		// What was discarded is published all the same: the record has what it takes.
		rec := r.quarantine()[0]
		check.OK(t, r.store.Commit(t.Context(), &store.Tx{DeleteRecords: []store.DeleteRecord{{Key: rec.Key, Expect: rec.Version}}}))
		r.redeliver("other", "sink")
		r.pass(time.Second)
		wantEqual(t, "envelopes", r.sink.count(), 2)
		wantEqual(t, "state of the other", r.delivery("other", "sink").State, outbox.Published)
	})
}

// TestRedeliverDoesNotWait: what is to be tried again later is tried now, once.
func TestRedeliverDoesNotWait(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		r.sink.set(func(bus.Envelope) error { return bus.RetryAfter(errDown, 5*time.Hour) })
		r.run()
		r.schedule(timer.Request{Key: "k"})
		r.pass(time.Hour)
		wantEqual(t, "state", r.delivery("k", "sink").State, outbox.Retrying)
		r.sink.set(nil)
		got := r.redeliver("k", "sink")
		wantEqual(t, "state", got.Deliveries[0].State, outbox.Retrying)
		wantEqual(t, "attempts", got.Deliveries[0].Attempts, 1)
		r.pass(time.Second)
		wantEqual(t, "attempts", r.delivery("k", "sink").Attempts, 2)
		wantEqual(t, "state", r.delivery("k", "sink").State, outbox.Published)
		r.pass(10 * time.Hour)
		wantEqual(t, "envelopes", r.sink.count(), 1)
	})
}

// TestRedeliverOfWhatWaitsChangesNothing: it is published once, when there is somebody to.
func TestRedeliverOfWhatWaitsChangesNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, func(c *timer.Config) { c.SinksOf = func(string) []string { return []string{"elsewhere"} } })
		r.run()
		r.schedule(timer.Request{Key: "k"})
		r.pass(time.Second)
		before := r.get("k")
		for range 3 {
			wantEqual(t, "version", r.redeliver("k", "elsewhere").Version, before.Version)
		}
		elsewhere := &recorder{}
		other := newRigOn(t, r.store, func(c *timer.Config) { c.Sinks = []outbox.Sink{{Name: "elsewhere", Bus: elsewhere}} })
		other.run()
		r.pass(time.Second)
		wantEqual(t, "envelopes", elsewhere.count(), 1)
	})
}

// TestRedeliverToAnotherSink that the tenant has by now: it is one more delivery.
func TestRedeliverToAnotherSink(t *testing.T) {
	bubble(t, func(t *testing.T) {
		second := &recorder{}
		sinks := []string{"sink"}
		r := newRig(t, twoSinks(second), func(c *timer.Config) { c.SinksOf = func(string) []string { return sinks } })
		r.run()
		r.schedule(timer.Request{Key: "k", Payload: []byte("1")})
		r.pass(time.Second)
		sinks = []string{"second"}
		r.redeliver("k", "sink") // it went there before
		r.pass(time.Second)
		wantEqual(t, "envelopes of the first", r.sink.count(), 2)
		r.sink.got = r.sink.got[:1]
		r.redeliver("k", "second")
		r.pass(time.Second)
		wantEqual(t, "envelopes of the first", r.sink.count(), 1)
		wantEqual(t, "envelopes of the second", second.count(), 1)
		wantEqual(t, "ID", second.got[0].ID, r.sink.got[0].ID)
		wantEqual(t, "state", r.delivery("k", "second").State, outbox.Published)
		wantEqual(t, "deliveries", len(r.get("k").Deliveries), 2)
	})
}

// TestRedeliverRefusesSinksOfOtherTenants: nothing is published there, and the error does not
// name them.
func TestRedeliverRefusesSinksOfOtherTenants(t *testing.T) {
	bubble(t, func(t *testing.T) {
		second := &recorder{}
		r := newRig(t, twoSinks(second), func(c *timer.Config) {
			c.SinksOf = func(tenant string) []string {
				return map[string][]string{"acme": {"sink"}, "north": {"second"}}[tenant]
			}
		})
		r.run()
		r.schedule(timer.Request{Key: "k"})
		r.pass(time.Second)
		for _, sink := range []string{"second", "none"} {
			_, err := r.Redeliver(t.Context(), "acme", "k", sink)
			wantError(t, err, timer.ErrInvalid, "it can be one of: sink:")
		}
		r.pass(time.Hour)
		wantEqual(t, "envelopes of the other tenant's sink", second.count(), 0)
	})
}

// TestRedeliverRefuses what has no envelope, and sinks that nobody has.
func TestRedeliverRefuses(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		r.run()
		r.schedule(timer.Request{Key: "armed", Delay: time.Hour})
		r.schedule(timer.Request{Key: "cancelled", Delay: time.Hour})
		r.cancel("cancelled")
		r.schedule(timer.Request{Key: "fired"})
		r.pass(time.Second)
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
			wantError(t, err, tt.is, tt.says)
		}
		wantEqual(t, "envelopes", r.sink.count(), 1)
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
					r := newRig(t)
					r.sink.set(func(bus.Envelope) error { return errDown })
					r.run()
					r.schedule(timer.Request{Key: "k"})
					r.pass(time.Hour)
					r.sink.set(nil)
					faulty := storetest.NewFaulty(r.store, func(c storetest.Call) storetest.Fault {
						if c.N == k {
							return how
						}
						return storetest.NoFault
					})
					other := newRigOn(t, faulty)
					_, err := other.Redeliver(t.Context(), "acme", "k", "sink")
					if more = faulty.Calls() >= k; err != nil {
						if !errors.Is(err, storetest.ErrFault) {
							t.Fatal(err)
						}
						r.pass(time.Second)
						if _, err = other.Redeliver(t.Context(), "acme", "k", "sink"); err != nil {
							t.Fatal(err)
						}
					}
					r.pass(time.Second)
					wantEqual(t, "state", r.delivery("k", "sink").State, outbox.Published)
					wantEqual(t, "messages in quarantine", len(r.quarantine()), 0)
					if n := r.sink.count(); n < 1 || n > 2 {
						t.Errorf("%d envelopes", n)
					}
				})
			})
		}
	}
}

// TestListTheLatestFirst, page by page.
func TestListTheLatestFirst(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		for i := range 5 {
			r.schedule(timer.Request{Key: fmt.Sprint("k", i), Delay: time.Duration(i+1) * time.Hour})
		}
		for _, descending := range []bool{false, true} {
			var got []string
			for cursor := ""; ; {
				page, err := r.List(t.Context(), timer.Filter{Tenant: "acme", Descending: descending}, 2, cursor)
				check.OK(t, err)
				for i := range page.Timers {
					got = append(got, page.Timers[i].Key)
				}
				if cursor = page.Next; cursor == "" {
					break
				}
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
