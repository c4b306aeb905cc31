package cron_test

import (
	"slices"
	"testing"
	"time"

	robfig "github.com/robfig/cron/v3"
	"pgregory.net/rapid"

	"github.com/abidehq/abide/internal/cron"
)

// zones are those in which time is drawn; all of their offsets are whole minutes since
// 1975.
var zones = []string{
	"UTC", "Asia/Tokyo", "Europe/Berlin", "Europe/Dublin", "America/New_York", "America/Sao_Paulo",
	"Australia/Lord_Howe", "Africa/Cairo", "Africa/Casablanca", "Pacific/Apia", "Pacific/Kwajalein",
	"Antarctica/Troll", "Asia/Kathmandu", "America/St_Johns",
}

func drawZone(t *rapid.T) *time.Location {
	zone, err := time.LoadLocation(rapid.SampledFrom(zones).Draw(t, "zone"))
	if err != nil {
		t.Fatal(err)
	}
	return zone
}

func drawTime(t *rapid.T) time.Time {
	from := time.Date(1975, 1, 1, 0, 0, 0, 0, time.UTC).Unix()
	to := time.Date(2060, 1, 1, 0, 0, 0, 0, time.UTC).Unix()
	return time.Unix(rapid.Int64Range(from, to).Draw(t, "time"), 0)
}

// TestLikeAnother compares with another implementation of cron, where nobody moves a
// clock on the way: of that it has another opinion.
func TestLikeAnother(t *testing.T) {
	t.Parallel()
	other := robfig.NewParser(robfig.SecondOptional | robfig.Minute | robfig.Hour | robfig.Dom | robfig.Month | robfig.Dow)
	rapid.Check(t, func(t *rapid.T) {
		d := drawExpression(t, taste{seconds: rapid.Bool().Draw(t, "seconds")})
		e, err := cron.Parse(d.text)
		theirs, theirErr := other.Parse(d.text)
		if theirErr != nil {
			t.Fatal(theirErr)
		}
		after := drawTime(t).In(drawZone(t))
		if err != nil {
			if next := theirs.Next(after); !next.IsZero() {
				t.Fatalf("%v, but the next is %v", err, next)
			}
			return
		}
		rule := cron.Rule{Expression: e, Location: after.Location()}
		for range 20 {
			got, ok := rule.Next(after)
			if !ok {
				t.Fatalf("%s has nothing after %v", d.text, after)
			}
			if want := theirs.Next(after); !want.Equal(got) && calm(after, got) && calm(after, want) {
				// It gives up after five years.
				if !want.IsZero() || got.Year() <= after.Year()+4 {
					t.Fatalf("%s after %v is %v, want %v", d.text, after, got, want)
				}
			}
			after = got
		}
	})
}

// calm reports whether the clock is not moved from two days before to two days after.
func calm(from, to time.Time) bool {
	start, end := from.ZoneBounds()
	return (start.IsZero() || from.Sub(start) > 48*time.Hour) && (end.IsZero() || end.Sub(to) > 48*time.Hour)
}

// TestEveryMinute compares with a walk through every minute of the days around a move
// of the clock.
func TestEveryMinute(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		d := drawExpression(t, taste{specials: true, starStep: true, often: true})
		walk(t, d, 40*time.Hour, time.Minute)
	})
}

// TestEverySecond compares with a walk through every second of the hours around it.
func TestEverySecond(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		d := drawExpression(t, taste{seconds: true, often: true})
		walk(t, d, 100*time.Minute, time.Second)
	})
}

// walk compares all moments that a rule has around a move of the clock with those that
// a walk finds, forwards and backwards.
func walk(t *rapid.T, d drawn, around, step time.Duration) {
	e, err := cron.Parse(d.text)
	if err != nil {
		d.mustNeverCome(t, err)
		return
	}
	rule := cron.Rule{
		Expression: e,
		Location:   drawZone(t),
		Gap:        rapid.SampledFrom([]cron.Gap{cron.RunAfter, cron.Skip}).Draw(t, "gap"),
		Fold:       rapid.SampledFrom([]cron.Fold{cron.First, cron.Second, cron.Both}).Draw(t, "fold"),
	}
	middle := drawTime(t).Truncate(step).In(rule.Location)
	if _, end := middle.ZoneBounds(); !end.IsZero() {
		middle = end.Truncate(step) // some zones have a seam at the end of what 32 bits can say
	}
	from, to := middle.Add(-around), middle.Add(around)
	want := moments(d, rule, from, to, step)

	got, more := cron.Between(rule, from, to, len(want)+10)
	for i := range min(len(got), len(want)) {
		if !got[i].Equal(want[i]) {
			t.Fatalf("%s around %v: there is %v, want %v", d.text, middle, got[i], want[i])
		}
	}
	if more || len(got) != len(want) {
		t.Fatalf("%s around %v: there are %d moments, want %d", d.text, middle, len(got), len(want))
	}
	at := to
	for i := range slices.Backward(want) {
		if at, _ = rule.Prev(at); !at.Equal(want[i]) {
			t.Fatalf("%s: before the one after %v is %v", d.text, want[i], at)
		}
	}
}

// mustNeverCome asks each day of 28 years, in which all calendars occur, whether an
// expression was refused with reason.
func (d drawn) mustNeverCome(t *rapid.T, err error) {
	for at := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC); at.Year() < 2028; at = at.AddDate(0, 0, 1) {
		if d.matchesDay(at) {
			t.Fatalf("%v, but it comes on %v", err, at)
		}
	}
}

// moments walks through a stretch of time and asks at each step what the clock shows.
func moments(d drawn, rule cron.Rule, from, to time.Time, step time.Duration) []time.Time {
	shown := map[time.Time][]time.Time{}
	due := map[time.Time]bool{}
	var last time.Time
	for at := from; at.Before(to); at = at.Add(step) {
		local := onTheWall(at)
		for missed := last.Add(step); !last.IsZero() && rule.Gap == cron.RunAfter && missed.Before(local); missed = missed.Add(step) {
			if !d.matches(missed) {
				continue
			}
			if d.rhythm {
				due[at.Add(missed.Sub(last.Add(step)))] = true
			} else {
				due[at] = true
			}
		}
		last = local
		if d.matches(local) {
			shown[local] = append(shown[local], at)
		}
	}
	for _, at := range shown {
		switch {
		case d.rhythm || rule.Fold == cron.Both:
		case rule.Fold == cron.First:
			at = at[:1]
		default:
			at = at[len(at)-1:]
		}
		for _, at := range at {
			due[at] = true
		}
	}
	var all []time.Time
	for at := range due {
		if at.Before(to) {
			all = append(all, at)
		}
	}
	slices.SortFunc(all, time.Time.Compare)
	return all
}

// onTheWall returns what the clock shows, told in UTC.
func onTheWall(at time.Time) time.Time {
	return time.Date(at.Year(), at.Month(), at.Day(), at.Hour(), at.Minute(), at.Second(), 0, time.UTC)
}
