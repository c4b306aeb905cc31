package replay_test

import (
	"bytes"
	"context"
	"errors"
	"runtime"
	"testing"

	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/internal/check"
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

// coroutines returns the number of coroutines of the process. The number of goroutines would
// include those that the runtime starts when it likes, for finalizers and cleanups.
func coroutines() int {
	stacks := make([]byte, 16<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	return bytes.Count(stacks, []byte("created by iter.Pull"))
}

// TestClosingLeavesNothingBehind is not parallel: it counts the coroutines of the
// process.
func TestClosingLeavesNothingBehind(t *testing.T) {
	before := coroutines()
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
		check.Equal(t, "coroutines that wait", coroutines()-before, 2)
		x.Close()
		if _, err := x.Turn(replay.Live{}, []history.Event{{ID: 3, Kind: history.TurnStarted, At: noon}}); !errors.Is(err, replay.ErrEnded) {
			t.Errorf("a turn after it was closed: %v", err)
		}
	}
	check.Equal(t, "coroutines that are left behind", coroutines()-before, 0)
}

// TestStoppedCodeCannotRecover: code that recovers from panics in a loop ends when it is
// stopped, and what it has deferred runs.
func TestStoppedCodeCannotRecover(t *testing.T) {
	t.Parallel()
	rounds, deferred := 0, 0
	safely := func(f func()) {
		defer func() { _ = recover() }()
		f()
	}
	code := func(c *replay.Context, _ []byte) replay.Outcome {
		defer func() { deferred++ }()
		for {
			if rounds++; rounds > 10 {
				t.Error("the code goes on")
				return result("")
			}
			safely(func() { c.Wait(c.Receive("never")) })
		}
	}
	t.Run("closed", func(t *testing.T) {
		rounds, deferred = 0, 0
		r := start(t, code, "")
		r.x.Close()
		if rounds != 1 || deferred != 1 {
			t.Errorf("%d rounds and %d deferred calls, want one of each", rounds, deferred)
		}
	})
	t.Run("terminated", func(t *testing.T) {
		rounds, deferred = 0, 0
		r := start(t, code, "")
		r.turn(history.Event{Kind: history.ExecutionTerminated})
		if rounds != 1 || deferred != 1 {
			t.Errorf("%d rounds and %d deferred calls, want one of each", rounds, deferred)
		}
	})
	t.Run("not what history says", func(t *testing.T) {
		rounds, deferred = 0, 0
		attempts := 0
		x := replay.New("self", func(c *replay.Context, _ []byte) replay.Outcome {
			defer func() { deferred++ }()
			for attempts < 10 {
				attempts++
				safely(func() { c.Activity("other", nil, history.Activity{}) })
			}
			return result("")
		})
		defer x.Close()
		var mismatch *replay.Mismatch
		err := x.Replay([]history.Event{
			{ID: 1, Kind: history.TurnStarted, At: noon},
			{ID: 2, Kind: history.ExecutionStarted, Start: &history.Start{Execution: 1}},
			{ID: 3, Kind: history.ActivityScheduled, Name: "one", Activity: &history.Activity{}},
		})
		if !errors.As(err, &mismatch) || attempts != 1 || deferred != 1 {
			t.Errorf("error %v after %d attempts and %d deferred calls, want a mismatch after one of each", err, attempts, deferred)
		}
	})
}

// TestCodeThatEndsItsGoroutine ends the goroutine of the turn with it, as a failed test
// does. The execution can be closed all the same, and what else runs in it ends.
func TestCodeThatEndsItsGoroutine(t *testing.T) {
	t.Parallel()
	deferred := 0
	x := replay.New("self", func(c *replay.Context, _ []byte) replay.Outcome {
		c.Go(func(c *replay.Context) {
			defer func() { deferred++ }()
			defer c.Now()
			defer func() { c.SetStatus("never") }()
			c.Wait(c.Receive("never"))
		})
		c.Wait(c.Receive("go"))
		runtime.Goexit()
		return result("")
	})
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, err := x.Turn(replay.Live{}, []history.Event{
			{ID: 1, Kind: history.TurnStarted, At: noon},
			{ID: 2, Kind: history.ExecutionStarted, Start: &history.Start{Execution: 1}},
			{ID: 3, Kind: history.EventReceived, Name: "go"},
		})
		t.Errorf("the turn has come back: %v", err)
	}()
	<-done
	x.Close()
	if deferred != 1 {
		t.Errorf("%d deferred calls of the other coroutine, want one", deferred)
	}
}
