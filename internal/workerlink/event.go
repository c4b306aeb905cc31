package workerlink

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/internal/engine"
	"github.com/abidehq/abide/internal/workerpb"
)

// EncodeEvents returns events as they travel.
func EncodeEvents(events []history.Event) [][]byte {
	if len(events) == 0 {
		return nil
	}
	encoded := make([][]byte, len(events))
	var all []byte
	for i := range events {
		from := len(all)
		all = history.Append(all, &events[i])
		encoded[i] = all[from:len(all):len(all)]
	}
	return encoded
}

// DecodeEvents returns events that have travelled. Each of them keeps the rules of package history. An event of a
// kind that is not known here is [engine.ErrOutdated].
func DecodeEvents(encoded [][]byte) ([]history.Event, error) {
	if len(encoded) == 0 {
		return nil, nil
	}
	events := make([]history.Event, len(encoded))
	for i, data := range encoded {
		e, err := history.Parse(data)
		if err == nil {
			err = e.Validate()
		}
		if err != nil {
			return nil, fmt.Errorf("event %d of %d: %w", i+1, len(encoded), outdated(err))
		}
		events[i] = e
	}
	return events, nil
}

// outdated has the error of an event of a later release match [engine.ErrOutdated].
func outdated(err error) error {
	if engine.UnknownEvent(err) {
		return fmt.Errorf("%w: %w", err, engine.ErrOutdated)
	}
	return err
}

// EncodeFailure returns a failure as it travels: in an event, or as nothing if there is none.
func EncodeFailure(f *history.Failure) []byte {
	if f == nil {
		return nil
	}
	return history.Append(nil, &history.Event{Kind: history.ActivityFailed, Failure: f})
}

// DecodeFailure returns a failure that has travelled. One in an event that is not known here is [engine.ErrOutdated].
func DecodeFailure(data []byte) (*history.Failure, error) {
	if len(data) == 0 {
		return nil, nil
	}
	e, err := history.Parse(data)
	if err != nil {
		return nil, outdated(err)
	}
	if e.Failure == nil {
		return nil, errors.New("an event without a failure")
	}
	return e.Failure, nil
}

// Micros returns a time as it travels: microseconds since 1970, and 0 for the zero time.
func Micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

// Time returns a time that has travelled.
func Time(micros int64) time.Time {
	if micros == 0 {
		return time.Time{}
	}
	return time.UnixMicro(micros).UTC()
}

// carrier has the headers of a trace.
type carrier struct{ *workerpb.Trace }

const (
	headerParent = "traceparent"
	headerState  = "tracestate"
)

// Get returns a header.
func (c carrier) Get(key string) string {
	switch key {
	case headerParent:
		return c.GetTraceparent()
	case headerState:
		return c.GetTracestate()
	}
	return ""
}

// Set sets a header.
func (c carrier) Set(key, value string) {
	switch key {
	case headerParent:
		c.Traceparent = value
	case headerState:
		c.Tracestate = value
	}
}

// Keys returns the names of the headers.
func (c carrier) Keys() []string { return []string{headerParent, headerState} }

// EncodeTrace returns the span of a context as it travels, nil if there is none.
func EncodeTrace(ctx context.Context) *workerpb.Trace {
	if !trace.SpanContextFromContext(ctx).IsValid() {
		return nil
	}
	t := &workerpb.Trace{}
	propagation.TraceContext{}.Inject(ctx, carrier{t})
	return t
}

// WithTrace returns a context with a span that has travelled.
func WithTrace(ctx context.Context, t *workerpb.Trace) context.Context {
	if t == nil {
		return ctx
	}
	return propagation.TraceContext{}.Extract(ctx, carrier{t})
}
