package workers_test

import (
	"context"
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/internal/engine"
	"github.com/abidehq/abide/internal/replay"
	"github.com/abidehq/abide/server/workers"
)

// TestSpansOfAWorker: the spans of code in a worker, which its own process exports, are below those of turns and
// attempts, which the server exports.
func TestSpansOfAWorker(t *testing.T) {
	t.Parallel()
	server, there := tracetest.NewInMemoryExporter(), tracetest.NewInMemoryExporter()
	ofServer, ofWorker := sdktrace.NewTracerProvider(sdktrace.WithSyncer(server)), sdktrace.NewTracerProvider(sdktrace.WithSyncer(there))
	mine := func(ctx context.Context, name string) {
		_, span := ofWorker.Tracer("mine").Start(ctx, name)
		span.End()
	}
	act := func(ctx context.Context, _ *engine.Task) ([]byte, *history.Failure) {
		mine(ctx, "in the activity")
		return nil, &history.Failure{Message: "no", Final: true}
	}
	code := func(c *replay.Context, in []byte) ([]byte, *history.Failure) {
		_, failure := c.Step("s", func(ctx context.Context) ([]byte, *history.Failure) {
			mine(ctx, "in the step")
			return nil, nil
		})
		if failure != nil {
			return nil, failure
		}
		_, _ = calling(c, in)
		return []byte("done"), nil
	}
	for name, own := range map[string]trace.Tracer{"with a tracer": engine.NewTracer(ofWorker), "without a tracer": engine.NewTracer(nil)} {
		server.Reset()
		there.Reset()
		inOneBubble(t, func(c *workers.Config) { c.TracerProvider = ofServer }, func(b *bubble) {
			b.join(program{code: engine.Code{"code": flow(code)}, acts: map[string]engine.Activity{"act": act}, tracer: own}, wires{})
			b.begin("i", "code", "")
			check.Equal(t, "result", b.result("i"), "done")
			b.pass(0)
		})
		spans := map[string]tracetest.SpanStub{}
		for _, list := range []tracetest.SpanStubs{server.GetSpans(), there.GetSpans()} {
			for _, s := range list {
				if _, twice := spans[s.Name]; !twice { // the first turn
					spans[s.Name] = s
				}
			}
		}
		below := func(child, parent string) {
			t.Helper()
			c, p := spans[child], spans[parent]
			if !p.SpanContext.IsValid() || c.Parent.SpanID() != p.SpanContext.SpanID() || c.SpanContext.TraceID() != p.SpanContext.TraceID() {
				t.Errorf("%s: %q is below %v, want %q, %v", name, child, c.Parent.SpanID(), parent, p.SpanContext.SpanID())
			}
		}
		below("activity act", "turn code")
		below("in the step", "turn code")
		if own == nil {
			below("in the activity", "activity act")
			check.Equal(t, "spans of the worker", len(there.GetSpans()), 2)
			continue
		}
		below("run act", "activity act")
		below("in the activity", "run act")
		check.Equal(t, "status of the span", spans["run act"].Status.Description, "no")
		check.Equal(t, "spans of the worker", len(there.GetSpans()), 3)
	}
}
