package abide

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/internal/engine"
	"github.com/abidehq/abide/internal/replay"
)

// Replayer replays histories against the code of orchestrations, to find out whether that code
// can continue their instances. Activities and steps are not executed.
type Replayer struct {
	// SameTimes makes Replay also refuse a timer whose time differs from that in history. The
	// code that made a history sets the same times again, unless it computes them from something
	// else than the context, such as time.Now. Changed code may set other times, and running
	// instances keep those in history: then SameTimes is false.
	SameTimes bool

	code engine.Code
}

// NewReplayer returns a replayer of definitions. A nil codec means [JSON], and a nil logger
// [slog.Default]. Invalid definitions are an error that matches [ErrInvalid].
func NewReplayer(codec Codec, logger *slog.Logger, definitions ...Definition) (*Replayer, error) {
	d, err := define(definitions)
	if err != nil {
		return nil, err
	}
	if logger == nil {
		logger = slog.Default()
	}
	return &Replayer{code: d.code(orJSON(codec), logger, nil)}, nil
}

// Replay replays a history and returns a description of each thing that the code waits for at
// its end. It returns an error if the code does not do what the history has, with both sides, and
// if the orchestration is not among the definitions. The history of an execution that has not
// ended is replayed up to its last event.
func (r *Replayer) Replay(h *History) (waiting []string, err error) {
	events, err := h.events()
	if err != nil {
		return nil, err
	}
	if h.Partial {
		events = wholeTurns(events)
	}
	if len(events) == 0 {
		return nil, nil
	}
	route := engine.Route(h.Orchestration, h.Version)
	code, ok := r.code[route]
	if !ok {
		return nil, fmt.Errorf("abide: replay of %v: orchestration %s is not among the definitions: %s; register it as long as it has instances", h.Ref, route, r.names())
	}
	events = corrected(events)
	x := replay.New(h.Ref.ID, code(refOf(h.Ref)))
	defer x.Close()
	x.SameTimes = r.SameTimes
	if err := x.Replay(events); err != nil {
		return nil, explain(h, err)
	}
	return x.Waiting(), nil
}

func (r *Replayer) names() string {
	if len(r.code) == 0 {
		return "there are none"
	}
	return "there are " + strings.Join(slices.Sorted(maps.Keys(r.code)), ", ")
}

// corrected returns a history with the payloads that were corrected.
func corrected(events []history.Event) []history.Event {
	var corrections history.Corrections
	for i := range events {
		corrections.Note(&events[i])
	}
	if corrections == nil {
		return events
	}
	events = slices.Clone(events)
	for i := range events {
		corrections.Apply(&events[i])
	}
	return events
}

// wholeTurns returns a history without its last turn, which is broken off.
func wholeTurns(events []history.Event) []history.Event {
	for i, e := range slices.Backward(events) {
		if e.Kind == history.TurnStarted {
			return events[:i]
		}
	}
	return nil
}

// eventsBefore is how many events are shown before the one at which code differs.
const eventsBefore = 5

// explain says in words what went wrong.
func explain(h *History, err error) error {
	route := engine.Route(h.Orchestration, h.Version)
	if crash, ok := errors.AsType[*replay.PanicError](err); ok {
		return fmt.Errorf("the code of %s panics when it is replayed: %w\n%s", route, err, crash.Stack)
	}
	m, ok := errors.AsType[*replay.Mismatch](err)
	if !ok {
		return fmt.Errorf("the code of %s cannot be replayed: %w", route, err)
	}
	if m.OtherTime() {
		return fmt.Errorf(`the code of %s sets a timer to another time when it is replayed:
    history has  %s
    the code did %s
    at           %s
  the time comes from outside of the history, such as time.Now or time.Until: use abide.Now(ctx), or read it in an abide.Step`,
			route, &m.Expected, &m.Did, m.Source)
	}
	expected, did := "nothing more in this turn", "nothing more in this turn"
	at := len(h.Events)
	if m.Expected.Kind != 0 {
		expected, at = m.Expected.String(), int(m.Expected.ID)-1
	}
	if m.Did.Kind != 0 {
		did, at = m.Did.String(), int(m.Did.ID)-1
	}
	before := tail(h.Events[:min(max(at, 0), len(h.Events))], eventsBefore)
	return fmt.Errorf(`the code of %s does not do what its history says:
    history has  %s
    the code did %s
    at           %s
    after        %s
  an instance with this history would stall: guard the change with abide.Changed, or register the new code beside the old one, with another abide.Version`,
		route, expected, did, m.Source, strings.ReplaceAll(strings.TrimSpace(before), "\n        ", "\n                 "))
}

// Tail returns the last n events, a line for each.
func (h *History) Tail(n int) string { return tail(h.Events, n) }

func tail(events []history.Event, n int) string {
	var b strings.Builder
	if len(events) > n {
		b.WriteString("\n        …")
		events = events[len(events)-n:]
	}
	for i := range events {
		text := strings.TrimSpace(events[i].String())
		fmt.Fprintf(&b, "\n        %s", strings.ReplaceAll(text, "\n", "\n            "))
	}
	return b.String()
}
