package cli

import (
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"

	"github.com/charmbracelet/x/ansi"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/action"
)

// cell is a field of a table.
type cell struct {
	text   string
	colour string // how a terminal is told, or empty
}

func plain(text string) cell { return cell{text: text} }

// table prints aligned columns. Rows can be added after it was written: the next write
// prints those.
type table struct {
	rows    [][]cell
	colours bool
	width   int   // of the terminal; 0 means that there is none, and lines may be long
	widths  []int // of the columns that were written
	written int   // rows
}

// newTable returns a table for w with a row of titles.
func newTable(w io.Writer, titles ...string) *table {
	t := &table{colours: colours(w), width: terminalWidth(w)}
	row := make([]cell, len(titles))
	for i, title := range titles {
		row[i] = plain(title)
	}
	t.add(row...)
	return t
}

// add adds a row. What would do something to a terminal other than being shown is replaced.
func (t *table) add(row ...cell) {
	for i := range row {
		row[i].text = oneLine(row[i].text)
	}
	t.rows = append(t.rows, row)
}

// write prints the rows that were not printed yet, with two spaces between columns and none
// at the end of a line.
func (t *table) write(w io.Writer) error {
	for _, row := range t.rows[t.written:] {
		for i, c := range row {
			if i == len(t.widths) {
				t.widths = append(t.widths, 0)
			}
			t.widths[i] = max(t.widths[i], ansi.StringWidth(c.text))
		}
	}
	t.fit()
	for _, row := range t.rows[t.written:] {
		if _, err := fmt.Fprintln(w, t.line(row)); err != nil {
			return err
		}
		t.written++
	}
	return nil
}

// line returns a row as it is printed.
func (t *table) line(row []cell) string {
	var line strings.Builder
	gap := 0
	for i, c := range row {
		c.text = ansi.Truncate(c.text, t.widths[i], "…")
		if c.text != "" {
			line.WriteString(strings.Repeat(" ", gap))
			gap = 0
			line.WriteString(t.paint(c))
		}
		gap += t.widths[i] - ansi.StringWidth(c.text) + 2
	}
	return line.String()
}

// narrow is how narrow a column can become.
const narrow = 8

// fit takes from the widest columns what does not fit into the terminal. The first one, which
// names what the row is about, stays as it is.
func (t *table) fit() {
	if t.width == 0 || len(t.widths) < 2 {
		return
	}
	over := 2*(len(t.widths)-1) - t.width
	for _, width := range t.widths {
		over += width
	}
	for ; over > 0; over-- {
		widest := 1
		for i := 2; i < len(t.widths); i++ {
			if t.widths[i] > t.widths[widest] {
				widest = i
			}
		}
		if t.widths[widest] <= narrow {
			return
		}
		t.widths[widest]--
	}
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
	string(abide.Suspended):  yellow,
	string(abide.Stalled):    red,
	string(abide.Terminated): faint,
	string(abide.Continued):  faint,
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

// oneLine is printable text without lines and tabs.
func oneLine(text string) string {
	return strings.NewReplacer("\n", " ", "\t", " ").Replace(printable(text))
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
			t.add(plain(f[0]), plain(f[1]))
		}
	}
	return t.write(w)
}
