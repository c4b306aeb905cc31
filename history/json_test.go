package history

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// throughJSON writes events and reads them again.
func throughJSON(t rapid.TB, events []Event, indent string) []Event {
	t.Helper()
	data, err := json.MarshalIndent(events, "", indent)
	if err != nil {
		t.Fatalf("marshal: %v", err)
	}
	if !utf8.Valid(data) {
		t.Fatalf("it is not UTF-8: %q", data)
	}
	var back []Event
	if err := json.Unmarshal(data, &back); err != nil {
		t.Fatalf("unmarshal: %v\n%s", err, data)
	}
	return back
}

// TestEventsSurviveJSON: events are the same after a round trip through JSON,
// byte for byte.
func TestEventsSurviveJSON(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		events := rapid.SliceOfN(rapid.Custom(drawValidEvent), 1, 4).Draw(t, "events")
		for i := range events {
			events[i].ID = int32(i + 1)
		}
		for _, indent := range []string{"", "\t"} {
			got := throughJSON(t, events, indent)
			for i := range events {
				if !bytes.Equal(Append(nil, &got[i]), Append(nil, &events[i])) {
					t.Fatalf("read as\n%s\nand was\n%s", inWords(&got[i]), inWords(&events[i]))
				}
			}
		}
	})
}

// drawValidEvent returns an event with all that an event of its kind must have, and now and
// then with what it need not have.
func drawValidEvent(t *rapid.T) Event {
	text := rapid.OneOf(rapid.StringN(0, 12, 24), rapid.Just("<&>\u2028"))
	factor, policy := rapid.OneOf(rapid.Just(0.0), rapid.Float64Range(1, math.MaxFloat64)), rapid.Int32Range(0, 2)
	if rapid.Bool().Draw(t, "odd") { // there is something in it that JSON has no words for
		text = rapid.OneOf(text, rapid.Just("\xff\xfe"))
		factor = rapid.SampledFrom([]float64{math.NaN(), math.Inf(1), 1.5})
		policy = rapid.Int32Range(-1, 4)
	}
	data := rapid.OneOf(
		rapid.SliceOfN(rapid.Byte(), 0, 8),
		rapid.Map(rapid.SampledFrom([]string{
			`null`, `{"a":1}`, `{ "a": 1 }`, `"<"`, `"\u003c"`, `12345678901234567890`, `{"$base64":"eA=="}`, `{"$base64" : 1}`,
			" 1", "1\n", `"` + "\xff" + `"`, `[1.0,1e400,{}]`, "\"\u2028\"",
		}), func(s string) []byte { return []byte(s) }))
	number := rapid.Int32()
	moment := rapid.Map(rapid.Int64Range(-1e15, 1e15), func(ms int64) time.Time {
		if ms == 0 {
			ms = 1 // on disk, 0 is no time
		}
		return time.UnixMilli(ms).UTC()
	})
	span := rapid.Map(rapid.Int64Range(0, math.MaxInt64/int64(time.Millisecond)), func(ms int64) time.Duration {
		return time.Duration(ms) * time.Millisecond
	})
	var failure func(depth int) *Failure
	failure = func(depth int) *Failure {
		f := &Failure{
			Type: text.Draw(t, "type"), Message: text.Draw(t, "message"), Final: rapid.Bool().Draw(t, "final"),
			Attempt: number.Draw(t, "attempt"), Details: data.Draw(t, "details"),
		}
		if depth > 0 && rapid.Bool().Draw(t, "caused") {
			f.Cause = failure(depth - 1)
		}
		return f
	}
	return Event{
		Kind: Kind(rapid.Int32Range(1, int32(len(kinds))).Draw(t, "kind")),
		Ref:  rapid.OneOf(rapid.Int32Range(1, math.MaxInt32), rapid.Just(int32(-1))).Draw(t, "ref"),
		Name: text.Draw(t, "name"), Target: "t" + text.Draw(t, "target"), Data: data.Draw(t, "data"), At: moment.Draw(t, "at"),
		Failure: failure(3),
		Start: &Start{
			Version: text.Draw(t, "version"), Execution: number.Draw(t, "execution"), Parent: text.Draw(t, "parent"),
			ParentExecution: number.Draw(t, "parent execution"), ParentEvent: number.Draw(t, "parent event"),
			Seed: rapid.Uint64().Draw(t, "seed"),
		},
		Activity: &Activity{
			StartToClose: span.Draw(t, "start to close"), ScheduleToClose: span.Draw(t, "schedule to close"),
			Heartbeat: span.Draw(t, "heartbeat"), MaxAttempts: number.Draw(t, "attempts"), Backoff: span.Draw(t, "backoff"),
			BackoffMax: span.Draw(t, "longest backoff"), Final: rapid.SliceOfN(text, 0, 2).Draw(t, "except"),
			Factor: factor.Draw(t, "factor"), Limits: drawLimits(t), Priority: number.Draw(t, "priority"),
		},
		Child: &Child{
			Version: text.Draw(t, "child's version"), OnClose: ClosePolicy(policy.Draw(t, "policy")),
			Limits: drawLimits(t), Priority: number.Draw(t, "child's priority"),
		},
		Span: rapid.OneOf(rapid.Just(uint64(0)), rapid.Uint64()).Draw(t, "span"),
	}
}

