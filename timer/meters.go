package timer

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/abidehq/abide/internal/meter"
)

// meters are the service's instruments.
type meters struct {
	set                                                       *meter.Set
	scheduled, fired, cancelled, removed, conflicts, commands metric.Int64Counter
	lateness                                                  metric.Float64Histogram
	armed, overdue                                            metric.Float64ObservableGauge
}

func newMeters(p metric.MeterProvider) (*meters, error) {
	set := meter.New(p)
	m := &meters{
		set:       set,
		scheduled: set.Counter(meter.TimersScheduled),
		fired:     set.Counter(meter.TimersFired),
		cancelled: set.Counter(meter.TimersCancelled),
		removed:   set.Counter(meter.TimersRemoved),
		conflicts: set.Counter(meter.TimerConflicts),
		commands:  set.Counter(meter.TimerCommands),
		lateness:  set.Seconds(meter.TimerLateness),
		armed:     set.Gauge(meter.TimersArmed),
		overdue:   set.Gauge(meter.TimerOverdue),
	}
	return m, set.Err
}

// observe shows what the store holds to those who look at the gauges, until it is
// stopped.
func (m *meters) observe(s *Service) (stop func()) {
	return m.set.Observe(func(ctx context.Context, o metric.Observer) error {
		stats, err := s.store.Stats(ctx)
		if err != nil {
			return err
		}
		armed, overdue := 0, 0.0
		for _, r := range stats.Routes {
			if r.Queue != queue || r.Route != route {
				continue
			}
			armed = r.Pending
			if r.Ready > 0 {
				overdue = max(stats.Now.Sub(r.Oldest).Seconds(), 0)
			}
		}
		o.ObserveFloat64(m.armed, float64(armed))
		o.ObserveFloat64(m.overdue, overdue)
		return nil
	}, m.armed, m.overdue)
}

// outcome counts a command.
func (m *meters) outcome(ctx context.Context, outcome string) {
	m.commands.Add(ctx, 1, metric.WithAttributes(attribute.String(meter.TimerCommands.Label, outcome)))
}
