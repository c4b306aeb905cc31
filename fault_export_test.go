package abide

import (
	"fmt"
	"log/slog"

	"github.com/abidehq/abide/internal/engine"
	"github.com/abidehq/abide/internal/history"
	"github.com/abidehq/abide/internal/replay"
)

// ReplayHistory replays a history against the code that is served, from nothing, and
// returns what differs.
func ReplayHistory(h History, serve []Definition) error {
	d, err := define(serve)
	if err != nil {
		return err
	}
	route := engine.Route(h.Orchestration, h.Version)
	code := d.orchestrations[route]
	if code == nil {
		return fmt.Errorf("orchestration %s is not served", route)
	}
	x := replay.New(h.Ref.ID, code(environment{codec: JSON, logger: slog.New(slog.DiscardHandler), tenant: h.Ref.Tenant}))
	defer x.Close()
	events := make([]history.Event, len(h.Events))
	for i := range h.Events {
		if events[i], err = h.Events[i].event(); err != nil {
			return err
		}
	}
	return x.Replay(events)
}

// Incoming reports whether an event has reached the instance from outside.
func (e *HistoryEvent) Incoming() bool { return e.kind().Incoming() }

// Quiet reports whether an event has reached the instance and its code does not learn of it.
func (e *HistoryEvent) Quiet() bool { return e.kind().Quiet() }

// Ends reports whether an event is the last one of an execution.
func (e *HistoryEvent) Ends() bool { return e.kind().Ends() }

func (e *HistoryEvent) kind() history.Kind {
	event, err := e.event()
	if err != nil {
		panic(err)
	}
	return event.Kind
}

// CountersOf returns the engine's counters.
func CountersOf(e *Engine) *engine.Counters { return e.e.Count() }
