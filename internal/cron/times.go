package cron

import "time"

// Times is a set of moments, at least a second from each other. What it answers
// depends on nothing but the question. A question from outside of the years 1 to 9999,
// the ones that can be written, has no answer.
type Times interface {
	// Next returns the first moment strictly after the given time, and false if there
	// is none. A rule looks 40 years ahead, in which each of its times comes.
	Next(after time.Time) (time.Time, bool)

	// Prev returns the last moment strictly before the given time, and false if there
	// is none. It finds the one run to catch up on without counting those that were
	// missed.
	Prev(before time.Time) (time.Time, bool)
}

var (
	_ Times = Rule{}
	_ Times = Interval{}
)

// Between returns the moments from one time up to, but not including, another, in
// order, and not more than limit of them; more says that the limit left some out. A
// zero to is no end: with it, and a limit, it is a preview.
func Between(t Times, from, to time.Time, limit int) (found []time.Time, more bool) {
	after := from.Add(-1)
	for {
		next, ok := t.Next(after)
		if !ok || !to.IsZero() && !next.Before(to) {
			return found, false
		}
		if len(found) >= limit {
			return found, true
		}
		found = append(found, next)
		after = next
	}
}

// known reports whether there is an answer to a question from that time. Further away,
// seconds since 1970 may not fit into their number.
func known(t time.Time) bool {
	y := t.UTC().Year()
	return y >= 1 && y <= 9999
}
