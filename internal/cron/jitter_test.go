package cron_test

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/abidehq/abide/internal/cron"
)

// TestJitterNeverChanges: a process of another version must come to the same answer, so
// if this test fails it is not the test that is wrong.
func TestJitterNeverChanges(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		id    string
		at    time.Time
		limit time.Duration
		want  time.Duration
	}{
		{"nightly", noon, time.Minute, 36421422338},
		{"nightly", noon.Add(time.Nanosecond), time.Minute, 24319176977},
		{"", time.Unix(-1, 0), time.Hour, 1433174376249},
	} {
		if got := cron.Jitter(c.id, c.at, c.limit); got != c.want {
			t.Errorf("%q at %v within %v: %d, want %d", c.id, c.at, c.limit, got, c.want)
		}
	}
}

func TestJitterStaysWithin(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		id := rapid.String().Draw(t, "id")
		at := drawTime(t)
		limit := time.Duration(rapid.Int64().Draw(t, "limit"))
		got := cron.Jitter(id, at, limit)
		if got < 0 || got > 0 && got >= limit {
			t.Fatalf("%v is not within %v", got, limit)
		}
		if again := cron.Jitter(id, at.In(time.UTC), limit); again != got {
			t.Fatalf("in another zone it is %v, not %v", again, got)
		}
	})
}

// TestJitterSpreads: each tenth of the limit gets about a tenth of the schedules, and
// of the runs of one schedule.
func TestJitterSpreads(t *testing.T) {
	t.Parallel()
	var byID, byTime [10]int
	for i := range 10_000 {
		byID[cron.Jitter(fmt.Sprint("schedule-", i), noon, 10*time.Second)/time.Second]++
		byTime[cron.Jitter("schedule", noon.Add(time.Duration(i)*time.Minute), 10*time.Second)/time.Second]++
	}
	for i := range 10 {
		if min(byID[i], byTime[i]) < 850 || max(byID[i], byTime[i]) > 1150 {
			t.Fatalf("by schedule %v, by time %v", byID, byTime)
		}
	}
}
