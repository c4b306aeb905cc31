package timer_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/abidehq/abide/bus"
	"github.com/abidehq/abide/bus/outbox"
	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/internal/rig"
	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/timer"
)

// command returns the envelope of a command to acme.
func command(kind, payload string) bus.Envelope {
	return bus.Envelope{
		ID: base.NewUUID(time.Now()), Type: kind, TenantID: "acme", CorrelationID: "c",
		TimestampMs: time.Now().UnixMilli(), Payload: json.RawMessage(payload),
	}
}

func at(sequence uint64) bus.Position { return bus.Position{Source: "commands", Sequence: sequence} }

// handle applies a command, which must be possible.
func (r *fixture) handle(kind, payload string, position bus.Position) {
	r.T.Helper()
	if err := r.Handle(r.T.Context(), command(kind, payload), position); err != nil {
		r.T.Errorf("Handle: %v", err)
	}
}

func TestAScheduleTimerCommandSchedules(t *testing.T) {
	for name, due := range map[string]string{
		"RFC 3339":             `"dueAt":"2000-01-01T01:00:00Z"`,
		"RFC 3339 with a zone": `"dueAt":"2000-01-01T02:00:00.000+01:00"`,
		"milliseconds":         fmt.Sprintf(`"dueAt":%d`, time.Date(2000, 1, 1, 1, 0, 0, 0, time.UTC).UnixMilli()),
		"delay":                `"delayMs":3600000`,
		"delay and no time":    `"delayMs":3600000,"dueAt":null`,
		"time and no delay":    `"dueAt":"2000-01-01T01:00:00Z","delayMs":null`,
	} {
		t.Run(name, func(t *testing.T) {
			rig.Bubble(t, func(t *testing.T) {
				r := newFixture(t)
				r.handle(timer.TypeScheduleTimer, `{"serviceCallId":"k",`+due+`,"payload":{"a": 1}}`, at(1))
				got := r.get("k")
				check.Equal(t, "status", got.Status, timer.Armed)
				check.Equal(t, "due at", got.DueAt, r.At(time.Hour))
				check.Equal(t, "correlation ID", got.CorrelationID, "c")
				check.Equal(t, "payload", string(got.Payload), `{"a": 1}`)
			})
		})
	}
}

// TestACommandSaysNowWithADelayOfZero: leaving out the time is a mistake, zero is not.
func TestACommandSaysNowWithADelayOfZero(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := newFixture(t)
		r.run()
		r.handle(timer.TypeScheduleTimer, `{"serviceCallId":"k","delayMs":0}`, at(1))
		rig.Pass(0)
		check.Equal(t, "envelopes", len(r.sink.Accepted()), 1)
	})
}

// TestTheEarliestDueTime of a command is refused below the limit and taken at it.
func TestTheEarliestDueTime(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := newFixture(t)
		limit := timer.MinDueAt.UnixMilli()
		err := r.Handle(t.Context(), command(timer.TypeScheduleTimer, fmt.Sprintf(`{"serviceCallId":"k","dueAt":%d}`, limit-1)), at(1))
		check.ErrorOf(t, "timer", err, timer.ErrInvalid, "1989-12-31T23:59:59.999Z", "1990-01-01T00:00:00Z", "milliseconds")
		r.handle(timer.TypeScheduleTimer, fmt.Sprintf(`{"serviceCallId":"k","dueAt":%d}`, limit), at(1))
		check.Equal(t, "due at", r.get("k").DueAt, timer.MinDueAt)
	})
}

func TestACancelTimerCommandCancels(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := newFixture(t)
		r.run()
		r.schedule(timer.Request{Key: "k", Delay: time.Hour})
		r.schedule(timer.Request{Key: "fired"})
		rig.Pass(0)
		r.handle(timer.TypeCancelTimer, `{"serviceCallId":"k"}`, at(1))
		check.Equal(t, "status", r.get("k").Status, timer.Cancelled)
		r.handle(timer.TypeCancelTimer, `{"serviceCallId":"fired"}`, at(2))
		check.Equal(t, "status of one that has fired", r.get("fired").Status, timer.Fired)
		rig.Pass(2 * time.Hour)
		check.Equal(t, "envelopes", len(r.sink.Accepted()), 1)
	})
}

