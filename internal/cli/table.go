package cli

import (
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/abidehq/abide/action"
)

// cell is a field of a table.
type cell struct {
	text   string
	colour string // how a terminal is told, or empty
}

func plain(text string) cell { return cell{text: text} }

// table prints aligned columns.
type table struct {
	rows    [][]cell
	colours bool
}

// newTable returns a table for w with a row of titles.
func newTable(w io.Writer, titles ...string) *table {
	t := &table{colours: colours(w)}
	row := make([]cell, len(titles))
	for i, title := range titles {
		row[i] = plain(title)
	}
	t.add(row...)
	return t
}

func (t *table) add(row ...cell) { t.rows = append(t.rows, row) }

// write prints the table, with two spaces between columns and none at the end of a line.
func (t *table) write(w io.Writer) error {
	var widths []int
	for _, row := range t.rows {
		for i, c := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(c.text))
		}
	}
	for _, row := range t.rows {
		var line strings.Builder
		gap := 0
		for i, c := range row {
			if c.text != "" {
				line.WriteString(strings.Repeat(" ", gap))
				gap = 0
				line.WriteString(t.paint(c))
			}
			gap += widths[i] - utf8.RuneCountInString(c.text) + 2
		}
		if _, err := fmt.Fprintln(w, line.String()); err != nil {
			return err
		}
	}
	return nil
}

func (t *table) paint(c cell) string {
	if !t.colours || c.colour == "" {
		return c.text
	}
	return c.colour + c.text + "\x1b[0m"
}

// Colours of statuses.
const (
	green  = "\x1b[32m"
	yellow = "\x1b[33m"
	red    = "\x1b[31m"
	faint  = "\x1b[2m"
)

var statusColours = map[string]string{
	string(action.Running):   yellow,
	string(action.Completed): green,
	string(action.Failed):    red,
	string(action.Cancelled): faint,
	string(action.Skipped):   faint,
	string(action.Active):    green,
	string(action.Paused):    yellow,
	string(action.Ended):     faint,
}

func statusCell[T ~string](status T) cell { return cell{string(status), statusColours[string(status)]} }

// localTime is how people read a time: in their zone, with its offset.
func localTime(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Local().Format("2006-01-02 15:04:05 -07:00")
}

// readable is how people read a duration: 1h30m, 2.5s, 12ms.
func readable(d time.Duration) string {
	switch abs := d.Abs(); {
	case abs >= time.Minute:
		d = d.Round(time.Second)
	case abs >= time.Second:
		d = d.Round(10 * time.Millisecond)
	case abs >= time.Millisecond:
		d = d.Round(time.Millisecond)
	}
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// shorten makes text fit into a column: one line, of so many characters.
func shorten(text string, most int) string {
	text = printable(strings.Join(strings.Fields(text), " "))
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most-1]) + "…"
	}
	return text
}

// printable replaces what would do something to a terminal other than being shown.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return '�'
		}
		return r
	}, text)
}

// writeFields prints names and values, without those that have none.
func writeFields(w io.Writer, fields [][2]string) error {
	t := &table{}
	for _, f := range fields {
		if f[1] != "" {
			t.add(plain(f[0]), plain(printable(f[1])))
		}
	}
	return t.write(w)
}
