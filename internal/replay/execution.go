package replay

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/abidehq/abide/history"
)

// Code is an orchestration. It talks to the world through its Context alone.
type Code func(c *Context, input []byte) Outcome

// Outcome is how code ends: with a result, with a failure, or by going on as a new
// execution.
type Outcome struct {
	Data     []byte
	Failure  *history.Failure
	Continue *Continue
}

// Continue is what a new execution begins with.
type Continue struct {
	Name    string
	Version string
	Input   []byte
}

// Execution is code and how far it has come. The package comment has its states and invariants. It is not
// safe for concurrent use, but for Progress.
type Execution struct {
	// SameTimes makes a timer whose time differs from that in history a [Mismatch].
	SameTimes bool

	code Code
	self string // the instance's ID

	started bool
	ended   bool
	lastID  int32     // of the events so far
	now     time.Time // of the turn
	turns   int       // so far, with this one
	startID int32     // of ExecutionStarted
	start   history.Start
	name    string
	err     error // why it cannot go on
	closed  bool

	progress atomic.Uint64 // grows with everything that the code does
	inStep   atomic.Bool

	turnState
	scheduler

	futures  map[int32]*Future // that are not resolved yet, by the event that made them
	made     int               // how many were made in a scope, so that their order is known
	resolved int               // how many were resolved, for the same reason
	inboxes  map[string]*inbox
	unseen   *history.Event // a request to cancel that came when the code had ended
	changes  map[string]bool
	root     *Scope
	random   uint64 // state of the generator
}

// turnState is the turn that runs, or ran last. It is live or replays: see the package comment.
type turnState struct {
	replayed bool            // the turn is one that history has
	goOn     bool            // history ends within this turn, and the code goes on from there
	expected []history.Event // what history says that the code did next, in a replayed turn
	produced []history.Event // what the code did, in a new turn
	live     Live            // of a new turn
	full     bool            // nothing more runs in this turn
	size     Size            // of the history before the turn
}

// scheduler has the coroutines of an execution. A coroutine is in runnable if and only if it is woken,
// and in alive until it has ended.
type scheduler struct {
	runnable []*coroutine // in the order in which they were woken
	current  *coroutine
	alive    map[*coroutine]struct{} // that have not ended
	yielded  []*coroutine            // that go on in the next turn
	spawned  int
}

// Live is what the code of a new turn needs of the world.
type Live struct {
	// Context is that of the turn.
	Context context.Context //nolint:containedctx // the context of one call, handed through the code

	// Steps returns the context of steps that are given up when the instance is cancelled:
	// it ends as soon as a request to cancel it is on its way. Nil means Context.
	Steps func() context.Context

	// NoSteps makes the turn fail with [ErrStep] when the code runs a step.
	NoSteps bool

	// Yield is asked after each step whether what was done so far should be made
	// durable before the code goes on. Nil means no.
	Yield func() bool

	// Full is asked after what the code does whether the turn should end there because it
	// has done as much as one commit should hold: produced is all that it did so far. Nil
	// means no.
	Full func(produced []history.Event) bool

	// Left returns how much the turn may still do, for an execution in another process, which cannot
	// call Yield and Full. It is not nil if they are not.
	Left func() Left
}

// Left is how much a turn may still do.
type Left struct {
	// Steps is for how long the turn goes on with steps: none is begun after that.
	Steps time.Duration

	// Cancelled is true if the context of steps has ended.
	Cancelled bool

	// Bytes and Operations are about what the code may add to the commit, see [Weigh].
	Bytes      int
	Operations int
}

// Weigh returns about how many bytes and operations an event adds to the commit of its turn: it is in the
// log, and most often in a message too, with the key of the instance, which has that many bytes.
func Weigh(e *history.Event, key int) (bytes, operations int) {
	size := 256 + key + len(e.Name) + len(e.Target) + len(e.Data)
	if e.Failure != nil {
		size += len(e.Failure.Message) + len(e.Failure.Details)
	}
	return 2 * size, 3
}

