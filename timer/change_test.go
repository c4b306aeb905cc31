package timer_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/timer"
)

func (r *rig) snooze(key string, d time.Duration) timer.Timer {
	r.t.Helper()
	got, err := r.Snooze(r.t.Context(), "acme", key, d)
	check.OK(r.t, err)
	return got
}

func TestSnoozeOfAnArmedTimerCountsFromItsDueTime(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		r.run()
		r.schedule(timer.Request{Key: "k", Delay: time.Hour, CorrelationID: "c", Payload: json.RawMessage(`1`)})
		r.pass(time.Minute)
		told := r.snooze("k", time.Minute)
		wantTime(t, "due at", told.DueAt, r.at(61*time.Minute))
		wantTime(t, "registered at", told.RegisteredAt, r.begun)
		wantEqual(t, "arming", told.Arming, 1)
		wantEqual(t, "version", told.Version, 2)
		r.pass(60*time.Minute - time.Millisecond)
		wantEqual(t, "envelopes before", r.sink.count(), 0)
		r.pass(time.Millisecond)
		wantEqual(t, "envelopes", r.sink.count(), 1)
		fired := r.get("k")
		wantEqual(t, "correlation ID", fired.CorrelationID, "c")
		wantEqual(t, "payload", string(fired.Payload), "1")
	})
}

func TestSnoozeOfAnOverdueTimerCountsFromNow(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t) // which does not run, so that nothing fires
		r.schedule(timer.Request{Key: "k", Delay: time.Hour})
		r.pass(2 * time.Hour)
		told := r.snooze("k", time.Minute)
		wantTime(t, "due at", told.DueAt, r.at(121*time.Minute))
		wantEqual(t, "arming", told.Arming, 1)
		r.run()
		r.pass(0)
		wantEqual(t, "status", r.get("k").Status, timer.Armed)
		r.pass(time.Minute)
		wantEqual(t, "status", r.get("k").Status, timer.Fired)
	})
}

func TestSnoozeOfAFiredTimerArmsItAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		r.run()
		r.schedule(timer.Request{Key: "k", Delay: time.Hour, CorrelationID: "c", Payload: json.RawMessage(`1`)})
		r.pass(2 * time.Hour)
		told := r.snooze("k", time.Minute)
		wantEqual(t, "status", told.Status, timer.Armed)
		wantTime(t, "due at", told.DueAt, r.at(121*time.Minute))
		wantTime(t, "registered at", told.RegisteredAt, r.at(2*time.Hour))
		wantEqual(t, "arming", told.Arming, 2)
		r.pass(time.Minute)
		wantEqual(t, "envelopes", r.sink.count(), 2)
		wantEqual(t, "correlation ID of the second", r.sink.got[1].CorrelationID, "c")
		wantEqual(t, "payload", string(r.get("k").Payload), "1")
	})
}

func TestSnoozeIsRefused(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		r.schedule(timer.Request{Key: "cancelled", Delay: time.Hour})
		r.cancel("cancelled")
		r.schedule(timer.Request{Key: "far", DueAt: time.Date(9998, 6, 1, 0, 0, 0, 0, time.UTC)})
		_, err := r.Snooze(t.Context(), "acme", "cancelled", time.Minute)
		wantError(t, err, timer.ErrState, "acme/cancelled", "cancelled at 2000-01-01T00:00:00Z")
		_, err = r.Snooze(t.Context(), "acme", "missing", time.Minute)
		wantError(t, err, timer.ErrNotFound, "acme/missing")
		_, err = r.Snooze(t.Context(), "acme", "far", timer.MaxDelay)
		wantError(t, err, timer.ErrInvalid, "acme/far", "9998")
		for _, d := range []time.Duration{0, -1, timer.MaxDelay + 1} {
			_, err := r.Snooze(t.Context(), "acme", "far", d)
			wantError(t, err, timer.ErrInvalid, "acme/far", d.String())
		}
		wantEqual(t, "version of one that was not snoozed", r.get("far").Version, 1)
	})
}

func TestCancelOfAnArmedTimer(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		r.run()
		r.schedule(timer.Request{Key: "k", Delay: time.Hour, CorrelationID: "c"})
		r.pass(time.Minute)
		told := r.cancel("k")
		wantEqual(t, "status", told.Status, timer.Cancelled)
		wantTime(t, "cancelled at", told.CancelledAt, r.at(time.Minute))
		wantTime(t, "due at", told.DueAt, r.at(time.Hour))
		wantEqual(t, "version", told.Version, 2)
		wantEqual(t, "correlation ID", told.CorrelationID, "c")
		r.pass(24 * time.Hour)
		wantEqual(t, "envelopes", r.sink.count(), 0)
		wantEqual(t, "status", r.get("k").Status, timer.Cancelled)
	})
}

func TestCancelOfWhatIsNotArmed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		r.run()
		r.schedule(timer.Request{Key: "fired"})
		r.schedule(timer.Request{Key: "cancelled", Delay: time.Hour})
		r.pass(0)
		first := r.cancel("cancelled")
		r.pass(time.Minute)
		again := r.cancel("cancelled")
		wantEqual(t, "version of one that was cancelled twice", again.Version, first.Version)
		wantTime(t, "cancelled at", again.CancelledAt, r.begun)
		_, err := r.Cancel(t.Context(), "acme", "fired")
		wantError(t, err, timer.ErrState, "acme/fired", "fired at 2000-01-01T00:00:00Z")
		wantEqual(t, "status", r.get("fired").Status, timer.Fired)
		_, err = r.Cancel(t.Context(), "acme", "missing")
		wantError(t, err, timer.ErrNotFound, "acme/missing")
		_, err = r.Get(t.Context(), "acme", "missing")
		wantError(t, err, timer.ErrNotFound, "acme/missing")
	})
}

func TestCancelIfWantsThatVersion(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		r.schedule(timer.Request{Key: "k", Delay: time.Hour})
		r.schedule(timer.Request{Key: "k", Delay: time.Hour})
		_, err := r.CancelIf(t.Context(), "acme", "k", 1)
		wantError(t, err, timer.ErrConflict, "acme/k", "version 2, expected 1")
		_, err = r.CancelIf(t.Context(), "acme", "k", 0)
		wantError(t, err, timer.ErrInvalid, "acme/k", "version 0")
		wantEqual(t, "status", r.get("k").Status, timer.Armed)
		told, err := r.CancelIf(t.Context(), "acme", "k", 2)
		if err != nil || told.Status != timer.Cancelled {
			t.Errorf("it is %s, %v; want it cancelled", told.Status, err)
		}
	})
}
