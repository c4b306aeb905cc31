package cron

import "time"

// Rule is an expression in a time zone, with what to do when that zone moves its
// clock; see the package comment for the whole of it. The zero values of all but the
// expression are good: UTC, [RunAfter], [First].
type Rule struct {
	Expression Expression
	Location   *time.Location // nil is UTC
	Gap        Gap
	Fold       Fold
}

// Next implements [Times]. The moment is in the rule's zone. There is none within 40
// years if the rule skips all it has, as "30 2 * 3 SUNL" does in Berlin with [Skip].
func (r Rule) Next(after time.Time) (time.Time, bool) {
	if !known(after) {
		return time.Time{}, false
	}
	now := after.Unix()
	found, ok := r.first(now+1, now+horizon)
	if !ok {
		return time.Time{}, false
	}
	return r.at(found), true
}

// Prev implements [Times]. The moment is in the rule's zone.
func (r Rule) Prev(before time.Time) (time.Time, bool) {
	if !known(before) {
		return time.Time{}, false
	}
	end := before.Unix()
	if before.Nanosecond() > 0 {
		end++
	}
	// Look further and further back until there is something, then take the upper half
	// for as long as there is something in it. That is some dozen searches, and no
	// second arithmetic that would have to agree with the first.
	last, ok := int64(0), false
	for back := int64(1); !ok; back *= 2 {
		if last, ok = r.first(end-min(back, horizon), end); !ok && back > horizon {
			return time.Time{}, false
		}
	}
	for limit := end; last+1 < limit; {
		middle := last + 1 + (limit-last-1)/2
		if later, ok := r.first(middle, limit); ok {
			last = later
			continue
		}
		limit = middle
	}
	return r.at(last), true
}

func (r *Rule) at(unix int64) time.Time { return time.Unix(unix, 0).In(r.location()) }

func (r *Rule) location() *time.Location {
	if r.Location == nil {
		return time.UTC
	}
	return r.Location
}

// first returns the first moment in [from, limit), both in Unix seconds.
func (r *Rule) first(from, limit int64) (int64, bool) {
	for from < limit {
		s := spanAt(r.location(), from)
		found, next, ok := r.within(s, from, limit)
		if ok {
			return found, found < limit
		}
		from = next
	}
	return 0, false
}

// within returns the first moment in [from, s.end), or the moment from which to look
// on, which is limit if there is nothing before it.
func (r *Rule) within(s span, from, limit int64) (found, next int64, ok bool) {
	shifted, isShifted := r.afterGap(s, from)

	low, high := from+s.offset, s.end+s.offset
	if !r.Expression.rhythm {
		low, high = r.foldLimits(s, low, high)
	}
	local, ok := r.Expression.nextLocal(low, limit+maxShift)
	found = local - s.offset
	switch {
	case isShifted && (!ok || shifted <= found):
		return shifted, 0, true
	case ok && local < high:
		return found, 0, true
	case s.after != s.offset:
		// The clock may be moved back, and show times again that are past here.
		return 0, s.end, false
	case !ok:
		return 0, limit, false
	default:
		// Nothing is due before this local time, wherever the clock is moved meanwhile.
		return 0, max(s.end, found-maxShift), false
	}
}

// afterGap returns the first moment in [from, s.end) that makes up for a local time in
// the gap before the span.
func (r *Rule) afterGap(s span, from int64) (int64, bool) {
	if r.Gap == Skip || s.before >= s.offset {
		return 0, false
	}
	if r.Expression.rhythm {
		local, ok := r.Expression.nextLocal(from+s.before, s.start+s.offset)
		return local - s.before, ok
	}
	if from > s.start {
		return 0, false
	}
	_, ok := r.Expression.nextLocal(s.start+s.before, s.start+s.offset)
	return s.start, ok
}

// foldLimits takes from a range of local times of the span those that belong to the
// span before or after it.
func (r *Rule) foldLimits(s span, low, high int64) (lower, upper int64) {
	switch {
	case r.Fold == First && s.before > s.offset:
		low = max(low, s.start+s.before)
	case r.Fold == Second && s.after < s.offset:
		high = min(high, s.end+s.after)
	}
	return low, high
}
