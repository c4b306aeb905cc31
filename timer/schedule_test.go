package timer_test

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/abidehq/abide/bus/outbox"
	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/internal/rig"
	"github.com/abidehq/abide/timer"
)

func TestScheduleArmsATimer(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := newFixture(t)
		r.run()
		told := r.schedule(timer.Request{Key: "k", DueAt: r.At(time.Hour), CorrelationID: "c", Payload: json.RawMessage(`{"a": 1}`)})
		for what, got := range map[string]timer.Timer{"what Schedule tells": told, "what Get tells": r.get("k")} {
			check.Equal(t, what+": status", got.Status, timer.Armed)
			check.Equal(t, what+": name", got.Tenant+"/"+got.Key, "acme/k")
			check.Equal(t, what+": due", got.DueAt, r.At(time.Hour))
			check.Equal(t, what+": registered", got.RegisteredAt, r.Began)
			check.Equal(t, what+": arming", got.Arming, 1)
			check.Equal(t, what+": version", got.Version, 1)
			check.Equal(t, what+": correlation ID", got.CorrelationID, "c")
			check.Equal(t, what+": payload", string(got.Payload), `{"a": 1}`)
			if !got.FiredAt.IsZero() || !got.CancelledAt.IsZero() || got.EnvelopeID == "" || got.Deliveries != nil {
				t.Errorf("%s: %+v has fired or was cancelled", what, got)
			}
		}
		rig.Pass(time.Hour - time.Millisecond)
		check.Equal(t, "envelopes a millisecond before", len(r.sink.Accepted()), 0)
		rig.Pass(time.Millisecond)
		fired := r.get("k")
		check.Equal(t, "status", fired.Status, timer.Fired)
		check.Equal(t, "fired at", fired.FiredAt, r.At(time.Hour))
		check.Equal(t, "deliveries", len(fired.Deliveries), 1)
		check.Equal(t, "delivery", fired.Deliveries[0], timer.Delivery{
			Sink: "sink", State: outbox.Published, Attempts: 1, At: r.At(time.Hour),
		})
	})
}

func TestAnEnvelopeTellsWhatWasScheduled(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := newFixture(t)
		r.run()
		r.schedule(timer.Request{Key: `k"<é>`, Delay: time.Hour, CorrelationID: "c", Payload: json.RawMessage(`{"a": "<"}`)})
		r.schedule(timer.Request{Key: "bare", Delay: 2 * time.Hour})
		rig.Pass(2 * time.Hour)
		check.Equal(t, "envelopes", len(r.sink.Accepted()), 2)
		e, bare := r.sink.Accepted()[0], r.sink.Accepted()[1]
		if err := e.Validate(); err != nil {
			t.Error(err)
		}
		check.Equal(t, "ID", e.ID, r.get(`k"<é>`).EnvelopeID)
		check.Equal(t, "type", e.Type, "DueTimeReached")
		check.Equal(t, "tenant", e.TenantID, "acme")
		check.Equal(t, "correlation ID", e.CorrelationID, "c")
		check.Equal(t, "timestamp", e.Time(), r.At(time.Hour))
		var got timer.DueTimeReached
		check.OK(t, json.Unmarshal(e.Payload, &got))
		check.Equal(t, "serviceCallId", got.ServiceCallID, `k"<é>`)
		check.Equal(t, "dueAt", got.DueAt, r.At(time.Hour))
		check.Equal(t, "firedAt", got.FiredAt, r.At(time.Hour))
		check.Equal(t, "payload", string(got.Payload), `{"a": "<"}`)
		check.Equal(t, "payload of one that has none", string(bare.Payload),
			`{"serviceCallId":"bare","dueAt":"2000-01-01T02:00:00.000Z","firedAt":"2000-01-01T02:00:00.000Z"}`)
	})
}

