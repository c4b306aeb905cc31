package abide

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/internal/history"
)

// throughJSON writes a history and reads it again.
func throughJSON(t rapid.TB, h *History, indent string) []history.Event {
	t.Helper()
	data, err := json.MarshalIndent(h, "", indent)
	if err != nil {
		t.Fatalf("marshal: %v", err)
	}
	if !utf8.Valid(data) {
		t.Fatalf("it is not UTF-8: %q", data)
	}
	var back History
	if err := json.Unmarshal(data, &back); err != nil {
		t.Fatalf("unmarshal: %v\n%s", err, data)
	}
	events, err := back.events()
	if err != nil {
		t.Fatalf("%v\n%s", err, data)
	}
	head := *h
	head.Events, back.Events = nil, nil
	if !reflect.DeepEqual(back, head) {
		t.Fatalf("read as %+v, was %+v", back, head)
	}
	return events
}

// TestHistorySurvivesJSON: what is in a history is there when it comes back from JSON,
// byte for byte.
func TestHistorySurvivesJSON(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		events := rapid.SliceOfN(rapid.Custom(drawEvent), 1, 4).Draw(t, "events")
		h := History{Ref: Ref{Tenant: "acme", ID: "order-1"}, Orchestration: "order", Version: "2", Execution: 7}
		for i := range events {
			events[i].ID = int32(i + 1)
			h.Events = append(h.Events, eventFrom(&events[i]))
		}
		for _, indent := range []string{"", "\t"} {
			got := throughJSON(t, &h, indent)
			for i := range events {
				if !bytes.Equal(history.Append(nil, &got[i]), history.Append(nil, &events[i])) {
					t.Fatalf("read as\n%s\nand was\n%s", inWords(&got[i]), inWords(&events[i]))
				}
			}
		}
	})
}

// drawEvent returns an event with all that an event of its kind must have, and now and
// then with what it need not have.
func drawEvent(t *rapid.T) history.Event {
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
	var failure func(depth int) *history.Failure
	failure = func(depth int) *history.Failure {
		f := &history.Failure{
			Type: text.Draw(t, "type"), Message: text.Draw(t, "message"), Final: rapid.Bool().Draw(t, "final"),
			Attempt: number.Draw(t, "attempt"), Details: data.Draw(t, "details"),
		}
		if depth > 0 && rapid.Bool().Draw(t, "caused") {
			f.Cause = failure(depth - 1)
		}
		return f
	}
	return history.Event{
		Kind: history.Kind(rapid.Int32Range(1, int32(len(kinds))).Draw(t, "kind")),
		Ref:  rapid.OneOf(rapid.Int32Range(1, math.MaxInt32), rapid.Just(int32(-1))).Draw(t, "ref"),
		Name: text.Draw(t, "name"), Target: text.Draw(t, "target"), Data: data.Draw(t, "data"), At: moment.Draw(t, "at"),
		Failure: failure(3),
		Start: &history.Start{
			Version: text.Draw(t, "version"), Execution: number.Draw(t, "execution"), Parent: text.Draw(t, "parent"),
			ParentExecution: number.Draw(t, "parent execution"), ParentEvent: number.Draw(t, "parent event"),
			Seed: rapid.Uint64().Draw(t, "seed"),
		},
		Activity: &history.Activity{
			StartToClose: span.Draw(t, "start to close"), ScheduleToClose: span.Draw(t, "schedule to close"),
			Heartbeat: span.Draw(t, "heartbeat"), MaxAttempts: number.Draw(t, "attempts"), Backoff: span.Draw(t, "backoff"),
			BackoffMax: span.Draw(t, "longest backoff"), Final: rapid.SliceOfN(text, 0, 2).Draw(t, "except"),
			Factor: factor.Draw(t, "factor"),
		},
		Child: &history.Child{
			Version: text.Draw(t, "child's version"), OnClose: history.OnClose(policy.Draw(t, "policy")),
		},
		Span: rapid.OneOf(rapid.Just(uint64(0)), rapid.Uint64()).Draw(t, "span"),
	}
}

