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