// Size is how large a history is.
type Size struct {
	Events    int
	Bytes     int64
	Suggested bool // the code should continue as new
}

// New returns an execution, of the instance with that ID, that has not begun.
func New(self string, code Code) *Execution {
	x := &Execution{
		code:      code,
		self:      self,
		futures:   map[int32]*Future{},
		scheduler: scheduler{alive: map[*coroutine]struct{}{}},
	}
	x.root = &Scope{x: x}
	return x
}

// ErrEnded is the error of a turn of an execution that has ended, failed or been
// closed.
var ErrEnded = errors.New("replay: the execution has ended")

// Replay brings an execution to where its history ends. The events must begin where
// the execution is, with a TurnStarted, and be whole turns.
func (x *Execution) Replay(events []history.Event) error {
	for len(events) > 0 {
		n := 1
		for n < len(events) && events[n].Kind != history.TurnStarted {
			n++
		}
		in := 0
		for in < n && events[in].Kind.Incoming() {
			in++
		}
		if quiet(events[:n]) {
			if err := x.pass(events[:n]); err != nil {
				return err
			}
			events = events[n:]
			continue
		}
		x.replayed, x.goOn = true, false
		if err := x.turn(events[:in], events[in:n]); err != nil {
			return err
		}
		events = events[n:]
	}
	return nil
}

// quiet reports whether the events are a turn of which the code does not learn.
func quiet(turn []history.Event) bool {
	return len(turn) > 1 && !slices.ContainsFunc(turn[1:], func(e history.Event) bool { return !e.Kind.Quiet() })
}

// pass lets a turn go by of which the code does not learn.
func (x *Execution) pass(events []history.Event) error {
	for i := range events {
		x.lastID++
		if events[i].ID != x.lastID {
			return x.fail(fmt.Errorf("replay: event %v should have ID %d: %w", &events[i], x.lastID, ErrHistory))
		}
	}
	return nil
}

// ContinueTurn takes up a turn that history breaks off: incoming are the events that reached
// the instance, expected is what the code did about them as far as it is known. It
// returns what the code did from there on: nothing if the code does not learn of the turn.
func (x *Execution) ContinueTurn(live Live, incoming, expected []history.Event) ([]history.Event, error) {
	if len(expected) == 0 && quiet(incoming) {
		return nil, x.pass(incoming)
	}
	x.replayed, x.goOn = true, true
	return x.newTurn(live, incoming, expected)
}

// Turn gives new events to the code, a TurnStarted first, and returns what the code
// did. The events must carry their IDs, and those returned go on from there.
func (x *Execution) Turn(live Live, incoming []history.Event) ([]history.Event, error) {
	x.replayed, x.goOn = false, false
	return x.newTurn(live, incoming, nil)
}

// newTurn runs a turn, and keeps nothing of it: an execution waits for long.
func (x *Execution) newTurn(live Live, incoming, expected []history.Event) ([]history.Event, error) {
	x.live = live
	err := x.turn(incoming, expected)
	did := x.produced
	x.produced, x.live = nil, Live{}
	if err != nil {
		return nil, err
	}
	return did, nil
}

// Ended reports whether the code has come to an end.
func (x *Execution) Ended() bool { return x.ended }

// LastID returns the ID of the last event so far.
func (x *Execution) LastID() int32 { return x.lastID }

// Progress returns a number that grows with everything that the code does, and
// whether it is within a step, which may take its time. It may be called at any time,
// by others too.
func (x *Execution) Progress() (n uint64, inStep bool) {
	return x.progress.Load(), x.inStep.Load()
}

