package outbox

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/abidehq/abide/internal/meter"
)

// meters are the relay's instruments.
type meters struct {
	published, retried, failed metric.Int64Counter
	delay                      metric.Float64Histogram
}

func newMeters(p metric.MeterProvider) (*meters, error) {
	set := meter.New(p)
	m := &meters{
		published: set.Counter(meter.BusPublished),
		retried:   set.Counter(meter.BusRetried),
		failed:    set.Counter(meter.BusFailed),
		delay:     set.Seconds(meter.BusDelay),
	}
	return m, set.Err
}

// count records the outcomes of a batch in metrics, and logs what needs attention.
func (p *publisher) count(items []*item) {
	ctx, sink := context.Background(), p.attributes()
	n := map[State]int{}
	var retried *item
	for _, it := range items {
		n[it.State]++
		switch it.State {
		case Published:
			p.r.meters.delay.Record(ctx, it.At.Sub(it.m.PutAt).Seconds(), sink)
		case Retrying:
			retried = it
		case Failed:
			p.r.log.Error("envelope refused, quarantined", "sink", p.sink.Name, "tenant", it.claim.Key.Tenant,
				"envelope", it.m.ID, "attempts", it.Attempt, "reason", it.reason, "error", it.Err)
		}
	}
	if retried != nil {
		p.r.log.Warn("envelopes refused, retrying", "sink", p.sink.Name, "envelopes", n[Retrying],
			"tenant", retried.Envelope.TenantID, "envelope", retried.Envelope.ID, "attempt", retried.Attempt, "next", retried.Next, "error", retried.Err)
	}
	p.r.meters.published.Add(ctx, int64(n[Published]), sink)
	p.r.meters.retried.Add(ctx, int64(n[Retrying]), sink)
	p.r.meters.failed.Add(ctx, int64(n[Failed]), sink)
}

// attributes name the sink.
func (p *publisher) attributes() metric.MeasurementOption {
	return metric.WithAttributeSet(attribute.NewSet(attribute.String(meter.BusPublished.Label, p.sink.Name)))
}
