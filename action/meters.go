package action

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/abidehq/abide/internal/meter"
	"github.com/abidehq/abide/store"
)

// meters are the service's instruments.
type meters struct {
	set                             *meter.Set
	adds, starts, ends              metric.Int64Counter
	ticks, durations, lateness      metric.Float64Histogram
	pending, runningNow, overdueNow metric.Float64ObservableGauge

	byTrigger map[TriggerKind]metric.MeasurementOption // made once, as they cost more than what is counted
	byStatus  map[Status]metric.MeasurementOption
}

func newMeters(p metric.MeterProvider) (*meters, error) {
	set := meter.New(p)
	m := &meters{
		set:        set,
		adds:       set.Counter(meter.ActionsAdded),
		starts:     set.Counter(meter.ActionsStarted),
		ends:       set.Counter(meter.ActionsEnded),
		ticks:      set.Seconds(meter.Ticks),
		durations:  set.Seconds(meter.ActionDuration),
		lateness:   set.Seconds(meter.ActionLateness),
		pending:    set.Gauge(meter.ActionsPending),
		runningNow: set.Gauge(meter.ActionsRunning),
		overdueNow: set.Gauge(meter.ActionOverdue),
		byTrigger:  labels(meter.ActionsAdded, Scheduled, Webhook),
		byStatus:   labels(meter.ActionsEnded, Statuses...),
	}
	return m, set.Err
}

// labels returns the label of a metric with each of its values.
func labels[T ~string](m meter.Metric, values ...T) map[T]metric.MeasurementOption {
	all := map[T]metric.MeasurementOption{}
	for _, value := range values {
		all[value] = metric.WithAttributeSet(attribute.NewSet(attribute.String(m.Label, string(value))))
	}
	return all
}

func (m *meters) tick(ctx context.Context, took time.Duration) { m.ticks.Record(ctx, took.Seconds()) }

func (m *meters) added(ctx context.Context, a *Action) {
	m.adds.Add(ctx, 1, m.byTrigger[a.Trigger.Kind])
}

func (m *meters) started(ctx context.Context, a *Action) {
	m.starts.Add(ctx, 1)
	m.lateness.Record(ctx, max(a.StartedAt.Sub(a.Due()), 0).Seconds())
}

// ended counts an action that has ended, or that is to be run again.
func (m *meters) ended(ctx context.Context, status Status) {
	m.ends.Add(ctx, 1, m.byStatus[status])
}

// ran counts a run that came to its end.
func (m *meters) ran(ctx context.Context, took time.Duration) {
	m.durations.Record(ctx, took.Seconds())
}

// skipped counts the skipped runs in a commit.
func (m *meters) skipped(ctx context.Context, tx *store.Tx) {
	for i := range tx.PutRecords {
		if r := &tx.PutRecords[i].Record; r.Key.Kind == kind && r.Status == string(Skipped) {
			m.ended(ctx, Skipped)
		}
	}
}

// observe shows what the store holds to those who look at the gauges, until it is
// stopped.
func (m *meters) observe(s *Service) (stop func()) {
	return m.set.Observe(func(ctx context.Context, o metric.Observer) error {
		stats, err := s.store.Stats(ctx)
		if err != nil {
			return err
		}
		pending, overdue := 0, 0.0
		for _, r := range stats.Routes {
			if r.Queue != queue {
				continue
			}
			pending += r.Pending
			if r.Ready > 0 {
				overdue = max(overdue, stats.Now.Sub(r.Oldest).Seconds())
			}
		}
		o.ObserveFloat64(m.pending, float64(pending))
		o.ObserveFloat64(m.runningNow, float64(len(s.slots)))
		o.ObserveFloat64(m.overdueNow, overdue)
		return nil
	}, m.pending, m.runningNow, m.overdueNow)
}