func (x *Execution) turn(incoming, expected []history.Event) error {
	if x.err != nil {
		return x.err
	}
	if x.closed || (x.ended && !x.replayed) {
		return ErrEnded
	}
	if len(incoming) == 0 || incoming[0].Kind != history.TurnStarted {
		return x.fail(fmt.Errorf("replay: a turn does not begin with TurnStarted: %w", ErrHistory))
	}
	x.expected = expected
	x.turns++
	if slices.ContainsFunc(incoming, func(e history.Event) bool { return e.Kind == history.ExecutionTerminated }) {
		x.ended = true // before the code does anything about the turn's other events
		x.stopAll()
	}
	first := x.lastID + 1
	x.lastID += int32(len(incoming))
	for i := range incoming {
		e := &incoming[i]
		if e.ID != first+int32(i) {
			return x.fail(fmt.Errorf("replay: event %v should have ID %d: %w", e, first+int32(i), ErrHistory))
		}
		if err := x.receive(e); err != nil {
			return x.fail(err)
		}
		if x.run(); x.err != nil {
			return x.err
		}
	}
	x.skipRetired("")
	if len(x.expected) > 0 {
		return x.fail(x.tooLittle())
	}
	return nil
}

// skipRetired passes over markers of retired changes that come next in history, up to the
// one of the change with that ID: the code may no longer mark them.
func (x *Execution) skipRetired(except string) {
	for len(x.expected) > 0 {
		h := &x.expected[0]
		if h.Kind != history.ChangeMarked || !h.Retired || h.Name == except {
			return
		}
		x.lastID = h.ID
		x.expected = x.expected[1:]
	}
}

// marked reports whether the marker of a change comes next in history, behind no other
// than those of retired changes.
func (x *Execution) marked(id string) bool {
	for i := range x.expected {
		h := &x.expected[i]
		if h.Kind == history.ChangeMarked && h.Name == id {
			return true
		}
		if h.Kind != history.ChangeMarked || !h.Retired {
			return false
		}
	}
	return false
}

// ErrHistory is the error of events that are not a history.
var ErrHistory = errors.New("not a history")

// fail notes why the execution cannot go on.
func (x *Execution) fail(err error) error {
	if x.err == nil {
		x.err = err
	}
	return x.err
}

// receive applies an incoming event: it resolves futures, delivers to inboxes and spawns what a request to
// cancel does, and runs no code itself. Code runs after each event, until all of it waits, so that of two
// events of one turn the code sees the first one before the second is there.
func (x *Execution) receive(e *history.Event) error {
	if x.ended {
		switch e.Kind { // nobody waits any more, so it goes along
		case history.EventReceived:
			if !e.Discarded {
				in := x.inbox(e.Name)
				in.events = append(in.events, received{e.ID, e.Data})
			}
		case history.CancelRequested:
			x.unseen = e
		default:
		}
		return nil
	}
	switch e.Kind {
	case history.TurnStarted:
		if e.At.Before(x.now) {
			return fmt.Errorf("replay: time runs backwards at event %v: %w", e, ErrHistory)
		}
		x.now, x.full = e.At, false
		x.size = Size{Events: int(e.HistoryEvents), Bytes: e.HistoryBytes, Suggested: e.Suggested}
		for _, co := range x.yielded {
			x.wake(co)
		}
		x.yielded = nil
	case history.ExecutionStarted:
		if x.started || e.Start == nil {
			return fmt.Errorf("replay: %v: %w", e, ErrHistory)
		}
		x.begin(e)
	case history.ActivityCompleted, history.ChildCompleted, history.ActivityFailed, history.ChildFailed,
		history.EntityCompleted, history.EntityFailed, history.EntityLocked:
		x.resolve(e)
	case history.TimerFired:
		// The code may have moved it, because of an event that came before it in this turn.
		if f := x.futures[e.Ref]; f != nil && f.moved != x.turns {
			x.resolve(e)
		}
	case history.TimerMoveReceived:
		if f := x.futures[e.Ref]; f != nil {
			f.at = e.At
		}
	case history.EventReceived:
		if !e.Discarded {
			x.inbox(e.Name).deliver(received{e.ID, e.Data})
		}
	case history.CancelRequested:
		why := &history.Failure{Type: CancelledType, Message: reason(e.Name), Final: true}
		x.spawn(func() { x.root.cancel(why) }) // it does things, as code does
	default:
		return fmt.Errorf("replay: %v is not an event that reaches an instance: %w", e, ErrHistory)
	}
	return nil
}

