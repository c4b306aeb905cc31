package web

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"
)

// timeHelp says which times parseTime understands.
const timeHelp = "2026-12-24 09:00 (UTC), 2026-12-24T09:00:00+01:00, or +10m from now"

// pastHelp says the same where times are in the past.
const pastHelp = "2026-12-24 09:00 (UTC), 2026-12-24T09:00:00+01:00, or -24h for 24 hours ago"

// parsePast is parseTime for a field about the past.
func parsePast(label, text string, now time.Time) (time.Time, error) {
	at, err := parseTime(label, text, now)
	if err != nil {
		err = mistake(strings.Replace(err.Error(), timeHelp, pastHelp, 1))
	}
	return at, err
}

// layouts are how people write times.
var layouts = []string{time.RFC3339Nano, "2006-01-02 15:04:05", "2006-01-02 15:04", "2006-01-02T15:04", "2006-01-02T15:04:05", "2006-01-02"}

// parseTime reads a time as a person writes it: in UTC unless it says otherwise, or from
// now on, +10m, or before it, -24h. Empty is the zero time.
func parseTime(label, text string, now time.Time) (time.Time, error) {
	text = strings.TrimSpace(text)
	if text == "" {
		return time.Time{}, nil
	}
	if strings.HasPrefix(text, "+") || strings.HasPrefix(text, "-") {
		d, err := parseSpan(label, text)
		return now.Add(d), err
	}
	for _, l := range layouts {
		if t, err := time.ParseInLocation(l, text, time.UTC); err == nil {
			return t.UTC(), nil
		}
	}
	return time.Time{}, mistake(label + ": " + strconv.Quote(text) + " is no time. Write it like this: " + timeHelp + ".")
}

// spanHelp says which time spans parseSpan understands.
const spanHelp = "90s, 10m, 2h30m or 3d"

// parseSpan reads a time span as a person writes it. Empty is zero.
func parseSpan(label, text string) (time.Duration, error) {
	text = strings.TrimSpace(text)
	if text == "" {
		return 0, nil
	}
	wrong := mistake(label + ": " + strconv.Quote(text) + " is no time span. Write it like this: " + spanHelp + ".")
	days, rest, found := strings.Cut(text, "d")
	if !found {
		days, rest = "0", text
	}
	n, err := strconv.Atoi(days)
	if err != nil || n > 36500 || n < -36500 {
		return 0, wrong
	}
	var d time.Duration
	if rest != "" {
		if d, err = time.ParseDuration(rest); err != nil {
			return 0, wrong
		}
	}
	if strings.HasPrefix(days, "-") {
		d = -d
	}
	return time.Duration(n)*24*time.Hour + d, nil
}

// span writes a time span as parseSpan reads it.
func span(d time.Duration) string {
	if d == 0 {
		return ""
	}
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// parseJSON reads a JSON value. Empty is none.
func parseJSON(label, text string) (json.RawMessage, error) {
	text = strings.TrimSpace(text)
	if text == "" {
		return nil, nil
	}
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		return nil, mistake(label + ": that is no JSON: " + err.Error() + `. A text stands in quotes: "like this".`)
	}
	return json.RawMessage(text), nil
}

// parseCount reads a number that is not negative. Empty is zero.
func parseCount(label, text string) (int, error) {
	text = strings.TrimSpace(text)
	if text == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return 0, mistake(label + ": " + strconv.Quote(text) + " is no number.")
	}
	return n, nil
}

// timeValue writes a time as parseTime reads it.
func timeValue(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02 15:04:05")
}
