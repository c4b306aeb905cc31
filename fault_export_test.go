package abide

import (
	"fmt"
	"log/slog"

	"github.com/abidehq/abide/internal/engine"
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
	x := replay.New(h.Ref.ID, code(environment{codec: JSON, logger: slog.New(slog.DiscardHandler), tenant: storedTenant(h.Ref.Tenant)}))
	defer x.Close()
	return x.Replay(h.Events)
}

// CountersOf returns the engine's counters.
func CountersOf(e *Engine) *engine.Counters { return e.e.Count() }
