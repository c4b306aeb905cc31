package web

import (
	"fmt"
	"html/template"
	"strconv"
	"strings"
	"time"
)

// exact is how a time is written for people who want to know.
const exact = "Mon 2 Jan 2006 15:04:05.000 MST"

// relative returns how far a time is from now, in words. The script that keeps the words
// up to date says the same.
func relative(t, now time.Time) string {
	d := t.Sub(now)
	switch {
	case d > -time.Second && d < time.Second:
		return "now"
	case d > 0:
		return "in " + about(d)
	default:
		return about(-d) + " ago"
	}
}

// about returns a time span in one unit, as people say it.
func about(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%d s", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%d min", d/time.Minute)
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h", d/time.Hour)
	case d < 60*day:
		return fmt.Sprintf("%d days", d/day)
	case d < 730*day:
		return fmt.Sprintf("%d months", d/(30*day))
	default:
		return fmt.Sprintf("%d years", d/(365*day))
	}
}

// lasting returns how long something took, with as many digits as matter.
func lasting(d time.Duration) string {
	switch {
	case d <= 0:
		return "0 ms"
	case d < time.Millisecond:
		return fmt.Sprintf("%d µs", d.Microseconds())
	case d < 10*time.Millisecond && d%time.Millisecond != 0:
		return fmt.Sprintf("%.1f ms", float64(d)/float64(time.Millisecond))
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < 10*time.Second:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d < time.Minute:
		return fmt.Sprintf("%d s", d/time.Second)
	case d < time.Hour:
		return two(d/time.Minute, "min", d%time.Minute/time.Second, "s")
	case d < 24*time.Hour:
		return two(d/time.Hour, "h", d%time.Hour/time.Minute, "min")
	default:
		return two(d/(24*time.Hour), "d", d%(24*time.Hour)/time.Hour, "h")
	}
}

func two(a time.Duration, unit string, b time.Duration, smaller string) string {
	if b == 0 {
		return fmt.Sprintf("%d %s", a, unit)
	}
	return fmt.Sprintf("%d %s %d %s", a, unit, b, smaller)
}

// element returns a time as an element that shows some words, with the exact value on hover.
// The words are made of digits and letters of our own, or escaped.
func element(t time.Time, attribute, words string) template.HTML {
	t = t.UTC()
	return template.HTML(`<time datetime="` + t.Format("2006-01-02T15:04:05.000Z") + `" title="` + t.Format(exact) + `"` + attribute + `>` + words + `</time>`)
}

// when returns a time in words, which a script keeps up to date.
func (s *site) when(t time.Time) template.HTML {
	if t.IsZero() {
		return `<span class="none">–</span>`
	}
	return element(t, " data-relative", relative(t, s.clock.Now()))
}

// exactly returns a time in UTC.
func exactly(t time.Time) template.HTML {
	return element(t, "", t.UTC().Format("2006-01-02 15:04:05 UTC"))
}

// after returns how long after another time one is.
func after(t, began time.Time) template.HTML {
	if t.IsZero() {
		return ""
	}
	return element(t, "", t.UTC().Format("15:04:05.000")+` <span class="none">+`+lasting(t.Sub(began))+`</span>`)
}

// zoned returns a time in its own zone.
func zoned(t time.Time) template.HTML {
	return element(t, "", template.HTMLEscapeString(t.Format("Mon 2 Jan 2006 15:04:05 MST")))
}

// countCap is how far things are counted.
const countCap = 10_000

// number returns a number with its thousands apart.
func number(n int) string {
	digits := strconv.Itoa(n)
	var b strings.Builder
	for i, c := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 && digits[i-1] != '-' {
			b.WriteByte(',')
		}
		b.WriteRune(c)
	}
	return b.String()
}

// capped returns a number that may be too small, as things are not counted for ever.
func capped(n int) string {
	if n >= countCap {
		return number(countCap) + "+"
	}
	return number(n)
}

// plural returns a number with the word for one or for many.
func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return number(n) + " " + many
}

// size returns a number of bytes as people say it.
func size(n int64) string {
	const unit = 1000
	if n < unit {
		return fmt.Sprintf("%d B", n)
	}
	value, prefix := float64(n), 0
	for value >= unit && prefix < 5 {
		value /= unit
		prefix++
	}
	return strings.Replace(fmt.Sprintf("%.1f %cB", value, " kMGTP"[prefix]), ".0 ", " ", 1)
}

// rate returns a small number with as many digits as matter.
func rate(v float64) string {
	switch {
	case v == 0:
		return "0"
	case v < 0.01:
		return "<0.01"
	case v < 10:
		return strings.TrimRight(strings.TrimRight(fmt.Sprintf("%.2f", v), "0"), ".")
	case v < 100:
		return fmt.Sprintf("%.1f", v)
	default:
		return number(int(v + 0.5))
	}
}

// seconds returns a number of seconds as a time span.
func seconds(v float64) string { return lasting(time.Duration(v * float64(time.Second))) }

// firstLine and otherLines divide a text that may be long, such as a stack, into what says
// it and the rest.
func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return line
}

func otherLines(text string) string {
	_, rest, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return rest
}
