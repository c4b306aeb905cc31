package bench

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Report is the figures of a run, in the order in which they are shown.
type Report struct {
	rows []row
}

type row struct {
	name  string
	value any // string, int64, float64 or []float64
}

// Add adds a figure. The value is a string, an int, an int64, a float64, a []float64, or a
// duration, which is reported in the unit of the name. Numbers that are not integers are
// rounded to what a measurement carries.
func (r *Report) Add(name string, value any) {
	_, u := labelOf(name)
	switch v := value.(type) {
	case int:
		value = int64(v)
	case time.Duration:
		value = u.round(float64(v) / float64(u.duration))
	case float64:
		value = u.round(v)
	case []float64:
		rounded := make([]float64, len(v))
		for i := range v {
			rounded[i] = u.round(v[i])
		}
		value = rounded
	}
	r.rows = append(r.rows, row{name, value})
}

// Quantiles adds the median, the 99th percentile and the maximum of a histogram, in unit
// "ms" or "us".
func (r *Report) Quantiles(name, unit string, h *Histogram) {
	r.Add(name+"_p50_"+unit, h.Quantile(0.50))
	r.Add(name+"_p99_"+unit, h.Quantile(0.99))
	r.Add(name+"_max_"+unit, h.Max())
}

// Value returns a figure: a string, an int64, a float64 or a []float64.
func (r *Report) Value(name string) (value any, ok bool) {
	i := slices.IndexFunc(r.rows, func(row row) bool { return row.name == name })
	if i < 0 {
		return nil, false
	}
	return r.rows[i].value, true
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
			return nil, fmt.Errorf("bench: encode figure %s: %w", row.name, err)
		}
		fmt.Fprintf(&b, "%q:%s", row.name, value)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// WriteTable writes the figures for people, one in a line.
func (r *Report) WriteTable(w io.Writer) error {
	labels, values := 0, 0
	for _, row := range r.rows {
		label, u := labelOf(row.name)
		labels, values = max(labels, len(label)), max(values, len(u.shown(row.value)))
	}
	for _, row := range r.rows {
		label, u := labelOf(row.name)
		line := fmt.Sprintf("%-*s  %*s %s", labels, label, values, u.shown(row.value), u.name)
		if _, err := fmt.Fprintln(w, strings.TrimRight(line, " ")); err != nil {
			return fmt.Errorf("bench: write table: %w", err)
		}
	}
	return nil
}

// unit is that of a figure, and how many decimals mean something.
type unit struct {
	name     string
	decimals int
	duration time.Duration // of one, if it is a time
}

// units are those that names have a word for; a name without one is a count or a ratio.
var (
	units = map[string]unit{
		"us":      {"µs", 2, time.Microsecond},
		"ms":      {"ms", 3, time.Millisecond},
		"s":       {"s", 4, time.Second},
		"mib":     {"MiB", 1, 0},
		"kib":     {"KiB", 1, 0},
		"bytes":   {"B", 0, 0},
		"percent": {"%", 3, 0},
	}
	perSecond = unit{"/s", 1, 0}
	noUnit    = unit{"", 3, 0}
)

// labelOf returns what a figure is called in the table, and its unit: latency_p99_ms is
// "latency p99" in ms, cpu_us_per_commit "cpu per commit" in µs.
func labelOf(name string) (string, unit) {
	if rate, ok := strings.CutSuffix(name, "_per_s"); ok {
		return strings.ReplaceAll(rate, "_", " "), perSecond
	}
	words := strings.Split(name, "_")
	for i, word := range words {
		if u, ok := units[word]; ok && i > 0 {
			return strings.Join(slices.Delete(words, i, i+1), " "), u
		}
	}
	return strings.Join(words, " "), noUnit
}

// round cuts digits that the measurement does not carry. A value that is not a number, which
// JSON cannot hold, becomes zero.
func (u unit) round(n float64) float64 {
	if math.IsNaN(n) || math.IsInf(n, 0) {
		return 0
	}
	scale := math.Pow10(u.decimals)
	return math.Round(n*scale) / scale
}

// shown returns a value for people.
func (u unit) shown(value any) string {
	switch v := value.(type) {
	case int64:
		return grouped(v)
	case float64:
		whole, rest, _ := strings.Cut(strconv.FormatFloat(v, 'f', u.decimals, 64), ".")
		if i, err := strconv.ParseInt(whole, 10, 64); err == nil && !strings.HasPrefix(whole, "-") {
			whole = grouped(i)
		}
		return strings.TrimSuffix(whole+"."+rest, ".")
	case []float64:
		texts := make([]string, len(v))
		for i := range v {
			texts[i] = u.shown(v[i])
		}
		return strings.Join(texts, " ")
	default:
		return fmt.Sprint(v)
	}
}