// CancelledType is the type of the failure of what was cancelled.
const CancelledType = "abide.Cancelled"

func reason(why string) string {
	if why == "" {
		return "cancelled"
	}
	return "cancelled: " + why
}

// begin starts the code.
func (x *Execution) begin(e *history.Event) {
	x.started, x.startID, x.start, x.name = true, e.ID, *e.Start, e.Name
	input := e.Data
	x.random = e.Start.Seed
	x.spawn(func() {
		x.end(x.code(&Context{x: x, scope: x.root}, input))
	})
}

// end notes how the code has ended.
func (x *Execution) end(o Outcome) {
	o.Failure = o.Failure.Bounded()
	e := history.Event{Kind: history.ExecutionCompleted, Data: o.Data}
	switch {
	case o.Continue != nil:
		e = history.Event{
			Kind: history.ExecutionContinued, Name: o.Continue.Name, Data: o.Continue.Input,
			Start: &history.Start{
				Version: o.Continue.Version, Execution: x.start.Execution + 1,
				Parent: x.start.Parent, ParentExecution: x.start.ParentExecution, ParentEvent: x.start.ParentEvent,
			},
		}
	case o.Failure != nil && o.Failure.Type == CancelledType && x.root.cancelled != nil:
		e = history.Event{Kind: history.ExecutionCancelled, Failure: o.Failure}
	case o.Failure != nil:
		e = history.Event{Kind: history.ExecutionFailed, Failure: o.Failure}
	}
	x.emit(e)
	x.ended = true
}

// emit records an event that the code produces, and returns its ID. It is the only way in which code acts.
// In a replayed turn the event is compared with the next one of history; if it differs, emit does not return:
// the code is stopped here, before it can act on it. Markers of retired changes are skipped on the way, as
// code may no longer set them.
func (x *Execution) emit(e history.Event) int32 {
	x.mustLive()
	if e.Kind == history.ChangeMarked {
		x.skipRetired(e.Name)
	} else {
		x.skipRetired("")
	}
	e.ID = x.lastID + 1
	x.progress.Add(1)
	if x.replaying() {
		if len(x.expected) == 0 {
			x.stopWith(x.tooMuch(&e))
		}
		if !sameDeed(&x.expected[0], &e) || x.SameTimes && !sameTime(&x.expected[0], &e) {
			x.stopWith(x.different(&x.expected[0], &e))
		}
		x.expected = x.expected[1:]
	} else {
		x.produced = append(x.produced, e)
	}
	x.lastID = e.ID
	return e.ID
}

// replaying reports whether what the code does now was done before. In a turn that history breaks off, it
// becomes false when the last expected event was matched: from there on the code is live.
func (x *Execution) replaying() bool {
	if x.replayed && x.goOn && len(x.expected) == 0 {
		x.replayed = false
	}
	return x.replayed
}

// next returns what history says that the code does now, if the turn is replayed and
// it is of one of these kinds. The code is about to do it.
func (x *Execution) next(kinds ...history.Kind) *history.Event {
	x.skipRetired("")
	return x.peek(kinds...)
}

// peek is next for code that may do something else.
func (x *Execution) peek(kinds ...history.Kind) *history.Event {
	if x.replaying() && len(x.expected) > 0 && slices.Contains(kinds, x.expected[0].Kind) {
		return &x.expected[0]
	}
	return nil
}

// Close ends the code wherever it is. What it has deferred runs, and can do nothing.
func (x *Execution) Close() {
	x.closed = true
	x.stopAll()
}
