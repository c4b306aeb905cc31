package engine

import (
	"context"
	"fmt"

	"github.com/abidehq/abide/internal/history"
)

// HistoryPart returns events of an execution that come after one, 0 for all: about as many
// as fit into bytes, at least one if there is one, and whether there are more. A history
// that has not come that far is [ErrNotFound]: it is not the one that the caller knows.
// The info is that of the instance, whichever its execution is.
func (c *Client) HistoryPart(ctx context.Context, ref Ref, execution, after int32, bytes int) (info Info, part []history.Event, more bool, err error) {
	if info, err = c.Get(ctx, ref); err != nil {
		return info, nil, false, err
	}
	first, end := info.offset, -1
	switch {
	case execution == 0 || execution == info.Execution:
	case execution == info.Execution-1 && info.offset > 0:
		first, end = info.kept, info.offset
	default:
		err = fmt.Errorf("abide: history: %v is at execution %d, and keeps the history of that and the one before, not of %d: %w",
			ref, info.Execution, execution, ErrNotFound)
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
