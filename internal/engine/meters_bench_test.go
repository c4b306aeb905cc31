package engine

import (
	"log/slog"
	"testing"
	"time"

	"go.opentelemetry.io/otel/metric"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/abidehq/abide/internal/replay"
	"github.com/abidehq/abide/store/memstore"
)

// TestToMeasureAllocatesNothing: neither for a turn nor for an activity.
func TestToMeasureAllocatesNothing(t *testing.T) {
	for name, p := range map[string]metric.MeterProvider{
		"global": nil, "SDK": sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader())),
	} {
		m, err := newMeters(p, map[string]Activity{"charge": nil})
		if err != nil {
			t.Fatal(err)
		}
		e := &Engine{meters: m}
		turn := &turn{e: e, ctx: t.Context(), draft: draft{effects: effects{starts: true, ends: true, expires: true}}, in: &instance{info: Info{Status: Completed}}}
		turn.fired = append(turn.firedRoom[:0], firing{late: time.Second}, firing{late: time.Minute})
		task := &Task{e: e, Name: "charge", ctx: t.Context(), called: true}
		again := failure("no money")
		measure := func() {
			m.turns.Record(turn.ctx, 0.001)
			m.committed(turn)
			m.attempted(task, nil, false, time.Second)
			m.attempted(task, again, true, time.Second)
			e.stale(1)
			e.lose(queueTurns)
		}
		measure()
		if n := testing.AllocsPerRun(100, measure); n != 0 {
			t.Errorf("%s: there are %v allocations", name, n)
		}
	}
}

// BenchmarkTurn is a turn that one event brings about, of an instance in the cache.
func BenchmarkTurn(b *testing.B) {
	for _, bb := range []struct {
		name   string
		meter  metric.MeterProvider
		tracer trace.TracerProvider
	}{
		{name: "plain"},
		{name: "metrics", meter: sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader()))},
		{name: "traces", tracer: sdktrace.NewTracerProvider()},
	} {
		b.Run(bb.name, func(b *testing.B) {
			s := memstore.New(memstore.Options{})
			defer s.Close()
			turned := make(chan struct{})
			loop := func(c *replay.Context, _ []byte) replay.Outcome {
				for {
					receive(c, "go")
					turned <- struct{}{}
				}
			}
			e, err := New(Config{
				Store: s, Logger: slog.New(slog.DiscardHandler), Executor: Code{"loop": func(Ref) replay.Code { return loop }},
				Routes: []string{"loop"}, MeterProvider: bb.meter, TracerProvider: bb.tracer, MaxHistory: 1 << 30,
			})
			if err != nil {
				b.Fatal(err)
			}
			defer func() { _ = e.Close(b.Context()) }()
			if _, err := e.Client.Start(b.Context(), Start{Ref: Ref{ID: "a"}, Name: "loop"}); err != nil {
				b.Fatal(err)
			}
			raise := Raise{Ref: Ref{ID: "a"}, Name: "go"}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := e.Raise(b.Context(), raise); err != nil {
					b.Fatal(err)
				}
				<-turned
			}
		})
	}
}