// TestACommandIsAppliedOnce: one that is delivered again changes nothing, whatever became
// of the timer.
func TestACommandIsAppliedOnce(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := newFixture(t)
		r.run()
		const schedule, cancel = `{"serviceCallId":"k","delayMs":60000}`, `{"serviceCallId":"k"}`
		r.handle(timer.TypeScheduleTimer, schedule, at(7))
		rig.Pass(time.Second)
		r.handle(timer.TypeScheduleTimer, schedule, at(7))
		check.Equal(t, "due at", r.get("k").DueAt, r.At(time.Minute))
		rig.Pass(time.Minute)
		fired := r.get("k")
		check.Equal(t, "status", fired.Status, timer.Fired)
		r.handle(timer.TypeScheduleTimer, schedule, at(7))
		check.Equal(t, "version after it fired", r.get("k").Version, fired.Version)

		r.handle(timer.TypeScheduleTimer, schedule, at(8))
		r.handle(timer.TypeCancelTimer, cancel, at(9))
		cancelled := r.get("k")
		r.handle(timer.TypeScheduleTimer, schedule, at(8))
		r.handle(timer.TypeCancelTimer, cancel, at(9))
		check.Equal(t, "version after it was cancelled", r.get("k").Version, cancelled.Version)
		rig.Pass(time.Hour)
		check.Equal(t, "envelopes", len(r.sink.Accepted()), 1)
	})
}

// TestCommandsCountInTheirOrder, and not in that of their arrival; other sources and
// callers have orders of their own.
func TestCommandsCountInTheirOrder(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := newFixture(t)
		r.handle(timer.TypeScheduleTimer, `{"serviceCallId":"k","delayMs":2000}`, at(2))
		r.handle(timer.TypeScheduleTimer, `{"serviceCallId":"k","delayMs":1000}`, at(1))
		check.Equal(t, "due at", r.get("k").DueAt, r.At(2*time.Second))
		r.handle(timer.TypeCancelTimer, `{"serviceCallId":"k"}`, at(1))
		check.Equal(t, "status", r.get("k").Status, timer.Armed)
		r.schedule(timer.Request{Key: "k", Delay: 4 * time.Second})
		r.handle(timer.TypeScheduleTimer, `{"serviceCallId":"k","delayMs":1000}`, at(1))
		check.Equal(t, "due at", r.get("k").DueAt, r.At(4*time.Second))
		r.handle(timer.TypeScheduleTimer, `{"serviceCallId":"k","delayMs":5000}`, bus.Position{Source: "other", Sequence: 1})
		check.Equal(t, "due at", r.get("k").DueAt, r.At(5*time.Second))
	})
}

// TestACancelBeforeItsScheduleCounts: the timer is never armed.
func TestACancelBeforeItsScheduleCounts(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := newFixture(t)
		r.run()
		r.handle(timer.TypeCancelTimer, `{"serviceCallId":"k"}`, at(2))
		r.handle(timer.TypeScheduleTimer, `{"serviceCallId":"k","delayMs":1000}`, at(1))
		got := r.get("k")
		check.Equal(t, "status", got.Status, timer.Cancelled)
		check.Equal(t, "arming", got.Arming, 0)
		check.Equal(t, "cancelled at", got.CancelledAt, r.Began)
		r.handle(timer.TypeScheduleTimer, `{"serviceCallId":"k","delayMs":1000}`, at(3))
		rig.Pass(time.Minute)
		check.Equal(t, "envelopes", len(r.sink.Accepted()), 1)
	})
}

