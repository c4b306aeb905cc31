package workerhost

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/internal/engine"
	"github.com/abidehq/abide/internal/replay"
	"github.com/abidehq/abide/internal/workerlink"
	"github.com/abidehq/abide/internal/workerpb"
)

// execution is code that the worker has in its memory. One goroutine at a time uses it, except for
// Progress and WhereBlocked.
type execution struct {
	s  *Session
	id uint64

	open   *workerpb.Open // until the worker has it
	failed bool           // the worker does not have it any more

	// What the worker has said with its last turn.
	awaited    []engine.Awaited
	unreceived []history.Event
	ended      bool

	progress atomic.Pointer[report] // of the turn that runs, nil until there is one
}

var _ engine.Execution = (*execution)(nil)

// report is what a worker has said of a turn that takes long.
type report struct {
	number  uint64
	inStep  bool
	blocked string
	at      time.Time
}

// turn waits for its result.
type turn struct {
	x      *execution
	result chan *workerpb.TurnResult // room for one
	lost   chan struct{}             // closed when the session ends

	// steps is called when the worker is known to run a step, which may be cancelled.
	steps func()
}

// Load returns an execution that the worker makes when it is first used.
func (s *Session) Load(_ context.Context, ref engine.Ref, name, version string) (engine.Execution, error) {
	if s.ctx.Err() != nil {
		return nil, errGone
	}
	return &execution{
		s: s, id: s.newID(), open: &workerpb.Open{Tenant: ref.Tenant, Id: ref.ID, Name: name, Version: version},
	}, nil
}

func (s *Session) newID() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastID++
	return s.lastID
}

// Replay has the worker replay a part of the history. Nothing is sent for an instance that has none yet.
func (x *execution) Replay(events []history.Event) error {
	if len(events) == 0 {
		return nil
	}
	_, err := x.run(nil, &workerpb.Turn{Replay: true, Events: workerlink.EncodeEvents(events)})
	return err
}

// Turn has the worker run a turn.
func (x *execution) Turn(live replay.Live, incoming []history.Event) ([]history.Event, error) {
	return x.run(&live, &workerpb.Turn{Events: workerlink.EncodeEvents(incoming)})
}

// ContinueTurn has the worker run a turn that history breaks off.
func (x *execution) ContinueTurn(live replay.Live, incoming, expected []history.Event) ([]history.Event, error) {
	return x.run(&live, &workerpb.Turn{Broken: true, Events: workerlink.EncodeEvents(incoming), Expected: workerlink.EncodeEvents(expected)})
}

// run sends a turn and returns what the code did.
func (x *execution) run(live *replay.Live, m *workerpb.Turn) ([]history.Event, error) {
	ctx := context.Background()
	t := &turn{x: x, result: make(chan *workerpb.TurnResult, 1), lost: make(chan struct{}), steps: func() {}}
	m.Execution, m.Open, x.open = x.id, x.open, nil
	if live != nil {
		ctx = live.Context
		left := live.Left()
		m.NoSteps, m.StepCommitUs, m.StepsCancelled = live.NoSteps, left.Steps.Microseconds(), left.Cancelled
		m.Bytes, m.Operations = int64(left.Bytes), int64(left.Operations)
		m.Trace = workerlink.EncodeTrace(ctx)
		t.steps = x.stepsOf(live)
	}
	x.progress.Store(nil)
	if !x.s.beginTurn(t, m) {
		x.failed = true
		return nil, errGone
	}
	r := x.s.awaitTurn(ctx, t, m.GetId())
	if r == nil {
		x.failed = true
		return nil, errGone
	}
	did, err := x.take(r)
	if err == nil && live != nil && live.Full != nil {
		live.Full(did) // counts what the turn has done, for the next one of the same commit
	}
	return did, err
}

// take keeps what the worker has said of the execution, and returns what the code did.
func (x *execution) take(r *workerpb.TurnResult) ([]history.Event, error) {
	if r.GetError() != nil {
		x.failed = true
		return nil, workerlink.DecodeError(r.GetError())
	}
	did, err := workerlink.DecodeEvents(r.GetEvents())
	if err == nil {
		x.unreceived, err = workerlink.DecodeEvents(r.GetUnreceived())
	}
	if errors.Is(err, engine.ErrOutdated) { // and closed by the engine: the worker has it still
		return nil, fmt.Errorf("abide: result of a turn: %w", err)
	}
	if i := slices.IndexFunc(did, func(e history.Event) bool { return e.Kind.Incoming() }); err == nil && i >= 0 {
		err = fmt.Errorf("the code did [%v], which code cannot do", &did[i])
	}
	if err != nil {
		x.failed = true
		x.s.stop(fmt.Errorf("%w: result of a turn: %w", ErrProtocol, err))
		return nil, errGone
	}
	x.ended = r.GetEnded()
	x.awaited = x.awaited[:0:0]
	for _, a := range r.GetAwaited() {
		x.awaited = append(x.awaited, engine.Awaited{Name: a.GetName(), Schema: a.GetSchema(), Since: workerlink.Time(a.GetSinceUs())})
	}
	return did, nil
}

