package replay_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/internal/replay"
)

// TestScripts runs the stories in testdata/scripts. Their commands are
//
//	code [NAME]       defines an orchestration; without a name, begins a new story with it
//	turn              gives events to the code, and prints what it did: [at=DURATION] [yield] [full=N]
//	replay            replays the history, and says whether it is the same: [code=NAME] [self=ID]
//	rehydrate         goes on with an execution that has replayed the history: [code=NAME]
//	go-on             goes on from within a turn: upto=ID [code=NAME] [self=ID] [yield] [keep]
//	close             closes the execution
//
// With yield, Live.Yield says yes after each step. With full, Live.Full says yes when the
// code has done N things. With keep, what the code did when it
// went on becomes the history. After each turn the history is also replayed silently,
// and a difference printed.
func TestScripts(t *testing.T) {
	t.Parallel()
	datadriven.Walk(t, "testdata/scripts", func(t *testing.T, path string) {
		s := &story{t: t, others: map[string]*program{}}
		datadriven.RunTest(t, path, func(_ *testing.T, d *datadriven.TestData) string {
			out, err := s.command(d)
			if err != nil {
				d.Fatalf(t, "%v", err)
			}
			return out
		})
	})
}

// story is an execution, and what a script has told of it so far.
type story struct {
	t      *testing.T
	main   *program
	others map[string]*program
	x      *replay.Execution
	events []history.Event
	now    time.Time
	out    strings.Builder
	quiet  bool // do not print which steps run: they are counted
	ran    int
}

func (s *story) printf(format string, args ...any) { fmt.Fprintf(&s.out, format+"\n", args...) }

func (s *story) command(d *datadriven.TestData) (string, error) {
	s.out.Reset()
	err := s.run(d)
	return s.out.String(), err
}

func (s *story) run(d *datadriven.TestData) error {
	switch d.Cmd {
	case "code":
		return s.define(d)
	case "turn":
		return s.turn(d)
	case "replay", "rehydrate":
		return s.replay(d)
	case "go-on":
		return s.goOn(d)
	case "close":
		s.x.Close()
		s.printf("closed")
		return nil
	default:
		return fmt.Errorf("unknown command %s", d.Cmd)
	}
}

func (s *story) define(d *datadriven.TestData) error {
	p, err := parseProgram(d.Input, s.noteStep)
	if err != nil {
		return err
	}
	if len(d.CmdArgs) > 0 {
		s.others[d.CmdArgs[0].Key] = p
		return nil
	}
	s.events, s.now = nil, noon
	clear(s.others)
	s.use(p, s.fresh(p, "self"))
	return nil
}

func (s *story) noteStep(name string) {
	s.ran++
	if !s.quiet {
		s.printf("ran step %q", name)
	}
}

func (s *story) fresh(p *program, self string) *replay.Execution {
	x := replay.New(self, p.code)
	s.t.Cleanup(func() { s.quiet = true; x.Close() })
	return x
}

// use makes an execution the one that the next turn is given to.
func (s *story) use(p *program, x *replay.Execution) {
	if s.x != nil {
		s.x.Close()
	}
	s.main, s.x = p, x
}

func (s *story) turn(d *datadriven.TestData) error {
	s.now = s.now.Add(time.Second)
	if d.HasArg("at") {
		var at string
		d.ScanArgs(s.t, "at", &at)
		s.now = noon.Add(duration(at))
	}
	turn := []history.Event{{Kind: history.TurnStarted, At: s.now}}
	for line := range strings.Lines(d.Input) {
		e, err := s.incoming(strings.Fields(line))
		if err != nil {
			return err
		}
		turn = append(turn, e)
	}
	for i := range turn {
		turn[i].ID = int32(len(s.events) + i + 1)
		s.printf("in  %s", words(&turn[i]))
	}
	did, err := s.x.Turn(s.live(d), turn)
	if err != nil {
		s.printError(err)
		return nil
	}
	s.events = append(append(s.events, turn...), did...)
	s.printDid(did)
	s.printState(s.x)
	return s.check()
}

