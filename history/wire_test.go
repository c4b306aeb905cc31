package history

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"pgregory.net/rapid"

	"github.com/abidehq/abide/internal/check"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// examples returns an event of each kind, and between them each field.
func examples() []Event {
	failure := &Failure{
		Type: "card.Declined", Message: "card declined", Final: true, Attempt: 3, Details: []byte(`{"code":51}`),
		Cause: &Failure{Message: "code 51"},
	}
	activity := &Activity{
		StartToClose: 30 * time.Second, ScheduleToClose: time.Hour, Heartbeat: 5 * time.Second,
		MaxAttempts: 5, Backoff: 100 * time.Millisecond, BackoffMax: time.Minute, Factor: 1.5,
		Final: []string{"card.Declined", "card.Stolen"},
	}
	limits := []Limit{
		{Name: "stripe", Concurrency: 10, Rate: 100, Per: time.Second, Burst: 5},
		{Name: "per-customer", Keyed: true, Key: "cus_1", Concurrency: 1},
	}
	start := &Start{Version: "2", Execution: 7, Parent: "cart-1", ParentExecution: 2, ParentEvent: 9, Seed: 0x0123456789abcdef}
	return []Event{
		{Kind: TurnStarted, At: noon},
		{Kind: ExecutionStarted, Name: "order", Start: start, Data: []byte(`{"id":1}`)},
		{Kind: ActivityScheduled, Name: "charge", Data: []byte(`1`), Activity: activity},
		{Kind: ActivityCompleted, Ref: 3, Data: []byte(`"ch_1"`)},
		{Kind: ActivityFailed, Ref: 3, Failure: failure},
		{Kind: ActivityCancelled, Ref: 3},
		{Kind: TimerCreated, Name: "return-window", At: noon.Add(72 * time.Hour)},
		{Kind: TimerFired, Ref: 7},
		{Kind: TimerCancelled, Ref: 7},
		{Kind: TimerMoved, Ref: 7, At: noon.Add(time.Hour)},
		{Kind: ChildStarted, Name: "shipment", Target: "order-1/ship", Data: []byte(`{}`), Child: &Child{Version: "1", OnClose: AbandonChild}},
		{Kind: ChildCompleted, Ref: 11, Data: []byte(`true`)},
		{Kind: ChildFailed, Ref: 11, Failure: &Failure{Message: "lost"}},
		{Kind: ChildCancelled, Ref: 11},
		{Kind: DetachedStarted, Name: "survey", Target: "survey-1", Child: &Child{}},
		{Kind: EventReceived, Name: "approved", Data: []byte(`{"by":"an operator"}`)},
		{Kind: EventSent, Name: "done", Target: "cart-1", Data: []byte(`1`)},
		{Kind: StepCompleted, Name: "total", Data: []byte(`42`)},
		{Kind: StepFailed, Name: "total", Failure: &Failure{Message: "no price"}},
		{Kind: ChangeMarked, Name: "tax-2027"},
		{Kind: StatusSet, Name: "waiting for approval"},
		{Kind: ValueSet, Name: "progress", Data: []byte(`0.5`)},
		{Kind: CancelRequested, Name: "the customer changed her mind"},
		{Kind: ExecutionCompleted, Data: []byte(`{"ok":true}`)},
		{Kind: ExecutionFailed, Failure: failure},
		{Kind: ExecutionCancelled, Failure: &Failure{Message: "cancelled"}},
		{Kind: ExecutionTerminated, Name: "stuck"},
		{Kind: ExecutionContinued, Name: "order", Start: &Start{Version: "3", Execution: 8}, Data: []byte(`{"n":8}`)},
		{Kind: TimerMoveReceived, Ref: 7, At: noon.Add(2 * time.Hour)},
		{Kind: TurnYielded},
		{Kind: ExecutionSuspended, Name: "the warehouse is closed"},
		{Kind: ExecutionResumed},
		{Kind: ParentEnded},
		{Kind: ExecutionStalled, Name: "panic: oh dear"},
		{Kind: TurnStarted, At: noon, Span: 0x00f067aa0ba902b7},
		{Kind: ExecutionStalled, Name: "panic: oh dear", Build: "4f2a9c1"},
		{Kind: ExecutionResumed, Build: "8d03e77"},
		{Kind: ChangeMarked, Name: "tax-2027", Retired: true},
		{Kind: TurnStarted, At: noon, HistoryEvents: 300, HistoryBytes: 70_000_000, Suggested: true},
		{Kind: TurnYielded, Name: Full},
		{Kind: ExecutionSuspended, Name: "the card was stolen", By: "operator"},
		{Kind: PayloadCorrected, Ref: 16, Name: "approved", Data: []byte(`{"approved":true}`), By: "operator"},
		{Kind: PayloadCorrected, Target: "e/4711", Name: "approved", At: noon, Data: []byte(`"yes"`), Discarded: true},
		{Kind: ActivityScheduled, Name: "charge@2", Activity: &Activity{}, Foreign: &Foreign{
			ID: 3, Version: "2", Tags: map[string]string{"unit": "billing", "tier": "gold"}, TraceParent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", TraceState: "a=b",
		}},
		{Kind: ChildStarted, Name: "ship", Target: "order-7/ship", Child: &Child{Tags: map[string]string{"region": "north"}, Replace: true}, Foreign: &Foreign{ID: 4, Request: "r-1"}},
		{Kind: ExecutionStarted, Name: "ship", Start: &Start{Execution: 1, Parent: "order-7", ParentExecution: 1, ParentEvent: 9, Seed: 1, ParentName: "order"}},
		{Kind: EntityCalled, Name: "add", Target: "@counter@7", Data: []byte(`1`), Foreign: &Foreign{ID: 5, Request: "r-2"}},
		{Kind: EntityCompleted, Ref: 48, Data: []byte(`8`)},
		{Kind: EntityFailed, Ref: 48, Failure: &Failure{Type: "RangeError", Message: "too much"}},
		{Kind: EntitySignaled, Name: "reset", Target: "@counter@7", At: noon.Add(time.Hour)},
		{Kind: EntityLockRequested, Data: []byte(`["@account@a","@account@b"]`)},
		{Kind: EntityLocked, Ref: 52},
		{Kind: EntityUnlocked, Ref: 52, Target: "@account@a"},
		{Kind: ExecutionRewound, Name: "the bank is back", By: "operator", Failure: &Failure{Message: "card declined"}},
		{Kind: ExecutionRewound, Name: "the bank is back", Target: "order-7"},
		{Kind: ActivityScheduled, Name: "charge", Activity: &Activity{Limits: limits, Priority: -3}},
		{Kind: ChildStarted, Name: "shipment", Target: "order-1/ship-2", Child: &Child{Limits: limits, Priority: 7}},
	}
}

