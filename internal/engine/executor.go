package engine

import (
	"context"
	"fmt"

	"github.com/abidehq/abide/internal/history"
	"github.com/abidehq/abide/internal/replay"
)

// Executor runs the code of orchestrations. [Code] runs Go functions of this process;
// one that hands turns to a worker elsewhere is another.
type Executor interface {
	// Load returns an execution that has come to where events end. They are whole
	// turns; there are none if it has not begun. An error means that the code cannot
	// go on from there, and the instance stalls; [ErrUnavailable] means that it may be
	// tried again.
	Load(ctx context.Context, ref Ref, name, version string, events []history.Event) (Execution, error)
}

// Execution is code and how far it has come. One goroutine at a time uses it, except
// for Progress.
type Execution interface {
	// Turn gives new events to the code, a TurnStarted first, and returns what the code
	// did, with IDs that go on from there. After an error the execution is of no use.
	Turn(live replay.Live, incoming []history.Event) ([]history.Event, error)

	// GoOn is Turn for a turn that history breaks off: expected is what the code did as
	// far as history knows, and what it did from there on is returned.
	GoOn(live replay.Live, incoming, expected []history.Event) ([]history.Event, error)

	// Awaits reports whether the code waits for an event of that name.
	Awaits(name string) bool

	// Unreceived returns the events that the code has not received, by name.
	Unreceived() map[string][][]byte

	// Progress returns a number that grows while the code does something, and whether
	// it is within a step, which may take its time.
	Progress() (n uint64, inStep bool)

	// Close gives back what it holds.
	Close()
}

var (
	_ Executor  = Code(nil)
	_ Execution = (*replay.Execution)(nil)
)

// Code is the executor of Go functions: by route, what returns the function for an
// instance.
type Code map[string]func(Ref) replay.Code

// Load replays events into the function that is registered for the route.
func (c Code) Load(_ context.Context, ref Ref, name, version string, events []history.Event) (Execution, error) {
	code, ok := c[Route(name, version)]
	if !ok {
		return nil, fmt.Errorf("engine: orchestration %s is not registered here", Route(name, version))
	}
	x := replay.New(ref.ID, code(ref))
	if err := x.Replay(events); err != nil {
		x.Close()
		return nil, err
	}
	return x, nil
}
