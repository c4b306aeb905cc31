package replay_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/internal/replay"
)

// original is the code that made the history; the variants are what it was changed
// to.
func original(c *replay.Context, _ []byte) replay.Outcome {
	c.Wait(c.Activity("reserve", nil, history.Activity{}))
	c.Wait(c.Activity("charge", nil, history.Activity{}))
	c.Wait(c.Timer("return-window", c.Now().Add(time.Hour)))
	return result("done")
}

func TestAChangedCodeIsFoundOut(t *testing.T) {
	t.Parallel()
	activity := func(c *replay.Context, name string) { c.Wait(c.Activity(name, nil, history.Activity{})) }
	for name, variant := range map[string]struct {
		code                  replay.Code
		expected, did, source string
	}{
		"another name": {func(c *replay.Context, _ []byte) replay.Outcome {
			activity(c, "reserve")
			activity(c, "pay")
			return result("")
		}, `6 ActivityScheduled "charge"`, `6 ActivityScheduled "pay"`, "mismatch_test.go:"},
		"another order": {func(c *replay.Context, _ []byte) replay.Outcome {
			activity(c, "charge")
			activity(c, "reserve")
			return result("")
		}, `3 ActivityScheduled "reserve"`, `3 ActivityScheduled "charge"`, "mismatch_test.go:"},
		"something more": {func(c *replay.Context, _ []byte) replay.Outcome {
			c.Activity("log", nil, history.Activity{})
			return original(c, nil)
		}, `3 ActivityScheduled "reserve"`, `3 ActivityScheduled "log"`, "mismatch_test.go:"},
		"something more behind": {func(c *replay.Context, _ []byte) replay.Outcome {
			f := c.Activity("reserve", nil, history.Activity{})
			c.Activity("log", nil, history.Activity{})
			c.Wait(f)
			return result("")
		}, "nothing more in this turn", `4 ActivityScheduled "log"`, "mismatch_test.go:"},
		"something less": {func(c *replay.Context, _ []byte) replay.Outcome {
			activity(c, "reserve")
			c.Wait(c.Receive("paid"))
			return result("")
		}, `6 ActivityScheduled "charge"`, "nothing", `waiting for event "paid"`},
		"another kind": {func(c *replay.Context, _ []byte) replay.Outcome {
			c.Step("reserve", func(context.Context) ([]byte, *history.Failure) {
				t.Error("a step ran although the turn is replayed")
				return nil, nil
			})
			return result("")
		}, `3 ActivityScheduled "reserve"`, `3 StepCompleted "reserve"`, "mismatch_test.go:"},
		"an end": {func(c *replay.Context, _ []byte) replay.Outcome {
			activity(c, "reserve")
			return result("")
		}, `6 ActivityScheduled "charge"`, "6 ExecutionCompleted", "its return"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := start(t, original, "")
			r.turn(done(3, ""))
			r.turn(done(6, ""))
			x := replay.New("self", variant.code)
			defer x.Close()
			err := x.Replay(r.events)
			var m *replay.Mismatch
			if !errors.As(err, &m) {
				t.Fatalf("it was not found out: %v", err)
			}
			for _, want := range []string{"[" + variant.expected + "]", "[" + variant.did + "]"} {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%v\ndoes not say %s", err, want)
				}
			}
			if !strings.Contains(m.Source, variant.source) {
				t.Errorf("the source is %s, want %s", m.Source, variant.source)
			}
			if _, again := x.Turn(replay.Live{}, nil); !errors.Is(again, err) {
				t.Errorf("it goes on: %v", again)
			}
		})
	}
}

func TestWhatIsNotAHistoryIsRefused(t *testing.T) {
	t.Parallel()
	begin := history.Event{ID: 1, Kind: history.TurnStarted, At: noon}
	started := history.Event{ID: 2, Kind: history.ExecutionStarted, Name: "test", Start: &history.Start{Execution: 1}}
	for name, events := range map[string][]history.Event{
		"no turn": {{ID: 1, Kind: history.ExecutionStarted, Start: &history.Start{}}},
		"a gap":   {begin, {ID: 3, Kind: history.EventReceived}},
		"started twice": {
			begin, started, {ID: 3, Kind: history.TimerCreated, Name: "t"},
			{ID: 4, Kind: history.TurnStarted, At: noon}, {ID: 5, Kind: history.ExecutionStarted, Start: &history.Start{}},
		},
		"no start":       {begin, {ID: 2, Kind: history.ExecutionStarted}},
		"time runs back": {begin, started, {ID: 3, Kind: history.TimerCreated, Name: "t"}, {ID: 4, Kind: history.TurnStarted, At: noon.Add(-1)}},
	} {
		x := replay.New("self", func(c *replay.Context, _ []byte) replay.Outcome {
			c.Wait(c.Timer("t", c.Now()))
			return result("")
		})
		if err := x.Replay(events); !errors.Is(err, replay.ErrHistory) {
			t.Errorf("%s: %v", name, err)
		}
		x.Close()
	}
}
