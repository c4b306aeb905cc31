package timer_test

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/abidehq/abide/bus/outbox"
	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/timer"
)

func TestScheduleArmsATimer(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		r.run()
		told := r.schedule(timer.Request{Key: "k", DueAt: r.at(time.Hour), CorrelationID: "c", Payload: json.RawMessage(`{"a": 1}`)})
		for what, got := range map[string]timer.Timer{"what Schedule tells": told, "what Get tells": r.get("k")} {
			wantEqual(t, what+": status", got.Status, timer.Armed)
			wantEqual(t, what+": name", got.Tenant+"/"+got.Key, "acme/k")
			wantTime(t, what+": due", got.DueAt, r.at(time.Hour))
			wantTime(t, what+": registered", got.RegisteredAt, r.begun)
			wantEqual(t, what+": arming", got.Arming, 1)
			wantEqual(t, what+": version", got.Version, 1)
			wantEqual(t, what+": correlation ID", got.CorrelationID, "c")
			wantEqual(t, what+": payload", string(got.Payload), `{"a": 1}`)
			if !got.FiredAt.IsZero() || !got.CancelledAt.IsZero() || got.EnvelopeID == "" || got.Deliveries != nil {
				t.Errorf("%s: %+v has fired or was cancelled", what, got)
			}
		}
		r.pass(time.Hour - time.Millisecond)
		wantEqual(t, "envelopes a millisecond before", r.sink.count(), 0)
		r.pass(time.Millisecond)
		fired := r.get("k")
		wantEqual(t, "status", fired.Status, timer.Fired)
		wantTime(t, "fired at", fired.FiredAt, r.at(time.Hour))
		wantEqual(t, "deliveries", len(fired.Deliveries), 1)
		wantEqual(t, "delivery", fired.Deliveries[0], timer.Delivery{
			Sink: "sink", State: outbox.Published, Attempts: 1, At: r.at(time.Hour),
		})
	})
}

func TestAnEnvelopeTellsWhatWasScheduled(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		r.run()
		r.schedule(timer.Request{Key: `k"<é>`, Delay: time.Hour, CorrelationID: "c", Payload: json.RawMessage(`{"a": "<"}`)})
		r.schedule(timer.Request{Key: "bare", Delay: 2 * time.Hour})
		r.pass(2 * time.Hour)
		wantEqual(t, "envelopes", r.sink.count(), 2)
		e, bare := r.sink.got[0], r.sink.got[1]
		if err := e.Validate(); err != nil {
			t.Error(err)
		}
		wantEqual(t, "ID", e.ID, r.get(`k"<é>`).EnvelopeID)
		wantEqual(t, "type", e.Type, "DueTimeReached")
		wantEqual(t, "tenant", e.TenantID, "acme")
		wantEqual(t, "correlation ID", e.CorrelationID, "c")
		wantTime(t, "timestamp", e.Time(), r.at(time.Hour))
		var got timer.DueTimeReached
		check.OK(t, json.Unmarshal(e.Payload, &got))
		wantEqual(t, "serviceCallId", got.ServiceCallID, `k"<é>`)
		wantTime(t, "dueAt", got.DueAt, r.at(time.Hour))
		wantTime(t, "firedAt", got.FiredAt, r.at(time.Hour))
		wantEqual(t, "payload", string(got.Payload), `{"a": "<"}`)
		wantEqual(t, "payload of one that has none", string(bare.Payload),
			`{"serviceCallId":"bare","dueAt":"2000-01-01T02:00:00.000Z","firedAt":"2000-01-01T02:00:00.000Z"}`)
	})
}

// TestScheduleMovesAnArmedTimer, and replaces what it carries.
func TestScheduleMovesAnArmedTimer(t *testing.T) {
	for name, to := range map[string]time.Duration{"earlier": time.Minute, "later": 3 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := newRig(t)
				r.run()
				r.schedule(timer.Request{Key: "k", DueAt: r.at(time.Hour), CorrelationID: "c", Payload: json.RawMessage(`1`)})
				r.pass(time.Second)
				moved := r.schedule(timer.Request{Key: "k", DueAt: r.at(to), CorrelationID: "d", Payload: json.RawMessage(`2`)})
				wantEqual(t, "arming", moved.Arming, 1)
				wantEqual(t, "version", moved.Version, 2)
				wantTime(t, "registered at", moved.RegisteredAt, r.begun)
				wantTime(t, "due at", moved.DueAt, r.at(to))
				r.pass(to - time.Second - time.Millisecond)
				wantEqual(t, "envelopes before it is due", r.sink.count(), 0)
				r.pass(time.Millisecond)
				fired := r.get("k")
				wantTime(t, "fired at", fired.FiredAt, r.at(to))
				wantEqual(t, "correlation ID", fired.CorrelationID, "d")
				wantEqual(t, "payload", string(fired.Payload), "2")
				wantEqual(t, "correlation ID of the envelope", r.sink.got[0].CorrelationID, "d")
				r.pass(24 * time.Hour)
				wantEqual(t, "envelopes in the end", r.sink.count(), 1)
			})
		})
	}
}

// TestScheduleWithoutThemTakesThemAway: nothing of what a timer carried stays.
func TestScheduleWithoutThemTakesThemAway(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		r.schedule(timer.Request{Key: "k", Delay: time.Hour, CorrelationID: "c", Payload: json.RawMessage(`1`)})
		r.schedule(timer.Request{Key: "k", Delay: time.Hour})
		got := r.get("k")
		wantEqual(t, "correlation ID", got.CorrelationID, "")
		wantEqual(t, "payload", string(got.Payload), "")
	})
}

