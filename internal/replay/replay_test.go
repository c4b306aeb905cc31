package replay_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/internal/replay"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// testingT is what *testing.T and *rapid.T have in common.
type testingT interface {
	Helper()
	Cleanup(f func())
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// run is an execution, and its history so far.
type run struct {
	t      testingT
	x      *replay.Execution
	code   replay.Code
	events []history.Event
	now    time.Time
}

func start(t testingT, code replay.Code, input string) *run {
	r := &run{t: t, x: replay.New("self", code), code: code, now: noon}
	t.Cleanup(r.x.Close)
	r.turn(history.Event{Kind: history.ExecutionStarted, Name: "test", Data: []byte(input), Start: &history.Start{Version: "1", Execution: 1, Seed: 42}})
	return r
}

// turn gives events to the code, a second after the turn before.
func (r *run) turn(incoming ...history.Event) []history.Event {
	r.t.Helper()
	did, err := r.try(incoming...)
	if err != nil {
		r.t.Fatalf("turn: %v", err)
	}
	return did
}

func (r *run) try(incoming ...history.Event) ([]history.Event, error) {
	r.now = r.now.Add(time.Second)
	turn := append([]history.Event{{Kind: history.TurnStarted, At: r.now}}, incoming...)
	for i := range turn {
		turn[i].ID = int32(len(r.events) + i + 1)
	}
	did, err := r.x.Turn(replay.Live{Context: context.Background()}, turn)
	if err != nil {
		return nil, err
	}
	r.events = append(append(r.events, turn...), did...)
	return did, nil
}

// rehydrate replaces the execution by a new one that has replayed its history.
func (r *run) rehydrate() {
	r.t.Helper()
	r.x.Close()
	r.x = replay.New("self", r.code)
	r.t.Cleanup(r.x.Close)
	if err := r.x.Replay(r.events); err != nil {
		r.t.Fatalf("replay: %v", err)
	}
}

// last returns the ID of the last event of that kind.
func (r *run) last(kind history.Kind) int32 {
	for _, e := range slices.Backward(r.events) {
		if e.Kind == kind {
			return e.ID
		}
	}
	r.t.Fatalf("there is no %v", kind)
	return 0
}

func (r *run) is(did []history.Event, want ...string) {
	r.t.Helper()
	var got []string
	for _, e := range did {
		got = append(got, strings.TrimSpace(fmt.Sprintf("%v %s%s %s", e.Kind, e.Name, e.Target, e.Data)))
	}
	if !slices.Equal(got, want) {
		r.t.Errorf("the code did\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

func done(ref int32, result string) history.Event {
	return history.Event{Kind: history.ActivityCompleted, Ref: ref, Data: []byte(result)}
}

func raised(name, data string) history.Event {
	return history.Event{Kind: history.EventReceived, Name: name, Data: []byte(data)}
}

func result(s string) replay.Outcome { return replay.Outcome{Data: []byte(s)} }

func TestAnActivityIsAskedForAndItsResultReturned(t *testing.T) {
	t.Parallel()
	for _, rehydrate := range []bool{false, true} {
		r := start(t, func(c *replay.Context, input []byte) replay.Outcome {
			f := c.Activity("charge", input, history.Activity{})
			c.Wait(f)
			data, _ := f.Result()
			return replay.Outcome{Data: data}
		}, "42")
		r.is(r.events[2:], "ActivityScheduled charge 42")
		if waits := r.x.Waiting(); !slices.Equal(waits, []string{`activity "charge"`}) {
			t.Errorf("waits for %v", waits)
		}
		if rehydrate {
			r.rehydrate()
		}
		r.is(r.turn(done(3, "paid")), "ExecutionCompleted  paid")
		if !r.x.Ended() || len(r.x.Open()) > 0 {
			t.Error("it has not ended")
		}
		if _, err := r.try(); !errors.Is(err, replay.ErrEnded) {
			t.Errorf("a turn after the end: %v", err)
		}
	}
}

func TestSelectGoesByTheOrderOfHistory(t *testing.T) {
	t.Parallel()
	code := func(c *replay.Context, _ []byte) replay.Outcome {
		a, b := c.Activity("a", nil, history.Activity{}), c.Activity("b", nil, history.Activity{})
		c.Wait(c.Receive("go"))
		return result(fmt.Sprint(c.WaitAny(a, b)))
	}
	r := start(t, code, "")
	a, b := r.events[2].ID, r.events[3].ID
	r.turn(done(b, ""), done(a, ""))
	r.rehydrate()
	r.is(r.turn(raised("go", "")), "ExecutionCompleted  1")
}

func TestTheLoserOfASelectCanBeCancelled(t *testing.T) {
	t.Parallel()
	r := start(t, func(c *replay.Context, _ []byte) replay.Outcome {
		approved, timeout := c.Receive("approved"), c.Timer("timeout", c.Now().Add(time.Hour))
		if c.WaitAny(approved, timeout) == 0 {
			c.Cancel(timeout)
			return result("approved")
		}
		c.Cancel(approved)
		c.Wait(c.Receive("approved"))
		return result("too late")
	}, "")
	r.rehydrate()
	r.is(r.turn(raised("approved", "yes")), "TimerCancelled", "ExecutionCompleted  approved")
}

func TestEventsAreKeptInOrderUntilSomebodyReceivesThem(t *testing.T) {
	t.Parallel()
	r := start(t, func(c *replay.Context, _ []byte) replay.Outcome {
		c.Wait(c.Activity("a", nil, history.Activity{}))
		var got []string
		for range 3 {
			f := c.Receive("n")
			c.Wait(f)
			data, _ := f.Result()
			got = append(got, string(data))
		}
		return result(strings.Join(got, ","))
	}, "")
	r.turn(raised("n", "1"), raised("other", "x"), raised("n", "2"))
	kept := r.x.Unreceived()
	want := []history.Event{raised("n", "1"), raised("n", "2"), raised("other", "x")}
	if !reflect.DeepEqual(kept, want) {
		t.Errorf("kept %v, want %v", kept, want)
	}
	r.rehydrate()
	r.is(r.turn(done(3, "")))
	if !r.x.Awaits("n") || r.x.Awaits("other") {
		t.Error("it does not know what the code waits for")
	}
	r.is(r.turn(raised("n", "3")), "ExecutionCompleted  1,2,3")
}

func TestCoroutinesTakeTurns(t *testing.T) {
	t.Parallel()
	code := func(c *replay.Context, _ []byte) replay.Outcome {
		left := 3
		for i := range left {
			c.Go(func(c *replay.Context) {
				c.Wait(c.Activity(fmt.Sprintf("first-%d", i), nil, history.Activity{}))
				c.Wait(c.Activity(fmt.Sprintf("second-%d", i), nil, history.Activity{}))
				if left--; left == 0 {
					c.Send("me", "all", nil)
				}
			})
		}
		c.Wait(c.Receive("all"))
		return result("done")
	}
	r := start(t, code, "")
	r.is(r.events[2:], "ActivityScheduled first-0", "ActivityScheduled first-1", "ActivityScheduled first-2")
	r.rehydrate()
	r.is(r.turn(done(5, ""), done(3, ""), done(4, "")),
		"ActivityScheduled second-2", "ActivityScheduled second-0", "ActivityScheduled second-1")
	r.rehydrate()
	last := r.x.LastID()
	r.is(r.turn(done(last, ""), done(last-1, ""), done(last-2, "")), "EventSent allme")
	r.is(r.turn(raised("all", "")), "ExecutionCompleted  done")
}

func TestAStepRunsOnce(t *testing.T) {
	t.Parallel()
	runs := 0
	code := func(c *replay.Context, _ []byte) replay.Outcome {
		data, failure := c.Step("total", func(context.Context) ([]byte, *history.Failure) {
			runs++
			return []byte(fmt.Sprint(runs)), nil
		})
		_, broken := c.Step("broken", func(context.Context) ([]byte, *history.Failure) {
			runs++
			return nil, &history.Failure{Message: "no"}
		})
		c.Wait(c.Receive("go"))
		return result(fmt.Sprintf("%s %v %s", data, failure == nil, broken.Message))
	}
	r := start(t, code, "")
	r.is(r.events[2:], "StepCompleted total 1", "StepFailed broken")
	for range 3 {
		r.rehydrate()
	}
	r.is(r.turn(raised("go", "")), "ExecutionCompleted  1 true no")
	if runs != 2 {
		t.Errorf("two steps ran %d times", runs)
	}
}

func TestCancellingAScopeCancelsWhatIsOpenInIt(t *testing.T) {
	t.Parallel()
	code := func(c *replay.Context, _ []byte) replay.Outcome {
		scope, cancel := c.WithScope()
		a := scope.Activity("a", nil, history.Activity{})
		scope.Child("child", "child-1", nil, history.Child{})
		inner, _ := scope.WithScope()
		timer := inner.Timer("timer", c.Now().Add(time.Hour))
		outside := c.Activity("outside", nil, history.Activity{})
		c.Wait(c.Receive("stop"))
		cancel("enough")
		late := scope.Activity("late", nil, history.Activity{})
		_, failure := late.Result()
		return result(fmt.Sprintf("%t %t %t %s %t", a.Done(), timer.Done(), outside.Done(), failure.Message, c.Cancelled() == nil))
	}
	r := start(t, code, "")
	r.rehydrate()
	r.is(r.turn(raised("stop", "")), "ActivityCancelled", "ChildCancelled", "TimerCancelled",
		"ExecutionCompleted  true true false cancelled: enough true")
}

func TestACancelledInstanceCanCompensateAndThenIsCancelled(t *testing.T) {
	t.Parallel()
	code := func(c *replay.Context, _ []byte) replay.Outcome {
		f := c.Activity("charge", nil, history.Activity{})
		c.Wait(f)
		if _, failure := f.Result(); failure != nil {
			c.Wait(c.Shield().Activity("refund", nil, history.Activity{}))
			return replay.Outcome{Failure: failure}
		}
		return result("paid")
	}
	r := start(t, code, "")
	r.is(r.turn(history.Event{Kind: history.CancelRequested, Name: "changed her mind"}), "ActivityCancelled", "ActivityScheduled refund")
	r.rehydrate()
	r.is(r.turn(done(r.last(history.ActivityScheduled), "")), "ExecutionCancelled")
	if f := r.events[len(r.events)-1].Failure; f.Message != "cancelled: changed her mind" {
		t.Errorf("cancelled with %q", f.Message)
	}
}

func TestTheClockStandsStillInATurn(t *testing.T) {
	t.Parallel()
	code := func(c *replay.Context, _ []byte) replay.Outcome {
		before := c.Now()
		c.Wait(c.Timer("", before.Add(1500*time.Microsecond)))
		return result(c.Now().Sub(before).String())
	}
	r := start(t, code, "")
	if at := r.events[2].At; !at.Equal(r.now.Add(2 * time.Millisecond)) {
		t.Errorf("the timer is set to %v", at)
	}
	r.rehydrate()
	r.is(r.turn(history.Event{Kind: history.TimerFired, Ref: 3}), "ExecutionCompleted  1s")
}

func TestATimerCanBeMoved(t *testing.T) {
	t.Parallel()
	code := func(c *replay.Context, _ []byte) replay.Outcome {
		timer := c.Timer("trial", c.Now().Add(time.Hour))
		c.Wait(c.Receive("extend"))
		c.Move(timer, timer.At().Add(time.Hour))
		c.Wait(timer)
		return result(timer.At().Sub(noon).String() + fmt.Sprint(c.Move(timer, noon)))
	}
	r := start(t, code, "")
	r.turn(history.Event{Kind: history.TimerMoveReceived, Ref: 3, At: noon.Add(5 * time.Hour)})
	r.is(r.turn(raised("extend", "")), "TimerMoved trial")
	r.rehydrate()
	r.is(r.turn(history.Event{Kind: history.TimerFired, Ref: 3}), "ExecutionCompleted  6h0m0sfalse")
}

func TestChangedGuardsAChange(t *testing.T) {
	t.Parallel()
	old := func(c *replay.Context, _ []byte) replay.Outcome {
		c.Wait(c.Activity("v1", nil, history.Activity{}))
		c.Wait(c.Receive("go"))
		return result("v1")
	}
	changed := func(c *replay.Context, _ []byte) replay.Outcome {
		version := "v1"
		if c.Changed("tax") {
			version = "v2"
		}
		c.Wait(c.Activity(version, nil, history.Activity{}))
		c.Wait(c.Receive("go"))
		if c.Changed("tax") != (version == "v2") || !c.Changed("new") {
			version = "both"
		}
		return result(version)
	}
	before := start(t, old, "")
	before.turn(done(3, ""))
	before.code = changed
	before.rehydrate()
	before.is(before.turn(raised("go", "")), "ChangeMarked new", "ExecutionCompleted  v1")

	after := start(t, changed, "")
	after.is(after.events[2:], "ChangeMarked tax", "ActivityScheduled v2")
	after.rehydrate()
	after.turn(done(4, ""))
	after.rehydrate()
	after.is(after.turn(raised("go", "")), "ChangeMarked new", "ExecutionCompleted  v2")
}

func TestContinueAsNew(t *testing.T) {
	t.Parallel()
	r := start(t, func(*replay.Context, []byte) replay.Outcome {
		return replay.Outcome{Continue: &replay.Continue{Name: "test", Version: "2", Input: []byte("7")}}
	}, "")
	r.is(r.events[2:], "ExecutionContinued test 7")
	if s := r.events[2].Start; s.Execution != 2 || s.Version != "2" {
		t.Errorf("continued as %+v", s)
	}
}

func TestRandomNumbersAreTheSameWhenReplayed(t *testing.T) {
	t.Parallel()
	code := func(c *replay.Context, _ []byte) replay.Outcome {
		first := c.Uint64()
		c.Wait(c.Receive("go"))
		return result(fmt.Sprint(first, c.Uint64()))
	}
	a, b := start(t, code, ""), start(t, code, "")
	b.rehydrate()
	a.turn(raised("go", ""))
	b.turn(raised("go", ""))
	if x, y := string(a.events[4].Data), string(b.events[4].Data); x != y {
		t.Errorf("%s, and replayed %s", x, y)
	}
}

func TestATerminatedExecutionEnds(t *testing.T) {
	t.Parallel()
	deferred := false
	r := start(t, func(c *replay.Context, _ []byte) replay.Outcome {
		defer func() { deferred = true }()
		c.Wait(c.Receive("never"))
		return result("")
	}, "")
	r.is(r.turn(history.Event{Kind: history.ExecutionTerminated, Name: "stuck"}))
	if !r.x.Ended() || !deferred {
		t.Error("it goes on")
	}
}

func TestAPanicIsAnError(t *testing.T) {
	t.Parallel()
	r := start(t, func(c *replay.Context, _ []byte) replay.Outcome {
		c.Wait(c.Receive("go"))
		panic("oops")
	}, "")
	_, err := r.try(raised("go", ""))
	var p *replay.PanicError
	if !errors.As(err, &p) || p.Value != "oops" || !strings.Contains(string(p.Stack), "replay_test.go") {
		t.Errorf("%v", err)
	}
}
