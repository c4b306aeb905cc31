package engine

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/internal/wire"
	"github.com/abidehq/abide/store"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// exampleInfo has something in each field.
func exampleInfo() *Info {
	return &Info{
		Ref: Ref{Tenant: "acme", ID: "order-1"}, Name: "order", Version: "2", Status: Stalled, Before: Running,
		Reason: "panic: oh dear", Execution: 3, CreatedAt: noon, BegunAt: noon.Add(time.Second), EndedAt: noon.Add(time.Hour),
		Parent: "cart-1", ParentExecution: 2, ParentEvent: 9, parentRun: 0x1122334455667788,
		Tags: map[string]string{"color": "red", "size": "xl"},
		Text: "waiting for approval", Values: map[string][]byte{"progress": []byte("0.5"), "a": []byte("1")},
		Result: []byte(`{"ok":true}`), Failure: &history.Failure{Type: "declined", Message: "no money", Final: true},
		run: 0x0123456789abcdef, offset: 300, kept: 200, forgiven: 11, partial: true,
		origin: exampleSpan(), last: 0x1020304050607080,
	}
}

// triedInfo has a trial too.
func triedInfo() *Info {
	info := exampleInfo()
	info.trial = trial{cause: causePanic, build: "4f2a9c1", stalled: []string{"4f2a9c1", "8d03e77"}, resumed: []string{"8d03e77"}}
	return info
}

// badInfo is the record of an instance that has stalled because of a payload and waits for events.
func badInfo() *Info {
	return &Info{
		Execution: 1, run: 1, BadPayload: &BadPayload{Event: 300, Message: "e/1", Kind: history.EventReceived, Name: "approved"},
		Awaited: []Awaited{{Name: "approved", Schema: "0123456789ab", Since: noon}, {Name: "cancelled", Since: noon}},
	}
}

// pinnedInfo is the record of an instance that is pinned to a build.
func pinnedInfo() *Info { return &Info{Execution: 1, run: 1, Build: "4f2a9c1"} }

func exampleSpan() span {
	return span{
		trace: trace.TraceID{0x4b, 0xf9, 0x2f, 0x35, 0x77, 0xb3, 0x4d, 0xa6, 0xa3, 0xce, 0x92, 0x9d, 0x0e, 0x0e, 0x47, 0x36},
		id:    trace.SpanID{0x00, 0xf0, 0x67, 0xaa, 0x0b, 0xa9, 0x02, 0xb7}, flags: trace.FlagsSampled, state: "vendor=1,other=2",
	}
}

// exampleBodies has a message of each kind, and between them each field.
func exampleBodies() map[string]body {
	const run = 0x0123456789abcdef
	return map[string]body{
		"start": {kind: bodyStart, run: run, info: exampleInfo(), events: []history.Event{{
			Kind: history.ExecutionStarted, Name: "order", Data: []byte(`{"id":1}`), Start: &history.Start{Version: "2", Execution: 1, Seed: run},
		}}},
		"event":     {kind: bodyEvents, awaited: true, events: []history.Event{{Kind: history.EventReceived, Name: "approved", Data: []byte("1")}}},
		"timer":     {kind: bodyEvents, run: run, events: []history.Event{{Kind: history.TimerFired, Ref: 7}}},
		"two":       {kind: bodyEvents, run: run, events: []history.Event{{Kind: history.TimerFired, Ref: 7}, {Kind: history.TimerFired, Ref: 8}}},
		"cancel":    {kind: bodyEvents, orphan: true, parent: &parentMark{run: run, event: 300}, events: cancelRequest("why")},
		"wake":      {kind: bodyWake, run: run},
		"suspend":   {kind: bodySuspend, reason: "the warehouse is closed"},
		"resume":    {kind: bodyResume},
		"terminate": {kind: bodyTerminate, reason: "stuck"},
		"terminate all": {kind: bodyTerminate, reason: "stuck", recursive: true, events: []history.Event{{
			Kind: history.ExecutionTerminated, By: "operator", Data: []byte("1"),
		}}},
		"expire": {kind: bodyExpire, run: run},
		"orphan": {kind: bodyOrphan, orphan: true, parent: &parentMark{run: run, event: 1}},
		"parked": {kind: bodyParked},
		"correct": {kind: bodyCorrect, run: run, events: []history.Event{{
			Kind: history.PayloadCorrected, Target: "e/1", At: noon, Name: "approved", Data: []byte("true"), By: "operator",
		}}},
		"admit":      {kind: bodyAdmit, run: run},
		"suspend by": {kind: bodySuspend, reason: "the warehouse is closed", events: []history.Event{{Kind: history.ExecutionResumed, By: "operator"}}},
	}
}