func (s *story) live(d *datadriven.TestData) replay.Live {
	live := replay.Live{Context: context.Background(), Yield: func() bool { return d.HasArg("yield") }}
	if d.HasArg("full") {
		n := 0
		d.ScanArgs(s.t, "full", &n)
		live.Full = func(produced []history.Event) bool { return len(produced) >= n }
	}
	return live
}

// incoming reads an event that reaches the instance.
func (s *story) incoming(w []string) (history.Event, error) {
	e := history.Event{}
	kind, ok := map[string]history.Kind{
		"started": history.ExecutionStarted, "event": history.EventReceived,
		"cancel": history.CancelRequested, "terminate": history.ExecutionTerminated,
		"completed": history.ActivityCompleted, "failed": history.ActivityFailed,
		"child-completed": history.ChildCompleted, "child-failed": history.ChildFailed,
		"fired": history.TimerFired, "move-received": history.TimerMoveReceived,
	}[w[0]]
	if !ok {
		return e, fmt.Errorf("unknown event %s", w[0])
	}
	e.Kind = kind
	switch kind {
	case history.ExecutionStarted:
		e.Name, e.Data = "order", []byte(rest(w, 1))
		e.Start = &history.Start{Version: "1", Execution: 1, Seed: 42}
	case history.EventReceived:
		e.Name, e.Data = w[1], []byte(rest(w, 2))
	case history.CancelRequested, history.ExecutionTerminated:
		e.Name = rest(w, 1)
	default:
		ref, err := strconv.Atoi(w[1])
		if err != nil {
			return e, err
		}
		e.Ref = int32(ref)
		switch kind {
		case history.ActivityFailed, history.ChildFailed:
			e.Failure = &history.Failure{Message: rest(w, 2)}
		case history.TimerMoveReceived:
			e.At = s.now.Add(duration(w[2]))
		default:
			e.Data = []byte(rest(w, 2))
		}
	}
	return e, nil
}

// replay replays the history into a new execution, and compares it with the one that
// lives; or goes on with the new one.
func (s *story) replay(d *datadriven.TestData) error {
	p, x, err := s.another(d)
	if err != nil {
		return err
	}
	if err := x.Replay(s.events); err != nil {
		s.printError(err)
		return nil
	}
	if d.Cmd == "rehydrate" {
		s.use(p, x)
		s.printState(x)
		return nil
	}
	s.printSame(x)
	return nil
}

// another returns a new execution of the code that the command says.
func (s *story) another(d *datadriven.TestData) (*program, *replay.Execution, error) {
	p, self := s.main, "self"
	if d.HasArg("code") {
		var name string
		d.ScanArgs(s.t, "code", &name)
		if p = s.others[name]; p == nil {
			return nil, nil, fmt.Errorf("there is no code %s", name)
		}
	}
	if d.HasArg("self") {
		d.ScanArgs(s.t, "self", &self)
	}
	return p, s.fresh(p, self), nil
}

// goOn takes the history up to an event within a turn, and goes on from there.
func (s *story) goOn(d *datadriven.TestData) error {
	var upto int
	d.ScanArgs(s.t, "upto", &upto)
	p, x, err := s.another(d)
	if err != nil {
		return err
	}
	did, err := goOnFrom(x, s.live(d), s.events[:upto])
	if err != nil {
		s.printError(err)
		return nil
	}
	s.printDid(did)
	s.printState(x)
	if d.HasArg("keep") {
		s.events = append(slices.Clone(s.events[:upto]), did...)
		s.use(p, x)
		return s.check()
	}
	return nil
}

// goOnFrom replays the whole turns of a history that breaks off, and goes on from
// where it does.
func goOnFrom(x *replay.Execution, live replay.Live, events []history.Event) ([]history.Event, error) {
	cut := len(events) - 1
	for events[cut].Kind != history.TurnStarted {
		cut--
	}
	if err := x.Replay(events[:cut]); err != nil {
		return nil, err
	}
	in := cut
	for in < len(events) && events[in].Kind.Incoming() {
		in++
	}
	return x.ContinueTurn(live, events[cut:in], events[in:])
}

