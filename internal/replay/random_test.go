package replay_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/internal/replay"
)

// maxTurns is how many turns a random execution gets to end.
const maxTurns = 20

// world runs a random orchestration, and shows after each turn that its history leads
// back to where it is.
type world struct {
	t      testingT
	choose *choices
	code   replay.Code
	x      *replay.Execution
	events []history.Event
	now    time.Time
	ran    int // steps, in all executions
}

// live runs the orchestration that is in the first bytes; the others say what happens
// to it.
func live(t testingT, program, happens []byte) *world {
	w := &world{t: t, choose: &choices{happens}, now: noon}
	w.code = codeOf(drawDeeds(&choices{program}, 0), &w.ran)
	w.x = replay.New("self", w.code)
	defer w.x.Close()
	w.turn(history.Event{Kind: history.ExecutionStarted, Name: "test", Start: &history.Start{Execution: 1, Seed: 42}})
	for range maxTurns {
		if w.x.Ended() || w.choose.done() {
			break
		}
		var incoming []history.Event
		for range w.choose.pick(4) {
			incoming = append(incoming, w.happens())
		}
		w.turn(incoming...)
	}
	w.everyCut()
	return w
}

// turn gives events to the code, and decides step by step whether it yields.
func (w *world) turn(incoming ...history.Event) {
	w.now = w.now.Add(time.Second)
	turn := append([]history.Event{{Kind: history.TurnStarted, At: w.now}}, incoming...)
	for i := range turn {
		turn[i].ID = int32(len(w.events) + i + 1)
	}
	yields, fills := w.choose.pick(16), w.choose.pick(16)
	did, err := w.x.Turn(replay.Live{Context: context.Background(), Yield: func() bool {
		yields /= 2
		return yields%2 == 1
	}, Full: func([]history.Event) bool {
		fills /= 2
		return fills%2 == 1
	}}, turn)
	if err != nil {
		w.t.Fatalf("turn: %v", err)
	}
	w.events = append(append(w.events, turn...), did...)
	w.same(w.events, w.x)
}

// happens returns an event that reaches the instance; now and then one that is stale,
// or comes twice.
func (w *world) happens() history.Event {
	switch what := w.choose.pick(32); what {
	case 0, 9:
		return history.Event{Kind: history.CancelRequested, Name: "enough"}
	case 1:
		return history.Event{Kind: history.ExecutionTerminated, Name: "stuck"}
	case 2, 3, 4, 5, 6, 7:
		return raised(eventName(what), fmt.Sprintf("(%d)", len(w.events)))
	case 8:
		return w.completes(w.choose.pick(len(w.events))) // whatever it is, and whether it is open or not
	}
	if open := w.x.Open(); len(open) > 0 {
		return w.completes(int(open[w.choose.pick(len(open))] - 1))
	}
	return raised("e0", "")
}

// completes returns what can come of the event with that index.
func (w *world) completes(i int) history.Event {
	e := w.events[i]
	switch good := w.choose.pick(4) > 0; {
	case e.Kind == history.TimerCreated && good:
		return history.Event{Kind: history.TimerFired, Ref: e.ID}
	case e.Kind == history.TimerCreated:
		return history.Event{Kind: history.TimerMoveReceived, Ref: e.ID, At: w.now.Add(time.Hour)}
	case e.Kind == history.ChildStarted && good:
		return history.Event{Kind: history.ChildCompleted, Ref: e.ID, Data: []byte("c")}
	case e.Kind == history.ChildStarted:
		return history.Event{Kind: history.ChildFailed, Ref: e.ID, Failure: &history.Failure{Message: "no"}}
	case good:
		return done(e.ID, "a")
	default:
		return history.Event{Kind: history.ActivityFailed, Ref: e.ID, Failure: &history.Failure{Message: "no"}}
	}
}

// same replays a history, and compares where it leads to with an execution.
func (w *world) same(events []history.Event, want *replay.Execution) {
	x := replay.New("self", w.code)
	before := w.ran
	err := x.Replay(events)
	state := stateOf(x)
	x.Close()
	switch {
	case err != nil:
		w.t.Fatalf("replay: %v", err)
	case w.ran != before:
		w.t.Fatalf("%d steps ran again when they were replayed, or when the execution was closed", w.ran-before)
	case !reflect.DeepEqual(state, stateOf(want)):
		w.t.Fatalf("replayed it is %+v\nlive it is %+v", state, stateOf(want))
	}
}

// everyCut breaks the history off at each of its events, and goes on from there.
func (w *world) everyCut() {
	for cut := 1; cut <= len(w.events); cut++ {
		w.cut(cut)
	}
}

// cut goes on from an event. What the code does then leads, with what it did before,
// to where it is; and if all that the turn was about has been kept, it is what it did
// at first.
func (w *world) cut(cut int) {
	end := cut
	for end < len(w.events) && w.events[end].Kind != history.TurnStarted {
		end++
	}
	whole := cut == end || !w.events[cut].Kind.Incoming()
	x := replay.New("self", w.code)
	defer x.Close()
	yields := func(why string) bool { // where it did at first
		id := int(x.LastID())
		return id < end && w.events[id].Kind == history.TurnYielded && w.events[id].Name == why
	}
	did, err := goOnFrom(x, replay.Live{
		Context: context.Background(),
		Yield:   func() bool { return yields("") },
		Full:    func([]history.Event) bool { return yields(history.Full) },
	}, w.events[:cut])
	if err != nil {
		w.t.Fatalf("go on from event %d: %v", cut, err)
	}
	if want := w.events[cut:end]; whole && !slices.EqualFunc(did, want, func(a, b history.Event) bool { return reflect.DeepEqual(a, b) }) {
		w.t.Fatalf("from event %d the code did\n  %v\nat first it did\n  %v", cut, did, want)
	}
	w.same(append(slices.Clone(w.events[:cut]), did...), x)
}

// TestEveryPrefixOfARandomHistoryReplays runs random orchestrations with whatever may
// happen to them, and shows after each turn that an execution which has replayed the
// history so far is where the live one is; and that one which goes on from any event
// does again what was done.
func TestEveryPrefixOfARandomHistoryReplays(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		live(rt, drawBytes(rt, "program"), drawBytes(rt, "happens"))
	})
}

// TestAnotherCodeIsFoundOutOrDoesTheSame replays random histories with code that is
// not theirs: it ends with a mismatch or where history ends, and nothing worse.
func TestAnotherCodeIsFoundOutOrDoesTheSame(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		program := drawBytes(rt, "program")
		w := live(rt, program, drawBytes(rt, "happens"))
		other := slices.Clone(program)
		other[rapid.IntRange(0, len(other)-1).Draw(rt, "where")] ^= rapid.Byte().Draw(rt, "changed")
		foundOut(w, other)
	})
}

// foundOut replays the history with another program.
func foundOut(w *world, program []byte) {
	ran := 0
	x := replay.New("self", codeOf(drawDeeds(&choices{program}, 0), &ran))
	err := x.Replay(w.events)
	x.Close()
	var m *replay.Mismatch
	if err != nil && !errors.As(err, &m) {
		w.t.Fatalf("replayed with another code: %v", err)
	}
	if ran > 0 {
		w.t.Fatalf("%d steps ran when they were replayed with another code", ran)
	}
}

// drawBytes returns bytes from all over: rapid likes small ones too much to get far
// with choices.
func drawBytes(t *rapid.T, name string) []byte {
	return rapid.SliceOfN(rapid.Byte(), 60, 200).Draw(t, name)
}
