package abide

import (
	"context"
	"iter"
	"time"

	"github.com/abidehq/abide/internal/engine"
)

// ErrMissed is returned to a reader of changes that has missed some: its cursor is too old or of
// another process, or it reads too slowly. List the instances again and begin with an empty
// cursor.
var ErrMissed = engine.ErrMissed

// Change is a change of an instance, with its state after the change.
type Change struct {
	// Cursor is the position of the change, see [Watcher].
	Cursor string

	// Ref identifies the instance. Orchestration and Version are those of its orchestration.
	Ref           Ref
	Orchestration string
	Version       string

	Status Status

	// Revision grows with each change of the instance. It begins anew when the instance is
	// deleted and started again.
	Revision int64

	// At is when the instance changed, by the clock of the process that changed it.
	At time.Time

	// Deleted is true if the instance was deleted. Then only Cursor, Ref and At are set.
	Deleted bool
}

// Watcher streams changes of instances. The transports of [Engine] and of package remote implement
// it. An engine keeps the latest 16,384 changes, or fewer if they take more than 8 MB, for readers
// that continue from a cursor. Before the first call it records no changes.
type Watcher interface {
	// Changes streams the changes of instances of all tenants that this process commits.
	// Changes by other processes on the same store are not included.
	//
	// An empty cursor begins with the changes after the call, also if the sequence is ranged
	// over later: to miss nothing, call Changes, then list the instances, then range over the
	// sequence. The cursor of a change continues after that change.
	//
	// A change is streamed when it is durable. Changes of an instance in quick succession may
	// be merged into the last one. The changes of an instance come in the order of their
	// revisions; a reader that continues from a cursor may get a revision again.
	//
	// The sequence ends without an error when ctx ends, with [ErrMissed] if changes were
	// missed, and with [ErrStopping] when the engine is closed. Readers do not slow down
	// commits.
	Changes(ctx context.Context, after string) iter.Seq2[Change, error]
}
