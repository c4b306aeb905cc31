package bench

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
)

// Report is what a run found out: figures, in the order in which they are shown. A
// figure that could not be measured is not there.
type Report struct {
	rows []row
}

type row struct {
	figure figure
	value  any // string, int64, float64 or []float64
}

func (r *Report) text(f figure, s string) { r.rows = append(r.rows, row{f, s}) }

func (r *Report) count(f figure, n int64) { r.rows = append(r.rows, row{f, n}) }

func (r *Report) number(f figure, n float64) {
	r.rows = append(r.rows, row{f, f.round(n)})
}

func (r *Report) numbers(f figure, n []float64) {
	rounded := make([]float64, len(n))
	for i := range n {
		rounded[i] = f.round(n[i])
	}
	r.rows = append(r.rows, row{f, rounded})
}

// Value returns a figure by its name in JSON: a string, an int64, a float64 or a
// []float64.
func (r *Report) Value(name string) (value any, ok bool) {
	for _, row := range r.rows {
		if row.figure.name == name {
			return row.value, true
		}
	}
	return nil, false
}

// MarshalJSON returns the figures as one object, in order.
func (r *Report) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, row := range r.rows {
		if i > 0 {
			b.WriteByte(',')
		}
		value, err := json.Marshal(row.value)
		if err != nil {
			return nil, fmt.Errorf("bench: encode figure %s: %w", row.figure.name, err)
		}
		fmt.Fprintf(&b, "%q:%s", row.figure.name, value)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// WriteTable writes the figures for people, one in a line.
func (r *Report) WriteTable(w io.Writer) error {
	labels, values := 0, 0
	for _, row := range r.rows {
		labels = max(labels, len(row.figure.label))
		values = max(values, len(row.shown()))
	}
	for _, row := range r.rows {
		line := fmt.Sprintf("%-*s  %*s %s", labels, row.figure.label, values, row.shown(), row.figure.unit)
		if _, err := fmt.Fprintln(w, strings.TrimRight(line, " ")); err != nil {
			return fmt.Errorf("bench: write table: %w", err)
		}
	}
	return nil
}

// shown returns the value for people.
func (r row) shown() string {
	switch v := r.value.(type) {
	case int64:
		return grouped(v)
	case float64:
		return r.figure.shown(v)
	case []float64:
		texts := make([]string, len(v))
		for i := range v {
			texts[i] = r.figure.shown(v[i])
		}
		return strings.Join(texts, " ")
	default:
		return fmt.Sprint(v)
	}
}

// round cuts digits that the measurement does not carry. A value that is not a
// number, which JSON cannot hold, becomes zero.
func (f figure) round(n float64) float64 {
	if math.IsNaN(n) || math.IsInf(n, 0) {
		return 0
	}
	scale := math.Pow10(f.decimals)
	return math.Round(n*scale) / scale
}

func (f figure) shown(n float64) string {
	whole, rest, _ := strings.Cut(strconv.FormatFloat(n, 'f', f.decimals, 64), ".")
	if i, err := strconv.ParseInt(whole, 10, 64); err == nil && !strings.HasPrefix(whole, "-") {
		whole = grouped(i)
	}
	if rest == "" {
		return whole
	}
	return whole + "." + rest
}
