package engine

import (
	"context"
	"encoding/binary"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/abidehq/abide/history"
)

// scope is what OpenTelemetry calls the part of a program that makes spans.
const scope = "github.com/abidehq/abide"

// Names of what spans say.
const (
	attrInstance      = "abide.instance.id"
	attrTenant        = "abide.tenant"
	attrOrchestration = "abide.orchestration"
	attrExecution     = "abide.execution"
	attrEvents        = "abide.events.added"
	attrStatus        = "abide.status"
	attrActivity      = "abide.activity"
	attrAttempt       = "abide.attempt"
)

// A span is begun before the code of users runs, because theirs are to be below it, and ended when what it
// stands for is committed. What is not committed leaves its span behind: nobody holds it, so it is collected
// like other garbage, and never emitted. So a trace shows each turn and each attempt once, however often it
// was tried, and nothing that did not happen.
//
// All spans of an instance are below one, its origin: the span of the caller that started it, or of its first
// turn. Its name is in the record and in every task, since turns and attempts run in any process, days
// later. The span of a turn is in its TurnStarted, so that a turn is linked to the one before it.

// ActivityAttributes say which attempt a span of a worker is about.
func ActivityAttributes(ref Ref, activity string, attempt int) []attribute.KeyValue {
	return []attribute.KeyValue{
		attribute.String(attrInstance, ref.ID), attribute.String(attrTenant, ref.tenantName()),
		attribute.String(attrActivity, activity), attribute.Int(attrAttempt, attempt),
	}
}

// NewTracer returns what makes spans, or nil if nobody asked for them.
func NewTracer(p trace.TracerProvider) trace.Tracer {
	if p == nil {
		return nil
	}
	return p.Tracer(scope)
}

// beginSpan begins the span of the turn, before its code runs. Without a tracer, the
// code's own spans are below that of who started the instance.
func (t *turn) beginSpan() {
	if t.traced {
		return
	}
	t.traced = true
	info := &t.in.info
	if info.origin.valid() {
		t.ctx = trace.ContextWithRemoteSpanContext(t.ctx, info.origin.context())
	}
	if t.e.tracer == nil {
		return
	}
	options := []trace.SpanStartOption{
		trace.WithTimestamp(t.started),
		trace.WithSpanKind(trace.SpanKindConsumer),
		trace.WithAttributes(spanAttributes(info.Ref, info.Route(), info.Execution)...),
	}
	if before := t.before(); before.valid() {
		options = append(options, trace.WithLinks(trace.Link{SpanContext: before.context()}))
	}
	t.ctx, t.span = t.e.tracer.Start(t.ctx, "turn "+info.Name, options...)
	if !info.origin.valid() { // it gets a trace of its own
		info.origin = spanOf(t.span.SpanContext())
		t.rooted = info.origin.valid()
	}
}

// keepTrace has the record keep what history does not: the trace that begins with this
// turn, and the turn with which a fork goes on, which began in history as another one's. A
// turn that adds nothing to history has no span.
func (t *turn) keepTrace() {
	info := &t.in.info
	switch {
	case len(t.entries) > 0:
		t.changed = t.changed || t.rooted
		if t.forked {
			info.last = t.spanID()
		}
	case t.rooted:
		info.origin = span{}
	}
}

// before returns the span of the turn before, of this execution or the one before it.
func (t *turn) before() span {
	before := t.in.info.origin
	id := t.in.ledger.span
	if id == 0 {
		id = t.in.info.last
	}
	if id == 0 || !t.in.loaded {
		return span{}
	}
	binary.BigEndian.PutUint64(before.id[:], id)
	before.flags |= trace.FlagsSampled // or it would not have been noted
	return before
}

// spanID returns the turn's span as it stands in history, or 0 if nobody will see it.
func (t *turn) spanID() uint64 {
	if t.span == nil || !t.span.IsRecording() {
		return 0
	}
	sc := t.span.SpanContext()
	if !sc.IsSampled() {
		return 0
	}
	id := sc.SpanID()
	return binary.BigEndian.Uint64(id[:])
}

// under returns the span below which is what the turn asks for.
func (t *turn) under() span {
	if t.span != nil {
		if s := spanOf(t.span.SpanContext()); s.valid() {
			return s
		}
	}
	return t.in.info.origin
}

// endSpan emits the span of a turn that was committed, unless it added nothing to
// history: then it was about messages that came too late.
func (t *turn) endSpan() {
	if t.span == nil || len(t.entries) == 0 {
		return
	}
	info := &t.in.info
	t.span.SetAttributes(attribute.Int(attrEvents, len(t.entries)))
	if t.ends {
		t.span.SetAttributes(attribute.String(attrStatus, string(info.Status)))
	}
	if t.ends && info.Status == Failed && info.Failure != nil {
		t.span.SetStatus(codes.Error, info.Failure.Message)
	}
	t.span.End(trace.WithTimestamp(t.e.clock.Now()))
}

// endStalled emits the span of a turn that came to nothing, because the instance has
// stalled.
func (t *turn) endStalled(reason string, entries int) {
	if t.span == nil {
		return
	}
	t.span.SetAttributes(attribute.Int(attrEvents, entries), attribute.String(attrStatus, string(Stalled)))
	t.span.SetStatus(codes.Error, reason)
	t.span.End(trace.WithTimestamp(t.e.clock.Now()))
}

// beginSpan begins the span of the attempt, below that of the turn that asked for it.
func (t *Task) beginSpan() {
	if t.spec.under.valid() {
		t.ctx = trace.ContextWithRemoteSpanContext(t.ctx, t.spec.under.context())
	}
	if t.e.tracer == nil {
		return
	}
	attributes := append(spanAttributes(t.Ref, t.spec.route, t.Execution),
		attribute.String(attrActivity, t.Name), attribute.Int(attrAttempt, t.Attempt))
	t.ctx, t.span = t.e.tracer.Start(t.ctx, "activity "+t.Name, trace.WithTimestamp(t.begun),
		trace.WithSpanKind(trace.SpanKindConsumer), trace.WithAttributes(attributes...))
}

// endSpan emits the span of an attempt whose outcome was committed.
func (t *Task) endSpan(failure *history.Failure, ended time.Time) {
	if t.span == nil {
		return
	}
	if failure != nil {
		t.span.SetAttributes(attribute.Int(attrAttempt, int(failure.Attempt))) // it may be one that was lost
		t.span.SetStatus(codes.Error, failure.Message)
	}
	t.span.End(trace.WithTimestamp(ended))
}

// spanAttributes say which instance a span is about.
func spanAttributes(ref Ref, route string, execution int32) []attribute.KeyValue {
	return append(make([]attribute.KeyValue, 0, 6),
		attribute.String(attrInstance, ref.ID), attribute.String(attrTenant, ref.tenantName()),
		attribute.String(attrOrchestration, route), attribute.Int(attrExecution, int(execution)))
}

// spanFrom returns the span in whose context something is asked for.
func spanFrom(ctx context.Context) span { return spanOf(trace.SpanContextFromContext(ctx)) }