func TestCommandsThatCanNeverBeAppliedAreRefused(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := newFixture(t, func(c *timer.Config) { c.MaxPayload = 10 })
		for name, tt := range map[string]struct {
			envelope bus.Envelope
			says     string
		}{
			"another type":               {command("SendMail", `{}`), `"SendMail"; ScheduleTimer and CancelTimer are allowed`},
			"no type":                    {command("", `{}`), "type is empty"},
			"not an object":              {command(timer.TypeScheduleTimer, `[]`), "ScheduleTimer"},
			"no key":                     {command(timer.TypeScheduleTimer, `{"delayMs":0}`), "key is empty"},
			"no key to cancel":           {command(timer.TypeCancelTimer, `{}`), "key is empty"},
			"not a time":                 {command(timer.TypeScheduleTimer, `{"serviceCallId":"k","dueAt":"tomorrow"}`), "tomorrow"},
			"a time and a delay":         {command(timer.TypeScheduleTimer, `{"serviceCallId":"k","dueAt":"2000-01-01T00:00:00Z","delayMs":1}`), "a due time and a delay"},
			"neither a time nor a delay": {command(timer.TypeScheduleTimer, `{"serviceCallId":"k"}`), "neither dueAt nor delayMs"},
			"both are null":              {command(timer.TypeScheduleTimer, `{"serviceCallId":"k","dueAt":null,"delayMs":null}`), "neither dueAt nor delayMs"},
			"a misspelt time":            {command(timer.TypeScheduleTimer, `{"serviceCallId":"k","due_at":"2027-01-01T00:00:00Z"}`), `"due_at"; allowed are serviceCallId, dueAt, delayMs, payload`},
			"an unknown field":           {command(timer.TypeScheduleTimer, `{"serviceCallId":"k","delayMs":1,"retries":1}`), `"retries"; allowed are`},
			"an unknown field to cancel": {command(timer.TypeCancelTimer, `{"serviceCallId":"k","reason":"late"}`), `"reason"; allowed is serviceCallId`},
			"more than one value":        {command(timer.TypeCancelTimer, `{"serviceCallId":"k"}{}`), "payload"},
			"seconds":                    {command(timer.TypeScheduleTimer, `{"serviceCallId":"k","dueAt":1798761600}`), "milliseconds"},
			"seconds of the year 9000":   {command(timer.TypeScheduleTimer, `{"serviceCallId":"k","dueAt":221845132800}`), "milliseconds"},
			"the zero time":              {command(timer.TypeScheduleTimer, `{"serviceCallId":"k","dueAt":"0001-01-01T00:00:00Z"}`), "0001-01-01T00:00:00Z"},
			"an empty time":              {command(timer.TypeScheduleTimer, `{"serviceCallId":"k","dueAt":""}`), "dueAt"},
			"delay too long":             {command(timer.TypeScheduleTimer, `{"serviceCallId":"k","delayMs":3153600000001}`), "is allowed"},
			"longest delay":              {command(timer.TypeScheduleTimer, fmt.Sprintf(`{"serviceCallId":"k","delayMs":%d}`, math.MaxInt64)), "is allowed"},
			"negative delay":             {command(timer.TypeScheduleTimer, `{"serviceCallId":"k","delayMs":-1}`), "delay"},
			"most negative delay":        {command(timer.TypeScheduleTimer, fmt.Sprintf(`{"serviceCallId":"k","delayMs":%d}`, math.MinInt64)), "delay"},
			"payload too large":          {command(timer.TypeScheduleTimer, `{"serviceCallId":"k","delayMs":1,"payload":"123456789"}`), "payload of 11 bytes"},
		} {
			if err := r.Handle(t.Context(), tt.envelope, at(1)); !errors.Is(err, bus.ErrInvalid) || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("%s: error %v, want one that says %q", name, err, tt.says)
			}
		}
		check.Equal(t, "armed", r.armed(), 0)
	})
}

// TestTroubleIsNoRefusal: what the store could not do is worth another try.
func TestTroubleIsNoRefusal(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := newFixture(t)
		check.OK(t, r.Store.Close())
		err := r.Handle(t.Context(), command(timer.TypeCancelTimer, `{"serviceCallId":"k"}`), at(1))
		if !errors.Is(err, store.ErrClosed) || errors.Is(err, bus.ErrInvalid) {
			t.Errorf("error %v", err)
		}
	})
}

