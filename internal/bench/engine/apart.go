package engine

import (
	"context"
	"errors"

	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/internal/bench"
	"github.com/abidehq/abide/internal/meter"
	"github.com/abidehq/abide/store"
)

// replays counts the turns of an engine, and those that replayed history.
type replays struct{ reader *sdk.ManualReader }

func newReplays() *replays { return &replays{sdk.NewManualReader()} }

func (c *replays) provider() *sdk.MeterProvider {
	return sdk.NewMeterProvider(sdk.WithReader(c.reader))
}

// count returns how many turns were committed so far, and how many replayed history.
func (c *replays) count(ctx context.Context) (turns, replayed int64, err error) {
	var all metricdata.ResourceMetrics
	if err := c.reader.Collect(ctx, &all); err != nil {
		return 0, 0, err
	}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			switch data := m.Data.(type) {
			case metricdata.Histogram[float64]:
				for i := range data.DataPoints {
					if m.Name == meter.TurnDuration.Name {
						turns += int64(data.DataPoints[i].Count)
					}
				}
			case metricdata.Sum[int64]:
				for i := range data.DataPoints {
					if m.Name == meter.TurnReplays.Name {
						replayed += data.DataPoints[i].Value
					}
				}
			}
		}
	}
	return turns, replayed, nil
}

// apartFlag adds --apart.
func (l *loop) apartFlag() {
	l.flags.BoolVar(&l.apart, "apart", false, "run the activities in an engine of their own, on a store that is opened once more as another process would, and count the turns that replay")
}

// openApart starts an engine that serves the activities, on a store that is opened once more.
func (l *loop) openApart(ctx context.Context, r *bench.Run) (stop func() error, err error) {
	s, err := store.Open(ctx, r.URL)
	if err != nil {
		return nil, err
	}
	e, err := abide.New(s, abide.Config{Register: l.flow.activities, Logger: r.Logger})
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return func() error { return errors.Join(e.Close(), s.Close()) }, nil
}

// report adds the turns, and how many of them replayed history.
func (c *replays) report(ctx context.Context, p *bench.Report) error {
	turns, replayed, err := c.count(ctx)
	if err != nil {
		return err
	}
	p.Add("turns", turns)
	p.Add("replays", replayed)
	return nil
}
