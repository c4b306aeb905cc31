package timer_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/abidehq/abide/bus/outbox"
	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/internal/rig"
	"github.com/abidehq/abide/internal/teststore"
	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/store/pebblestore"
	"github.com/abidehq/abide/timer"
)

// TestHoursOfTimersFireInTheirOrder: each in its millisecond, and none twice.
func TestHoursOfTimersFireInTheirOrder(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := newFixture(t)
		r.run()
		const n = 199
		for i := range n {
			at := time.Duration((i*7919)%n) * time.Minute // each minute once
			r.schedule(timer.Request{Key: fmt.Sprint(i), DueAt: r.At(at + time.Minute)})
		}
		rig.Pass(n * time.Minute)
		check.Equal(t, "envelopes", len(r.sink.Accepted()), n)
		for i, e := range r.sink.Accepted() {
			check.Equal(t, fmt.Sprintf("time of the %d. envelope", i), e.Time(), r.At(time.Duration(i+1)*time.Minute))
		}
	})
}

// TestTimersFireOnDisk as they do in memory.
func TestTimersFireOnDisk(t *testing.T) {
	t.Parallel()
	s, err := pebblestore.Open(t.Context(), t.TempDir(), pebblestore.Options{})
	check.OK(t, err)
	t.Cleanup(func() { _ = s.Close() })
	r := newFixtureOn(t, s)
	r.run()
	moved := r.schedule(timer.Request{Key: "moved", Delay: time.Hour})
	r.schedule(timer.Request{Key: "cancelled", Delay: 50 * time.Millisecond})
	r.cancel("cancelled")
	r.schedule(timer.Request{Key: "moved", Delay: 50 * time.Millisecond, Payload: []byte(`"é"`)})
	key := store.RecordKey{Kind: "timer", Tenant: "acme", ID: "moved"}
	for version := moved.Version + 1; ; version++ {
		if _, err := s.Await(t.Context(), key, version); err != nil {
			t.Fatal(err)
		}
		got := r.get("moved")
		if len(got.Deliveries) == 0 || got.Deliveries[0].State == outbox.Pending {
			continue
		}
		check.Equal(t, "state", got.Deliveries[0].State, outbox.Published)
		check.Equal(t, "payload", string(got.Payload), `"é"`)
		if got.FiredAt.Before(got.DueAt) {
			t.Errorf("it fired at %v, before %v", got.FiredAt, got.DueAt)
		}
		break
	}
	check.Equal(t, "envelopes", len(r.sink.Accepted()), 1)
	check.Equal(t, "status", r.get("cancelled").Status, timer.Cancelled)
}

// TestAMessageThatIsNotATimersIsInQuarantine, whatever its name is.
func TestAMessageThatIsNotATimersIsInQuarantine(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := newFixture(t)
		m := store.Message{
			Key: store.Key{Queue: "timers", Tenant: strings.Repeat("\x01", store.MaxName), Name: strings.Repeat("\x02", store.MaxName)},
			ID:  "1", Route: "timer", Body: []byte("nonsense"),
		}
		check.OK(t, r.Store.Commit(t.Context(), &store.Tx{Put: []store.Message{m}}))
		r.schedule(timer.Request{Key: "k"})
		r.run()
		rig.Pass(0)
		check.Equal(t, "status of another", r.get("k").Status, timer.Fired)
		kept := r.Quarantine()
		if len(kept) != 1 {
			t.Fatalf("%d messages are in quarantine, want 1", len(kept))
		}
		check.Equal(t, "reason", kept[0].Status, outbox.ReasonMalformed)
		if kept[0].Tags[store.TagError] == "" {
			t.Error("quarantine does not say why")
		}
	})
}

// TestARecordThatIsGoneLosesNoTimer: the message says all that firing needs.
func TestARecordThatIsGoneLosesNoTimer(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := newFixture(t)
		r.run()
		r.schedule(timer.Request{Key: "k", Delay: time.Hour})
		r.schedule(timer.Request{Key: "k", Delay: 2 * time.Hour, CorrelationID: "c", Payload: []byte("1")})
		key := store.RecordKey{Kind: "timer", Tenant: "acme", ID: "k"}
		check.OK(t, r.Store.Commit(t.Context(), &store.Tx{DeleteRecords: []store.DeleteRecord{{Key: key, Expect: 2}}}))
		rig.Pass(2 * time.Hour)
		check.Equal(t, "envelopes", len(r.sink.Accepted()), 1)
		got := r.get("k")
		check.Equal(t, "status", got.Status, timer.Fired)
		check.Equal(t, "payload", string(got.Payload), "1")
		check.Equal(t, "delivery", got.Deliveries[0].State, outbox.Published)
	})
}

// TestAMessageThatDoesNotMatchPublishesNothing: the version of the record is what counts.
func TestAMessageThatDoesNotMatchPublishesNothing(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := newFixture(t)
		r.run()
		r.schedule(timer.Request{Key: "k", Delay: time.Hour})
		rec, err := r.Store.Get(t.Context(), store.RecordKey{Kind: "timer", Tenant: "acme", ID: "k"})
		check.OK(t, err)
		rec.Status = "cancelled"
		check.OK(t, r.Store.Commit(t.Context(), &store.Tx{PutRecords: []store.PutRecord{{Record: rec, Expect: 1}}}))
		rig.Pass(2 * time.Hour)
		check.Equal(t, "envelopes", len(r.sink.Accepted()), 0)
		check.Equal(t, "version", r.get("k").Version, 2)
		stats, err := r.Store.Stats(t.Context())
		if err != nil || len(stats.Routes) != 0 {
			t.Errorf("there is work left: %+v, %v", stats.Routes, err)
		}
	})
}

// TestRunEndsWithItsStore, and says so.
func TestRunEndsWithItsStore(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		s := teststore.New(t)
		r := newFixtureOn(t, s)
		done := make(chan error)
		go func() { done <- r.Run(t.Context()) }()
		synctest.Wait()
		check.OK(t, s.Close())
		check.Error(t, <-done, store.ErrClosed)
	})
}
