package engine

import (
	"context"
	"fmt"
	"math"

	"github.com/abidehq/abide/history"
)

// HistoryPart returns events of an execution that come after one, 0 for all: about as many
// as fit into bytes, at least one if there is one, and whether there are more. A history
// that has not come that far is [ErrNotFound]: it is not the one that the caller knows.
// The info is that of the instance, whichever its execution is.
//
// The record and the log are two reads, and the instance may continue as new in between. The event IDs
// tell: those of the next execution begin with 1 again, so an entry with another ID than its index ends
// the part.
func (c *Client) HistoryPart(ctx context.Context, ref Ref, execution, after int32, bytes int) (info Info, part []history.Event, more bool, err error) {
	if info, err = c.Get(ctx, ref); err != nil {
		return info, nil, false, err
	}
	first, end, err := info.span(execution)
	if err != nil {
		return info, nil, false, err
	}
	next := first + int(max(after, 0))
	for {
		page, err := c.store.ReadLog(ctx, ref.key(), next)
		if err != nil {
			return info, nil, false, wrap("history", err)
		}
		length := page.Length
		if end >= 0 {
			length = min(length, end)
		}
		if page.First > next || next > length {
			return info, nil, false, fmt.Errorf("abide: history: execution %d of %v has no event %d: %w", execution, ref, after, ErrNotFound)
		}
		for _, entry := range page.Entries {
			if next == length {
				break
			}
			e, err := history.Parse(entry)
			if err != nil {
				return info, part, false, fmt.Errorf("abide: history: %v: event %d: %w", ref, next-first+1, err)
			}
			if int(e.ID) != next-first+1 {
				return info, part, false, nil // the next execution has begun since the record was read
			}
			part = append(part, e)
			next++
			if bytes -= len(entry); bytes <= 0 {
				return info, part, next < length, nil
			}
		}
		if next >= length || len(page.Entries) == 0 {
			return info, part, false, nil
		}
	}
}

// HistoryLength returns the number of events of an execution without reading them. The
// execution before the latest one costs no read of the log, as the record bounds it.
func (c *Client) HistoryLength(ctx context.Context, ref Ref, execution int32) (int, error) {
	info, err := c.Get(ctx, ref)
	if err != nil {
		return 0, err
	}
	first, end, err := info.span(execution)
	if err != nil {
		return 0, err
	}
	if end < 0 {
		page, err := c.store.ReadLog(ctx, ref.key(), math.MaxInt32) // no entries, only the length
		if err != nil {
			return 0, wrap("history", err)
		}
		end = page.Length
	}
	return max(end-first, 0), nil
}

// span returns the index in the log of the first event of an execution and, for the one
// before the latest, the index after its last event; -1 for the latest, which ends with
// the log. Execution 0 is the latest. Older executions are not kept: [ErrNotFound].
func (i *Info) span(execution int32) (first, end int, err error) {
	switch {
	case execution == 0 || execution == i.Execution:
		return i.offset, -1, nil
	case execution == i.Execution-1 && i.offset > 0:
		return i.kept, i.offset, nil
	default:
		return 0, 0, fmt.Errorf("abide: history: %v is at execution %d, and keeps the history of that and the one before, not of %d: %w",
			i.Ref, i.Execution, execution, ErrNotFound)
	}
}
