package cron_test

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/abidehq/abide/internal/cron"
)

var noon = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

func TestBetween(t *testing.T) {
	t.Parallel()
	hourly := cron.Rule{Expression: parse(t, "@hourly")}
	for _, c := range []struct {
		name     string
		from, to time.Time
		limit    int
		want     []int // hours
		more     bool
	}{
		{"the start is in it, the end is not", noon, noon.Add(3 * time.Hour), 10, []int{12, 13, 14}, false},
		{"just after the start", noon.Add(1), noon.Add(3*time.Hour + 1), 10, []int{13, 14, 15}, false},
		{"as many as the limit", noon, noon.Add(3 * time.Hour), 3, []int{12, 13, 14}, false},
		{"more than the limit", noon, noon.Add(3 * time.Hour), 2, []int{12, 13}, true},
		{"no end", noon, time.Time{}, 4, []int{12, 13, 14, 15}, true},
		{"nothing", noon.Add(1), noon.Add(time.Hour), 10, nil, false},
		{"the end is before the start", noon, noon.Add(-time.Hour), 10, nil, false},
		{"no limit is no times", noon, noon.Add(time.Hour), 0, nil, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			found, more := cron.Between(hourly, c.from, c.to, c.limit)
			var got []int
			for _, at := range found {
				got = append(got, at.Hour())
			}
			if !slices.Equal(got, c.want) || more != c.more {
				t.Errorf("found %v, more %v, want %v, more %v", got, more, c.want, c.more)
			}
		})
	}
}

func TestZeroValuesHaveNoTimes(t *testing.T) {
	t.Parallel()
	for _, times := range []cron.Times{cron.Rule{}, cron.Interval{}} {
		if at, ok := times.Next(noon); ok {
			t.Errorf("%T has a next time: %v", times, at)
		}
		if at, ok := times.Prev(noon); ok {
			t.Errorf("%T has a time before: %v", times, at)
		}
		if found, more := cron.Between(times, noon, time.Time{}, 3); len(found) > 0 || more {
			t.Errorf("%T has times: %v", times, found)
		}
	}
}

// TestTimesEnd: at the ends of the calendar, and beyond, the answer may be none, but it
// comes.
func TestTimesEnd(t *testing.T) {
	t.Parallel()
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	i, err := cron.Every(time.Second, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	all := []cron.Times{i}
	for _, text := range []string{"* * * * * *", "30 2 * * *", "0 */2 * * *", "0 0 * 2 MON#5"} {
		all = append(all, cron.Rule{Expression: parse(t, text), Location: berlin})
	}
	first, last := time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(9999, 12, 31, 23, 59, 59, 1e9-1, time.UTC)
	for _, times := range all {
		for _, at := range []time.Time{first, last} {
			if next, ok := times.Next(at); !ok || !next.After(at) {
				t.Errorf("%v after %v is %v", times, at, next)
			}
			if before, ok := times.Prev(at); !ok || !before.Before(at) {
				t.Errorf("%v before %v is %v", times, at, before)
			}
		}
		for _, at := range []time.Time{
			first.Add(-1), last.Add(1), time.Unix(math.MaxInt64, 0), time.Unix(math.MinInt64, 0), time.Unix(1<<62, 0),
		} {
			if _, ok := times.Next(at); ok {
				t.Errorf("%v has something after %v", times, at)
			}
			if _, ok := times.Prev(at); ok {
				t.Errorf("%v has something before %v", times, at)
			}
		}
	}
}

func TestIntervalDoesNotDrift(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		every := time.Duration(rapid.Int64Range(int64(time.Second), math.MaxInt64).Draw(t, "every"))
		if rapid.Bool().Draw(t, "short") {
			every = every%(48*time.Hour) + time.Second
		}
		anchor := time.Unix(rapid.Int64Range(-30_000_000_000, 100_000_000_000).Draw(t, "anchor"), rapid.Int64Range(0, 1e9-1).Draw(t, "ns"))
		i, err := cron.Every(every, anchor)
		if err != nil {
			t.Fatal(err)
		}
		// A moment near the anchor: how many intervals away is known by counting.
		n := rapid.Int64Range(-3, 3).Draw(t, "n")
		at := anchor
		for range max(n, -n) {
			at = at.Add(every * time.Duration(n/max(n, -n)))
		}
		inside := time.Duration(rapid.Int64Range(1, int64(every)-1).Draw(t, "inside"))
		next := at.Add(every)
		for _, after := range []time.Time{at, at.Add(inside), next.Add(-1)} {
			if got, _ := i.Next(after); !got.Equal(next) {
				t.Fatalf("after %v comes %v, want %v", after, got, next)
			}
		}
		for _, before := range []time.Time{at.Add(1), at.Add(inside), next} {
			if got, _ := i.Prev(before); !got.Equal(at) {
				t.Fatalf("before %v is %v, want %v", before, got, at)
			}
		}
	})
}

