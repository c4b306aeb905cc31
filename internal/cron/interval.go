package cron

import (
	"fmt"
	"math"
	"time"
)

// MinInterval is the least distance of an interval, that of a cron expression too.
const MinInterval = time.Second

// Interval is a moment every so often. It counts from an anchor and not from the run
// before, so it does not drift. It is a distance in real time: daylight saving is
// nothing to it. The zero value has no times.
type Interval struct {
	every  time.Duration
	anchor time.Time
}

// Every returns the interval with a moment at the anchor and every so often before
// and after it: the anchor is a phase, not a beginning, so the past can be asked for
// too. Times are in the anchor's zone.
func Every(every time.Duration, anchor time.Time) (Interval, error) {
	if every < MinInterval {
		return Interval{}, fmt.Errorf("cron: make interval: every %v: want at least %v", every, MinInterval)
	}
	if !known(anchor) {
		return Interval{}, fmt.Errorf("cron: make interval: anchor %v: want a year from 1 to 9999", anchor)
	}
	return Interval{every: every, anchor: anchor.Round(0)}, nil
}

// String returns the distance in words.
func (i Interval) String() string { return "every " + i.every.String() }

// Next implements [Times].
func (i Interval) Next(after time.Time) (time.Time, bool) {
	if i.every == 0 || !known(after) {
		return time.Time{}, false
	}
	return i.in(after).Add(i.every - i.since(after)), true
}

// Prev implements [Times].
func (i Interval) Prev(before time.Time) (time.Time, bool) {
	if i.every == 0 || !known(before) {
		return time.Time{}, false
	}
	since := i.since(before)
	if since == 0 {
		since = i.every
	}
	return i.in(before).Add(-since), true
}

// in returns the time in the anchor's zone, and so without a monotonic reading, which
// says nothing to another process.
func (i Interval) in(t time.Time) time.Time { return t.In(i.anchor.Location()) }

// since returns how long before t the last moment was: from 0 to just under every.
func (i Interval) since(t time.Time) time.Duration {
	// A Duration holds 292 years, and Sub stops there: an anchor that is further away
	// (the zero time, say) comes nearer by whole intervals first.
	anchor, leap := i.anchor, math.MaxInt64-math.MaxInt64%i.every
	for {
		switch d := t.Sub(anchor); d {
		case math.MaxInt64:
			anchor = anchor.Add(leap)
		case math.MinInt64:
			anchor = anchor.Add(-leap)
		default:
			return time.Duration(mod(int64(d), int64(i.every)))
		}
	}
}
