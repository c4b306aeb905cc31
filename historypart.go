package abide

import (
	"context"
	"math"

	"github.com/abidehq/abide/internal/history"
)

// HistoryPart returns events of an execution, the latest one if execution is 0, that come
// after one, 0 for all: about as many as fit into bytes, at least one if there is one, and
// whether there are more. It costs no more than what it returns, so a long history can be
// followed while it grows. A history that has not come that far is [ErrNotFound]: it is not
// the one that the caller knows, because the instance was restarted.
func (c *client) HistoryPart(ctx context.Context, ref Ref, execution, after, bytes int) (part History, more bool, err error) {
	whole := func(n int) int32 { return int32(min(max(n, math.MinInt32), math.MaxInt32)) }
	info, events, more, err := c.c.HistoryPart(ctx, refOf(ref), whole(execution), whole(after), bytes)
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
