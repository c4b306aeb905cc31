package abidetest

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/internal/engine"
	"github.com/abidehq/abide/internal/history"
	"github.com/abidehq/abide/internal/registry"
	"github.com/abidehq/abide/internal/replay"
)

// Replay replays histories against today's code, each in a subtest of its own. A test
// fails if the code does not do what its history says that it did, with both sides; if the
// orchestration or its version is not among the definitions; and if there is no history at
// all.
//
//	func TestHistories(t *testing.T) {
//		abidetest.Replay(t, abidetest.Files("testdata/histories/*.json"), Order, Trial)
//	}
//
// Nothing but the code of orchestrations is run: neither activities nor steps. Histories of
// executions that are still under way are replayed as far as they go.
func Replay(t *testing.T, source Source, definitions ...abide.Definition) {
	t.Helper()
	recorded, err := source.load()
	if err != nil {
		t.Fatalf("abidetest: Replay: %v", err)
	}
	if len(recorded) == 0 {
		t.Fatalf("abidetest: Replay: there are no histories: record some with abidetest.RecordAll")
	}
	registered, err := read(definitions, source.codec, slog.New(slog.NewTextHandler(t.Output(), nil)))
	if err != nil {
		t.Fatalf("abidetest: Replay: %v", err)
	}
	for i := range recorded {
		t.Run(recorded[i].name, func(t *testing.T) {
			err := recorded[i].err
			if err == nil {
				err = registered.replay(&recorded[i].History)
			}
			if err != nil {
				t.Errorf("%s: %v", recorded[i].name, err)
			}
		})
	}
}

// registered is the code that histories are replayed against.
type registered struct{ registry.Registry }

func read(definitions []abide.Definition, codec abide.Codec, logger *slog.Logger) (registered, error) {
	if codec == nil {
		codec = abide.JSON
	}
	if logger == nil {
		logger = slog.Default()
	}
	r, err := registry.Read(definitions, codec, logger)
	return registered{r}, err
}

// replay returns an error if the code does not do what the history says.
func (r registered) replay(h *abide.History) error {
	x, err := r.load(h)
	if x != nil {
		x.Close()
	}
	return err
}

// waiting returns what the code waits for where the history ends.
func (r registered) waiting(h *abide.History) ([]string, error) {
	x, err := r.load(h)
	if err != nil || x == nil {
		return nil, err
	}
	defer x.Close()
	return x.Waiting(), nil
}

// load brings the code to where the history ends. It returns nothing if that is before its
// beginning.
func (r registered) load(h *abide.History) (*replay.Execution, error) {
	events, err := registry.Events(h)
	if err != nil {
		return nil, err
	}
	if h.Partial {
		events = wholeTurns(events)
	}
	if len(events) == 0 {
		return nil, nil //nolint:nilnil // there is neither code that has begun nor anything wrong
	}
	code, ok := r.Code[routeOf(h.Orchestration, h.Version)]
	if !ok {
		return nil, fmt.Errorf("this is a history of orchestration %s, which is not among the definitions: %s; as long as there are such instances, something must serve it",
			routeOf(h.Orchestration, h.Version), r.names())
	}
	x := replay.New(h.Ref.ID, code(engine.Ref(h.Ref)))
	if err := x.Replay(events); err != nil {
		x.Close()
		return nil, explain(h, err)
	}
	return x, nil
}

func routeOf(name, version string) string { return engine.Route(name, version) }

func (r registered) names() string {
	if len(r.Code) == 0 {
		return "there are none"
	}
	return "there are " + strings.Join(slices.Sorted(maps.Keys(r.Code)), ", ")
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
func explain(h *abide.History, err error) error {
	route := routeOf(h.Orchestration, h.Version)
	if crash, ok := errors.AsType[*replay.PanicError](err); ok {
		return fmt.Errorf("the code of %s panics when it is replayed: %w\n%s", route, err, crash.Stack)
	}
	m, ok := errors.AsType[*replay.Mismatch](err)
	if !ok {
		return fmt.Errorf("the code of %s cannot be replayed: %w", route, err)
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
