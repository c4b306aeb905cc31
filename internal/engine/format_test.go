package engine

import (
	"bytes"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/abidehq/abide/internal/history"
	"github.com/abidehq/abide/store"
)

var update = flag.Bool("update", false, "write the golden file anew")

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
		"expire":    {kind: bodyExpire, run: run},
		"orphan":    {kind: bodyOrphan, orphan: true, parent: &parentMark{run: run, event: 1}},
		"parked":    {kind: bodyParked},
	}
}

func exampleTasks() map[string]task {
	event := history.Event{
		ID: 3, Kind: history.ActivityScheduled, Name: "charge", Data: []byte("1"),
		Activity: &history.Activity{MaxAttempts: 5, Backoff: time.Second, Factor: 2, StartToClose: time.Minute},
	}
	return map[string]task{
		"first": {instance: "order-1", execution: 1, run: 7, scheduledAt: noon, event: event},
		"again": {
			instance: "order-1", execution: 3, run: 0x0123456789abcdef, scheduledAt: noon, attempts: 200,
			last: &history.Failure{Type: "declined", Message: "no money", Attempt: 200}, event: event,
		},
	}
}

// TestFormatIsGolden: a byte that changes makes what is on disk unreadable.
func TestFormatIsGolden(t *testing.T) {
	t.Parallel()
	lines := map[string][]byte{"record": exampleInfo().encode(), "record of a new instance": (&Info{Execution: 1, run: 1}).encode()}
	for name, b := range exampleBodies() {
		lines["message "+name] = b.encode()
	}
	for name, spec := range exampleTasks() {
		lines["task "+name] = spec.encode()
	}
	var text strings.Builder
	for _, name := range sortedKeys(lines) {
		fmt.Fprintf(&text, "%s\n  %s\n", name, hex.EncodeToString(lines[name]))
	}
	file := filepath.Join("testdata", "format_1.txt")
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	golden, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if text.String() != string(golden) {
		t.Errorf("the format has changed:\n%s\nwant\n%s", text.String(), golden)
	}
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
	info := exampleInfo()
	put := info.putRecord(0)
	put.Record.Version = 5
	info.Revision = 5
	got, err := infoOf(put.Record)
	if err != nil || !reflect.DeepEqual(got, *info) {
		t.Errorf("got  %+v, %v\nwant %+v", got, err, *info)
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
		// A message may end before an event: it is a shorter list of them.
		if most := map[string]int{"message": 1}[name]; whole > most {
			t.Errorf("%d pieces of a %s are read", whole, name)
		}
	}
	if err := readTask(append(good.encode(), 0)); err == nil {
		t.Error("a task with something behind it is read")
	}
	for name, b := range map[string]body{"kind 0": {}, "kind 10": {kind: bodyParked + 1}} {
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
