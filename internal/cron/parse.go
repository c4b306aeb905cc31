package cron

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// MaxLength is the greatest length of an expression, in bytes.
const MaxLength = 256

// ParseError says what is wrong with an expression, so exactly that a page can point
// at it.
type ParseError struct {
	Expression string
	Field      string // such as minute; empty if it is about the whole expression
	Part       string // what is wrong
	Column     int    // where that begins, in bytes, from 1
	Want       string // what would be right
}

// Error says all of it in one line.
func (e *ParseError) Error() string {
	if e.Field == "" {
		return fmt.Sprintf("cron: parse %q: want %s", e.Expression, e.Want)
	}
	return fmt.Sprintf("cron: parse %q: %s %q at column %d: want %s", e.Expression, e.Field, e.Part, e.Column, e.Want)
}

var macros = map[string]string{
	"@yearly":   "0 0 1 1 *",
	"@annually": "0 0 1 1 *",
	"@monthly":  "0 0 1 * *",
	"@weekly":   "0 0 * * 0",
	"@daily":    "0 0 * * *",
	"@midnight": "0 0 * * *",
	"@hourly":   "0 * * * *",
}

// Parse compiles an expression; see the package comment for what it may say. An
// expression that can never be true, such as one for the 30th of February, is an
// error. Errors are of type [*ParseError].
func Parse(text string) (Expression, error) {
	if len(text) > MaxLength {
		return Expression{}, &ParseError{
			Expression: text[:MaxLength/4] + "…",
			Want:       fmt.Sprintf("at most %d bytes, not %d", MaxLength, len(text)),
		}
	}
	p := parser{text: text}
	for i, r := range text {
		if r > '~' {
			return Expression{}, p.fail("character", piece{string(r), i + 1}, "letters, digits and * ? , - / # @")
		}
	}
	parts := split(text)
	if len(parts) > 0 && strings.HasPrefix(parts[0].text, "@") {
		return p.macro(parts)
	}
	return p.fields(parts)
}

// macro compiles a word that stands for all fields.
func (p parser) macro(parts []piece) (Expression, error) {
	macro := parts[0]
	meaning, ok := macros[strings.ToLower(macro.text)]
	if !ok {
		return Expression{}, p.fail("macro", macro, "@yearly, @annually, @monthly, @weekly, @daily, @midnight or @hourly")
	}
	if len(parts) > 1 {
		return Expression{}, p.fail("macro", parts[1], "nothing after "+macro.text)
	}
	e, err := p.fields(split(meaning))
	e.text = macro.text
	return e, err
}

// piece is a part of an expression and where it stands.
type piece struct {
	text   string
	column int
}

const blanks = " \t\r\n"

// split returns the pieces between blanks.
func split(text string) []piece {
	var parts []piece
	start := -1
	for i := range len(text) + 1 {
		blank := i == len(text) || strings.ContainsRune(blanks, rune(text[i]))
		switch {
		case blank && start >= 0:
			parts = append(parts, piece{text[start:i], start + 1})
			start = -1
		case !blank && start < 0:
			start = i
		}
	}
	return parts
}

// cut splits a piece at the first separator.
func (p piece) cut(separator string) (before, after piece, found bool) {
	b, a, found := strings.Cut(p.text, separator)
	return piece{b, p.column}, piece{a, p.column + len(b) + len(separator)}, found
}

// list returns the parts of a list.
func (p piece) list() []piece {
	var parts []piece
	for {
		part, rest, more := p.cut(",")
		parts = append(parts, part)
		if !more {
			return parts
		}
		p = rest
	}
}

// parser keeps the text for its errors.
type parser struct{ text string }

func (p parser) fail(field string, part piece, want string) error {
	return &ParseError{Expression: p.text, Field: field, Part: part.text, Column: part.column, Want: want}
}

// fields compiles five or six fields.
func (p parser) fields(parts []piece) (Expression, error) {
	if len(parts) == 5 {
		parts = append([]piece{{"0", 0}}, parts...)
	}
	if len(parts) != 6 {
		return Expression{}, &ParseError{
			Expression: p.text,
			Want:       "five fields (minute hour day month weekday) or six (second first), not " + strconv.Itoa(len(parts)),
		}
	}
	e := Expression{text: join(parts)}
	var sets [6]set
	for i, f := range fields {
		for _, part := range parts[i].list() {
			if special, err := p.special(f, part, &e.days); err != nil {
				return Expression{}, err
			} else if special {
				continue
			}
			got, err := p.part(f, part)
			if err != nil {
				return Expression{}, err
			}
			sets[i].add(got)
		}
	}
	e.second, e.minute, e.hour, e.month = sets[0].values, sets[1].values, sets[2].values, sets[4].values
	e.rhythm = sets[2].whole
	e.days.dates = sets[3].values
	e.days.weekdays = (sets[5].values | sets[5].values>>7) & allWeekdays
	e.days.open = sets[3].star || sets[5].star
	if err := p.possible(&e, parts); err != nil {
		return Expression{}, err
	}
	return e, nil
}

// join is the text as String returns it.
func join(parts []piece) string {
	var texts []string
	for _, part := range parts {
		if part.column > 0 {
			texts = append(texts, part.text)
		}
	}
	return strings.Join(texts, " ")
}

// possible refuses an expression without a single day. The calendar repeats within 28
// years, but for the turn of some centuries, so those years hold all the days there
// are.
func (p parser) possible(e *Expression, parts []piece) error {
	start := time.Date(2000, time.January, 1, 0, 0, 0, 0, time.UTC).Unix()
	limit := time.Date(2028, time.January, 1, 0, 0, 0, 0, time.UTC).Unix()
	if _, ok := e.nextLocal(start, limit); ok {
		return nil
	}
	return p.fail("day", parts[3], "a day that exists: with this month and weekday it never comes")
}
