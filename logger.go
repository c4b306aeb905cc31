package abide

import (
	"context"
	"log/slog"
	"slices"

	"go.opentelemetry.io/otel/trace"

	"github.com/abidehq/abide/internal/engine"
	"github.com/abidehq/abide/internal/replay"
)

// Logger returns a logger that discards records while the code is replayed. Its records have the
// attributes tenant, instance, orchestration and execution, and trace_id and span_id if the turn
// is part of a trace.
func Logger(ctx Context) *slog.Logger {
	name, start := ctx.c.Start()
	return slog.New(&replayHandler{Handler: ctx.env.logger.Handler(), c: ctx.c}).With(
		engine.About(refOf(Self(ctx)), engine.Route(name, start.Version), start.Execution)...)
}

// replayHandler drops records while the code is replayed, and adds the current turn's span to the
// others.
type replayHandler struct {
	slog.Handler
	c *replay.Context

	// outer is the handler before the first group, or nil without a group, and inner the calls
	// that were made since: the attributes of the span are added outside of groups.
	outer slog.Handler
	inner []func(slog.Handler) slog.Handler
}

var _ slog.Handler = (*replayHandler)(nil)

func (h *replayHandler) Enabled(ctx context.Context, l slog.Level) bool {
	return !h.c.Replaying() && h.Handler.Enabled(ctx, l)
}

// Handle passes the record on with the span of the turn in its context, for handlers that read
// it from there.
func (h *replayHandler) Handle(ctx context.Context, r slog.Record) error {
	span := trace.SpanContextFromContext(ctx) // it may be one of the code's own, in a step
	if turn := h.c.Turn(); turn != nil && !span.IsValid() {
		span = trace.SpanContextFromContext(turn)
		ctx = trace.ContextWithSpanContext(ctx, span)
	}
	if !span.IsValid() {
		return h.Handler.Handle(ctx, r)
	}
	if h.outer == nil {
		r = r.Clone()
		r.AddAttrs(engine.AboutSpan(span)...)
		return h.Handler.Handle(ctx, r)
	}
	handler := h.outer.WithAttrs(engine.AboutSpan(span))
	for _, do := range h.inner {
		handler = do(handler)
	}
	return handler.Handle(ctx, r)
}

func (h *replayHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return h.with(func(to slog.Handler) slog.Handler { return to.WithAttrs(attrs) })
}

func (h *replayHandler) WithGroup(name string) slog.Handler {
	if name == "" {
		return h
	}
	group := *h
	if group.outer == nil {
		group.outer = h.Handler
	}
	return group.with(func(to slog.Handler) slog.Handler { return to.WithGroup(name) })
}

// with returns a handler with do applied.
func (h *replayHandler) with(do func(slog.Handler) slog.Handler) slog.Handler {
	next := *h
	next.Handler = do(h.Handler)
	if next.outer != nil {
		next.inner = append(slices.Clip(h.inner), do)
	}
	return &next
}