func TestARefusedCommandCanBeRedriven(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		quota := 1
		r := newFixture(t, func(c *timer.Config) { c.QuotaOf = func(string) int { return quota } })
		r.run()
		r.schedule(timer.Request{Key: "first", Delay: time.Hour})
		e := command(timer.TypeScheduleTimer, `{"serviceCallId":"k","delayMs":1000}`)
		err := r.Handle(t.Context(), e, at(5))
		if !errors.Is(err, timer.ErrQuota) || !errors.Is(err, bus.ErrInvalid) {
			t.Fatalf("error %v, want one about the quota", err)
		}
		data, encodeErr := e.Encode()
		if encodeErr != nil {
			t.Fatal(encodeErr)
		}
		for range 2 { // a refusal with an unknown outcome is repeated
			rig.Pass(time.Second)
			check.OK(t, r.Refuse(t.Context(), "acme", data, at(5), err))
		}
		kept := r.Quarantine()
		if len(kept) != 1 {
			t.Fatalf("%d messages are in quarantine, want 1", len(kept))
		}
		check.Equal(t, "tenant", kept[0].Key.Tenant, "acme")
		check.Equal(t, "reason", kept[0].Status, outbox.ReasonRefused)
		check.Equal(t, "key", kept[0].Tags[store.TagKey], "commands/5")
		check.Equal(t, "error", kept[0].Tags[store.TagError], err.Error())

		rig.Pass(time.Minute)
		r.Redrive() // too early
		rig.Pass(0)
		check.Equal(t, "messages in quarantine", len(r.Quarantine()), 1)
		quota = 2
		r.Redrive()
		rig.Pass(0)
		check.Equal(t, "messages in quarantine", len(r.Quarantine()), 0)
		check.Equal(t, "due at", r.get("k").DueAt, r.At(time.Minute+3*time.Second))
		rig.Pass(time.Minute)
		check.Equal(t, "envelopes", len(r.sink.Accepted()), 1)
	})
}

// TestWhatIsNoCommandAtAllIsKept, byte for byte, with and without a position.
func TestWhatIsNoCommandAtAllIsKept(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := newFixture(t)
		r.run()
		large := make([]byte, store.MaxBody+1)
		for i, data := range [][]byte{{0xff, 0x00}, nil, large, []byte("a"), []byte("b")} {
			position := at(uint64(i))
			if i > 2 {
				position = bus.Position{}
			}
			check.OK(t, r.Refuse(t.Context(), "acme", data, position, errors.New("no envelope")))
		}
		kept := r.Quarantine()
		check.Equal(t, "messages in quarantine", len(kept), 5)
		names := map[string]bool{}
		for _, record := range kept {
			m, err := store.Quarantined(record)
			check.OK(t, err)
			if names[m.Key.Name] = true; len(m.Body) == store.MaxBody {
				continue
			}
			tx, err := store.Redrive(record)
			check.OK(t, err)
			check.OK(t, r.Store.Commit(t.Context(), tx))
		}
		check.Equal(t, "names", len(names), 5)
		rig.Pass(0)
		check.Equal(t, "messages that are in quarantine again", len(r.Quarantine()), 5)
	})
}

// TestWhatIsNoCommandIsInTheQuarantineOfItsTenant: that of the envelope, else that of the
// transport. If nobody knows the tenant, the default tenant gets no data of another one.
func TestWhatIsNoCommandIsInTheQuarantineOfItsTenant(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		e := command("SendMail", `{}`)
		data, err := e.Encode()
		check.OK(t, err)
		for name, tt := range map[string]struct {
			tenant, data, want string
			kept               bool
		}{
			"an envelope":                       {"north", string(data), "acme", true},
			"no envelope":                       {"north", "secret", "north", true},
			"no envelope and no tenant":         {"", "secret", "", false},
			"no envelope and no such tenant":    {"a\x00b", "secret", "", false},
			"an envelope that no tenant is for": {"", `{"id":"1","type":"ScheduleTimer","payload":{"a":"secret"}}`, "", false},
		} {
			r := newFixture(t)
			check.OK(t, r.Refuse(t.Context(), tt.tenant, []byte(tt.data), at(1), errors.New("no envelope")))
			kept := r.Quarantine()
			if len(kept) != 1 || kept[0].Key.Tenant != tt.want {
				t.Errorf("%s: quarantine holds %+v, want one message of tenant %q", name, kept, tt.want)
				continue
			}
			m, err := store.Quarantined(kept[0])
			check.OK(t, err)
			if tt.kept && string(m.Body) != tt.data || !tt.kept && len(m.Body) > 0 {
				t.Errorf("%s: quarantine keeps %q", name, m.Body)
			}
			if says := strings.Contains(kept[0].Tags[store.TagError], "bytes not kept: unknown tenant"); says == tt.kept {
				t.Errorf("%s: the reason is %q", name, kept[0].Tags[store.TagError])
			}
		}
	})
}
