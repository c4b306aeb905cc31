package replay_test

import (
	"context"
	"errors"
	"runtime"
	"testing"

	"github.com/abidehq/abide/internal/history"
	"github.com/abidehq/abide/internal/replay"
)

func TestProgressSaysThatTheCodeIsInAStep(t *testing.T) {
	t.Parallel()
	var x *replay.Execution
	var before, in uint64
	var inStep bool
	r := start(t, func(c *replay.Context, _ []byte) replay.Outcome {
		c.Wait(c.Receive("go"))
		c.SetStatus("working")
		before, _ = x.Progress()
		c.SetStatus("in a step")
		c.Step("panics", func(context.Context) ([]byte, *history.Failure) {
			in, inStep = x.Progress()
			panic("oops")
		})
		return result("")
	}, "")
	x = r.x
	if _, err := r.try(raised("go", "")); err == nil {
		t.Fatal("the step did not panic")
	}
	if !inStep || in <= before {
		t.Errorf("in the step: %d after %d, in a step: %t", in, before, inStep)
	}
	if _, inStep = x.Progress(); inStep {
		t.Error("the step has panicked, and is still said to run")
	}
}

// TestClosingLeavesNothingBehind is not parallel: it counts the coroutines of the
// process.
func TestClosingLeavesNothingBehind(t *testing.T) {
	before := runtime.NumGoroutine()
	for range 10 {
		code := func(c *replay.Context, _ []byte) replay.Outcome {
			defer c.Go(func(*replay.Context) { t.Error("code ran after its end") })
			c.Go(func(c *replay.Context) { c.Wait(c.Receive("never")) })
			c.Wait(c.Receive("go"))
			return result("")
		}
		x := replay.New("self", code)
		_, err := x.Turn(replay.Live{}, []history.Event{
			{ID: 1, Kind: history.TurnStarted, At: noon},
			{ID: 2, Kind: history.ExecutionStarted, Start: &history.Start{Execution: 1}},
		})
		if err != nil {
			t.Fatal(err)
		}
		x.Close()
		if _, err := x.Turn(replay.Live{}, []history.Event{{ID: 3, Kind: history.TurnStarted, At: noon}}); !errors.Is(err, replay.ErrEnded) {
			t.Errorf("a turn after it was closed: %v", err)
		}
	}
	if after := runtime.NumGoroutine(); after > before {
		t.Errorf("%d coroutines are left behind", after-before)
	}
}