// check replays the history that a turn has made, in silence unless it is not the
// same.
func (s *story) check() error {
	s.quiet, s.ran = true, 0
	defer func() { s.quiet = false }()
	x := s.fresh(s.main, "self")
	defer x.Close()
	if err := x.Replay(s.events); err != nil {
		return fmt.Errorf("the history of these turns does not replay: %w", err)
	}
	if s.ran > 0 {
		return errors.New("a step ran again when it was replayed")
	}
	if a, b := stateOf(x), stateOf(s.x); !reflect.DeepEqual(a, b) {
		return fmt.Errorf("replayed it is %+v, live it is %+v", a, b)
	}
	return nil
}

// state is what can be seen of an execution.
type state struct {
	LastID     int32
	Ended      bool
	Open       []int32
	Waiting    []string
	Unreceived []history.Event
}

func stateOf(x *replay.Execution) state {
	return state{x.LastID(), x.Ended(), x.Open(), x.Waiting(), x.Unreceived()}
}

func (s *story) printSame(x *replay.Execution) {
	if a, b := stateOf(x), stateOf(s.x); !reflect.DeepEqual(a, b) {
		s.printf("not the same: replayed it is %+v, live it is %+v", a, b)
		return
	}
	s.printf("the same, %d events", len(s.events))
}

func (s *story) printDid(did []history.Event) {
	for i := range did {
		s.printf("did %s", words(&did[i]))
	}
}

func (s *story) printState(x *replay.Execution) {
	for _, w := range x.Waiting() {
		s.printf("waits for %s", w)
	}
	kept := map[string][][]byte{}
	for _, e := range x.Unreceived() {
		if e.Kind == history.CancelRequested {
			s.printf("keeps a request to cancel it: %s", e.Name)
			continue
		}
		kept[e.Name] = append(kept[e.Name], e.Data)
	}
	for _, name := range slices.Sorted(maps.Keys(kept)) {
		s.printf("keeps event %q: %s", name, strings.ReplaceAll(fmt.Sprintf("%q", kept[name]), `" "`, `", "`))
	}
	if x.Ended() {
		s.printf("ended")
	}
}

// printError prints why the code cannot go on, and in it nothing that depends on
// which line of the test it is.
func (s *story) printError(err error) {
	var m *replay.Mismatch
	var p *replay.PanicError
	switch {
	case errors.As(err, &m):
		expected, did := "nothing more in this turn", "nothing"
		if m.Expected.Kind != 0 {
			expected = words(&m.Expected)
		}
		if m.Did.Kind != 0 {
			did = words(&m.Did)
		}
		source := m.Source
		if strings.Contains(source, "script_code_test.go:") {
			source = "its line"
		}
		s.printf("mismatch\nhistory has  %s\nthe code did %s\nat %s", expected, did, source)
	case errors.As(err, &p):
		s.printf("panic: %v", p.Value)
	default:
		s.printf("error: %v", err)
	}
}

// words returns an event in words, with what it carries, and times as those since
// noon.
func words(e *history.Event) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d %v", e.ID, e.Kind)
	if e.Ref != 0 {
		fmt.Fprintf(&b, " of %d", e.Ref)
	}
	if e.Name != "" {
		fmt.Fprintf(&b, " %q", e.Name)
	}
	if e.Kind == history.ExecutionContinued {
		fmt.Fprintf(&b, " version %s, execution %d", e.Start.Version, e.Start.Execution)
	}
	if e.Target != "" {
		fmt.Fprintf(&b, " for %q", e.Target)
	}
	if !e.At.IsZero() {
		fmt.Fprintf(&b, " at %s", since(e.At))
	}
	if len(e.Data) > 0 {
		fmt.Fprintf(&b, " with %q", e.Data)
	}
	if e.Retired {
		b.WriteString(" retired")
	}
	if e.Failure != nil {
		fmt.Fprintf(&b, ": %s", e.Failure.Message)
	}
	return b.String()
}
