package soak

import (
	"bytes"
	"fmt"
	"html"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The chart is panels in two columns: sizes in pixels.
const (
	chartWidth   = 960
	headHeight   = 64
	panelWidth   = chartWidth / 2
	panelHeight  = 216
	plotLeft     = 56
	plotRight    = 16
	plotTop      = 44
	plotBottom   = 36
	plotWidth    = panelWidth - plotLeft - plotRight
	plotHeight   = panelHeight - plotTop - plotBottom
	footHeight   = 28
	maxYTicks    = 5
	maxXTicks    = 7
	legendLetter = 6.2 // the width of a letter, about
)

// chartStyle has the colours for light and for dark pages.
const chartStyle = `
.page{fill:#fff}.text{fill:#1f2328}.faint{fill:#656d76}.grid{stroke:#d8dee4}.axis{stroke:#8c959f}.band{fill:#0969da;opacity:.07}.mark{stroke:#8250df}.marked{fill:#8250df}
.line{fill:none;stroke-width:1.6;stroke-linejoin:round}.c0{stroke:#0969da}.c1{stroke:#bc4c00}.c2{stroke:#1a7f37}.n0{fill:#0969da}.n1{fill:#bc4c00}.n2{fill:#1a7f37}
text{font-family:system-ui,-apple-system,"Segoe UI",Helvetica,Arial,sans-serif;font-size:11px}.title{font-size:17px;font-weight:600}.head{font-size:13px;font-weight:600}
@media (prefers-color-scheme:dark){.page{fill:#0d1117}.text{fill:#e6edf3}.faint{fill:#9198a1}.grid{stroke:#262c36}.axis{stroke:#656c76}.band{fill:#58a6ff;opacity:.1}.mark{stroke:#be8fff}.marked{fill:#be8fff}
.c0{stroke:#58a6ff}.c1{stroke:#f0883e}.c2{stroke:#3fb950}.n0{fill:#58a6ff}.n1{fill:#f0883e}.n2{fill:#3fb950}}
`

// panel is a part of the chart: lines over time, with one unit.
type panel struct {
	title, unit string
	log         bool // the scale is logarithmic
	lines       []line
	note        string // the verdict
}

// line is a value of each sample.
type line struct {
	name string
	of   func(point) float64
}

const mib = 1 << 20

// gauge returns the line of a gauge that the store reports.
func gauge(name, key string, scale float64) line {
	return line{name, func(p point) float64 { return float64(p.internals[key]) / scale }}
}

// millis returns the line of a duration.
func millis(name string, of func(point) time.Duration) line {
	return line{name, func(p point) float64 { return float64(of(p)) / float64(time.Millisecond) }}
}

// panels returns those that the store has values for.
func (s *series) panels() []panel {
	all := []panel{
		{title: "Throughput", unit: "operations/s", lines: []line{{"completed", func(p point) float64 { return p.operations }}}},
		{title: "Orchestrations, start to result", unit: "ms", log: true, note: s.note("p99", s.p99()), lines: []line{
			millis("p50", func(p point) time.Duration { return p.p50 }), millis("p99", func(p point) time.Duration { return p.p99 }),
		}},
		{title: "Lateness, p99", unit: "ms", log: true, lines: []line{
			millis("timers", func(p point) time.Duration { return p.timersLate }), millis("actions", func(p point) time.Duration { return p.actionsLate }),
		}},
		{title: "Memory of the process", unit: "MiB", note: s.note("resident", s.memory()), lines: []line{
			{"resident", func(p point) float64 { return p.rss / mib }}, {"Go heap", func(p point) float64 { return p.heap / mib }},
		}},
	}
	disk := panel{title: "Disk", unit: "MiB", note: s.note("store", s.disk()), lines: []line{{"store", func(p point) float64 { return p.disk / mib }}}}
	switch {
	case s.reports("dead_rows"):
		disk.lines = append(disk.lines, gauge("tables", "table_bytes", mib), gauge("indexes", "index_bytes", mib))
		all = append(all, disk, panel{title: "Rows", unit: "thousands", lines: []line{gauge("live", "live_rows", 1000), gauge("dead", "dead_rows", 1000)}})
	case s.reports("compaction_debt_bytes"):
		disk.lines = append(disk.lines, gauge("tables", "table_bytes", mib), gauge("log", "log_bytes", mib))
		all = append(all, disk, panel{title: "Compaction", unit: "MiB", lines: []line{gauge("debt", "compaction_debt_bytes", mib), gauge("level 0", "level0_bytes", mib)}})
	case len(s.points) > 0 && s.points[0].disk > 0:
		all = append(all, disk)
	}
	return all
}

// reports tells whether the store reports a gauge.
func (s *series) reports(name string) bool {
	if len(s.points) == 0 {
		return false
	}
	_, ok := s.points[0].internals[name]
	return ok
}

// note returns the text of a verdict.
func (s *series) note(what string, v *verdict) string {
	if v == nil {
		return ""
	}
	return fmt.Sprintf("%s last ÷ second window: %.2f (%s)", what, v.ratio, v)
}

// title returns the heading of the chart.
func (s *series) title() string {
	name := map[string]string{"pebble": "Embedded store", "postgres": "PostgreSQL", "postgresql": "PostgreSQL", "sqlite": "SQLite", "redis": "Redis"}[s.store]
	if name == "" {
		name = s.store
	}
	return fmt.Sprintf("%s: %s at %s operations/s", name, shortDuration(s.duration), number(float64(s.rate)))
}

// writeSVG draws the chart.
func (s *series) writeSVG(w io.Writer) error {
	panels := s.panels()
	height := headHeight + (len(panels)+1)/2*panelHeight + footHeight
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img" aria-label="%s">`+"\n", chartWidth, height, chartWidth, height, html.EscapeString(s.title()))
	fmt.Fprintf(&b, "<style>%s</style>\n", chartStyle)
	fmt.Fprintf(&b, `<rect class="page" width="%d" height="%d" rx="8"/>`+"\n", chartWidth, height)
	text(&b, "text title", "start", 20, 32, s.title())
	text(&b, "faint", "start", 20, 52, "starts, events, sleeps, tenant timers, actions, deletes; retention "+shortDuration(s.retention))
	for i, p := range panels {
		fmt.Fprintf(&b, `<g transform="translate(%d %d)">`+"\n", i%2*panelWidth, headHeight+i/2*panelHeight)
		s.drawPanel(&b, p)
		b.WriteString("</g>\n")
	}
	text(&b, "faint", "start", 20, float64(height-12), "Shaded: the second and the last sixth of the run, which are compared. Dashed: the first instances reach the end of their retention.")
	b.WriteString("</svg>\n")
	_, err := w.Write(b.Bytes())
	return err
}

// drawPanel draws a panel whose upper left corner is the origin.
func (s *series) drawPanel(b *bytes.Buffer, p panel) {
	text(b, "text head", "start", 20, 16, p.title+", "+p.unit)
	if p.note != "" {
		text(b, "faint", "start", 20, 32, p.note)
	}
	right := float64(panelWidth - plotRight)
	for i, line := range slices.Backward(p.lines) {
		text(b, "n"+strconv.Itoa(i), "end", right, 16, line.name)
		right -= legendLetter*float64(len(line.name)) + 10
	}
	for _, window := range []int{1, windows - 1} {
		from, to := s.window(window)
		fmt.Fprintf(b, `<rect class="band" x="%.1f" y="%d" width="%.1f" height="%d"/>`, s.x(from), plotTop, s.x(to)-s.x(from), plotHeight)
	}
	scale := s.scale(p)
	for _, tick := range scale.ticks {
		y := scale.y(tick)
		fmt.Fprintf(b, `<line class="grid" x1="%d" x2="%d" y1="%.1f" y2="%.1f"/>`, plotLeft, panelWidth-plotRight, y, y)
		text(b, "faint", "end", plotLeft-6, y+4, number(tick))
	}
	s.drawTimes(b)
	if s.retention < s.duration {
		fmt.Fprintf(b, `<line class="mark" stroke-dasharray="3 3" x1="%.1f" x2="%.1f" y1="%d" y2="%d"/>`, s.x(s.retention), s.x(s.retention), plotTop, plotTop+plotHeight)
	}
	for i, l := range p.lines {
		s.drawLine(b, i, l, scale)
	}
}

// drawTimes draws the axis of time.
func (s *series) drawTimes(b *bytes.Buffer) {
	bottom := float64(plotTop + plotHeight)
	fmt.Fprintf(b, `<line class="axis" x1="%d" x2="%d" y1="%.1f" y2="%.1f"/>`, plotLeft, panelWidth-plotRight, bottom, bottom)
	unit, name := time.Second, "s"
	switch {
	case s.duration >= 6*time.Hour:
		unit, name = time.Hour, "h"
	case s.duration >= 3*time.Minute:
		unit, name = time.Minute, "min"
	}
	for _, tick := range linear(float64(s.duration)/float64(unit), maxXTicks) {
		label := number(tick)
		if tick == 0 {
			label += " " + name
		}
		text(b, "faint", "middle", s.x(time.Duration(tick*float64(unit))), bottom+16, label)
	}
}

func (s *series) drawLine(b *bytes.Buffer, i int, l line, scale scale) {
	fmt.Fprintf(b, `<polyline class="line c%d" points="`, i)
	for _, p := range s.points {
		fmt.Fprintf(b, "%.1f,%.1f ", s.x(p.at), scale.y(l.of(p)))
	}
	b.WriteString("\"/>\n")
}

// x returns the horizontal position of a time.
func (s *series) x(at time.Duration) float64 {
	return plotLeft + plotWidth*min(1, float64(at)/float64(max(s.duration, 1)))
}

// scale maps values to vertical positions.
type scale struct {
	ticks    []float64
	from, to float64
	log      bool
}

// scale returns the one that shows all lines of a panel.
func (s *series) scale(p panel) scale {
	least, most := math.Inf(1), 0.0
	for _, l := range p.lines {
		for _, pt := range s.points {
			if v := l.of(pt); v > 0 {
				least, most = min(least, v), max(most, v)
			}
		}
	}
	if !p.log || most == 0 {
		ticks := linear(max(most, 1)*1.05, maxYTicks)
		return scale{ticks: ticks, to: max(most*1.05, 1)}
	}
	sc := scale{log: true, from: math.Pow(10, math.Floor(math.Log10(least))), to: math.Pow(10, math.Ceil(math.Log10(most*1.01)))}
	for tick := sc.from; tick <= sc.to*1.01; tick *= 10 {
		sc.ticks = append(sc.ticks, tick)
	}
	return sc
}

// y returns the vertical position of a value.
func (sc scale) y(v float64) float64 {
	share := (v - sc.from) / (sc.to - sc.from)
	if sc.log {
		share = math.Log(max(v, sc.from)/sc.from) / math.Log(sc.to/sc.from)
	}
	return plotTop + plotHeight*(1-min(max(share, 0), 1))
}

// linear returns at most n round numbers from 0 to most.
func linear(most float64, n int) []float64 {
	step := math.Pow(10, math.Floor(math.Log10(most)))
	for _, f := range []float64{0.1, 0.2, 0.5, 1, 2, 5} {
		if most/(step*f) <= float64(n) {
			step *= f
			break
		}
	}
	var ticks []float64
	for i := 0; float64(i)*step <= most; i++ {
		ticks = append(ticks, float64(i)*step)
	}
	return ticks
}

// number returns a number for people: 1,200 or 0.5.
func number(n float64) string {
	if n != math.Trunc(n) {
		return strconv.FormatFloat(n, 'g', 3, 64)
	}
	digits := strconv.FormatFloat(n, 'f', 0, 64)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// shortDuration returns a duration without units that are zero: 1h, and not 1h0m0s.
func shortDuration(d time.Duration) string {
	text := d.Round(time.Second).String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

func text(b *bytes.Buffer, class, anchor string, x, y float64, s string) {
	fmt.Fprintf(b, `<text class="%s" text-anchor="%s" x="%.1f" y="%.1f">%s</text>`+"\n", class, anchor, x, y, html.EscapeString(s))
}
