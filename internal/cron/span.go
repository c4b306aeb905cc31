package cron

import (
	"sort"
	"time"
)

// maxShift is more than any zone ever moved its clock at once, in seconds: that was a
// day, when a date line was moved. No zone ever moved it twice within the days that a
// span looks at.
const maxShift = 2 * day

// reach is how far ahead a span looks. A search that jumps to maxShift before a local
// time has it in reach.
const reach = maxShift + day

// span is a stretch of time in which a zone does not move its clock, with what is near
// enough to matter: the move before it, if that was a moment ago, and the one after it.
//
// It is found by asking for offsets only. [time.Time.ZoneBounds] would be shorter, but
// with Go 1.26 it ends too early on the last day of a leap year, and for the years that
// a zone knows only by a rule it begins with the year.
type span struct {
	start, end int64 // Unix seconds, the end not included
	offset     int64 // local time minus UTC, in seconds
	before     int64 // the offset before the start, the same if the clock was not moved
	after      int64 // the offset from the end on, the same if it is not moved
}

// spanAt returns the span around a moment. Its end is within reach.
func spanAt(zone *time.Location, unix int64) span {
	s := span{
		start:  unix - maxShift,
		end:    unix + reach,
		offset: offsetAt(zone, unix),
		before: offsetAt(zone, unix-maxShift),
		after:  offsetAt(zone, unix+reach),
	}
	if s.before != s.offset {
		s.start = moveBetween(zone, s.start, unix)
	}
	if s.after != s.offset {
		s.end = moveBetween(zone, unix, s.end)
	}
	return s
}

// moveBetween returns the moment from which on the offset is that of the second.
func moveBetween(zone *time.Location, first, second int64) int64 {
	after := offsetAt(zone, second)
	return first + int64(sort.Search(int(second-first), func(i int) bool {
		return offsetAt(zone, first+int64(i)) == after
	}))
}

func offsetAt(zone *time.Location, unix int64) int64 {
	_, offset := time.Unix(unix, 0).In(zone).Zone()
	return int64(offset)
}
