package instances

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/internal/cli/console"
	"github.com/abidehq/abide/internal/narrate"
)

// TestHistoryInWords has an event of each kind, and compares with a file.
func TestHistoryInWords(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile(filepath.Join("testdata", "history.json"))
	if err != nil {
		t.Fatal(err)
	}
	var h abide.History
	if err := json.Unmarshal(data, &h); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := writeHistory(&out, &h, time.Time{}, 0); err != nil {
		t.Fatal(err)
	}
	golden := filepath.Join("testdata", "history.golden")
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	// What people read is in their zone; the file has times in braces.
	want = regexp.MustCompile(`\{2[^}]+Z\}`).ReplaceAllFunc(want, func(text []byte) []byte {
		at, err := time.Parse(time.RFC3339, strings.Trim(string(text), "{}"))
		if err != nil {
			t.Fatal(err)
		}
		return []byte(console.LocalTime(at))
	})
	if out.String() != string(want) {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
	out.Reset()
	if err := writeHistory(&out, &h, time.Time{}, 2); err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(out.Bytes(), []byte("\n")); n != 4 {
		t.Errorf("the latest 2 lines are\n%s", out.String())
	}
	out.Reset()
	if err := writeHistory(&out, &h, startOf(&h).Add(39*time.Second), 0); err != nil {
		t.Fatal(err)
	}
	if text := out.String(); !strings.Contains(text, " -39s ") || strings.Contains(text, "+-") {
		t.Errorf("what a fork has of the original is\n%s", text)
	}
}

// An execution has one end, of several.
func TestEndsInWords(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		event history.Event
		want  string
	}{
		{history.Event{Kind: history.ExecutionFailed, Failure: &history.Failure{Type: "declined", Message: "no money"}}, "failed|no money (declined)"},
		{history.Event{Kind: history.ExecutionFailed, Failure: &history.Failure{Cause: &history.Failure{Message: "behind it"}}}, "failed|behind it"},
		{history.Event{Kind: history.ExecutionCancelled, Failure: &history.Failure{Message: "asked to"}}, "cancelled|asked to"},
		{history.Event{Kind: history.ExecutionTerminated, Name: "by hand"}, "terminated|by hand"},
		{history.Event{Kind: history.ExecutionContinued, Data: history.Payload("7")}, "continued as new|7"},
	} {
		l := narrate.Events([]history.Event{tt.event})[0]
		if got := l.Text + "|" + detail(&l); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.event.Kind, got, tt.want)
		}
	}
}
