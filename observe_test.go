package abide_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/internal/teststore"
)

// TestObserve: what a program that has a meter, a tracer and a logger sees of an instance
// that it starts within a span of its own.
func TestObserve(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var below trace.SpanContext
		charge := abide.NewActivity("charge", func(ctx context.Context, _ abide.None) (abide.None, error) {
			below = trace.SpanContextFromContext(ctx)
			return abide.None{}, nil
		})
		order := abide.NewOrchestration("order", func(ctx abide.Context, _ abide.None) (abide.None, error) {
			log := abide.Logger(ctx) // made once, and used in several turns
			log.Info("begins", "n", 1)
			if _, err := charge.Call(ctx, abide.None{}); err != nil {
				return abide.None{}, err
			}
			log.With("more", 1).WithGroup("of").With("inner", 2).Info("goes on", "n", 3)
			return abide.Step(ctx, "look", func(ctx context.Context) (abide.None, error) {
				log.InfoContext(ctx, "steps")
				return abide.None{}, nil
			})
		}, abide.Version("2"))

		var out strings.Builder
		spans, reader := tracetest.NewInMemoryExporter(), sdkmetric.NewManualReader()
		tracer := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))
		s := teststore.New(t)
		defer s.Close()
		e, err := abide.New(s, abide.Config{
			Register: []abide.Definition{order, charge}, Logger: slog.New(slog.NewJSONHandler(&out, nil)),
			MeterProvider: sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)), TracerProvider: tracer,
		})
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		ctx, span := tracer.Tracer("shop").Start(t.Context(), "checkout")
		i, err := order.Start(ctx, e, abide.None{}, abide.ID("order-1"), abide.Tenant("acme"))
		if err != nil {
			t.Fatal(err)
		}
		span.End()
		if _, err := i.Result(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()

		byName := map[string][]trace.SpanContext{}
		for _, p := range spans.GetSpans() {
			byName[p.Name] = append(byName[p.Name], p.SpanContext)
			if p.SpanContext.TraceID() != span.SpanContext().TraceID() {
				t.Errorf("%s is of another trace", p.Name)
			}
		}
		if len(byName["turn order"]) < 2 || len(byName["activity charge"]) != 1 || byName["activity charge"][0].SpanID() != below.SpanID() {
			t.Errorf("the spans are %v, and the activity ran below %v", byName, below.SpanID())
		}
		info, err := e.Get(t.Context(), abide.Ref{Tenant: "acme", ID: "order-1"})
		sc := span.SpanContext()
		if want := "00-" + sc.TraceID().String() + "-" + sc.SpanID().String() + "-01"; err != nil || info.TraceParent != want {
			t.Errorf("the instance is of %q, %v, want %q", info.TraceParent, err, want)
		}
		history, err := e.History(t.Context(), abide.Ref{Tenant: "acme", ID: "order-1"}, 0)
		if err != nil || fmt.Sprintf("%016x", history.Events[0].Span) != byName["turn order"][0].SpanID().String() {
			t.Errorf("history begins with %+v, %v", history.Events[0], err)
		}

		turns := map[string]int{}
		for line := range strings.Lines(out.String()) {
			var fields map[string]any
			if err := json.Unmarshal([]byte(line), &fields); err != nil {
				t.Fatal(err)
			}
			if of, ok := fields["of"].(map[string]any); fields["msg"] == "goes on" && (!ok || len(of) != 2 || of["inner"] != 2.0 || of["n"] != 3.0 || fields["more"] != 1.0) {
				t.Errorf("the group is not as it should be: %s", line)
			}
			for name, want := range map[string]any{
				"tenant": "acme", "instance": "order-1", "orchestration": "order@2", "execution": 1.0,
				"trace_id": sc.TraceID().String(),
			} {
				if fields[name] != want {
					t.Errorf("%s: %s is %v, want %v", fields["msg"], name, fields[name], want)
				}
			}
			for _, turn := range byName["turn order"] {
				if fields["span_id"] == turn.SpanID().String() {
					turns[fields["msg"].(string)]++
				}
			}
		}
		if turns["begins"] != 1 || turns["goes on"] != 1 || turns["steps"] != 1 {
			t.Errorf("the lines within a turn are %v:\n%s", turns, &out)
		}
		var metrics metricdata.ResourceMetrics
		if err := reader.Collect(t.Context(), &metrics); err != nil || len(metrics.ScopeMetrics) != 1 {
			t.Errorf("the metrics are %+v, %v", metrics, err)
		}
	})
}

// TestObserveNothing: without a meter and a tracer there is nothing to see, and an
// instance that nobody traces has no trace.
func TestObserveNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		nap := abide.NewOrchestration("nap", func(ctx abide.Context, _ abide.None) (abide.None, error) {
			abide.Logger(ctx).Info("sleeps")
			return abide.None{}, abide.Sleep(ctx, time.Hour)
		})
		var out strings.Builder
		s := teststore.New(t)
		defer s.Close()
		e, err := abide.New(s, abide.Config{Register: []abide.Definition{nap}, Logger: slog.New(slog.NewJSONHandler(&out, nil))})
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		i, err := nap.Start(t.Context(), e, abide.None{}, abide.ID("a"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := i.Result(t.Context()); err != nil {
			t.Fatal(err)
		}
		info, err := e.Get(t.Context(), abide.Ref{ID: "a"})
		if err != nil || info.TraceParent != "" {
			t.Errorf("the instance is of %q, %v", info.TraceParent, err)
		}
		history, err := e.History(t.Context(), abide.Ref{ID: "a"}, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, event := range history.Events {
			if event.Span != 0 {
				t.Errorf("event %d names the span %x", event.ID, event.Span)
			}
		}
		if text := out.String(); strings.Contains(text, "trace_id") || strings.Contains(text, "span_id") || !strings.Contains(text, `"tenant":"default","instance":"a"`) {
			t.Errorf("it logs %s", text)
		}
	})
}
