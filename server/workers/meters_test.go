package workers_test

import (
	"context"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/internal/check"
)

// shownBy returns the values of the metrics of a reader, by name and label.
func shownBy(t *testing.T, reader *sdk.ManualReader) map[string]float64 {
	t.Helper()
	var all metricdata.ResourceMetrics
	check.OK(t, reader.Collect(t.Context(), &all))
	values := map[string]float64{}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			switch data := m.Data.(type) {
			case metricdata.Sum[int64]:
				for _, p := range data.DataPoints {
					values[m.Name+p.Attributes.Encoded(attribute.DefaultEncoder())] = float64(p.Value)
				}
			case metricdata.Gauge[float64]:
				for _, p := range data.DataPoints {
					values[m.Name+p.Attributes.Encoded(attribute.DefaultEncoder())] = p.Value
				}
			}
		}
	}
	return values
}

// TestMetersOfAWorker: the process of a worker counts what it is sent, and shows its slots and its connection.
func TestMetersOfAWorker(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	wire := newWire(t, h.addr)
	reader, spans := sdk.NewManualReader(), tracetest.NewInMemoryExporter()
	begun, release := make(chan struct{}, 1), make(chan struct{})
	act := abide.NewActivity("act", func(_ context.Context, n int) (int, error) {
		begun <- struct{}{}
		<-release
		return n, nil
	})
	calls := abide.NewOrchestration("calls", func(ctx abide.Context, n int) (int, error) { return act.Call(ctx, n) })
	e := h.work(func(c *abide.Config) {
		through(wire)(c)
		c.MeterProvider, c.MaxTurns, c.MaxActivities = sdk.NewMeterProvider(sdk.WithReader(reader)), 7, 5
		c.TracerProvider = sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))
	}, calls, act)
	ctx := soon(t)
	run, err := calls.Start(ctx, e, 1)
	check.OK(t, err)
	receive(t, "the activity begins", begun)
	got := shownBy(t, reader)
	for name, want := range map[string]float64{
		"abide.worker.slotskind=turn": 7, "abide.worker.slotskind=activity": 5, "abide.worker.connected": 1, "abide.worker.sessions": 1,
		"abide.activity.running": 1, "abide.worker.activity.received": 1, "abide.worker.turn.receivedcode=new": 1,
	} {
		check.Equal(t, name, got[name], want)
	}
	close(release)
	_, err = run.Result(ctx)
	check.OK(t, err)
	got = shownBy(t, reader)
	check.Equal(t, "turns whose code was in memory", got["abide.worker.turn.receivedcode=cached"], 1)
	c := e.Counts()
	check.Equal(t, "counts", c, abide.Counts{Turns: 2, Started: 1, Ended: 1, Activities: 1})
	if list := spans.GetSpans(); len(list) != 1 || list[0].Name != "run act" {
		t.Errorf("the spans of the worker are %v", list)
	}
	wire.cut()
	check.Eventually(t, "the worker connects again", func() bool { return shownBy(t, reader)["abide.worker.sessions"] == 2 })
}