// TestHistoryJSON shows what people see. The file is a format: old ones must be read for
// as long as there are any.
func TestHistoryJSON(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	events := []history.Event{
		{ID: 1, Kind: history.TurnStarted, At: noon},
		{
			ID: 2, Kind: history.ExecutionStarted, Name: "order", Data: []byte(`{"id":"1"}`),
			Start: &history.Start{Version: "2", Execution: 1, Parent: "cart-1", ParentExecution: 2, ParentEvent: 9, Seed: math.MaxUint64},
		},
		{ID: 3, Kind: history.ActivityScheduled, Name: "charge", Data: []byte{0, 1}, Activity: &history.Activity{
			StartToClose: 30 * time.Second, ScheduleToClose: time.Hour, Heartbeat: 5 * time.Second,
			MaxAttempts: 5, Backoff: 100 * time.Millisecond, BackoffMax: time.Minute, Factor: 1.5, Final: []string{"declined"},
		}},
		{ID: 4, Kind: history.ChildStarted, Name: "ship", Target: "ship-1", Child: &history.Child{Version: "1", OnClose: history.AbandonChild}},
		{ID: 5, Kind: history.TimerCreated, Name: "reminder", At: noon.Add(time.Hour)},
		{ID: 6, Kind: history.TurnStarted, At: noon.Add(time.Minute)},
		{ID: 7, Kind: history.ActivityFailed, Ref: 3, Failure: &history.Failure{
			Type: "declined", Message: "card declined", Final: true, Attempt: 2, Details: []byte(`{"code":51}`),
			Cause: &history.Failure{Message: "code 51"},
		}},
		{ID: 8, Kind: history.ExecutionFailed, Failure: &history.Failure{Message: "bytes: \xff"}},
	}
	h := History{Ref: Ref{ID: "order-1"}, Orchestration: "order", Version: "2", Execution: 1}
	for i := range events {
		h.Events = append(h.Events, eventFrom(&events[i]))
	}
	got, err := json.MarshalIndent(h, "", "\t")
	if err != nil {
		t.Fatal(err)
	}
	check.Golden(t, "testdata/history.json", string(got)+"\n")
	var back History
	if err := json.Unmarshal(got, &back); err != nil {
		t.Fatal(err)
	}
	read, err := back.events()
	if err != nil {
		t.Fatal(err)
	}
	for i := range events {
		if !reflect.DeepEqual(read[i], events[i]) {
			t.Errorf("read as\n%+v\nwant\n%+v", read[i], events[i])
		}
	}
}

// TestMalformedHistories: an error names the event and what is wrong with it.
func TestMalformedHistories(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, event, want string }{
		{"unknown kind", `{"id":1,"kind":"SomethingNew"}`, `event 1: unknown kind "SomethingNew"`},
		{"no kind", `{"id":1}`, `event 1: unknown kind ""`},
		{"another ID", `{"id":3,"kind":"TurnYielded"}`, `event 1: its ID is 3, and it is number 1`},
		{"no time", `{"id":1,"kind":"TurnStarted"}`, `event 1: TurnStarted has no at`},
		{"no start", `{"id":1,"kind":"ExecutionStarted"}`, `event 1: ExecutionStarted has no start`},
		{"no activity", `{"id":1,"kind":"ActivityScheduled","name":"a"}`, `event 1: ActivityScheduled has no activity`},
		{"no child", `{"id":1,"kind":"ChildStarted","name":"a"}`, `event 1: ChildStarted has no child`},
		{"no ref", `{"id":1,"kind":"TimerFired"}`, `event 1: TimerFired has no ref`},
		{"no failure", `{"id":1,"kind":"ActivityFailed","ref":1}`, `event 1: ActivityFailed has no failure`},
		{"a large number", `{"id":1,"kind":"TimerFired","ref":4294967296}`, `event 1: ref is 4294967296, which does not fit`},
		{"a bad duration", `{"id":1,"kind":"ActivityScheduled","activity":{"backoff":"soon"}}`, `activity.backoff: time: invalid duration "soon"`},
		{"a bad policy", `{"id":1,"kind":"ChildStarted","child":{"on_close":"cry"}}`, `"cry" is not what can happen to a child`},
		{"a bad type", `{"id":1,"kind":7}`, `cannot unmarshal number`},
		{"bad base64", `{"id":1,"kind":"StepCompleted","data":{"$base64":"?"}}`, `$base64 is not base64`},
		{"a bad wire", `{"id":1,"kind":"StepCompleted","wire":"/w=="}`, `event 1: wire: history: parse: version 255`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var h History
			err := json.Unmarshal([]byte(`{"instance":{"id":"x"},"events":[`+tt.event+`]}`), &h)
			if err == nil {
				_, err = h.events()
			}
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
	for k := history.Kind(1); k.Known(); k++ {
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
func inWords(e *history.Event) string {
	words := fmt.Sprintf("%+v, start %+v, activity %+v, child %+v", *e, e.Start, e.Activity, e.Child)
	for f := e.Failure; f != nil; f = f.Cause {
		words += fmt.Sprintf(", failure %+v", *f)
	}
	return words
}
