package hook

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/abidehq/abide/internal/meter"
)

// meters are the handler's instruments.
type meters struct {
	requests metric.Int64Counter
	duration metric.Float64Histogram
	labels   map[outcome]metric.MeasurementOption
}

func newMeters(p metric.MeterProvider) (*meters, error) {
	set := meter.New(p)
	m := &meters{
		requests: set.Counter(meter.HookRequests),
		duration: set.Seconds(meter.HookDuration),
		labels:   map[outcome]metric.MeasurementOption{},
	}
	for o := range problems {
		m.label(o)
	}
	m.label(outcomeAccepted)
	m.label(outcomeDuplicate)
	m.label(outcomeIgnored)
	return m, set.Err
}

// label makes the label of an outcome, once rather than for each request.
func (m *meters) label(o outcome) {
	m.labels[o] = metric.WithAttributeSet(attribute.NewSet(attribute.String(meter.HookRequests.Label, string(o))))
}

func (m *meters) request(ctx context.Context, o outcome) { m.requests.Add(ctx, 1, m.labels[o]) }

func (m *meters) stored(ctx context.Context, took time.Duration) {
	m.duration.Record(ctx, max(took, 0).Seconds())
}
