package abide

import (
	"context"
	"fmt"
	"math"

	"github.com/abidehq/abide/internal/history"
)

// HistoryReader reads histories in parts. [Engine] and the [Client] of [NewClient] implement it.
type HistoryReader interface {
	// HistoryPart returns events of an execution, the latest one if execution is 0, that come
	// after one, 0 for all: about as many as fit into bytes, at least one if there is one, and
	// whether there are more. It costs no more than what it returns, so a long history can be
	// followed while it grows. A history that has no event after is [ErrNotFound]: it is not
	// the one that the caller knows, because the instance was restarted.
	HistoryPart(ctx context.Context, ref Ref, execution, after, bytes int) (part History, more bool, err error)

	// HistoryLength returns the number of events of an execution, the latest one if execution
	// is 0, without reading them.
	HistoryLength(ctx context.Context, ref Ref, execution int) (int, error)

	// WaitsAmong returns what the latest execution asked for in events and has no answer to.
	// The events are consecutive, and the last one is the last of the history. Unlike
	// [Client.Waits] it does not read the history, and does not know what was asked for
	// before the first of events.
	WaitsAmong(ctx context.Context, ref Ref, events []HistoryEvent) ([]Waiting, error)
}

var _ HistoryReader = (*Engine)(nil)

// HistoryReaderOf returns the client itself if it is a [HistoryReader]. For any other client
// it returns one that reads the whole history in each call.
func HistoryReaderOf(c Client) HistoryReader {
	if r, ok := c.(HistoryReader); ok {
		return r
	}
	return wholeReader{c}
}

// HistoryPart returns consecutive events of an execution, see [HistoryReader].
func (c *client) HistoryPart(ctx context.Context, ref Ref, execution, after, bytes int) (part History, more bool, err error) {
	info, events, more, err := c.c.HistoryPart(ctx, refOf(ref), clamp(execution), clamp(after), bytes)
	if err != nil {
		return History{}, false, err
	}
	if execution == 0 {
		execution = int(info.Execution)
	}
	part = History{Ref: Ref(refOf(ref)), Orchestration: info.Name, Version: info.Version, Execution: execution}
	part.Partial = info.Partial() && execution == int(info.Execution)
	part.Events = make([]HistoryEvent, len(events))
	for i := range events {
		e := &events[i]
		if e.Kind == history.ExecutionStarted && e.Start != nil { // the record may be of a later version
			part.Orchestration, part.Version = e.Name, e.Start.Version
		}
		part.Events[i] = eventFrom(e)
	}
	return part, more, nil
}

// HistoryLength returns the number of events of an execution, without reading them.
func (c *client) HistoryLength(ctx context.Context, ref Ref, execution int) (int, error) {
	return c.c.HistoryLength(ctx, refOf(ref), clamp(execution))
}

// WaitsAmong returns what an execution asked for in events and has no answer to, see
// [HistoryReader].
func (c *client) WaitsAmong(ctx context.Context, ref Ref, events []HistoryEvent) ([]Waiting, error) {
	part := make([]history.Event, len(events))
	for i := range events {
		e, err := events[i].event()
		if err != nil {
			return nil, fmt.Errorf("abide: waits of %v: event %d: %w", ref, events[i].ID, err)
		}
		part[i] = e
	}
	open, err := c.c.WaitsAmong(ctx, refOf(ref), part)
	return waitsFrom(open), err
}

// clamp returns n, or the nearest number of 32 bits.
func clamp(n int) int32 { return int32(min(max(n, math.MinInt32), math.MaxInt32)) }

// wholeReader is the [HistoryReader] of a client that reads histories only as a whole.
type wholeReader struct{ c Client }

func (r wholeReader) HistoryPart(ctx context.Context, ref Ref, execution, after, _ int) (part History, more bool, err error) {
	h, err := r.c.History(ctx, ref, execution)
	if err == nil && after > len(h.Events) {
		err = fmt.Errorf("abide: history: execution %d of %v has no event %d: %w", h.Execution, ref, after, ErrNotFound)
	}
	if err != nil {
		return History{}, false, err
	}
	h.Events = h.Events[max(after, 0):]
	return h, false, nil
}

func (r wholeReader) HistoryLength(ctx context.Context, ref Ref, execution int) (int, error) {
	h, err := r.c.History(ctx, ref, execution)
	return len(h.Events), err
}

func (r wholeReader) WaitsAmong(ctx context.Context, ref Ref, _ []HistoryEvent) ([]Waiting, error) {
	return r.c.Waits(ctx, ref)
}
