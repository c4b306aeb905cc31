package cron

import (
	"math/bits"
	"time"
)

// days says on which days of a month an expression is due. In its sets of dates bit 1
// is the first of the month, in its sets of weekdays bit 0 is Sunday.
type days struct {
	dates       uint64
	nearest     uint64 // dates with a W
	last        bool   // L
	lastWorkday bool   // LW

	weekdays uint64
	lastOf   uint64    // weekdays with an L
	nth      [5]uint64 // weekdays with #1 to #5

	// open: the day or the weekday has a * in it, so that both must hold; else either.
	open bool
}

const allWeekdays = 1<<7 - 1

// in returns the dates that are due in a month that has so many days and whose first
// is that weekday.
func (d *days) in(first time.Weekday, length int) uint64 {
	byDate := d.dates
	if d.nearest != 0 || d.last || d.lastWorkday {
		byDate |= d.relative(first, length)
	}
	byWeekday := d.byWeekday(first, length)
	due := byDate | byWeekday
	if d.open {
		due = byDate & byWeekday
	}
	return due & (1<<(length+1) - 2)
}

// relative returns the dates that depend on the month: L, LW and W.
func (d *days) relative(first time.Weekday, length int) uint64 {
	var due uint64
	if d.last {
		due |= 1 << length
	}
	if d.lastWorkday {
		due |= 1 << nearestWorkday(length, first, length)
	}
	for rest := d.nearest; rest != 0; rest &= rest - 1 {
		if date := bits.TrailingZeros64(rest); date <= length {
			due |= 1 << nearestWorkday(date, first, length)
		}
	}
	return due
}

// nearestWorkday returns the date from Monday to Friday that is nearest to the given
// one, in the same month.
func nearestWorkday(date int, first time.Weekday, length int) int {
	switch (int(first) + date - 1) % 7 {
	case int(time.Saturday):
		if date == 1 {
			return 3
		}
		return date - 1
	case int(time.Sunday):
		if date == length {
			return date - 2
		}
		return date + 1
	}
	return date
}

// byWeekday returns the dates that are due by their weekday, some of which may be
// after the end of the month.
func (d *days) byWeekday(first time.Weekday, length int) uint64 {
	if d.weekdays == allWeekdays {
		return ^uint64(0)
	}
	// The week from the first on, and the weeks after it.
	early := (d.weekdays | d.weekdays<<7) >> first & allWeekdays << 1
	due := early | early<<7 | early<<14 | early<<21 | early<<28
	if d.lastOf == 0 && d.nth == [5]uint64{} {
		return due
	}
	for weekday := range 7 {
		date := 1 + (weekday-int(first)+7)%7 // the first such weekday
		if has(d.lastOf, weekday) {
			due |= 1 << (date + (length-date)/7*7)
		}
		for i, set := range d.nth {
			if has(set, weekday) {
				due |= 1 << (date + 7*i)
			}
		}
	}
	return due
}
