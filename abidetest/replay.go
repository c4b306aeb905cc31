package abidetest

import (
	"log/slog"
	"testing"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/internal/engine"
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
	replayer, err := abide.NewReplayer(source.codec, slog.New(slog.NewTextHandler(t.Output(), nil)), definitions...)
	if err != nil {
		t.Fatalf("abidetest: Replay: %v", err)
	}
	for i := range recorded {
		t.Run(recorded[i].name, func(t *testing.T) {
			err := recorded[i].err
			if err == nil {
				_, err = replayer.Replay(&recorded[i].History)
			}
			if err != nil {
				t.Errorf("%s: %v", recorded[i].name, err)
			}
		})
	}
}

func routeOf(name, version string) string { return engine.Route(name, version) }
