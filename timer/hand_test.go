package timer_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/abidehq/abide/bus"
	"github.com/abidehq/abide/bus/outbox"
	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/internal/rig"
	"github.com/abidehq/abide/internal/teststore"
	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/store/storetest"
	"github.com/abidehq/abide/timer"
)

// inOutbox returns how many messages were ever put into the outbox, by a store that
// counts them.
type countingPuts struct {
	store.Store
	outbox int
}

func (c *countingPuts) Commit(ctx context.Context, tx *store.Tx) error {
	for i := range tx.Put {
		if tx.Put[i].Key.Queue == outbox.Queue {
			c.outbox++
		}
	}
	return c.Store.Commit(ctx, tx)
}

// A sink that is quick gets its envelopes from who fires the timers.
func TestQuickSinksGetEnvelopesAtOnce(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		s := teststore.New(t)
		defer s.Close()
		counting := &countingPuts{Store: s}
		r := newFixtureOn(t, counting)
		stop := r.run()
		for _, key := range []string{"a", "b", "c"} {
			r.schedule(timer.Request{Key: key, Delay: time.Minute})
		}
		rig.Pass(time.Minute)
		stop()
		check.Equal(t, "envelopes", len(r.sink.Accepted()), 3)
		check.Equal(t, "messages in the outbox", counting.outbox, 0)
		for _, key := range []string{"a", "b", "c"} {
			d := r.get(key).Deliveries
			if len(d) != 1 || d[0].State != outbox.Published || d[0].Attempts != 1 {
				t.Errorf("deliveries of %s are %+v", key, d)
			}
		}
		wantQuiet(t, s)
	})
}

// What a sink does not accept at once is tried again from the outbox, and all attempts
// count.
func TestEnvelopeThatIsNotAcceptedAtOnceIsTriedAgain(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		s := teststore.New(t)
		defer s.Close()
		counting := &countingPuts{Store: s}
		r := newFixtureOn(t, counting)
		r.sink.Refuse(func(bus.Envelope) error { return errors.New("not now") })
		stop := r.run()
		r.schedule(timer.Request{Key: "k", Delay: time.Minute})
		rig.Pass(time.Minute)
		check.Equal(t, "messages in the outbox", counting.outbox, 1)
		if d := r.get("k").Deliveries[0]; d.State != outbox.Retrying || d.Attempts != 1 || d.Error != "not now" {
			t.Errorf("delivery is %+v after the first attempt", d)
		}
		r.sink.Refuse(nil)
		rig.Pass(time.Minute)
		stop()
		if d := r.get("k").Deliveries[0]; d.State != outbox.Published || d.Attempts != 2 {
			t.Errorf("delivery is %+v after the second attempt", d)
		}
		check.Equal(t, "envelopes", len(r.sink.Accepted()), 1)
		check.Equal(t, "ID", r.sink.Accepted()[0].ID, r.get("k").EnvelopeID)
		wantQuiet(t, s)
	})
}

// A sink that takes its time does not hold up timers: its envelopes wait in the outbox.
func TestSlowSinksDoNotHoldUpTimers(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := newFixture(t, func(c *timer.Config) {
			slow := slowly{to: c.Sinks[0].Bus, d: 30 * time.Second}
			c.Sinks = []outbox.Sink{{Name: "slow", Bus: slow, Publishers: 1, Batch: 1}}
			c.Workers = 1
		})
		stop := r.run()
		for _, key := range []string{"a", "b", "c", "d"} {
			r.schedule(timer.Request{Key: key, Delay: time.Minute})
		}
		rig.Pass(time.Minute)
		r.schedule(timer.Request{Key: "next", Delay: time.Second})
		rig.Pass(10 * time.Second) // the first one is given up by then, and not waited for again
		for _, key := range []string{"a", "b", "c", "d", "next"} {
			got := r.get(key)
			check.Equal(t, key+": status", got.Status, timer.Fired)
			if late := got.FiredAt.Sub(got.DueAt); late > 3*time.Second {
				t.Errorf("%s fired %v late", key, late)
			}
		}
		rig.Pass(time.Hour)
		stop()
		for _, key := range []string{"a", "b", "c", "d", "next"} {
			if d := r.get(key).Deliveries[0]; d.State != outbox.Published {
				t.Errorf("delivery of %s is %+v", key, d)
			}
		}
	})
}

