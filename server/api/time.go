package api

import (
	"fmt"
	"strings"
	"time"
)

// layouts are the forms of a time without a zone.
var layouts = []string{"2006-01-02T15:04:05", "2006-01-02 15:04:05", "2006-01-02T15:04", "2006-01-02 15:04", "2006-01-02"}

// ParseTime reads a time as the API, the command line and the page take it: RFC 3339, such as
// 2026-11-15T09:00:00Z; without a zone, such as 2026-11-15 09:00 or 2026-11-15, which is in
// that zone; now; or relative to now, such as +10m or -24h.
func ParseTime(text string, now time.Time, zone *time.Location) (time.Time, error) {
	switch {
	case text == "now":
		return now, nil
	case strings.HasPrefix(text, "+") || strings.HasPrefix(text, "-"):
		if d, err := ParseDuration(text); err == nil {
			return now.Add(d), nil
		}
	}
	if t, err := time.Parse(time.RFC3339Nano, text); err == nil {
		return t, nil
	}
	for _, layout := range layouts {
		if t, err := time.ParseInLocation(layout, text, zone); err == nil {
			return t, nil
		}
	}
	return time.Time{}, fmt.Errorf(`%q, which is not a time: write 2026-11-15T09:00:00Z, "2026-11-15 09:00", now, +10m or -24h`, text)
}