func numbered() []Event {
	events := examples()
	for i := range events {
		events[i].ID = int32(i + 1)
	}
	return events
}

// TestWireFormatDoesNotChange fails when a byte of what is in histories would be
// another. Histories live for years: a change needs a new version, and code that
// reads the old one.
func TestWireFormatDoesNotChange(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	for _, e := range numbered() {
		fmt.Fprintf(&b, "%v\n  %x\n", &e, Append(nil, &e))
	}
	file := filepath.Join("testdata", fmt.Sprintf("wire_%d.txt", wireVersion))
	check.Golden(t, file, b.String())
}

func TestThereIsAnExampleOfEachKind(t *testing.T) {
	t.Parallel()
	seen := map[Kind]bool{}
	for _, e := range examples() {
		seen[e.Kind] = true
	}
	for k := Kind(1); k.Known(); k++ {
		if !seen[k] || strings.HasPrefix(k.String(), "Kind(") || k.String() == "" {
			t.Errorf("kind %d, %v, has no example or no name", int32(k), k)
		}
	}
}

func TestEventsAreReadAsTheyWereWritten(t *testing.T) {
	t.Parallel()
	for _, e := range numbered() {
		got, err := Parse(Append(nil, &e))
		if err != nil || !reflect.DeepEqual(got, e) {
			t.Errorf("%v: read as %+v, %v", &e, got, err)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		e := drawEvent(t)
		got, err := Parse(Append([]byte("before")[:0], &e))
		if err != nil || !reflect.DeepEqual(got, e) {
			t.Fatalf("%+v: read as %+v, %v", e, got, err)
		}
	})
}

