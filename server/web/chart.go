package web

import (
	"fmt"
	"strings"

	"github.com/abidehq/abide/server/telemetry"
)

// chart is some numbers over the last minutes, drawn on the server.
type chart struct {
	Title string
	Words string // all of it, for those who do not see the picture
	Top   string // what its upper edge stands for
	Since string // what its left edge stands for
	Lines []line
	Note  string // what the last value is of
	Href  string // where that is shown
}

// line is one of the numbers.
type line struct {
	Name   string
	Tone   string
	Now    string
	Points string // x,y …, within chartWide and chartHigh
	Area   string // the same, closed along the bottom
}

const (
	chartWide = 600
	chartHigh = 120
)

// series is a number of each sample.
type series struct {
	name string
	tone string
	of   func(*telemetry.Sample) float64
}

// charts draws what the samples say.
func charts(samples []telemetry.Sample) []chart {
	if len(samples) < 2 {
		return nil
	}
	return []chart{
		draw("Throughput", "per second", samples, 1, rate,
			series{"started", "active", func(s *telemetry.Sample) float64 { return s.Started }},
			series{"completed", "good", func(s *telemetry.Sample) float64 { return s.Completed }},
			series{"failed", "alarm", func(s *telemetry.Sample) float64 { return s.Failed }},
			series{"cancelled or terminated", "off", func(s *telemetry.Sample) float64 { return s.Cancelled }}),
		draw("Work", "per second", samples, 1, rate,
			series{"activities", "active", func(s *telemetry.Sample) float64 { return s.Activities }},
			series{"timers fired", "good", func(s *telemetry.Sample) float64 { return s.TimersFired }},
			series{"actions", "hold", func(s *telemetry.Sample) float64 { return s.ActionsEnded }}),
		draw("Timer lateness", "", samples, 0.01, seconds,
			series{"p50", "active", func(s *telemetry.Sample) float64 { return s.LatenessP50 }},
			series{"p99", "hold", func(s *telemetry.Sample) float64 { return s.LatenessP99 }}),
		draw("Queue age", "", samples, 0.1, seconds,
			series{"oldest", "active", func(s *telemetry.Sample) float64 { return s.QueueAge }}),
	}
}

// draw draws a chart whose upper edge is at least so high.
func draw(title, unit string, samples []telemetry.Sample, least float64, format func(float64) string, list ...series) chart {
	top := least
	for i := range samples {
		for _, one := range list {
			top = max(top, one.of(&samples[i]))
		}
	}
	top = roundUp(top)
	first, last := samples[0].At, samples[len(samples)-1].At
	whole := max(last.Sub(first).Seconds(), 1)
	c := chart{Title: title, Top: strings.TrimSpace(format(top) + " " + unit), Since: about(last.Sub(first)) + " ago"}
	var words []string
	for _, one := range list {
		var b strings.Builder
		for i := range samples {
			if i > 0 {
				b.WriteByte(' ')
			}
			x := samples[i].At.Sub(first).Seconds() / whole * chartWide
			y := chartHigh - one.of(&samples[i])/top*(chartHigh-4) - 2
			fmt.Fprintf(&b, "%.1f,%.1f", x, y)
		}
		now := format(one.of(&samples[len(samples)-1]))
		points := b.String()
		c.Lines = append(c.Lines, line{
			Name: one.name, Tone: one.tone, Now: now, Points: points,
			Area: fmt.Sprintf("0,%d %s %d,%d", chartHigh, points, chartWide, chartHigh),
		})
		words = append(words, one.name+" "+now)
	}
	c.Words = title + ", now: " + strings.TrimSpace(strings.Join(words, ", ")+" "+unit)
	return c
}

// roundUp returns the next number that looks well at the edge of a chart: 1, 2 or 5 times a
// power of ten.
func roundUp(v float64) float64 {
	power := 1e-6
	for power*10 <= v {
		power *= 10
	}
	for _, factor := range []float64{1, 2, 5, 10} {
		if v <= power*factor {
			return power * factor
		}
	}
	return v
}
