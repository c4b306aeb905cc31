package engine

import (
	"encoding/binary"

	"go.opentelemetry.io/otel/trace"

	"github.com/abidehq/abide/internal/wire"
)

// span names a span of a trace. It is what is kept of one: others may be below it, in
// another process and at another time.
type span struct {
	trace trace.TraceID
	id    trace.SpanID
	flags trace.TraceFlags
	state string // of the vendors that the trace went through
}

// maxState is the largest length of the state of a trace, in bytes, as its standard says.
const maxState = 512

// spanOf returns the name of a span.
func spanOf(sc trace.SpanContext) span {
	if !sc.IsValid() {
		return span{}
	}
	s := span{trace: sc.TraceID(), id: sc.SpanID(), flags: sc.TraceFlags(), state: sc.TraceState().String()}
	if len(s.state) > maxState {
		s.state = "" // it may be dropped, and must not be cut
	}
	return s
}

func (s *span) valid() bool { return s.trace.IsValid() && s.id.IsValid() }

// context returns what OpenTelemetry calls the context of the span.
func (s *span) context() trace.SpanContext {
	state, err := trace.ParseTraceState(s.state)
	if err != nil {
		state = trace.TraceState{}
	}
	return trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: s.trace, SpanID: s.id, TraceFlags: s.flags, TraceState: state, Remote: true,
	})
}

// parent returns the span in the form of the header traceparent, or nothing.
func (s *span) parent() string {
	if !s.valid() {
		return ""
	}
	return "00-" + s.trace.String() + "-" + s.id.String() + "-" + s.flags.String()
}

// spanBytes is the length of a span without its state.
const spanBytes = 16 + 8 + 1

// appendSpan appends a span, as a string that is empty if there is none.
func appendSpan(out []byte, s *span) []byte {
	if !s.valid() {
		return wire.AppendString(out, "")
	}
	out = binary.AppendUvarint(out, uint64(spanBytes+len(s.state)))
	out = append(out, s.trace[:]...)
	out = append(out, s.id[:]...)
	out = append(out, byte(s.flags))
	return append(out, s.state...)
}

// span reads what appendSpan wrote.
func (r *reader) span() span {
	data := r.Bytes()
	if len(data) == 0 {
		return span{}
	}
	if len(data) < spanBytes || len(data) > spanBytes+maxState {
		r.Fail("not a span")
		return span{}
	}
	s := span{
		trace: trace.TraceID(data[:16]), id: trace.SpanID(data[16:24]), flags: trace.TraceFlags(data[24]),
		state: string(data[spanBytes:]),
	}
	if !s.valid() {
		r.Fail("not a span")
		return span{}
	}
	return s
}
