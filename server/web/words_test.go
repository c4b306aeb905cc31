package web

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/internal/check"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func TestRelative(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		0: "now", 999 * time.Millisecond: "now", time.Second: "in 1 s", -59 * time.Second: "59 s ago", 3 * time.Minute: "in 3 min",
		59*time.Minute + 59*time.Second: "in 59 min", 47 * time.Hour: "in 47 h", 48 * time.Hour: "in 2 days", -70 * 24 * time.Hour: "2 months ago",
		800 * 24 * time.Hour: "in 2 years",
	} {
		if got := relative(noon.Add(d), noon); got != want {
			t.Errorf("%v: %q, want %q", d, got, want)
		}
	}
}

func TestLasting(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		-time.Second: "0 ms", 0: "0 ms", 250 * time.Microsecond: "250 µs", 1500 * time.Microsecond: "1.5 ms", 12 * time.Millisecond: "12 ms",
		1500 * time.Millisecond: "1.5 s", 90 * time.Second: "1 min 30 s", 2 * time.Hour: "2 h", 50 * time.Hour: "2 d 2 h",
	} {
		if got := lasting(d); got != want {
			t.Errorf("%v: %q, want %q", d, got, want)
		}
	}
}

func TestNumbers(t *testing.T) {
	t.Parallel()
	for got, want := range map[string]string{
		number(0): "0", number(999): "999", number(1000): "1,000", number(-1234567): "-1,234,567", capped(9999): "9,999", capped(10_000): "10,000+",
		plural(1, "row", "rows"): "1 row", plural(1200, "row", "rows"): "1,200 rows", size(999): "999 B", size(1500): "1.5 kB", size(2_000_000): "2 MB",
		rate(0): "0", rate(0.001): "<0.01", rate(2.5): "2.5", rate(42.42): "42.4", rate(1234.5): "1,235",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestParseTime(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Time{
		"": {}, "+10m": noon.Add(10 * time.Minute), "-1d12h": noon.Add(-36 * time.Hour), "+2d": noon.Add(48 * time.Hour), "2026-12-24 09:00": time.Date(2026, 12, 24, 9, 0, 0, 0, time.UTC),
		"2026-12-24": time.Date(2026, 12, 24, 0, 0, 0, 0, time.UTC), "2026-12-24T09:00:00+01:00": time.Date(2026, 12, 24, 8, 0, 0, 0, time.UTC),
	} {
		if got, err := parseTime("When", text, noon); err != nil || !got.Equal(want) {
			t.Errorf("%q: %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"soon", "+x", "24.12.2026", "+d", "-1d-1d"} {
		if got, err := parseTime("When", text, noon); err == nil {
			t.Errorf("%q: %v, want an error", text, got)
		}
	}
	for _, d := range []time.Duration{90 * time.Second, time.Hour, 90 * time.Minute, 24 * time.Hour} {
		if got, err := parseSpan("", span(d)); err != nil || got != d {
			t.Errorf("%v is written %q and read %v, %v", d, span(d), got, err)
		}
	}
}

func TestShellQuote(t *testing.T) {
	t.Parallel()
	for word, want := range map[string]string{
		"order-1": "order-1", "": "''", "a b": "'a b'", "it's": `'it'\''s'`, "$(reboot)": "'$(reboot)'", "a;b": "'a;b'", "a\nb": "'a\nb'", "~": "'~'", "*": "'*'",
	} {
		if got := shellQuote(word); got != want {
			t.Errorf("%q: %s, want %s", word, got, want)
		}
	}
}

func TestSegmentsComeBack(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for _, name := range []string{"", ".", "..", "~", "~~", "~.", "a", "a/b", "%2F", "a b"} {
		s := segment(name)
		if s == "" || s == "." || s == ".." || strings.Contains(s, "/") {
			t.Errorf("%q becomes %q, which is no segment", name, s)
		}
		if other, ok := seen[s]; ok {
			t.Errorf("%q and %q both become %q", name, other, s)
		}
		seen[s] = name
	}
}

func TestPayload(t *testing.T) {
	t.Parallel()
	for data, want := range map[string]string{
		"": "", `{"a":1}`: "{\n  \"a\": 1\n}", "plain": "plain", "\x00\x01": "00000000  00 01                                             |..|\n",
	} {
		if got := payload([]byte(data)); got != want {
			t.Errorf("%q: %q, want %q", data, got, want)
		}
	}
	if got := payload([]byte(strings.Repeat("ü", maxShown))); len(got) > maxShown+100 || !strings.Contains(got, "more") {
		t.Errorf("a large payload is shown with %d bytes", len(got))
	}
	if got := inline([]byte(strings.Repeat("ü", 500))); len([]rune(got)) > 90 {
		t.Errorf("in a line: %d characters", len([]rune(got)))
	}
}

func TestCauses(t *testing.T) {
	t.Parallel()
	declined := abide.NewError("card-declined", "the card was declined")
	got := strings.Join(causes(fmt.Errorf("order: %w", fmt.Errorf("charge: %w", declined))), " | ")
	if want := "order: charge: the card was declined | charge: the card was declined | card-declined: the card was declined"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got := causes(errors.New("x")); len(got) != 1 {
		t.Errorf("%q", got)
	}
	if causes(nil) != nil {
		t.Error("no error has causes")
	}
}

// at returns a history in which each event of a list happens so many seconds after noon.
func at(events ...history.Event) *abide.History {
	h := &abide.History{Execution: 1}
	for _, e := range events {
		e.ID = int32(len(h.Events) + 1)
		h.Events = append(h.Events, e)
	}
	return h
}

// whole returns a window of all of a history.
func whole(h *abide.History) *window { return &window{part: *h, total: len(h.Events)} }

func turn(after time.Duration) history.Event {
	return history.Event{Kind: history.TurnStarted, At: noon.Add(after)}
}

func TestTimeline(t *testing.T) {
	t.Parallel()
	s := &site{clock: base.NewManual(noon.Add(100 * time.Second))}
	h := at(
		turn(0),
		history.Event{Kind: history.ExecutionStarted, Name: "order", Start: &history.Start{Execution: 1}},
		history.Event{Kind: history.ActivityScheduled, Name: "charge"},                             // 3
		history.Event{Kind: history.TimerCreated, Name: "window", At: noon.Add(200 * time.Second)}, // 4
		turn(50*time.Second),
		history.Event{Kind: history.ActivityFailed, Ref: 3, Failure: &history.Failure{Message: "no", Attempt: 3}},
		history.Event{Kind: history.ChildStarted, Name: "parcel", Target: "parcel-1"}, // 7
		turn(75*time.Second),
		history.Event{Kind: history.EventReceived, Name: "approved"},
		history.Event{Kind: history.StepCompleted, Name: "price"},
	)
	waits := []abide.Waiting{{Event: 4, Kind: history.TimerCreated, At: noon.Add(200 * time.Second)}, {Event: 7, Kind: history.ChildStarted}}
	tl := newTimeline(s, abide.Info{Execution: 1}, whole(h), waits, noon.Add(100*time.Second), "")
	var got []string
	for _, b := range tl.Rows {
		got = append(got, fmt.Sprintf("%s %s %s %d+%d open=%v marks=%d %s%s", b.Kind, b.Label, b.State, b.X, b.Width, b.Open, len(b.Marks), b.Words, clockOf(b.Since)))
		check.Equal(t, b.Label+" is due", b.Due.IsZero(), b.Label != "window")
	}
	want := []string{
		"activity charge failed 0+416 open=false marks=3 50 s, 3 attempts failed",
		"timer window running 0+840 open=true marks=0 12:00:00",
		"child parcel-1 running 416+424 open=true marks=0 12:00:50",
		"event approved completed 416+209 open=false marks=0 received after 25 s",
		"step price completed 625+6 open=false marks=0 ",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	check.Equal(t, "ticks", strings.Join(tl.Ticks, " "), "0 30 s 1 min 1 min 30 s 2 min")
	if empty := newTimeline(s, abide.Info{}, whole(at(turn(0))), nil, noon, ""); len(empty.Rows) != 0 || len(empty.Ticks) != 0 {
		t.Errorf("of nothing: %+v", empty)
	}
}

func TestLongHistoriesAreCut(t *testing.T) {
	t.Parallel()
	s := &site{clock: base.NewManual(noon)}
	events := []history.Event{turn(0)}
	for i := range 500 {
		events = append(events, history.Event{Kind: history.StepCompleted, Name: strings.Repeat("x", i+1)})
	}
	tl := newTimeline(s, abide.Info{Execution: 1}, whole(at(events...)), nil, noon, "")
	if len(tl.Rows) != maxBars || tl.More != 500-maxBars {
		t.Errorf("%d rows and %d more", len(tl.Rows), tl.More)
	}
	if newest := tl.Rows[len(tl.Rows)-1].Label; len(newest) != 500 {
		t.Errorf("the last row is that of step %d", len(newest))
	}
}

// TestEqualRowsAreGrouped where there are many; what runs or has failed comes first, and can be
// shown alone.
func TestEqualRowsAreGrouped(t *testing.T) {
	t.Parallel()
	s := &site{clock: base.NewManual(noon)}
	events := []history.Event{turn(0)}
	for range 250 {
		events = append(events, history.Event{Kind: history.ActivityScheduled, Name: "count-work"})
	}
	for i := range 200 {
		events = append(events, history.Event{Kind: history.ChildStarted, Name: "part", Target: fmt.Sprint("part-", i)})
	}
	events = append(events, history.Event{Kind: history.TimerCreated, Name: "cool-down", At: noon.Add(time.Hour)}, turn(time.Second))
	for i := range 250 {
		events = append(events, history.Event{Kind: history.ActivityCompleted, Ref: int32(2 + i)})
	}
	for i := range 200 {
		e := history.Event{Kind: history.ChildCompleted, Ref: int32(252 + i)}
		if i%67 == 13 {
			e.Kind, e.Failure = history.ChildFailed, &history.Failure{Message: "part is broken\nat line 7"}
		}
		events = append(events, e)
	}
	w := whole(at(events...))
	rows := func(show string) string {
		var list []string
		for _, b := range newTimeline(s, abide.Info{Execution: 1}, w, nil, noon.Add(time.Minute), show).Rows {
			list = append(list, b.Label+" "+b.State)
		}
		return strings.Join(list, "; ")
	}
	failed := "part-13 failed; part-80 failed; part-147 failed"
	check.Equal(t, "all rows", rows(""), "cool-down running; "+failed+"; count-work × 250 completed; part × 197 completed")
	check.Equal(t, "the failed ones", rows("failed"), failed)
	check.Equal(t, "the running ones", rows("running"), "cool-down running")

	d := &instanceData{}
	c := childrenOf(d, w, narrateWindow(w))
	check.Equal(t, "the summary", c.Words, "200 children: 197 completed, 3 failed")
	if c.Rows[0].State != "failed" || c.Rows[0].Why != "part is broken" || c.Rows[3].State != "completed" || c.More != 100 {
		t.Errorf("the children begin with %+v, and %d more", c.Rows[:4], c.More)
	}
	d.Show = "failed"
	check.Equal(t, "failed children", len(childrenOf(d, w, narrateWindow(w)).Rows), 3)
}

// clockOf writes the time of day of a time, nothing if it is zero.
func clockOf(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Format("15:04:05")
}

func TestChartsStayWithinTheirFrame(t *testing.T) {
	t.Parallel()
	for v, want := range map[float64]float64{0.9: 1, 1: 1, 1.1: 2, 3: 5, 7: 10, 42: 50, 0.013: 0.02} {
		if got := roundUp(v); got < want*0.999 || got > want*1.001 {
			t.Errorf("%v becomes %v, want %v", v, got, want)
		}
	}
	if charts(nil) != nil {
		t.Error("a chart of nothing")
	}
}

// TestAPartIsToldWithoutTheRest: what is not in the part is not guessed.
func TestAPartIsToldWithoutTheRest(t *testing.T) {
	t.Parallel()
	h := at(
		turn(0),
		history.Event{Kind: history.ExecutionStarted, Name: "order", Data: []byte("17"), Start: &history.Start{Execution: 1}},
		history.Event{Kind: history.ActivityScheduled, Name: "charge"},                // 3
		history.Event{Kind: history.ChildStarted, Name: "parcel", Target: "parcel-1"}, // 4
		history.Event{Kind: history.StepCompleted, Name: "price"},                     // 5
		turn(60*time.Second),
		history.Event{Kind: history.ActivityCompleted, Ref: 3},
		history.Event{Kind: history.ChildFailed, Ref: 4, Failure: &history.Failure{Message: "no"}},
		history.Event{Kind: history.ActivityScheduled, Name: "ship"}, // 9
		turn(90*time.Second),
		history.Event{Kind: history.ActivityCompleted, Ref: 9},
	)
	w := &window{part: *h, head: h.Events[:2], total: len(h.Events)}
	w.part.Events = h.Events[4:9]
	if got := w.words(); got != "5 to 9 of 11" || w.whole() || string(w.input()) != "17" {
		t.Errorf("%s, %v, %s", got, w.whole(), w.input())
	}
	told := narrateWindow(w)
	var got []string
	for _, row := range told.rows {
		got = append(got, fmt.Sprintf("%d %s%s at=%v", row.ID, row.Words, row.Child, !row.At.IsZero()))
	}
	want := []string{
		"5 Step price completed at=false",
		"6 Turn started at=true",
		"7 Activity #3 completed at=true",
		"8 Child #4 failed at=true",
		"9 Activity ship scheduled at=true",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	check.Equal(t, "the state of what is answered later", told.state(9), "unknown")
	s := &site{clock: base.NewManual(noon.Add(100 * time.Second))}
	tl := newTimeline(s, abide.Info{Execution: 1}, w, nil, noon.Add(100*time.Second), "")
	if len(tl.Rows) != 1 || tl.Rows[0].Label != "ship" || tl.Rows[0].State != "unknown" || tl.Rows[0].Open || tl.Since != "1 min" {
		t.Errorf("%+v", tl)
	}
}
