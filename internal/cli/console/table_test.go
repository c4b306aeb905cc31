package console

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/abidehq/abide/action"
)

func TestTableIsAlignedAndColoursTakeNoRoom(t *testing.T) {
	t.Parallel()
	tab := NewTable(&bytes.Buffer{}, "ID", "STATUS", "REASON")
	tab.Add(Plain("ä"), StatusCell(action.Failed), Plain("x"))
	tab.Add(Plain("long"), StatusCell(action.Pending), Plain(""))
	var got bytes.Buffer
	if err := tab.Write(&got); err != nil {
		t.Fatal(err)
	}
	const want = "ID    STATUS   REASON\nä     failed   x\nlong  pending\n"
	if got.String() != want {
		t.Errorf("got\n%swant\n%s", got.String(), want)
	}
	tab.Colours, tab.written = true, 0
	got.Reset()
	if err := tab.Write(&got); err != nil {
		t.Fatal(err)
	}
	if colourful := strings.Replace(want, "failed", Red+"failed\x1b[0m", 1); got.String() != colourful {
		t.Errorf("got %q want %q", got.String(), colourful)
	}
}

func TestColoursOnlyOnTerminals(t *testing.T) {
	terminal, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer terminal.Close()
	file, err := os.Create(t.TempDir() + "/file")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	t.Setenv("NO_COLOR", "")
	if !Colours(terminal) || Colours(file) || Colours(null) || Colours(&bytes.Buffer{}) {
		t.Errorf("terminal %v, file %v, null %v, buffer %v", Colours(terminal), Colours(file), Colours(null), Colours(&bytes.Buffer{}))
	}
	t.Setenv("NO_COLOR", "1")
	if Colours(terminal) {
		t.Error("colours in spite of NO_COLOR")
	}
}

func TestReadable(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		0:                                    "0s",
		1234 * time.Microsecond:              "1ms",
		999 * time.Microsecond:               "999µs",
		1234 * time.Millisecond:              "1.23s",
		90 * time.Second:                     "1m30s",
		time.Minute:                          "1m",
		time.Hour:                            "1h",
		24 * time.Hour:                       "24h",
		2*time.Hour + 30*time.Minute:         "2h30m",
		10*time.Hour + 5*time.Second:         "10h0m5s",
		20*time.Minute + 10*time.Millisecond: "20m",
	} {
		if got := Readable(d); got != want {
			t.Errorf("%v is %q, want %q", d, got, want)
		}
	}
}

func TestShorten(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"short":            "short",
		"two\nlines\tof":   "two line…",
		"\x1b[31mred":      "�[31mred",
		"ääääääääääääääää": "ääääääää…",
	} {
		if got := Shorten(text, 9); got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
}

func TestParseTime(t *testing.T) {
	t.Parallel()
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Time{
		"":                          {},
		"now":                       now,
		"+10m":                      now.Add(10 * time.Minute),
		"-24h":                      now.Add(-24 * time.Hour),
		"+90":                       now.Add(90 * time.Second),
		"2026-11-15T09:00:00Z":      now.Add(-3 * time.Hour),
		"2026-11-15T09:00:00.5Z":    now.Add(-3*time.Hour + 500*time.Millisecond),
		"2026-11-15T09:00:00+05:00": now.Add(-8 * time.Hour),
		"2026-11-15 09:00":          now.Add(-4 * time.Hour),
		"2026-11-15T09:00":          now.Add(-4 * time.Hour),
		"2026-11-15 09:00:30":       now.Add(-4*time.Hour + 30*time.Second),
		"2026-07-15":                time.Date(2026, 7, 14, 22, 0, 0, 0, time.UTC),
	} {
		if got, err := ParseTime("at", text, now, berlin); err != nil || !got.Equal(want) {
			t.Errorf("%q is %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"soon", "+soon", "09:00", "2026-13-01", "15.11.2026"} {
		if got, err := ParseTime("at", text, now, berlin); err == nil {
			t.Errorf("%q is %v", text, got)
		}
	}
}