// drawEvent returns an event with any fields.
func drawEvent(t *rapid.T) Event {
	e := Event{
		ID:     rapid.Int32().Draw(t, "id"),
		Kind:   Kind(rapid.Int32Range(1, int32(len(kindNames)-1)).Draw(t, "kind")),
		Ref:    rapid.Int32().Draw(t, "ref"),
		Name:   rapid.String().Draw(t, "name"),
		Target: rapid.String().Draw(t, "target"),
		Data:   drawBytes(t, "data"),

		Build: rapid.String().Draw(t, "build"), By: rapid.String().Draw(t, "by"), Discarded: rapid.Bool().Draw(t, "discarded"), Retired: rapid.Bool().Draw(t, "retired"),
	}
	if rapid.Bool().Draw(t, "has a time") {
		e.At = time.UnixMilli(rapid.Int64Range(1, 253402300799999).Draw(t, "at")).UTC()
	}
	for range rapid.IntRange(0, 4).Draw(t, "failures") {
		e.Failure = &Failure{
			Type: rapid.String().Draw(t, "type"), Message: rapid.String().Draw(t, "message"),
			Final: rapid.Bool().Draw(t, "final"), Attempt: rapid.Int32().Draw(t, "attempt"),
			Details: drawBytes(t, "details"), Cause: e.Failure,
		}
	}
	if rapid.Bool().Draw(t, "starts") {
		e.Start = &Start{
			Version: rapid.String().Draw(t, "version"), Execution: rapid.Int32().Draw(t, "execution"),
			Parent: rapid.String().Draw(t, "parent"), ParentExecution: rapid.Int32().Draw(t, "parent's execution"),
			ParentEvent: rapid.Int32().Draw(t, "parent's event"), Seed: rapid.Uint64().Draw(t, "seed"),
			ParentName: rapid.String().Draw(t, "parent's name"),
		}
	}
	if rapid.Bool().Draw(t, "is an activity") {
		e.Activity = drawActivity(t)
	}
	if rapid.Bool().Draw(t, "is a child") {
		e.Child = &Child{Version: rapid.String().Draw(t, "version"), OnClose: ClosePolicy(rapid.Int32().Draw(t, "on close")), Tags: drawTags(t), Replace: rapid.Bool().Draw(t, "replace")}
	}
	if rapid.Bool().Draw(t, "is foreign") {
		e.Foreign = &Foreign{
			ID: rapid.Int32().Draw(t, "foreign ID"), Request: rapid.String().Draw(t, "request"), Version: rapid.String().Draw(t, "foreign version"),
			Tags: drawTags(t), TraceParent: rapid.String().Draw(t, "trace parent"), TraceState: rapid.String().Draw(t, "trace state"),
		}
	}
	if rapid.Bool().Draw(t, "is traced") {
		e.Span = rapid.Uint64().Draw(t, "span")
	}
	return e
}

// drawTags returns nil for none: on the wire the two are the same.
func drawTags(t *rapid.T) map[string]string {
	if tags := rapid.MapOfN(rapid.String(), rapid.String(), 0, 3).Draw(t, "tags"); len(tags) > 0 {
		return tags
	}
	return nil
}

func drawActivity(t *rapid.T) *Activity {
	millis := func(name string) time.Duration {
		return time.Duration(rapid.Int64Range(0, math.MaxInt64/int64(time.Millisecond)).Draw(t, name)) * time.Millisecond
	}
	a := &Activity{
		StartToClose: millis("start to close"), ScheduleToClose: millis("schedule to close"), Heartbeat: millis("heartbeat"),
		MaxAttempts: rapid.Int32().Draw(t, "attempts"), Backoff: millis("backoff"), BackoffMax: millis("longest backoff"),
		Factor: rapid.Float64().Draw(t, "factor"),
	}
	for range rapid.IntRange(0, 3).Draw(t, "final errors") {
		a.Final = append(a.Final, rapid.String().Draw(t, "type"))
	}
	a.Limits, a.Priority = drawLimits(t), rapid.Int32().Draw(t, "priority")
	return a
}

