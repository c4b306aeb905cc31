package timers

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/abidehq/abide/internal/cli/console"

	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/server/api"
	"github.com/abidehq/abide/timer"
)

// timerLines are the timers of a file that is imported.
type timerLines interface {
	// next returns the next timer and its line, or io.EOF. Its tenant is the one that is
	// handed in, unless the line names one.
	next(tenant string) (r timer.Request, line int, err error)
}

// timerColumns are what a line can have.
var timerColumns = []string{"key", "due_at", "delay", "tenant", "correlation_id", "payload"}

// Open returns the timers of a file in the format that the flag names, or that its first
// character tells.
func (i *timersImport) Open(in *bufio.Reader) (timerLines, error) {
	format := i.format
	if format == "" {
		format = "csv"
		if begin, _ := in.Peek(64); bytes.HasPrefix(bytes.TrimLeft(begin, " \t\r\n\ufeff"), []byte("{")) {
			format = "jsonl"
		}
	}
	switch format {
	case "csv":
		return newCSVLines(in)
	case "jsonl":
		return &jsonLines{in: in}, nil
	default:
		return nil, console.Usage("--format is %q; allowed are: csv, jsonl", format)
	}
}

// timerLine is what a line says.
type timerLine struct {
	Key           string          `json:"key"`
	DueAt         string          `json:"due_at"`
	Delay         string          `json:"delay"`
	Tenant        string          `json:"tenant"`
	CorrelationID string          `json:"correlation_id"`
	Payload       json.RawMessage `json:"payload"`
}

// request returns the timer that a line stands for.
func (l *timerLine) request(tenant string) (timer.Request, error) {
	r := timer.Request{Tenant: tenant, Key: l.Key, CorrelationID: l.CorrelationID, Payload: l.Payload}
	if l.Tenant != "" {
		r.Tenant = l.Tenant
	}
	switch {
	case l.Key == "":
		return r, errors.New("there is no key")
	case l.DueAt == "" && l.Delay == "":
		return r, errors.New("there is neither due_at nor delay; one of them is needed")
	case l.DueAt != "" && l.Delay != "":
		return r, errors.New("due_at and delay exclude each other")
	case len(l.Payload) > 0 && !json.Valid(l.Payload):
		return r, errors.New("payload is not JSON")
	}
	var err error
	if l.Delay != "" {
		if r.Delay, err = api.ParseDuration(l.Delay); err == nil && r.Delay < 0 {
			err = fmt.Errorf("delay is %v, which is negative", r.Delay)
		}
		return r, err
	}
	r.DueAt, err = console.ParseTime("due_at", l.DueAt, base.System{}.Now(), time.Local)
	if err != nil {
		err = fmt.Errorf("due_at is %q, which is not a time", l.DueAt)
	}
	return r, err
}

// badLine says which line makes no sense.
func badLine(line int, err error) error { return console.Usage("line %d: %w", line, err) }

// csvLines are timers in CSV.
type csvLines struct {
	r       *csv.Reader
	columns []string
}

func newCSVLines(in io.Reader) (*csvLines, error) {
	c := &csvLines{r: csv.NewReader(in)}
	titles, err := c.r.Read()
	if errors.Is(err, io.EOF) {
		return c, nil
	}
	if err != nil {
		return nil, console.AsUsage(err)
	}
	for _, title := range titles {
		title = strings.ToLower(strings.TrimSpace(strings.TrimPrefix(title, "\ufeff")))
		if !slices.Contains(timerColumns, title) {
			return nil, console.Usage("line 1: unknown column %q; known are: %s", title, strings.Join(timerColumns, ", "))
		}
		if slices.Contains(c.columns, title) {
			return nil, console.Usage("line 1: the column %q is there twice", title)
		}
		c.columns = append(c.columns, title)
	}
	if !slices.Contains(c.columns, "key") {
		return nil, console.Usage("line 1: there is no column key; known are: %s", strings.Join(timerColumns, ", "))
	}
	return c, nil
}

func (c *csvLines) next(tenant string) (timer.Request, int, error) {
	fields, err := c.r.Read()
	if errors.Is(err, io.EOF) {
		return timer.Request{}, 0, io.EOF
	}
	if err != nil {
		return timer.Request{}, 0, console.AsUsage(err) // which names the line
	}
	line, _ := c.r.FieldPos(0)
	var l timerLine
	for i, field := range fields {
		switch c.columns[i] {
		case "key":
			l.Key = field
		case "due_at":
			l.DueAt = field
		case "delay":
			l.Delay = field
		case "tenant":
			l.Tenant = field
		case "correlation_id":
			l.CorrelationID = field
		case "payload":
			l.Payload = json.RawMessage(field)
		}
	}
	r, err := l.request(tenant)
	if err != nil {
		return r, line, badLine(line, err)
	}
	return r, line, nil
}

// jsonLines are timers in lines of JSON.
type jsonLines struct {
	in   *bufio.Reader
	line int
}

func (j *jsonLines) next(tenant string) (timer.Request, int, error) {
	for {
		text, err := j.in.ReadBytes('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return timer.Request{}, j.line, err
		}
		j.line++
		text = bytes.TrimSpace(bytes.TrimPrefix(text, []byte("\ufeff")))
		if len(text) == 0 {
			if err != nil {
				return timer.Request{}, j.line, io.EOF
			}
			continue
		}
		r, err := parseTimerLine(text, tenant)
		if err != nil {
			return r, j.line, badLine(j.line, err)
		}
		return r, j.line, nil
	}
}

func parseTimerLine(text []byte, tenant string) (timer.Request, error) {
	var l timerLine
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&l); err != nil {
		return timer.Request{}, fmt.Errorf("%w; known are: %s", err, strings.Join(timerColumns, ", "))
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return timer.Request{}, errors.New("there is something behind the object")
	}
	return l.request(tenant)
}
