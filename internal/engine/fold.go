package engine

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/store"
)

// Limits of what a client remembers of the histories that it has read.
const (
	// maxFolds is how many histories it remembers. Those that are shorter than minFold, or in which
	// events of more than maxFoldNames names were received, are read anew each time.
	maxFolds     = 32
	minFold      = 256
	maxFoldNames = 1_000
)

// fold is what the history of an execution says of what the instance waits for. A history is
// append-only, so a fold is continued where it ended.
type fold struct {
	ref     Ref
	run     uint64 // of the execution
	first   int    // index in the log of its first event
	next    int    // index in the log of the first event that is not in the fold
	name    string // of the orchestration, with its version
	version string

	book     ledger
	received map[string]time.Time // when events were received last, by name
}

// note adds the next event.
func (f *fold) note(e *history.Event) {
	f.book.note(e)
	switch e.Kind {
	case history.ExecutionStarted:
		f.name, f.version = e.Name, e.Start.Version
	case history.EventReceived:
		if f.received == nil {
			f.received = map[string]time.Time{}
		}
		f.received[e.Name] = f.book.now
	}
}

// read adds the events that the log has and the fold has not, and gives info the name and the
// version that the execution has.
func (f *fold) read(ctx context.Context, s store.Store, info *Info) error {
	for entry, err := range store.Entries(ctx, s, info.Ref.key(), f.next) {
		if err != nil {
			return wrap("history", err)
		}
		id := f.next - f.first + 1
		e, err := history.Parse(entry)
		if err != nil {
			return fmt.Errorf("abide: history: %v: event %d: %w", info.Ref, id, err)
		}
		if int(e.ID) != id {
			break // the next execution has begun since the record was read
		}
		f.note(&e)
		f.next++
	}
	if f.name != "" {
		info.Name, info.Version = f.name, f.version
	}
	return nil
}

// folds remembers folds, the one that was used last at the end. A fold that is in use is not in it.
type folds struct {
	mu   sync.Mutex
	kept []*fold
}

// take returns the fold of the latest execution of an instance, or an empty one. The run tells it from
// an earlier execution, and from an instance that was deleted and started again under the same ID.
func (s *folds) take(info *Info) *fold {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.kept, func(f *fold) bool { return f.ref == info.Ref && f.run == info.run && f.first == info.offset })
	if i < 0 {
		return &fold{ref: info.Ref, run: info.run, first: info.offset, next: info.offset}
	}
	f := s.kept[i]
	s.kept = slices.Delete(s.kept, i, i+1)
	return f
}

// put remembers a fold that is no longer in use.
func (s *folds) put(f *fold) {
	if f.next-f.first < minFold || len(f.received) > maxFoldNames || f.book.ended {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.kept) == maxFolds {
		s.kept = slices.Delete(s.kept, 0, 1)
	}
	s.kept = append(s.kept, f)
}