// TestIntervalFromFarAway: the anchor is further away than a Duration can say.
func TestIntervalFromFarAway(t *testing.T) {
	t.Parallel()
	for _, anchor := range []time.Time{{}, time.Date(9000, 1, 1, 0, 0, 0, 0, time.UTC)} {
		i, err := cron.Every(24*time.Hour, anchor)
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := i.Next(noon); !got.Equal(noon.Add(12 * time.Hour)) {
			t.Errorf("from %v: after %v comes %v", anchor, noon, got)
		}
	}
}

// TestIntervalForgetsTheProcess: a monotonic reading would make equal times differ.
func TestIntervalForgetsTheProcess(t *testing.T) {
	t.Parallel()
	now := time.Now()
	i, err := cron.Every(time.Minute, now)
	if err != nil {
		t.Fatal(err)
	}
	next, _ := i.Next(now)
	before, _ := i.Prev(now)
	for _, at := range []time.Time{next, before} {
		if strings.Contains(at.String(), "m=") {
			t.Errorf("%v has a monotonic reading", at)
		}
	}
}

func TestIntervalHasALeast(t *testing.T) {
	t.Parallel()
	for _, every := range []time.Duration{time.Second - 1, 0, -time.Hour} {
		if _, err := cron.Every(every, noon); err == nil || !strings.Contains(err.Error(), "at least 1s") {
			t.Errorf("every %v: the error is %v", every, err)
		}
	}
	if _, err := cron.Every(time.Second, time.Unix(1<<62, 0)); err == nil || !strings.Contains(err.Error(), "from 1 to 9999") {
		t.Errorf("from far away: the error is %v", err)
	}
	if i, err := cron.Every(time.Second, noon); err != nil || i.String() != "every 1s" {
		t.Errorf("every second is %v: %v", i, err)
	}
}

// TestTimesAreInTheirZone: a preview shows them as they are.
func TestTimesAreInTheirZone(t *testing.T) {
	t.Parallel()
	tokyo, err := time.LoadLocation("Asia/Tokyo")
	if err != nil {
		t.Fatal(err)
	}
	i, err := cron.Every(time.Minute, noon.In(tokyo))
	if err != nil {
		t.Fatal(err)
	}
	for _, times := range []cron.Times{i, cron.Rule{Expression: parse(t, "@daily"), Location: tokyo}} {
		next, _ := times.Next(noon)
		before, _ := times.Prev(noon)
		if next.Location() != tokyo || before.Location() != tokyo {
			t.Errorf("%T: %v and %v are not in Tokyo", times, before, next)
		}
	}
}

func TestPoliciesByName(t *testing.T) {
	t.Parallel()
	type policies struct {
		Gap  cron.Gap
		Fold cron.Fold
	}
	for _, c := range []struct {
		text string
		want policies
	}{
		{`{"Gap":"run-after","Fold":"first"}`, policies{cron.RunAfter, cron.First}},
		{`{"Gap":"skip","Fold":"second"}`, policies{cron.Skip, cron.Second}},
		{`{"Gap":"skip","Fold":"both"}`, policies{cron.Skip, cron.Both}},
	} {
		var got policies
		if err := json.Unmarshal([]byte(c.text), &got); err != nil || got != c.want {
			t.Errorf("%s is %+v: %v", c.text, got, err)
		}
		if text, err := json.Marshal(c.want); err != nil || string(text) != c.text {
			t.Errorf("%+v is %s: %v", c.want, text, err)
		}
	}
	got := policies{cron.Skip, cron.Both}
	if err := json.Unmarshal([]byte(`{"Gap":"","Fold":""}`), &got); err != nil || got != (policies{}) {
		t.Errorf("nothing said is %+v: %v", got, err)
	}
	for text, says := range map[string]string{
		`{"Gap":"jump"}`:  `gap "jump": want run-after, skip`,
		`{"Fold":"last"}`: `fold "last": want first, second, both`,
	} {
		if err := json.Unmarshal([]byte(text), &got); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: the error is %v", text, err)
		}
	}
	if got := cron.Gap(9).String() + cron.Fold(9).String(); got != "unknown(9)unknown(9)" {
		t.Errorf("what is unknown prints as %s", got)
	}
}