// exampleGates has a message to a gate and the records of limits.
func exampleGates() map[string][]byte {
	limits := []history.Limit{{Name: "stripe", Concurrency: 10, Rate: 100, Per: time.Second, Burst: 5}, {Name: "user", Keyed: true, Key: "7", Concurrency: 1}}
	m := gateMessage{
		kind: gateEnter, work: "a/order-1/7/3", limits: limits, at: 1, since: noon, declared: noon, priority: 3, entry: 2, claimed: true,
		admits: store.Message{Key: store.Key{Queue: QueueActivities, Name: "order-1/7/3"}, ID: idTask, Route: "charge", Body: []byte("task")},
	}
	gate := gateState{
		limit: limits[1], holders: []gateHolder{{work: "a/order-1/7/3", at: noon, entry: 2, until: noon}, {work: "i/7/order-2", at: noon, missed: true}},
		waiting: 300, head: noon, next: noon.UnixNano(), look: noon, admitted: 77,
	}
	limit := limitState{name: "stripe", declared: limits[0], declaredAt: noon, hasDeclared: true, set: limits[0], hasSet: true, paused: true, changedAt: noon, by: "operator"}
	waits := exampleInfo()
	waits.Limits, waits.Priority, waits.workRun = limits, 3, 7
	return map[string][]byte{
		"message to a gate": m.encode(), "record of a gate": gate.put("", noon).Record.Body, "record of a limit": limit.put("").Record.Body,
		"record under limits": waits.encode(),
	}
}

func exampleTasks() map[string]task {
	event := history.Event{
		ID: 3, Kind: history.ActivityScheduled, Name: "charge", Data: []byte("1"),
		Activity: &history.Activity{MaxAttempts: 5, Backoff: time.Second, Factor: 2, StartToClose: time.Minute},
	}
	return map[string]task{
		"first": {instance: "order-1", execution: 1, run: 7, scheduledAt: noon, event: event, route: "order"},
		"again": {
			instance: "order-1", execution: 3, run: 0x0123456789abcdef, scheduledAt: noon, attempts: 200,
			last: &history.Failure{Type: "declined", Message: "no money", Attempt: 200}, event: event,
			route: "order@2", under: exampleSpan(),
		},
		"under a limit": {
			instance: "order-1", execution: 1, run: 7, scheduledAt: noon, event: event, route: "order", crashes: 2, inherited: -5, entry: 3,
		},
	}
}

// TestFormatIsGolden: a byte that changes makes what is on disk unreadable.
func TestFormatIsGolden(t *testing.T) {
	t.Parallel()
	untraced := exampleInfo()
	untraced.origin, untraced.last = span{}, 0
	lines := map[string][]byte{
		"record": exampleInfo().encode(), "record of a new instance": (&Info{Execution: 1, run: 1}).encode(),
		"record without a trace": untraced.encode(), "record with a trial": triedInfo().encode(),
		"record of a bad payload":                 badInfo().encode(),
		"record of a build":                       pinnedInfo().encode(),
		"record with a trial and without a trace": (&Info{Execution: 1, run: 1, trial: triedInfo().trial}).encode(),
	}
	for name, b := range exampleBodies() {
		lines["message "+name] = b.encode()
	}
	for name, spec := range exampleTasks() {
		lines["task "+name] = spec.encode()
	}
	maps.Copy(lines, exampleGates())
	check.GoldenTable(t, "testdata/format_1.txt", lines)
}

// TestFormatIsReadAsWritten: what is decoded is what was encoded.
func TestFormatIsReadAsWritten(t *testing.T) {
	t.Parallel()
	for name, b := range exampleBodies() {
		got, err := decodeBody(b.encode())
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got.info != nil {
			got.info.Ref = exampleInfo().Ref
		}
		if !reflect.DeepEqual(got, b) {
			t.Errorf("%s:\ngot  %+v\nwant %+v", name, got, b)
		}
	}
	for name, spec := range exampleTasks() {
		got, err := decodeTask(spec.encode())
		if err != nil || !reflect.DeepEqual(got, spec) {
			t.Errorf("%s:\ngot  %+v, %v\nwant %+v", name, got, err, spec)
		}
	}
	untraced := triedInfo()
	untraced.origin, untraced.last = span{}, 0
	for _, info := range []*Info{exampleInfo(), triedInfo(), untraced, badInfo(), pinnedInfo()} {
		put := info.putRecord(0)
		put.Record.Version = 5
		info.Revision = 5
		got, err := infoOf(put.Record)
		if err != nil || !reflect.DeepEqual(got, *info) {
			t.Errorf("got  %+v, %v\nwant %+v", got, err, *info)
		}
		// A later release may add fields.
		put.Record.Body = wire.AppendString(wire.AppendNumber(info.encode(), 99), "later")
		if info.trial.empty() {
			continue
		}
		if got, err = infoOf(put.Record); err != nil || !reflect.DeepEqual(got, *info) {
			t.Errorf("with more: got  %+v, %v\nwant %+v", got, err, *info)
		}
	}
}

