package telemetry

import (
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/abidehq/abide/internal/meter"
)

// rate is a number of a sample: what a metric counts, by the value of its label.
type rate struct {
	metric meter.Metric
	of     func(s *Sample, label string) *float64 // nil if it does not count
}

// always is of a metric that counts whatever its label says.
func always(field func(*Sample) *float64) func(*Sample, string) *float64 {
	return func(s *Sample, _ string) *float64 { return field(s) }
}

// measure returns what happened, from the differences since the last time.
func measure(data *metricdata.ResourceMetrics, seconds float64) Sample {
	var s Sample
	var late buckets
	for i := range data.ScopeMetrics {
		for _, m := range data.ScopeMetrics[i].Metrics {
			if r, known := rates[m.Name]; known {
				count(m.Data, r, &s)
			}
			if lateness[m.Name] {
				late.add(m.Data)
			}
		}
	}
	for _, r := range []*float64{&s.Started, &s.Completed, &s.Failed, &s.Cancelled, &s.Turns, &s.Activities, &s.TimersFired, &s.ActionsEnded} {
		*r /= seconds
	}
	s.LatenessP50, s.LatenessP99 = late.quantile(0.5), late.quantile(0.99)
	return s
}

// count adds what a metric counted to a sample.
func count(data metricdata.Aggregation, r rate, s *Sample) {
	add := func(attrs attribute.Set, n float64) {
		label, _ := attrs.Value(attribute.Key(r.metric.Label))
		if field := r.of(s, label.AsString()); field != nil {
			*field += n
		}
	}
	switch d := data.(type) {
	case metricdata.Sum[int64]:
		for _, p := range d.DataPoints {
			add(p.Attributes, float64(p.Value))
		}
	case metricdata.Histogram[float64]:
		for _, p := range d.DataPoints {
			add(p.Attributes, float64(p.Count))
		}
	}
}

// buckets are those of histograms with the same bounds, added up.
type buckets struct {
	bounds []float64
	counts []uint64
	total  uint64
}

func (b *buckets) add(data metricdata.Aggregation) {
	h, ok := data.(metricdata.Histogram[float64])
	if !ok {
		return
	}
	for _, p := range h.DataPoints {
		if b.counts == nil {
			b.bounds, b.counts = p.Bounds, make([]uint64, len(p.BucketCounts))
		}
		if len(p.BucketCounts) != len(b.counts) {
			continue // with other bounds they cannot be added
		}
		for i, n := range p.BucketCounts {
			b.counts[i] += n
			b.total += n
		}
	}
}

// quantile returns the value that a share of what was counted is not above, as if the
// values of a bucket were spread evenly over it; 0 if nothing was counted. What is above
// the last bound counts as being there.
func (b *buckets) quantile(share float64) float64 {
	if b.total == 0 {
		return 0
	}
	rank := share * float64(b.total)
	var below float64
	for i, n := range b.counts {
		if in := float64(n); in > 0 && below+in >= rank {
			if i == len(b.bounds) {
				return b.bounds[i-1]
			}
			low := 0.0
			if i > 0 {
				low = b.bounds[i-1]
			}
			return low + (b.bounds[i]-low)*(rank-below)/in
		}
		below += float64(n)
	}
	return b.bounds[len(b.bounds)-1]
}
