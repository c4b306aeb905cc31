package cron_test

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"pgregory.net/rapid"
)

// drawn is a random expression together with what it means, told in another way than
// the package tells it: as questions to a local time.
type drawn struct {
	text   string
	rhythm bool

	second, minute, hour, month column
	day, weekday                column
}

// column is a random field: its text and whether a value is in it.
type column struct {
	text  string
	star  bool
	whole bool
	holds func(local time.Time) bool
}

// matches reports whether a local time, told in UTC, is one of the expression's.
func (d drawn) matches(local time.Time) bool {
	return d.second.holds(local) && d.minute.holds(local) && d.hour.holds(local) && d.matchesDay(local)
}

func (d drawn) matchesDay(local time.Time) bool {
	if !d.month.holds(local) {
		return false
	}
	if d.day.star || d.weekday.star {
		return d.day.holds(local) && d.weekday.holds(local)
	}
	return d.day.holds(local) || d.weekday.holds(local)
}

// taste says which expressions are drawn.
type taste struct {
	seconds  bool // with a field for them
	specials bool // L, W and #
	starStep bool // steps from a star in the days, on which implementations differ
	often    bool // days and months are mostly stars, so that there is something every day
}

func drawExpression(t *rapid.T, like taste) drawn {
	steps := []string{"star", "value", "list", "range", "step", "range-step", "value-step"}
	kinds := func(more ...string) []string {
		days := slices.Clone(steps)
		if !like.starStep {
			days = slices.DeleteFunc(days, func(kind string) bool { return kind == "step" })
		}
		if like.specials {
			days = append(days, more...)
		}
		if like.often {
			days = append(days, slices.Repeat([]string{"star"}, 2*len(days))...)
		}
		return days
	}
	d := drawn{
		second:  column{text: "0", holds: func(local time.Time) bool { return local.Second() == 0 }},
		minute:  drawColumn(t, "minute", 0, 59, steps, time.Time.Minute),
		hour:    drawColumn(t, "hour", 0, 23, steps, time.Time.Hour),
		day:     drawColumn(t, "day", 1, 31, kinds("L", "LW", "W"), time.Time.Day),
		month:   drawColumn(t, "month", 1, 12, kinds(), func(l time.Time) int { return int(l.Month()) }),
		weekday: drawColumn(t, "weekday", 0, 6, kinds("last", "nth"), func(l time.Time) int { return int(l.Weekday()) }),
	}
	texts := []string{d.minute.text, d.hour.text, d.day.text, d.month.text, d.weekday.text}
	if like.seconds {
		d.second = drawColumn(t, "second", 0, 59, steps, time.Time.Second)
		texts = append([]string{d.second.text}, texts...)
	}
	d.text = strings.Join(texts, " ")
	d.rhythm = d.hour.whole
	return d
}

func drawColumn(t *rapid.T, name string, low, high int, kinds []string, of func(time.Time) int) column {
	value := func(what string, from int) int { return rapid.IntRange(from, high).Draw(t, name+" "+what) }
	every := func(text string, from, to, step int) column {
		return column{
			text:  text,
			whole: from == low && to == high,
			holds: func(local time.Time) bool {
				n := of(local)
				return n >= from && n <= to && (n-from)%step == 0
			},
		}
	}
	switch kind := rapid.SampledFrom(kinds).Draw(t, name); kind {
	case "star":
		c := every("*", low, high, 1)
		c.star = true
		return c
	case "value":
		n := value("value", low)
		return every(fmt.Sprint(n), n, n, 1)
	case "list":
		list := rapid.SliceOfN(rapid.IntRange(low, high), 1, 4).Draw(t, name+" values")
		return column{
			text:  strings.Join(strings.Fields(strings.Trim(fmt.Sprint(list), "[]")), ","),
			holds: func(local time.Time) bool { return slices.Contains(list, of(local)) },
		}
	case "range", "range-step":
		from := value("from", low)
		to := value("to", from)
		if kind == "range" {
			return every(fmt.Sprintf("%d-%d", from, to), from, to, 1)
		}
		step := rapid.IntRange(1, high-low).Draw(t, name+" step")
		return every(fmt.Sprintf("%d-%d/%d", from, to, step), from, to, step)
	case "step":
		step := rapid.IntRange(1, high-low).Draw(t, name+" step")
		c := every(fmt.Sprintf("*/%d", step), low, high, step)
		c.star = true
		return c
	case "value-step":
		from := value("from", low)
		step := rapid.IntRange(1, high-low).Draw(t, name+" step")
		return every(fmt.Sprintf("%d/%d", from, step), from, high, step)
	default:
		return drawSpecial(t, kind)
	}
}

// drawSpecial tells L, W and # by looking at the days around, or at all of the month.
func drawSpecial(t *rapid.T, kind string) column {
	n := rapid.IntRange(1, 31).Draw(t, "date")
	weekday := time.Weekday(rapid.IntRange(0, 6).Draw(t, "weekday"))
	nth := rapid.IntRange(1, 5).Draw(t, "nth")
	switch kind {
	case "L":
		return column{text: "L", holds: func(l time.Time) bool { return l.AddDate(0, 0, 1).Day() == 1 }}
	case "LW":
		return column{text: "LW", holds: func(l time.Time) bool {
			workdays := workdaysOf(l)
			return l.Day() == workdays[len(workdays)-1]
		}}
	case "W":
		return column{text: fmt.Sprintf("%dW", n), holds: func(l time.Time) bool {
			if time.Date(l.Year(), l.Month(), n, 0, 0, 0, 0, time.UTC).Month() != l.Month() {
				return false
			}
			return l.Day() == slices.MinFunc(workdaysOf(l), func(a, b int) int { return (a-n)*(a-n) - (b-n)*(b-n) })
		}}
	case "last":
		return column{text: fmt.Sprintf("%dL", weekday), holds: func(l time.Time) bool {
			return l.Weekday() == weekday && l.AddDate(0, 0, 7).Month() != l.Month()
		}}
	default:
		return column{text: fmt.Sprintf("%d#%d", weekday, nth), holds: func(l time.Time) bool {
			return l.Weekday() == weekday && (l.Day()+6)/7 == nth
		}}
	}
}

// workdaysOf returns the dates from Monday to Friday of a month.
func workdaysOf(local time.Time) []int {
	var dates []int
	for d := time.Date(local.Year(), local.Month(), 1, 0, 0, 0, 0, time.UTC); d.Month() == local.Month(); d = d.AddDate(0, 0, 1) {
		if d.Weekday() != time.Saturday && d.Weekday() != time.Sunday {
			dates = append(dates, d.Day())
		}
	}
	return dates
}