func TestScheduleArmsAgain(t *testing.T) {
	for name, end := range map[string]func(*rig){
		"after it fired":         func(r *rig) { r.pass(time.Hour) },
		"after it was cancelled": func(r *rig) { r.cancel("k") },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := newRig(t)
				r.run()
				r.schedule(timer.Request{Key: "k", Delay: time.Hour, CorrelationID: "c", Payload: json.RawMessage(`1`)})
				end(r)
				before, envelopes := r.get("k"), r.sink.count()
				r.pass(time.Minute)
				began := time.Now()
				again := r.schedule(timer.Request{Key: "k", Delay: time.Hour, CorrelationID: "d", Payload: json.RawMessage(`2`)})
				wantEqual(t, "status", again.Status, timer.Armed)
				wantEqual(t, "arming", again.Arming, 2)
				wantEqual(t, "version", again.Version, before.Version+1)
				wantTime(t, "registered at", again.RegisteredAt, began)
				wantEqual(t, "deliveries", len(again.Deliveries), 0)
				if !again.FiredAt.IsZero() || !again.CancelledAt.IsZero() {
					t.Errorf("%+v is armed, and has fired or was cancelled", again)
				}
				r.pass(time.Hour)
				fired := r.get("k")
				wantEqual(t, "status", fired.Status, timer.Fired)
				wantEqual(t, "payload", string(fired.Payload), "2")
				wantEqual(t, "envelopes", r.sink.count(), envelopes+1)
				wantEqual(t, "envelope ID", fired.EnvelopeID, again.EnvelopeID)
				wantTime(t, "time of the envelope's ID", idTime(t, again.EnvelopeID), began)
				if fired.EnvelopeID == before.EnvelopeID {
					t.Error("two armings have made one envelope")
				}
			})
		})
	}
}

func TestIfVersionWantsThatVersion(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		_, err := r.Schedule(t.Context(), timer.Request{Tenant: "acme", Key: "k", Delay: time.Hour, IfVersion: 1})
		wantError(t, err, timer.ErrConflict, "acme/k", "version 0, expected 1")
		r.schedule(timer.Request{Key: "k", Delay: time.Hour})
		r.schedule(timer.Request{Key: "k", Delay: 2 * time.Hour, IfVersion: 1})
		_, err = r.Schedule(t.Context(), timer.Request{Tenant: "acme", Key: "k", Delay: 3 * time.Hour, IfVersion: 1})
		wantError(t, err, timer.ErrConflict, "acme/k", "version 2, expected 1")
		wantTime(t, "due at", r.get("k").DueAt, r.at(2*time.Hour))
	})
}

func TestIfAbsentLeavesWhatExists(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		r.run()
		request := timer.Request{Tenant: "acme", Key: "k", Delay: time.Hour, IfAbsent: true}
		r.schedule(request)
		r.schedule(timer.Request{Key: "cancelled", Delay: time.Hour})
		r.cancel("cancelled")
		_, err := r.Schedule(t.Context(), request)
		wantError(t, err, timer.ErrExists, "acme/k", "armed")
		r.pass(time.Hour)
		_, err = r.Schedule(t.Context(), request)
		wantError(t, err, timer.ErrExists, "acme/k", "fired")
		wantEqual(t, "status", r.get("k").Status, timer.Fired)
		request.Key = "cancelled"
		_, err = r.Schedule(t.Context(), request)
		wantError(t, err, timer.ErrExists, "acme/cancelled", "cancelled")
	})
}

// TestTenantsHaveTimersOfTheirOwn, also under the same key.
func TestTenantsHaveTimersOfTheirOwn(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		r.run()
		r.schedule(timer.Request{Key: "k", Delay: time.Hour})
		r.schedule(timer.Request{Tenant: "other", Key: "k", Delay: 2 * time.Hour})
		r.cancel("k")
		r.pass(2 * time.Hour)
		wantEqual(t, "envelopes", r.sink.count(), 1)
		wantEqual(t, "tenant", r.sink.got[0].TenantID, "other")
		wantEqual(t, "status", r.get("k").Status, timer.Cancelled)
	})
}

// TestTheEnvelopesIDHasTheTimeOfTheLastChange, never that of the due time, which may lie years
// ahead or be moved: an ID of the future would sort after everything that happens until then.
func TestTheEnvelopesIDHasTheTimeOfTheLastChange(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		r.run()
		armed := r.schedule(timer.Request{Key: "k", Delay: 2 * time.Hour})
		wantTime(t, "time of the ID when armed", idTime(t, armed.EnvelopeID), r.at(0))
		r.pass(time.Minute)
		moved := r.schedule(timer.Request{Key: "k", Delay: time.Hour})
		wantTime(t, "time of the ID when moved", idTime(t, moved.EnvelopeID), r.at(time.Minute))
		r.pass(time.Minute)
		snoozed, err := r.Snooze(t.Context(), "acme", "k", time.Hour)
		check.OK(t, err)
		wantTime(t, "time of the ID when snoozed", idTime(t, snoozed.EnvelopeID), r.at(2*time.Minute))
		r.pass(5 * time.Hour)
		wantEqual(t, "envelopes", r.sink.count(), 1)
		wantEqual(t, "ID", r.sink.got[0].ID, snoozed.EnvelopeID)
		wantEqual(t, "ID that is kept", r.get("k").EnvelopeID, snoozed.EnvelopeID)
	})
}

// idTime returns the time of a UUIDv7.
func idTime(t *testing.T, id string) time.Time {
	t.Helper()
	ms, err := strconv.ParseInt(strings.ReplaceAll(id[:13], "-", ""), 16, 64)
	check.OK(t, err)
	return time.UnixMilli(ms)
}
