package console

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/charmbracelet/x/ansi"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/action"
)

// Cell is a field of a table.
type Cell struct {
	Text   string
	Colour string // how a terminal is told, or empty
}

// Plain returns a cell without colour.
func Plain(text string) Cell { return Cell{Text: text} }

// Table prints aligned columns. Rows can be added after it was written: the next write
// prints those.
type Table struct {
	rows    [][]Cell
	Colours bool
	Width   int   // of the terminal; 0 means that there is none, and lines may be long
	widths  []int // of the columns that were written
	written int   // rows
}

// NewTable returns a table for w with a row of titles.
func NewTable(w io.Writer, titles ...string) *Table {
	t := &Table{Colours: Colours(w), Width: TerminalWidth(w)}
	row := make([]Cell, len(titles))
	for i, title := range titles {
		row[i] = Plain(title)
	}
	t.Add(row...)
	return t
}

// Add adds a row. What would do something to a terminal other than being shown is replaced.
func (t *Table) Add(row ...Cell) {
	for i := range row {
		row[i].Text = OneLine(row[i].Text)
	}
	t.rows = append(t.rows, row)
}

// Write prints the rows that were not printed yet, with two spaces between columns and none
// at the end of a line.
func (t *Table) Write(w io.Writer) error {
	for _, row := range t.rows[t.written:] {
		for i, c := range row {
			if i == len(t.widths) {
				t.widths = append(t.widths, 0)
			}
			t.widths[i] = max(t.widths[i], ansi.StringWidth(c.Text))
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
func (t *Table) line(row []Cell) string {
	var line strings.Builder
	gap := 0
	for i, c := range row {
		c.Text = ansi.Truncate(c.Text, t.widths[i], "…")
		if c.Text != "" {
			line.WriteString(strings.Repeat(" ", gap))
			gap = 0
			line.WriteString(t.paint(c))
		}
		gap += t.widths[i] - ansi.StringWidth(c.Text) + 2
	}
	return line.String()
}

// narrow is how narrow a column can become.
const narrow = 8

// fit takes from the widest columns what does not fit into the terminal. The first one, which
// names what the row is about, stays as it is.
func (t *Table) fit() {
	if t.Width == 0 || len(t.widths) < 2 {
		return
	}
	over := 2*(len(t.widths)-1) - t.Width
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

func (t *Table) paint(c Cell) string {
	if !t.Colours || c.Colour == "" {
		return c.Text
	}
	return c.Colour + c.Text + "\x1b[0m"
}

// Colours of statuses.
const (
	Green  = "\x1b[32m"
	Yellow = "\x1b[33m"
	Red    = "\x1b[31m"
	Faint  = "\x1b[2m"
)

var statusColours = map[string]string{
	string(action.Running):   Yellow,
	string(action.Completed): Green,
	string(action.Failed):    Red,
	string(action.Cancelled): Faint,
	string(action.Skipped):   Faint,
	string(action.Active):    Green,
	string(action.Paused):    Yellow,
	string(action.Ended):     Faint,
	string(abide.Suspended):  Yellow,
	string(abide.Stalled):    Red,
	string(abide.Terminated): Faint,
	string(abide.Continued):  Faint,
}

// StatusCell returns a cell with a status, in its colour.
func StatusCell[T ~string](status T) Cell { return Cell{string(status), statusColours[string(status)]} }

// Alarm returns a cell with a count, in red unless it is zero.
func Alarm(n int) Cell {
	c := Plain(strconv.Itoa(n))
	if n > 0 {
		c.Colour = Red
	}
	return c
}

// LocalTime is how people read a time: in their zone, with its offset.
func LocalTime(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Local().Format("2006-01-02 15:04:05 -07:00")
}

// Readable is how people read a duration: 1h30m, 2.5s, 12ms.
func Readable(d time.Duration) string {
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

// Shorten makes text fit into a column: one line, of so many characters.
func Shorten(text string, most int) string {
	text = Printable(strings.Join(strings.Fields(text), " "))
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most-1]) + "…"
	}
	return text
}

// OneLine is printable text without lines and tabs.
func OneLine(text string) string {
	return strings.NewReplacer("\n", " ", "\t", " ").Replace(Printable(text))
}

// Printable replaces what would do something to a terminal other than being shown.
func Printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return '�'
		}
		return r
	}, text)
}

// WriteFields prints names and values, without those that have none.
func WriteFields(w io.Writer, fields [][2]string) error {
	t := &Table{}
	for _, f := range fields {
		if f[1] != "" {
			t.Add(Plain(f[0]), Plain(f[1]))
		}
	}
	return t.Write(w)
}
