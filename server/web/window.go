package web

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/history"
)

const (
	// maxWindow is the number of events of a history that one page reads: it lists the last
	// eventsShown of them, and the others are for the timeline, the children and the waits.
	maxWindow = 1000

	// windowBytes is about how much of a history one page reads. A window of large events has
	// fewer than maxWindow of them.
	windowBytes = 4 << 20

	// headBytes is about how much is read of the beginning of a history, for the input. The
	// first event is small, so that the second one, which has the input, is always read.
	headBytes = 4 << 10

	// maxWindows and keptBytes bound the windows that are kept between two looks.
	maxWindows = 64
	keptBytes  = 32 << 20
)

// window is a part of a history, of consecutive events.
type window struct {
	part  abide.History
	head  []history.Event // the first events of the history, none if they are in part
	total int             // events of the history
	bytes int             // about what it takes in memory
}

// first and last are the IDs of the first and the last event; first is last+1 if there is none.
func (w *window) first() int {
	if len(w.part.Events) == 0 {
		return 1
	}
	return int(w.part.Events[0].ID)
}

func (w *window) last() int { return w.first() + len(w.part.Events) - 1 }

// began returns when the first turn of the history began, as far as it is known.
func (w *window) began() time.Time {
	for _, events := range [][]history.Event{w.head, w.part.Events} {
		for i := range events {
			if events[i].Kind == history.TurnStarted {
				return events[i].At
			}
		}
	}
	return time.Time{}
}

// input returns what the execution was started with.
func (w *window) input() []byte {
	for _, events := range [][]history.Event{w.head, w.part.Events} {
		for i := range events {
			if events[i].Kind == history.ExecutionStarted {
				return events[i].Data
			}
		}
	}
	return nil
}

// whole reports whether the window has all events of the history.
func (w *window) whole() bool { return len(w.part.Events) == w.total }

// words says which part of the history it is.
func (w *window) words() string {
	return number(w.first()) + " to " + number(w.last()) + " of " + number(w.total)
}

// readWindow reads up to maxWindow events of an execution that end with event last; 0 is the
// last one of total. Where these are larger than windowBytes it reads fewer, so that one look
// costs a bounded number of reads of a bounded size.
func (s *site) readWindow(ctx context.Context, ref abide.Ref, execution, last, total int) (*window, error) {
	w := &window{total: total}
	newest := last == 0 || last > total
	if newest {
		last = total
	}
	for count := min(maxWindow, last); ; count /= 4 {
		after := max(0, last-max(1, count))
		part, more, err := s.engine.HistoryPart(ctx, ref, abide.HistoryRange{Execution: execution, After: after, MaxBytes: windowBytes})
		if err != nil {
			return nil, err
		}
		if more && after+len(part.Events) < last && count > 1 {
			continue // too large: read the newer ones
		}
		part.Events = part.Events[:min(len(part.Events), last-after)]
		w.part = part
		break
	}
	if newest {
		w.total = w.last() // the next execution may have begun since the events were counted
	}
	if w.first() > 1 {
		head, _, err := s.engine.HistoryPart(ctx, ref, abide.HistoryRange{Execution: execution, After: 0, MaxBytes: headBytes})
		if err != nil {
			return nil, err
		}
		w.head = head.Events[:min(len(head.Events), w.first()-1)]
	}
	for _, events := range [][]history.Event{w.part.Events, w.head} {
		for i := range events {
			w.bytes += eventBytes + len(events[i].Data) + len(events[i].Name)
		}
	}
	return w, nil
}

// eventBytes is about what an event takes in memory besides its payload.
const eventBytes = 512

// windowKey names a window.
type windowKey struct {
	ref             abide.Ref
	execution, last int
}

// windows keeps the windows that were shown last, for the refreshes of open pages. A window
// is valid while the history is as long as it was and the record of the instance has the
// same revision: the log of an execution is only appended to.
type windows struct {
	mu    sync.Mutex
	kept  []keptWindow // the one that was used last is the last one
	bytes int
}

type keptWindow struct {
	key      windowKey
	revision int64
	started  int64 // when the instance was, in nanoseconds: a deleted ID may be used again
	total    int   // events when it was read
	window   *window
}

// get returns a window if it is kept and was read at the same revision.
func (c *windows) get(key windowKey, info *abide.Info) (keptWindow, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.IndexFunc(c.kept, func(k keptWindow) bool { return k.key == key })
	if i < 0 || c.kept[i].revision != info.Revision || c.kept[i].started != info.StartedAt.UnixNano() {
		return keptWindow{}, false
	}
	k := c.kept[i]
	c.kept = append(slices.Delete(c.kept, i, i+1), k)
	return k, true
}

// put keeps a window in place of an older one, and drops those that were not used for the
// longest time.
func (c *windows) put(k keptWindow) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.kept = slices.DeleteFunc(c.kept, func(old keptWindow) bool {
		if old.key == k.key {
			c.bytes -= old.window.bytes
		}
		return old.key == k.key
	})
	c.kept = append(c.kept, k)
	c.bytes += k.window.bytes
	for len(c.kept) > maxWindows || c.bytes > keptBytes {
		c.bytes -= c.kept[0].window.bytes
		c.kept = slices.Delete(c.kept, 0, 1)
	}
}

// window returns the events of an execution up to last, 0 for the newest. If nothing has
// changed since they were last read, they are not read again. The record does not tell of
// each turn, so that for an instance that has not ended the length of the log is asked for,
// without its entries.
func (s *site) window(ctx context.Context, info *abide.Info, execution, last int) (*window, error) {
	key := windowKey{info.Ref, execution, last}
	kept, ok := s.windows.get(key, info)
	if ok && (info.Status.Ended() || execution != info.Execution) {
		return kept.window, nil
	}
	total, err := s.engine.HistoryLength(ctx, info.Ref, execution)
	if err != nil {
		return nil, err
	}
	if ok && kept.total == total {
		return kept.window, nil
	}
	w, err := s.readWindow(ctx, info.Ref, execution, last, total)
	if err != nil {
		return nil, err
	}
	s.windows.put(keptWindow{key: key, revision: info.Revision, started: info.StartedAt.UnixNano(), total: total, window: w})
	return w, nil
}
