package cron

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// field is one of the fields of an expression, and what its values may be.
type field struct {
	name     string
	min, max int
	names    []string // of the values from min on
	want     string   // of a value, in words
}

var fields = [6]field{
	{name: "second", max: 59, want: "0 to 59"},
	{name: "minute", max: 59, want: "0 to 59"},
	{name: "hour", max: 23, want: "0 to 23"},
	{name: "day", min: 1, max: 31, want: "1 to 31 (L, LW and 15W stand alone)"},
	{
		name: "month", min: 1, max: 12, want: "1 to 12 or JAN to DEC",
		names: []string{"JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"},
	},
	{
		name: weekday, max: 6, want: "0 to 7 or SUN to SAT (5L and MON#2 stand alone)",
		names: []string{"SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"},
	},
}

const weekday = "weekday"

// sunday is the other number of that day, which ends a range.
const sunday = 7

// set is what a field, or a part of its list, allows.
type set struct {
	values uint64
	star   bool // it has a * in it
	whole  bool // it spans all of the field, perhaps in steps
}

func (s *set) add(other set) {
	s.values |= other.values
	s.star = s.star || other.star
	s.whole = s.whole || other.whole
}

// part compiles a part of a list: a value, a range or a star, perhaps with a step.
func (p parser) part(f field, part piece) (set, error) {
	span, stepText, stepped := part.cut("/")
	low, high, err := p.span(f, span, stepped)
	if err != nil {
		return set{}, err
	}
	step := 1
	if stepped {
		step, err = number(stepText.text)
		if limit := f.max - f.min; err != nil || step < 1 || step > limit {
			return set{}, p.fail(f.name, stepText, fmt.Sprintf("a step from 1 to %d", limit))
		}
	}
	s := set{star: isStar(span.text), whole: low == f.min && high >= f.max}
	for value := low; value <= high; value += step {
		s.values |= 1 << value
	}
	return s, nil
}

func isStar(text string) bool { return text == "*" || text == "?" }

// span returns the first and the last value of what stands before a step.
func (p parser) span(f field, part piece, stepped bool) (low, high int, err error) {
	if isStar(part.text) {
		return f.min, f.max, nil
	}
	first, last, isRange := part.cut("-")
	if low, err = p.value(f, first); err != nil {
		return 0, 0, err
	}
	switch {
	case isRange:
		high, err = p.value(f, last)
	case stepped:
		low, high = low%(f.max+1), f.max // Sunday by its other number comes first here
	default:
		high = low
	}
	if err != nil {
		return 0, 0, err
	}
	if f.name == weekday && high == 0 && low > 0 {
		high = sunday
	}
	if low > high {
		return 0, 0, p.fail(f.name, part, fmt.Sprintf("a range that goes up, or two of them: %s-%d,%d-%s",
			first.text, f.max, f.min, last.text))
	}
	return low, high, nil
}

// value reads a number or a name.
func (p parser) value(f field, part piece) (int, error) {
	if i := slices.Index(f.names, strings.ToUpper(part.text)); i >= 0 {
		return f.min + i, nil
	}
	n, err := number(part.text)
	limit := f.max
	if f.name == weekday {
		limit = sunday
	}
	if err != nil || n < f.min || n > limit {
		return 0, p.fail(f.name, part, f.want)
	}
	return n, nil
}

// number reads digits, and nothing but digits.
func number(text string) (int, error) {
	n, err := strconv.ParseUint(text, 10, 16)
	return int(n), err
}

// special compiles what only days and weekdays have, and reports whether it was that.
func (p parser) special(f field, part piece, d *days) (bool, error) {
	text := strings.ToUpper(part.text)
	switch f.name {
	case "day":
		switch {
		case text == "L":
			d.last = true
		case text == "LW":
			d.lastWorkday = true
		case strings.HasSuffix(text, "W"):
			date, err := p.value(f, part.until(len(text)-1))
			if err != nil {
				return false, p.fail(f.name, part, "1W to 31W, or LW")
			}
			d.nearest |= 1 << date
		default:
			return false, nil
		}
		return true, nil
	case weekday:
		before, after, isNth := part.cut("#")
		switch {
		case isNth:
			return true, p.nth(f, part, before, after, d)
		case strings.HasSuffix(text, "L"):
			day, err := p.value(f, part.until(len(text)-1))
			if err != nil {
				return false, p.fail(f.name, part, "0L to 7L or SUNL to SATL")
			}
			d.lastOf |= 1 << (day % sunday)
			return true, nil
		}
	}
	return false, nil
}

func (p parser) nth(f field, part, before, after piece, d *days) error {
	day, err := p.value(f, before)
	if err != nil {
		return err
	}
	n, err := number(after.text)
	if err != nil || n < 1 || n > len(d.nth) {
		return p.fail(f.name, part, fmt.Sprintf("a number from 1 to %d after the #", len(d.nth)))
	}
	d.nth[n-1] |= 1 << (day % sunday)
	return nil
}

// until returns the beginning of a piece.
func (p piece) until(end int) piece { return piece{p.text[:end], p.column} }
