// Package meter has the name of every metric, so that one table tells what there is:
// docs/metrics.md, which a test holds against this package.
//
// Instruments are those of OpenTelemetry. Prometheus shows their names with
// underscores, and counters with _total: abide.timer.fired is abide_timer_fired_total.
package meter

import (
	"fmt"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
)

// scope is what OpenTelemetry calls the part of a program that measures.
const scope = "github.com/abidehq/abide"

// Metric describes one metric.
type Metric struct {
	Name  string
	Kind  Kind
	Unit  string // as OpenTelemetry spells it: s, By; empty for a number of things
	Label string // the name of its one label, or empty
	Help  string
}

// Kind is what a metric does.
type Kind string

// Kinds of metrics.
const (
	KindCounter   Kind = "counter"   // it grows
	KindHistogram Kind = "histogram" // it counts values by their size
	KindGauge     Kind = "gauge"     // it is what is true now
)

// Set makes instruments. After an error they do nothing, so that only the end need be
// checked.
type Set struct {
	meter metric.Meter
	Err   error
}

// New returns a set of instruments. Nil means the global provider of OpenTelemetry.
func New(p metric.MeterProvider) *Set {
	if p == nil {
		p = otel.GetMeterProvider()
	}
	return &Set{meter: p.Meter(scope)}
}

// Counter returns the instrument of a counter.
func (s *Set) Counter(m Metric) metric.Int64Counter {
	c, err := s.meter.Int64Counter(m.Name, metric.WithDescription(m.Help), metric.WithUnit(m.Unit))
	s.note(m, err)
	return c
}

// Seconds returns the instrument of a histogram of seconds.
func (s *Set) Seconds(m Metric) metric.Float64Histogram {
	h, err := s.meter.Float64Histogram(m.Name, metric.WithDescription(m.Help), metric.WithUnit(m.Unit),
		metric.WithExplicitBucketBoundaries(Seconds...))
	s.note(m, err)
	return h
}

// Gauge returns the instrument of a gauge.
func (s *Set) Gauge(m Metric) metric.Float64ObservableGauge {
	g, err := s.meter.Float64ObservableGauge(m.Name, metric.WithDescription(m.Help), metric.WithUnit(m.Unit))
	s.note(m, err)
	return g
}

// Observe has f called whenever the gauges are collected. Stop ends that.
func (s *Set) Observe(f metric.Callback, gauges ...metric.Observable) (stop func()) {
	r, err := s.meter.RegisterCallback(f, gauges...)
	if err != nil {
		s.note(Metric{Name: "callback"}, err)
		return func() {}
	}
	return func() { _ = r.Unregister() }
}

func (s *Set) note(m Metric, err error) {
	if err != nil && s.Err == nil {
		s.Err = fmt.Errorf("meter: %s: %w", m.Name, err)
	}
}

// Seconds are the bounds of the buckets of histograms: from a millisecond, which is
// what the store counts in, to an hour.
var Seconds = []float64{0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 300, 3600}
