package cron

import "math/bits"

// Expression is a cron expression, compiled: a set of local times, in no zone yet. It
// is a value that may be copied and compared. The zero value has no times.
type Expression struct {
	text string

	// A bit for each value that is allowed.
	second uint64
	minute uint64
	hour   uint64
	month  uint64
	days   days

	// rhythm: the hours span the day, so the expression goes on in real time when the
	// clock is moved.
	rhythm bool
}

// String returns the expression as it was written, with single spaces. Parsed again,
// it gives the same expression.
func (e Expression) String() string { return e.text }

// timeFrom returns the first time of day at or after the given one, in seconds since
// midnight.
func (e *Expression) timeFrom(second int) (int, bool) {
	h, m, s := second/3600, second/60%60, second%60
	if has(e.hour, h) {
		if has(e.minute, m) {
			if s := from(e.second, s); s < none {
				return h*3600 + m*60 + s, true
			}
		}
		if m := from(e.minute, m+1); m < none {
			return h*3600 + m*60 + from(e.second, 0), true
		}
	}
	if h := from(e.hour, h+1); h < none {
		return h*3600 + from(e.minute, 0)*60 + from(e.second, 0), true
	}
	return 0, false
}

// none is what from returns if there is nothing more.
const none = 64

// from returns the lowest value in the set that is at least low.
func from(set uint64, low int) int { return bits.TrailingZeros64(set >> low << low) }

func has(set uint64, value int) bool { return set>>value&1 != 0 }