// TestScheduleMovesAnArmedTimer, and replaces what it carries.
func TestScheduleMovesAnArmedTimer(t *testing.T) {
	for name, to := range map[string]time.Duration{"earlier": time.Minute, "later": 3 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			rig.Bubble(t, func(t *testing.T) {
				r := newFixture(t)
				r.run()
				r.schedule(timer.Request{Key: "k", DueAt: r.At(time.Hour), CorrelationID: "c", Payload: json.RawMessage(`1`)})
				rig.Pass(time.Second)
				moved := r.schedule(timer.Request{Key: "k", DueAt: r.At(to), CorrelationID: "d", Payload: json.RawMessage(`2`)})
				check.Equal(t, "arming", moved.Arming, 1)
				check.Equal(t, "version", moved.Version, 2)
				check.Equal(t, "registered at", moved.RegisteredAt, r.Began)
				check.Equal(t, "due at", moved.DueAt, r.At(to))
				rig.Pass(to - time.Second - time.Millisecond)
				check.Equal(t, "envelopes before it is due", len(r.sink.Accepted()), 0)
				rig.Pass(time.Millisecond)
				fired := r.get("k")
				check.Equal(t, "fired at", fired.FiredAt, r.At(to))
				check.Equal(t, "correlation ID", fired.CorrelationID, "d")
				check.Equal(t, "payload", string(fired.Payload), "2")
				check.Equal(t, "correlation ID of the envelope", r.sink.Accepted()[0].CorrelationID, "d")
				rig.Pass(24 * time.Hour)
				check.Equal(t, "envelopes in the end", len(r.sink.Accepted()), 1)
			})
		})
	}
}

// TestScheduleWithoutThemTakesThemAway: nothing of what a timer carried stays.
func TestScheduleWithoutThemTakesThemAway(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := newFixture(t)
		r.schedule(timer.Request{Key: "k", Delay: time.Hour, CorrelationID: "c", Payload: json.RawMessage(`1`)})
		r.schedule(timer.Request{Key: "k", Delay: time.Hour})
		got := r.get("k")
		check.Equal(t, "correlation ID", got.CorrelationID, "")
		check.Equal(t, "payload", string(got.Payload), "")
	})
}

func TestScheduleArmsAgain(t *testing.T) {
	for name, end := range map[string]func(*fixture){
		"after it fired":         func(*fixture) { rig.Pass(time.Hour) },
		"after it was cancelled": func(r *fixture) { r.cancel("k") },
	} {
		t.Run(name, func(t *testing.T) {
			rig.Bubble(t, func(t *testing.T) {
				r := newFixture(t)
				r.run()
				r.schedule(timer.Request{Key: "k", Delay: time.Hour, CorrelationID: "c", Payload: json.RawMessage(`1`)})
				end(r)
				before, envelopes := r.get("k"), len(r.sink.Accepted())
				rig.Pass(time.Minute)
				began := time.Now()
				again := r.schedule(timer.Request{Key: "k", Delay: time.Hour, CorrelationID: "d", Payload: json.RawMessage(`2`)})
				check.Equal(t, "status", again.Status, timer.Armed)
				check.Equal(t, "arming", again.Arming, 2)
				check.Equal(t, "version", again.Version, before.Version+1)
				check.Equal(t, "registered at", again.RegisteredAt, began)
				check.Equal(t, "deliveries", len(again.Deliveries), 0)
				if !again.FiredAt.IsZero() || !again.CancelledAt.IsZero() {
					t.Errorf("%+v is armed, and has fired or was cancelled", again)
				}
				rig.Pass(time.Hour)
				fired := r.get("k")
				check.Equal(t, "status", fired.Status, timer.Fired)
				check.Equal(t, "payload", string(fired.Payload), "2")
				check.Equal(t, "envelopes", len(r.sink.Accepted()), envelopes+1)
				check.Equal(t, "envelope ID", fired.EnvelopeID, again.EnvelopeID)
				check.Equal(t, "time of the envelope's ID", idTime(t, again.EnvelopeID), began)
				if fired.EnvelopeID == before.EnvelopeID {
					t.Error("two armings have made one envelope")
				}
			})
		})
	}
}

