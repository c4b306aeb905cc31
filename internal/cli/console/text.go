package console

import (
	"fmt"
	"strconv"
	"time"

	"github.com/abidehq/abide/internal/roster"
)

// CountOf says which ones, or how many if there are several.
func CountOf(ids []string, noun string) string {
	if len(ids) == 1 {
		return noun + " " + ids[0]
	}
	return fmt.Sprintf("%d %ss", len(ids), noun)
}

// CountText says how many there were.
func CountText(n int, noun string) string {
	if n == 1 {
		return "1 " + noun + " was"
	}
	return fmt.Sprintf("%d %ss were", n, noun)
}

// Counted is a number of things, as people say it.
func Counted(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return strconv.Itoa(n) + " " + thing + "s"
}

// Times returns how often something was done, in words.
func Times(n int) string {
	switch n {
	case 1:
		return "once"
	case 2:
		return "twice"
	default:
		return strconv.Itoa(n) + " times"
	}
}

// FromNow says how far a time is away.
func FromNow(at, now time.Time) string {
	if at.After(now) {
		return "in " + Readable(at.Sub(now).Round(time.Second))
	}
	return Readable(now.Sub(at).Round(time.Second)) + " ago"
}

// Unseen says how long a worker has not reported, if it has missed two reports: then it is likely to
// be dead. It returns an empty text for another, and for one that is not listed.
func Unseen(seenAt, now time.Time) string {
	age := now.Sub(seenAt)
	if seenAt.IsZero() || age <= 2*roster.Every {
		return ""
	}
	return "not seen for " + Readable(age.Round(time.Second))
}

// YesNo returns a truth in words.
func YesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}