// stepsOf returns a function that has the worker's steps end when the instance is cancelled. It is called
// when the worker is known to run a step, and works once.
func (x *execution) stepsOf(live *replay.Live) func() {
	var begun atomic.Bool
	return func() {
		if live.Steps == nil || !begun.CompareAndSwap(false, true) {
			return
		}
		steps := live.Steps()
		context.AfterFunc(steps, func() {
			if live.Context.Err() == nil {
				x.s.out.Add(func(m *workerpb.ToWorker) { m.CancelSteps = append(m.CancelSteps, x.id) })
			}
		})
	}
}

// beginTurn sends a turn, unless the session has ended.
func (s *Session) beginTurn(t *turn, m *workerpb.Turn) bool {
	s.mu.Lock()
	if s.turns == nil {
		s.mu.Unlock()
		return false
	}
	s.lastID++
	m.Id = s.lastID
	s.turns[m.Id] = t
	s.mu.Unlock()
	size := workerlink.SizeOf(m.GetEvents()...) + workerlink.SizeOf(m.GetExpected()...)
	s.out.AddSized(size, func(to *workerpb.ToWorker) { to.Turns = append(to.Turns, m) })
	return true
}

// awaitTurn returns the result of a turn, or nil if the worker is lost. If ctx ends first, the worker is
// told, and still waited for: its code returns, or the engine abandons this goroutine.
func (s *Session) awaitTurn(ctx context.Context, t *turn, id uint64) *workerpb.TurnResult {
	ended := ctx.Done()
	for {
		select {
		case r := <-t.result:
			return r
		case <-t.lost:
			return nil
		case <-ended:
			ended = nil
			c := &workerpb.Cancel{Id: id, Cause: workerlink.EncodeCause(context.Cause(ctx))}
			s.out.Add(func(m *workerpb.ToWorker) { m.CancelTurns = append(m.CancelTurns, c) })
		}
	}
}

// turned passes on the result of a turn.
func (s *Session) turned(r *workerpb.TurnResult) error {
	s.mu.Lock()
	t := s.turns[r.GetId()]
	delete(s.turns, r.GetId())
	s.mu.Unlock()
	if t == nil {
		return fmt.Errorf("%w: the result of turn %d, which it was not sent or has answered", ErrProtocol, r.GetId())
	}
	t.result <- r
	return nil
}

// progressed notes how far a turn has come. One that has ended meanwhile is none of its business.
func (s *Session) progressed(p *workerpb.Progress) {
	s.mu.Lock()
	t := s.turns[p.GetTurn()]
	s.mu.Unlock()
	if t == nil {
		return
	}
	now := &report{number: p.GetNumber(), inStep: p.GetInStep(), blocked: p.GetBlocked(), at: s.cfg.Clock.Now()}
	if before := t.x.progress.Load(); before != nil && before.number == now.number && now.blocked == "" {
		now.blocked = before.blocked // it is not said each time
	}
	t.x.progress.Store(now)
	if p.GetInStep() {
		t.steps()
	}
}

// heardWithin is how old a report may be: a worker that is silent may be frozen or cut off, and does not
// make its instance stall.
const heardWithin = 3 * time.Second

// Progress returns what the worker has said, if it has said anything lately.
func (x *execution) Progress() (n uint64, inStep bool) {
	p := x.progress.Load()
	if p == nil || x.s.cfg.Clock.Now().Sub(p.at) > heardWithin {
		return 0, true
	}
	return p.number, p.inStep
}

// WhereBlocked returns where the code waits, as far as the worker has said it.
func (x *execution) WhereBlocked() string {
	if p := x.progress.Load(); p != nil {
		return p.blocked
	}
	return ""
}

// Awaits reports whether the code waits for an event of that name.
func (x *execution) Awaits(name string) bool {
	return slices.ContainsFunc(x.awaited, func(a engine.Awaited) bool { return a.Name == name })
}

// Awaited returns the events that the code waits for.
func (x *execution) Awaited() []engine.Awaited { return x.awaited }

// Unreceived returns what has reached code that has ended, and it has not seen.
func (x *execution) Unreceived() []history.Event { return x.unreceived }

// Ended reports whether the code has come to an end.
func (x *execution) Ended() bool { return x.ended }

// Close has the worker close the execution, if it has it, and waits until its deferred functions have
// returned or the worker is lost.
func (x *execution) Close() {
	if x.ended || x.failed || x.open != nil {
		return
	}
	s, closed := x.s, make(chan struct{})
	s.mu.Lock()
	if s.closing == nil {
		s.mu.Unlock()
		return
	}
	s.closing[x.id] = closed
	s.mu.Unlock()
	s.out.Add(func(m *workerpb.ToWorker) { m.Close = append(m.Close, x.id) })
	<-closed
}

// closed has the Close of an execution return.
func (s *Session) closed(id uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if waiting := s.closing[id]; waiting != nil {
		close(waiting)
		delete(s.closing, id)
	}
}