func TestIfVersionWantsThatVersion(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := newFixture(t)
		_, err := r.Schedule(t.Context(), timer.Request{Tenant: "acme", Key: "k", Delay: time.Hour, IfVersion: 1})
		check.ErrorOf(t, "timer", err, timer.ErrConflict, "acme/k", "version 0, expected 1")
		r.schedule(timer.Request{Key: "k", Delay: time.Hour})
		r.schedule(timer.Request{Key: "k", Delay: 2 * time.Hour, IfVersion: 1})
		_, err = r.Schedule(t.Context(), timer.Request{Tenant: "acme", Key: "k", Delay: 3 * time.Hour, IfVersion: 1})
		check.ErrorOf(t, "timer", err, timer.ErrConflict, "acme/k", "version 2, expected 1")
		check.Equal(t, "due at", r.get("k").DueAt, r.At(2*time.Hour))
	})
}

func TestIfAbsentLeavesWhatExists(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := newFixture(t)
		r.run()
		request := timer.Request{Tenant: "acme", Key: "k", Delay: time.Hour, IfAbsent: true}
		r.schedule(request)
		r.schedule(timer.Request{Key: "cancelled", Delay: time.Hour})
		r.cancel("cancelled")
		_, err := r.Schedule(t.Context(), request)
		check.ErrorOf(t, "timer", err, timer.ErrExists, "acme/k", "armed")
		rig.Pass(time.Hour)
		_, err = r.Schedule(t.Context(), request)
		check.ErrorOf(t, "timer", err, timer.ErrExists, "acme/k", "fired")
		check.Equal(t, "status", r.get("k").Status, timer.Fired)
		request.Key = "cancelled"
		_, err = r.Schedule(t.Context(), request)
		check.ErrorOf(t, "timer", err, timer.ErrExists, "acme/cancelled", "cancelled")
	})
}

// TestTenantsHaveTimersOfTheirOwn, also under the same key.
func TestTenantsHaveTimersOfTheirOwn(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := newFixture(t)
		r.run()
		r.schedule(timer.Request{Key: "k", Delay: time.Hour})
		r.schedule(timer.Request{Tenant: "other", Key: "k", Delay: 2 * time.Hour})
		r.cancel("k")
		rig.Pass(2 * time.Hour)
		check.Equal(t, "envelopes", len(r.sink.Accepted()), 1)
		check.Equal(t, "tenant", r.sink.Accepted()[0].TenantID, "other")
		check.Equal(t, "status", r.get("k").Status, timer.Cancelled)
	})
}

// TestTheEnvelopesIDHasTheTimeOfTheLastChange, never that of the due time, which may lie years
// ahead or be moved: an ID of the future would sort after everything that happens until then.
func TestTheEnvelopesIDHasTheTimeOfTheLastChange(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := newFixture(t)
		r.run()
		armed := r.schedule(timer.Request{Key: "k", Delay: 2 * time.Hour})
		check.Equal(t, "time of the ID when armed", idTime(t, armed.EnvelopeID), r.At(0))
		rig.Pass(time.Minute)
		moved := r.schedule(timer.Request{Key: "k", Delay: time.Hour})
		check.Equal(t, "time of the ID when moved", idTime(t, moved.EnvelopeID), r.At(time.Minute))
		rig.Pass(time.Minute)
		snoozed, err := r.Snooze(t.Context(), "acme", "k", time.Hour)
		check.OK(t, err)
		check.Equal(t, "time of the ID when snoozed", idTime(t, snoozed.EnvelopeID), r.At(2*time.Minute))
		rig.Pass(5 * time.Hour)
		check.Equal(t, "envelopes", len(r.sink.Accepted()), 1)
		check.Equal(t, "ID", r.sink.Accepted()[0].ID, snoozed.EnvelopeID)
		check.Equal(t, "ID that is kept", r.get("k").EnvelopeID, snoozed.EnvelopeID)
	})
}

// idTime returns the time of a UUIDv7.
func idTime(t *testing.T, id string) time.Time {
	t.Helper()
	ms, err := strconv.ParseInt(strings.ReplaceAll(id[:13], "-", ""), 16, 64)
	check.OK(t, err)
	return time.UnixMilli(ms)
}
