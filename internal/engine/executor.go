package engine

import (
	"context"
	"fmt"

	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/internal/replay"
)

// Executor runs the code of orchestrations. [Code] runs Go functions of this process;
// one that hands turns to a worker elsewhere is another.
type Executor interface {
	// Load returns an execution that has not begun. An error means that there is none,
	// and the instance stalls; [ErrUnavailable] means that it may be tried again.
	Load(ctx context.Context, ref Ref, name, version string) (Execution, error)
}

// Execution is code and how far it has come. One goroutine at a time uses it, except for Progress.
//
// It owns no durable state: it is a function of the events that it was given. After any error, and after a
// commit that was not applied, the engine closes it and loads another. The engine owns the slices that it
// passes in and those that are returned; an execution keeps what it needs of them until it is closed, and
// changes none.
type Execution interface {
	// Replay brings the code to where its history ends. The events are whole turns. After
	// an error, such as a [*replay.Mismatch], the execution is of no use.
	Replay(events []history.Event) error

	// Turn gives new events to the code, a TurnStarted first, and returns what the code
	// did, with IDs that go on from there. After an error the execution is of no use. One that
	// matches [ErrUnavailable] or [ErrOutdated] says nothing of the instance, and the turn is tried again.
	Turn(live replay.Live, incoming []history.Event) ([]history.Event, error)

	// ContinueTurn is Turn for a turn that history breaks off: expected is what the code did as
	// far as history knows, and what it did from there on is returned.
	ContinueTurn(live replay.Live, incoming, expected []history.Event) ([]history.Event, error)

	// Awaits reports whether the code waits for an event of that name.
	Awaits(name string) bool

	// Awaited returns the events that the code waits for.
	Awaited() []Awaited

	// Unreceived returns what reached the execution and the code has not seen: events,
	// those of each name in order, and a request to cancel it.
	Unreceived() []history.Event

	// Progress returns a number that grows while the code does something, and whether
	// it may take its time: it is within a step, or it is elsewhere and was not heard of.
	Progress() (n uint64, inStep bool)

	// Ended reports whether the code has come to an end.
	Ended() bool

	// Close gives back what it holds. It runs the deferred functions of code that has not
	// ended, and returns when they have.
	Close()
}

var (
	_ Executor  = Code(nil)
	_ Execution = (*replay.Execution)(nil)
)

// Code is the executor of Go functions: by route, what returns the function for an
// instance.
type Code map[string]func(Ref) replay.Code

// Load returns an execution of the function that is registered for the route.
func (c Code) Load(_ context.Context, ref Ref, name, version string) (Execution, error) {
	code, ok := c[Route(name, version)]
	if !ok {
		return nil, fmt.Errorf("abide: orchestration %s is not registered here", Route(name, version))
	}
	return replay.New(ref.ID, code(ref)), nil
}