// TestUnknownFormatsAreRefused, and so is what is cut off or has something behind it.
func TestUnknownFormatsAreRefused(t *testing.T) {
	t.Parallel()
	readInfo := func(data []byte) error {
		_, err := infoOf(store.Record{Key: store.RecordKey{Kind: kindInstance, ID: "i"}, Body: data})
		if err != nil && !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("error %v, want %v", err, store.ErrCorrupt)
		}
		return err
	}
	readBody := func(data []byte) error {
		_, err := decodeBody(data)
		return err
	}
	readTask := func(data []byte) error {
		_, err := decodeTask(data)
		return err
	}
	good := exampleTasks()["again"]
	start := exampleBodies()["start"]
	for name, tt := range map[string]struct {
		read func([]byte) error
		data []byte
	}{
		"record": {readInfo, exampleInfo().encode()}, "message": {readBody, start.encode()}, "task": {readTask, good.encode()},
	} {
		if err := tt.read(tt.data); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, version := range []byte{0, 2, 255} {
			other := append([]byte{version}, tt.data[1:]...)
			if err := tt.read(other); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("format %d", version)) {
				t.Errorf("%s of format %d: %v", name, version, err)
			}
		}
		if err := tt.read(nil); err == nil {
			t.Errorf("an empty %s is read", name)
		}
		whole := 0
		for n := range tt.data {
			if tt.read(tt.data[:n]) == nil {
				whole++
			}
		}
		// A message may end before an event: it is a shorter list of them. Records and tasks
		// may end before the trace, as they did before there was one.
		if whole > 1 {
			t.Errorf("%d pieces of a %s are read", whole, name)
		}
	}
	if err := readTask(append(good.encode(), 0)); err == nil {
		t.Error("a task with something behind it is read")
	}
	for name, bad := range map[string]span{
		"no trace ID": {id: exampleSpan().id}, "no span ID": {trace: exampleSpan().trace},
		"too much state": {trace: exampleSpan().trace, id: exampleSpan().id, state: strings.Repeat("x", maxState+1)},
	} {
		data := append(append(slices.Clone(bad.trace[:]), bad.id[:]...), 1)
		task := wire.AppendString(wire.AppendString(oldTask(), "order"), append(data, bad.state...))
		if err := readTask(task); err == nil || !strings.Contains(err.Error(), "not a span") {
			t.Errorf("a span with %s: %v", name, err)
		}
	}
	for name, b := range map[string]body{"kind 0": {}, "kind 12": {kind: bodyAdmit + 1}} {
		if err := readBody(b.encode()); err == nil {
			t.Errorf("a message of %s is read", name)
		}
	}
	flags := exampleBodies()["wake"]
	data := flags.encode()
	data[10] = 0x40
	if err := readBody(data); err == nil || !strings.Contains(err.Error(), "flags") {
		t.Errorf("a message with unknown flags: %v", err)
	}
}

// oldTask returns a task as it was written before tasks had an orchestration and a span.
func oldTask() []byte {
	spec := exampleTasks()["first"]
	data := spec.encode()
	return data[:len(data)-len("\x05order\x00")]
}

// TestWhatWasWrittenBeforeTracesIsRead: a record without one, and a task that ends with its
// event.
func TestWhatWasWrittenBeforeTracesIsRead(t *testing.T) {
	t.Parallel()
	want := exampleTasks()["first"]
	want.route = ""
	if got, err := decodeTask(oldTask()); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("the task is read as %+v, %v", got, err)
	}
	info := exampleInfo()
	data := info.encode()
	data = data[:len(data)-(1+spanBytes+len(info.origin.state))-8]
	info.origin, info.last = span{}, 0
	if !bytes.Equal(info.encode(), data) {
		t.Error("a record without a trace is not what it was before there were any")
	}
}

// FuzzBody: whatever it reads, it writes and reads the same way.
func FuzzBody(f *testing.F) {
	for _, b := range exampleBodies() {
		f.Add(b.encode())
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		b, err := decodeBody(data)
		if err != nil {
			return
		}
		first := b.encode()
		again, err := decodeBody(first)
		if err != nil {
			t.Fatalf("%x was read, and %x is not: %v", data, first, err)
		}
		if second := again.encode(); !bytes.Equal(first, second) {
			t.Errorf("%x and %x", first, second)
		}
	})
}

// FuzzTask does the same for tasks.
func FuzzTask(f *testing.F) {
	for _, spec := range exampleTasks() {
		f.Add(spec.encode())
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		spec, err := decodeTask(data)
		if err != nil {
			return
		}
		first := spec.encode()
		again, err := decodeTask(first)
		if err != nil {
			t.Fatalf("%x was read, and %x is not: %v", data, first, err)
		}
		if second := again.encode(); !bytes.Equal(first, second) {
			t.Errorf("%x and %x", first, second)
		}
	})
}

// FuzzInfo does the same for records of instances.
func FuzzInfo(f *testing.F) {
	f.Add(exampleInfo().encode())
	f.Fuzz(func(t *testing.T, data []byte) {
		key := store.RecordKey{Kind: kindInstance, ID: "i"}
		info, err := infoOf(store.Record{Key: key, Body: data})
		if err != nil {
			return
		}
		first := info.encode()
		again, err := infoOf(store.Record{Key: key, Body: first})
		if err != nil {
			t.Fatalf("%x was read, and %x is not: %v", data, first, err)
		}
		if second := again.encode(); !bytes.Equal(first, second) {
			t.Errorf("%x and %x", first, second)
		}
	})
}