func drawLimits(t *rapid.T) (limits []Limit) {
	for range rapid.IntRange(0, 2).Draw(t, "limits") {
		limits = append(limits, Limit{
			Name: rapid.String().Draw(t, "limit"), Keyed: rapid.Bool().Draw(t, "keyed"), Key: rapid.String().Draw(t, "key"),
			Concurrency: rapid.Int32().Draw(t, "concurrency"), Rate: rapid.Int32().Draw(t, "rate"), Burst: rapid.Int32().Draw(t, "burst"),
			Per: time.Duration(rapid.Int64Range(0, math.MaxInt64/int64(time.Millisecond)).Draw(t, "per")) * time.Millisecond,
		})
	}
	return limits
}

// drawBytes returns nil for none: on the wire the two are the same.
func drawBytes(t *rapid.T, name string) []byte {
	if b := rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, name); len(b) > 0 {
		return b
	}
	return nil
}

func TestUnknownFieldsAreSkipped(t *testing.T) {
	t.Parallel()
	e := numbered()[2]
	b := Append(nil, &e)
	b = protowire.AppendVarint(protowire.AppendTag(b, 99, protowire.VarintType), 7)
	b = protowire.AppendString(protowire.AppendTag(b, 100, protowire.BytesType), "new")
	b = protowire.AppendFixed32(protowire.AppendTag(b, 101, protowire.Fixed32Type), 1)
	if got, err := Parse(b); err != nil || !reflect.DeepEqual(got, e) {
		t.Errorf("read as %+v, %v", got, err)
	}
}

// TestWhatIsWrittenCanBeRead shows that no duration, however wrong, makes an entry that
// nobody can read.
func TestWhatIsWrittenCanBeRead(t *testing.T) {
	t.Parallel()
	for _, d := range []time.Duration{-time.Second, math.MinInt64, math.MaxInt64, 1} {
		a := &Activity{StartToClose: d, ScheduleToClose: d, Heartbeat: d, Backoff: d, BackoffMax: d}
		e, err := Parse(Append(nil, &Event{ID: 1, Kind: ActivityScheduled, Activity: a}))
		if want := max(d, 0).Truncate(time.Millisecond); err != nil || e.Activity.Backoff != want || e.Activity.BackoffMax != want {
			t.Errorf("%v is read as %+v, %v", d, e.Activity, err)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	deep := &Failure{}
	for range maxDepth {
		deep = &Failure{Cause: deep}
	}
	good := Append(nil, &Event{ID: 1, Kind: TimerFired, Ref: 1})
	for name, c := range map[string]struct {
		b    []byte
		want error
	}{
		"nothing":                 {nil, ErrWire},
		"another version":         {[]byte{2, 8, 1}, ErrVersion},
		"no kind":                 {[]byte{1, 8, 1}, ErrKind},
		"an unknown kind":         {Append(nil, &Event{ID: 1, Kind: 1000}), ErrKind},
		"what is cut short":       {good[:len(good)-1], ErrWire},
		"a field of a wrong type": {append(bytes.Clone(good), 0x22, 0xff), ErrWire},
		"an ID that is too large": {protowire.AppendVarint([]byte{1, 8}, 1<<40), ErrWire},
		"causes without end":      {Append(nil, &Event{ID: 1, Kind: ActivityFailed, Failure: deep}), ErrWire},
	} {
		if _, err := Parse(c.b); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

// FuzzParse shows that no entry, however broken, makes a program panic, and that what
// is read is written again in a form that reads the same.
func FuzzParse(f *testing.F) {
	for _, e := range numbered() {
		f.Add(Append(nil, &e))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := Parse(b)
		if err != nil {
			return
		}
		again, err := Parse(Append(nil, &e))
		if err != nil {
			t.Fatalf("written again it is not read: %v", err)
		}
		if e.String() != again.String() || !bytes.Equal(e.Data, again.Data) {
			t.Errorf("%v is read again as %v", &e, &again)
		}
	})
}

func BenchmarkAppend(b *testing.B) {
	e := numbered()[2]
	buf := make([]byte, 0, 1024)
	b.ReportAllocs()
	for b.Loop() {
		buf = Append(buf[:0], &e)
	}
}

func BenchmarkParse(b *testing.B) {
	e := numbered()[3]
	wire := Append(nil, &e)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Parse(wire); err != nil {
			b.Fatal(err)
		}
	}
}