// TestMalformedEvents: an error names the event and what is wrong with it.
func TestMalformedEvents(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, event, want string }{
		{"unknown kind", `{"id":1,"kind":"SomethingNew"}`, `event 1: unknown kind "SomethingNew"`},
		{"no kind", `{"id":1}`, `event 1: no kind`},
		{"no time", `{"id":1,"kind":"TurnStarted"}`, `event 1: TurnStarted has no at`},
		{"no start", `{"id":1,"kind":"ExecutionStarted"}`, `event 1: ExecutionStarted has no start`},
		{"no activity", `{"id":1,"kind":"ActivityScheduled","name":"a"}`, `event 1: ActivityScheduled has no activity`},
		{"no child", `{"id":1,"kind":"ChildStarted","name":"a"}`, `event 1: ChildStarted has no child`},
		{"no ref", `{"id":1,"kind":"TimerFired"}`, `event 1: TimerFired has no ref`},
		{"no failure", `{"id":1,"kind":"ActivityFailed","ref":1}`, `event 1: ActivityFailed has no failure`},
		{"a large number", `{"id":1,"kind":"TimerFired","ref":4294967296}`, `cannot unmarshal number 4294967296`},
		{"a bad duration", `{"id":1,"kind":"ActivityScheduled","activity":{"backoff":"soon"}}`, `activity.backoff: time: invalid duration "soon"`},
		{"a bad policy", `{"id":1,"kind":"ChildStarted","child":{"on_close":"cry"}}`, `"cry" is not a close policy`},
		{"a bad type", `{"id":1,"kind":7}`, `cannot unmarshal number`},
		{"bad base64", `{"id":1,"kind":"StepCompleted","data":{"$base64":"?"}}`, `$base64 is not base64`},
		{"a bad wire", `{"id":1,"kind":"StepCompleted","wire":"/w=="}`, `event 1: wire: history: parse: version 255`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var e Event
			err := json.Unmarshal([]byte(tt.event), &e)
			if err == nil || !strings.Contains(err.Error(), tt.want) || !errors.Is(err, ErrInvalid) {
				t.Errorf("got %v, want %s, matching ErrInvalid", err, tt.want)
			}
		})
	}
}

// TestEachKindCanBeRead: a kind that is added to history must be known here.
func TestEachKindCanBeRead(t *testing.T) {
	t.Parallel()
	n := 0
	for k := Kind(1); k.Known(); k++ {
		n++
		if kinds[k.String()] != k {
			t.Errorf("%v is read as %v", k, kinds[k.String()])
		}
	}
	if len(kinds) != n {
		t.Errorf("%d kinds have %d names", n, len(kinds))
	}
}

// inWords returns all of an event.
func inWords(e *Event) string {
	words := fmt.Sprintf("%+v, start %+v, activity %+v, child %+v", *e, e.Start, e.Activity, e.Child)
	for f := e.Failure; f != nil; f = f.Cause {
		words += fmt.Sprintf(", failure %+v", *f)
	}
	return words
}
