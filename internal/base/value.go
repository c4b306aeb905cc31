package base

import (
	"strings"
	"time"
)

// Later returns the later of two times.
func Later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// Millis returns a time in UTC and in whole milliseconds, which is the precision of the store.
func Millis(t time.Time) time.Time { return t.UTC().Truncate(time.Millisecond) }

// Shorten cuts a text to at most so many bytes, at the boundary of a character. Bytes that are
// not UTF-8 become question marks.
func Shorten(text string, most int) string {
	text = strings.ToValidUTF8(text, "?")
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "")
	}
	return text
}

// Due returns when something is due: at, or after delay from now if at is zero. It is in whole
// milliseconds, rounded up, so that nothing is due early, and after the epoch, whose number is that
// of no time.
func Due(at time.Time, delay time.Duration, now time.Time) time.Time {
	if at.IsZero() {
		at = now.Add(delay)
	}
	if epoch := time.UnixMilli(1); at.Before(epoch) {
		at = epoch
	}
	if whole := at.Truncate(time.Millisecond); !whole.Equal(at) {
		at = whole.Add(time.Millisecond)
	}
	return at.UTC()
}
