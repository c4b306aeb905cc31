package timer_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/internal/rig"
	"github.com/abidehq/abide/timer"
)

func (r *fixture) snooze(key string, d time.Duration) timer.Timer {
	r.T.Helper()
	got, err := r.Snooze(r.T.Context(), "acme", key, d)
	check.OK(r.T, err)
	return got
}

func TestSnoozeOfAnArmedTimerCountsFromItsDueTime(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := newFixture(t)
		r.run()
		r.schedule(timer.Request{Key: "k", Delay: time.Hour, CorrelationID: "c", Payload: json.RawMessage(`1`)})
		rig.Pass(time.Minute)
		told := r.snooze("k", time.Minute)
		check.Equal(t, "due at", told.DueAt, r.At(61*time.Minute))
		check.Equal(t, "registered at", told.RegisteredAt, r.Began)
		check.Equal(t, "arming", told.Arming, 1)
		check.Equal(t, "version", told.Version, 2)
		rig.Pass(60*time.Minute - time.Millisecond)
		check.Equal(t, "envelopes before", len(r.sink.Accepted()), 0)
		rig.Pass(time.Millisecond)
		check.Equal(t, "envelopes", len(r.sink.Accepted()), 1)
		fired := r.get("k")
		check.Equal(t, "correlation ID", fired.CorrelationID, "c")
		check.Equal(t, "payload", string(fired.Payload), "1")
	})
}

func TestSnoozeOfAnOverdueTimerCountsFromNow(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := newFixture(t) // which does not run, so that nothing fires
		r.schedule(timer.Request{Key: "k", Delay: time.Hour})
		rig.Pass(2 * time.Hour)
		told := r.snooze("k", time.Minute)
		check.Equal(t, "due at", told.DueAt, r.At(121*time.Minute))
		check.Equal(t, "arming", told.Arming, 1)
		r.run()
		rig.Pass(0)
		check.Equal(t, "status", r.get("k").Status, timer.Armed)
		rig.Pass(time.Minute)
		check.Equal(t, "status", r.get("k").Status, timer.Fired)
	})
}

func TestSnoozeOfAFiredTimerArmsItAgain(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := newFixture(t)
		r.run()
		r.schedule(timer.Request{Key: "k", Delay: time.Hour, CorrelationID: "c", Payload: json.RawMessage(`1`)})
		rig.Pass(2 * time.Hour)
		told := r.snooze("k", time.Minute)
		check.Equal(t, "status", told.Status, timer.Armed)
		check.Equal(t, "due at", told.DueAt, r.At(121*time.Minute))
		check.Equal(t, "registered at", told.RegisteredAt, r.At(2*time.Hour))
		check.Equal(t, "arming", told.Arming, 2)
		rig.Pass(time.Minute)
		check.Equal(t, "envelopes", len(r.sink.Accepted()), 2)
		check.Equal(t, "correlation ID of the second", r.sink.Accepted()[1].CorrelationID, "c")
		check.Equal(t, "payload", string(r.get("k").Payload), "1")
	})
}

func TestSnoozeIsRefused(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := newFixture(t)
		r.schedule(timer.Request{Key: "cancelled", Delay: time.Hour})
		r.cancel("cancelled")
		r.schedule(timer.Request{Key: "far", DueAt: time.Date(9998, 6, 1, 0, 0, 0, 0, time.UTC)})
		_, err := r.Snooze(t.Context(), "acme", "cancelled", time.Minute)
		check.ErrorOf(t, "timer", err, timer.ErrState, "acme/cancelled", "cancelled at 2000-01-01T00:00:00Z")
		_, err = r.Snooze(t.Context(), "acme", "missing", time.Minute)
		check.ErrorOf(t, "timer", err, timer.ErrNotFound, "acme/missing")
		_, err = r.Snooze(t.Context(), "acme", "far", timer.MaxDelay)
		check.ErrorOf(t, "timer", err, timer.ErrInvalid, "acme/far", "9998")
		for _, d := range []time.Duration{0, -1, timer.MaxDelay + 1} {
			_, err := r.Snooze(t.Context(), "acme", "far", d)
			check.ErrorOf(t, "timer", err, timer.ErrInvalid, "acme/far", d.String())
		}
		check.Equal(t, "version of one that was not snoozed", r.get("far").Version, 1)
	})
}

func TestCancelOfAnArmedTimer(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := newFixture(t)
		r.run()
		r.schedule(timer.Request{Key: "k", Delay: time.Hour, CorrelationID: "c"})
		rig.Pass(time.Minute)
		told := r.cancel("k")
		check.Equal(t, "status", told.Status, timer.Cancelled)
		check.Equal(t, "cancelled at", told.CancelledAt, r.At(time.Minute))
		check.Equal(t, "due at", told.DueAt, r.At(time.Hour))
		check.Equal(t, "version", told.Version, 2)
		check.Equal(t, "correlation ID", told.CorrelationID, "c")
		rig.Pass(24 * time.Hour)
		check.Equal(t, "envelopes", len(r.sink.Accepted()), 0)
		check.Equal(t, "status", r.get("k").Status, timer.Cancelled)
	})
}

func TestCancelOfWhatIsNotArmed(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := newFixture(t)
		r.run()
		r.schedule(timer.Request{Key: "fired"})
		r.schedule(timer.Request{Key: "cancelled", Delay: time.Hour})
		rig.Pass(0)
		first := r.cancel("cancelled")
		rig.Pass(time.Minute)
		again := r.cancel("cancelled")
		check.Equal(t, "version of one that was cancelled twice", again.Version, first.Version)
		check.Equal(t, "cancelled at", again.CancelledAt, r.Began)
		_, err := r.Cancel(t.Context(), "acme", "fired")
		check.ErrorOf(t, "timer", err, timer.ErrState, "acme/fired", "fired at 2000-01-01T00:00:00Z")
		check.Equal(t, "status", r.get("fired").Status, timer.Fired)
		_, err = r.Cancel(t.Context(), "acme", "missing")
		check.ErrorOf(t, "timer", err, timer.ErrNotFound, "acme/missing")
		_, err = r.Get(t.Context(), "acme", "missing")
		check.ErrorOf(t, "timer", err, timer.ErrNotFound, "acme/missing")
	})
}

func TestCancelIfWantsThatVersion(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := newFixture(t)
		r.schedule(timer.Request{Key: "k", Delay: time.Hour})
		r.schedule(timer.Request{Key: "k", Delay: time.Hour})
		_, err := r.CancelIf(t.Context(), "acme", "k", 1)
		check.ErrorOf(t, "timer", err, timer.ErrConflict, "acme/k", "version 2, expected 1")
		_, err = r.CancelIf(t.Context(), "acme", "k", 0)
		check.ErrorOf(t, "timer", err, timer.ErrInvalid, "acme/k", "version 0")
		check.Equal(t, "status", r.get("k").Status, timer.Armed)
		told, err := r.CancelIf(t.Context(), "acme", "k", 2)
		if err != nil || told.Status != timer.Cancelled {
			t.Errorf("it is %s, %v; want it cancelled", told.Status, err)
		}
	})
}
