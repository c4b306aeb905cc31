package cron

import "time"

// Local times are counted in seconds since 1970 as shown by a clock on the wall that
// nobody ever moves. So they are in order, each exists once, and a zone only says
// which moment one of them is.

const day = 24 * 60 * 60

// horizon is how far a search goes. The rarest day there is, a given weekday on the
// 29th of February, comes after 40 years at the latest (the turn of a century may
// leave out a leap year); a day more is for zones.
const horizon = 41 * 366 * day

// nextLocal returns the first local time of the expression in [start, limit).
func (e *Expression) nextLocal(start, limit int64) (int64, bool) {
	midnight := start - mod(start, day)
	m, date := monthAt(midnight)
	due := e.datesIn(m)
	if has(due, date) {
		if second, ok := e.timeFrom(int(start - midnight)); ok {
			found := midnight + int64(second)
			return found, found < limit
		}
	}
	date = from(due, date+1)
	for date == none {
		if m = m.next(); m.start >= limit {
			return 0, false
		}
		date = from(e.datesIn(m), 1)
	}
	second, ok := e.timeFrom(0)
	found := m.start + int64(date-1)*day + int64(second)
	return found, ok && found < limit
}

// datesIn returns the dates that are due in a month.
func (e *Expression) datesIn(m month) uint64 {
	if !has(e.month, int(m.month)) {
		return 0
	}
	return e.days.in(m.first, m.length)
}

// month is one of a certain year.
type month struct {
	year   int
	month  time.Month
	start  int64        // the midnight with which it begins
	first  time.Weekday // on which it begins
	length int          // in days
}

// monthAt returns the month of a day, and its date.
func monthAt(midnight int64) (month, int) {
	t := time.Unix(midnight, 0).UTC()
	y, m, date := t.Date()
	return month{
		year:   y,
		month:  m,
		start:  midnight - int64(date-1)*day,
		first:  (t.Weekday() + time.Weekday(36-date)) % 7, // 36 is a multiple of 7 and the first
		length: daysIn(y, m),
	}, date
}

func (m month) next() month {
	m.start += int64(m.length) * day
	m.first = (m.first + time.Weekday(m.length)) % 7
	if m.month++; m.month > time.December {
		m.year, m.month = m.year+1, time.January
	}
	m.length = daysIn(m.year, m.month)
	return m
}

func daysIn(y int, m time.Month) int {
	switch m {
	case time.April, time.June, time.September, time.November:
		return 30
	case time.February:
		if y%4 == 0 && (y%100 != 0 || y%400 == 0) {
			return 29
		}
		return 28
	}
	return 31
}

// mod is the remainder that is never negative.
func mod(a, b int64) int64 {
	if r := a % b; r < 0 {
		return r + b
	}
	return a % b
}