// A process dies when its timer has fired and before its envelope was published, or after
// that. The next process publishes the same envelope, also if the timer was armed again,
// or cancelled after that, in between.
func TestProcessThatDiesWhileItPublishes(t *testing.T) {
	between := map[string]func(*fixture){
		"nothing happens in between":          func(*fixture) {},
		"it is armed again":                   func(r *fixture) { r.schedule(timer.Request{Key: "k", Delay: time.Hour, Payload: json.RawMessage(`2`)}) },
		"it is armed again and cancelled":     func(r *fixture) { r.schedule(timer.Request{Key: "k", Delay: time.Hour}); r.cancel("k") },
		"it is armed again for a past moment": func(r *fixture) { r.schedule(timer.Request{Key: "k", DueAt: time.Unix(1, 0)}) },
	}
	for name, meanwhile := range between {
		for _, accepted := range []bool{false, true} {
			t.Run(name+map[bool]string{true: ", accepted", false: ""}[accepted], func(t *testing.T) {
				rig.Bubble(t, func(t *testing.T) {
					s := teststore.New(t)
					defer s.Close()
					faulty := storetest.NewFaulty(s, nil)
					first := newFixtureOn(t, faulty)
					first.sink.Refuse(func(bus.Envelope) error {
						faulty.Kill()
						if accepted {
							return nil
						}
						return errors.New("gone")
					})
					ctx, cancel := context.WithCancel(t.Context())
					done := make(chan error, 1)
					go func() { done <- first.Run(ctx) }()
					second := newFixtureOn(t, s)
					scheduled := second.schedule(timer.Request{Key: "k", Delay: time.Minute, CorrelationID: "c", Payload: json.RawMessage(`1`)})
					rig.Pass(time.Minute + time.Second)
					cancel()
					fired := second.get("k")
					check.Equal(t, "status", fired.Status, timer.Fired)
					check.Equal(t, "envelope ID", fired.EnvelopeID, scheduled.EnvelopeID)
					meanwhile(second)
					stop := second.run()
					rig.Pass(2 * time.Hour)
					stop()
					<-done
					n := 0
					for _, e := range second.sink.Accepted() {
						if e.ID != fired.EnvelopeID {
							continue
						}
						n++
						var event timer.DueTimeReached
						check.OK(t, json.Unmarshal(e.Payload, &event))
						check.Equal(t, "fired at", event.FiredAt, fired.FiredAt)
						check.Equal(t, "due at", event.DueAt, fired.DueAt)
						check.Equal(t, "payload", string(event.Payload), "1")
						check.Equal(t, "correlation", e.CorrelationID, "c")
					}
					check.Equal(t, "times that the envelope was published by the second process", n, 1)
					if got := second.get("k"); got.Status == timer.Fired && got.Deliveries[0].State != outbox.Published {
						t.Errorf("the timer has delivery %+v", got.Deliveries[0])
					}
					wantQuiet(t, s)
				})
			})
		}
	}
}

// A timer that was removed while its last message waited, and is scheduled anew, has
// nothing of the old one.
func TestTimerThatIsScheduledAnewHasNothingOfTheOldOne(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		s := teststore.New(t)
		defer s.Close()
		faulty := storetest.NewFaulty(s, nil)
		first := newFixtureOn(t, faulty)
		first.sink.Refuse(func(bus.Envelope) error { faulty.Kill(); return nil })
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- first.Run(ctx) }()
		second := newFixtureOn(t, s)
		old := second.schedule(timer.Request{Key: "k", Delay: time.Minute, Payload: json.RawMessage(`"old"`)})
		rig.Pass(time.Minute)
		cancel()
		if err := s.Commit(t.Context(), &store.Tx{DeleteRecords: []store.DeleteRecord{{
			Key: store.RecordKey{Kind: "timer", Tenant: "acme", ID: "k"}, Expect: store.AnyVersion,
		}}}); err != nil {
			t.Fatal(err)
		}
		anew := second.schedule(timer.Request{Key: "k", Delay: time.Hour, Payload: json.RawMessage(`"new"`)})
		stop := second.run()
		rig.Pass(30 * time.Minute)
		check.Equal(t, "status", second.get("k").Status, timer.Armed)
		rig.Pass(time.Hour)
		stop()
		<-done
		ids := map[string]int{}
		for _, e := range second.sink.Accepted() {
			ids[e.ID]++
		}
		if len(ids) != 2 || ids[old.EnvelopeID] != 1 || ids[anew.EnvelopeID] != 1 {
			t.Errorf("published: %v, want %s and %s", ids, old.EnvelopeID, anew.EnvelopeID)
		}
		wantQuiet(t, s)
	})
}

// slowly is a bus that takes its time.
type slowly struct {
	to bus.EventBus
	d  time.Duration
}

func (s slowly) Publish(ctx context.Context, envelopes []bus.Envelope) error {
	select {
	case <-time.After(s.d):
		return s.to.Publish(ctx, envelopes)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// wantQuiet checks that no message is left.
func wantQuiet(t *testing.T, s store.Store) {
	t.Helper()
	stats, err := s.Stats(context.WithoutCancel(t.Context()))
	check.OK(t, err)
	if len(stats.Routes) != 0 {
		t.Errorf("messages are left: %+v", stats.Routes)
	}
}
