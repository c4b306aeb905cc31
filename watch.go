package abide

import (
	"context"
	"iter"
	"time"

	"github.com/abidehq/abide/internal/engine"
)

// ErrMissed means that a reader of changes has missed some: its cursor is too old or that
// of another process, or it was too slow. List again, and begin with an empty cursor.
var ErrMissed = engine.ErrMissed

// Change says that an instance has changed, and what is true of it since.
type Change struct {
	// Cursor is what to go on after: see [Watcher].
	Cursor string

	// Ref says which instance it is, and Orchestration and Version what it is an instance
	// of.
	Ref           Ref
	Orchestration string
	Version       string

	Status Status

	// Revision grows with each change of the instance, but for one that was deleted and
	// started again.
	Revision int64

	// At is when it changed, by the clock of the process that changed it.
	At time.Time

	// Deleted: there is no such instance any more. Only Cursor, Ref and At are set besides.
	Deleted bool
}

// Watcher tells which instances change. An [Engine] is one.
type Watcher interface {
	// Changes returns the instances that change, of all tenants, by what the process
	// commits: the instances that it starts, talks to and takes turns of, and not those of
	// other processes on the same store.
	//
	// With an empty cursor it begins with what changes from the call on, also if it is
	// ranged over later: who calls it first, then lists instances, and then ranges over
	// the changes misses nothing. With the cursor of a change it goes on right after it. A
	// change is told when it is durable. Those of an instance that follow each other
	// quickly may come as one: the last one always comes, and never one that is older than
	// one that has come. Who goes on after a cursor may be told once more what it knows;
	// the revision says so.
	//
	// It goes on until ctx ends, which is not an error. If changes were missed, because
	// the cursor is too old or of another process, or because they are not read as fast as
	// they come, it ends with [ErrMissed], and when the engine is closed with
	// [ErrStopping]. Nobody waits for those who read.
	Changes(ctx context.Context, after string) iter.Seq2[Change, error]
}

var _ Watcher = (*Engine)(nil)

// Changes returns the instances that change by what this engine commits: see [Watcher].
// The latest 16,384 changes are kept for those who come back with a cursor, or fewer if
// they take more than 8 MB. Until it is called for the first time it costs nothing.
func (e *Engine) Changes(ctx context.Context, after string) iter.Seq2[Change, error] {
	changes := e.e.Changes(ctx, after)
	return func(yield func(Change, error) bool) {
		for c, err := range changes {
			change := Change{
				Cursor: c.Cursor, Ref: Ref(c.Ref), Orchestration: c.Name, Version: c.Version, Status: Status(c.Status),
				Revision: c.Revision, At: c.At, Deleted: c.Deleted,
			}
			if !yield(change, err) {
				return
			}
		}
	}
}
