package telemetry

import (
	"context"

	"go.opentelemetry.io/otel/metric"
)

// quiet keeps the sampler from asking the store: gauges are observed for those who show
// them, and the samples do not. OpenTelemetry would call the callback for
// each reader.
type quiet struct{ metric.MeterProvider }

type quietMeter struct{ metric.Meter }

var (
	_ metric.MeterProvider = quiet{}
	_ metric.Meter         = quietMeter{}
)

// Meter returns a meter whose callbacks are not called for a sample.
func (q quiet) Meter(name string, opts ...metric.MeterOption) metric.Meter {
	return quietMeter{q.MeterProvider.Meter(name, opts...)}
}

// RegisterCallback registers f for all readers but the sampler.
func (q quietMeter) RegisterCallback(f metric.Callback, of ...metric.Observable) (metric.Registration, error) {
	return q.Meter.RegisterCallback(func(ctx context.Context, o metric.Observer) error {
		if ctx.Value(samplingKey{}) != nil {
			return nil
		}
		return f(ctx, o)
	}, of...)
}

// samplingKey marks the context of a sample.
type samplingKey struct{}
