package worker

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/internal/engine"
	"github.com/abidehq/abide/internal/replay"
	"github.com/abidehq/abide/internal/workerlink"
	"github.com/abidehq/abide/internal/workerpb"
)

// execution is the code of an instance, for as long as the server keeps it.
type execution struct {
	id   uint64
	ref  engine.Ref
	exec engine.Execution // of the goroutine that runs a turn, while there is one

	// Since its last turn that was not a replay; of the goroutine that receives.
	opened   bool // it was made
	replayed bool // it was sent history

	busy   bool // a turn runs; guarded by Session.mu
	closed bool // the server has closed it; guarded by Session.mu
}

// turn is a turn that runs.
type turn struct {
	s *Session
	m *workerpb.Turn
	x *execution

	ctx  context.Context //nolint:containedctx // the turn is the lifetime of the context
	stop context.CancelCauseFunc

	started time.Time
	steps   stepContext

	// seen is the progress that was last reported, and reports for how many reports it has not changed.
	// The goroutine that reports uses them.
	seen    uint64
	reports int
}

// stepContext is the context of the steps of a turn, which ends when the instance is cancelled.
type stepContext struct {
	mu    sync.Mutex
	ctx   context.Context //nolint:containedctx // of the steps of one turn
	stop  context.CancelCauseFunc
	asked bool
}

func (c *stepContext) get(parent context.Context) context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ctx == nil {
		c.ctx, c.stop = context.WithCancelCause(parent)
		if c.asked {
			c.stop(engine.ErrCancelRequested)
		}
	}
	return c.ctx
}

func (c *stepContext) cancel() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked = true
	if c.stop != nil {
		c.stop(engine.ErrCancelRequested)
	}
}

func (c *stepContext) cancelled() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.asked
}

func (c *stepContext) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stop != nil {
		c.stop(nil)
	}
}

// errGone is the error of a turn of an execution that this worker does not have.
var errGone = fmt.Errorf("the worker does not have the execution: %w", engine.ErrUnavailable)

// beginTurn runs a turn in a goroutine of its own.
func (s *Session) beginTurn(m *workerpb.Turn) {
	t := &turn{s: s, m: m, started: s.cfg.Clock.Now()}
	t.steps.asked = m.GetStepsCancelled()
	x, err := s.enter(t)
	if err != nil {
		s.answer(&workerpb.TurnResult{Id: m.GetId(), Error: workerlink.EncodeError(err)})
		return
	}
	t.x = x
	s.cfg.Meters.sent(t)
	ctx := workerlink.WithTrace(s.ctx, m.GetTrace())
	t.ctx, t.stop = context.WithCancelCause(ctx)
	s.mu.Lock()
	s.turns[m.GetId()] = t
	s.mu.Unlock()
	s.do(t.run)
	s.watch()
}

// enter returns the execution of a turn, which is new if the turn says so.
func (s *Session) enter(t *turn) (*execution, error) {
	if open := t.m.GetOpen(); open != nil {
		ref := engine.Ref{Tenant: open.GetTenant(), ID: open.GetId()}
		exec, err := s.cfg.Executor.Load(s.ctx, ref, open.GetName(), open.GetVersion())
		if err != nil {
			return nil, err
		}
		x := &execution{id: t.m.GetExecution(), ref: ref, exec: exec, busy: true}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.executions[x.id] = x
		return x, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	x := s.executions[t.m.GetExecution()]
	if x == nil || x.busy {
		return nil, errGone
	}
	x.busy = true
	return x, nil
}

// run runs the turn, and answers. Code that ends its goroutine, as failing tests do, is answered for too.
func (t *turn) run() {
	result := &workerpb.TurnResult{Id: t.m.GetId(), Error: workerlink.EncodeError(errGone)}
	defer func() {
		t.steps.end()
		t.stop(nil)
		t.s.leave(t, result)
	}()
	if r, err := t.execute(); err != nil {
		result.Error = workerlink.EncodeError(err)
	} else {
		result = r
	}
}

// execute has the code do what the turn says.
func (t *turn) execute() (*workerpb.TurnResult, error) {
	exec := t.x.exec
	events, err := workerlink.DecodeEvents(t.m.GetEvents())
	if err != nil {
		return nil, fmt.Errorf("worker: turn: %w", err)
	}
	var did []history.Event
	switch {
	case t.m.GetReplay():
		err = exec.Replay(events)
	case t.m.GetBroken():
		var expected []history.Event
		if expected, err = workerlink.DecodeEvents(t.m.GetExpected()); err == nil {
			did, err = exec.ContinueTurn(t.live(), events, expected)
		}
	default:
		did, err = exec.Turn(t.live(), events)
	}
	if err == nil {
		if err = workerlink.CheckEvents(t.s.cfg.Revision, did); err != nil {
			t.s.cfg.Logger.Error("turn needs what the server does not know", "tenant", t.x.ref.Tenant, "instance", t.x.ref.ID, "error", err)
		}
	}
	if err != nil {
		return nil, err
	}
	r := &workerpb.TurnResult{Id: t.m.GetId(), Events: workerlink.EncodeEvents(did), Ended: exec.Ended()}
	for _, a := range exec.Awaited() {
		r.Awaited = append(r.Awaited, &workerpb.Awaited{Name: a.Name, Schema: a.Schema, SinceUs: workerlink.Micros(a.Since)})
	}
	if r.Ended {
		r.Unreceived = workerlink.EncodeEvents(exec.Unreceived())
	}
	return r, nil
}

// live returns what the code of a new turn needs of the world.
func (t *turn) live() replay.Live {
	return replay.Live{
		Context: t.ctx, NoSteps: t.m.GetNoSteps(),
		Steps: func() context.Context { return t.steps.get(t.ctx) },
		Yield: t.yield, Full: t.full(),
	}
}

// yield reports whether the turn should end here, so that the results of its steps become durable.
func (t *turn) yield() bool {
	limit := time.Duration(t.m.GetStepCommitUs()) * time.Microsecond
	return t.s.cfg.Clock.Now().Sub(t.started) >= limit || t.steps.cancelled()
}

// full returns a function that reports whether the code has done as much as the turn may.
func (t *turn) full() func(produced []history.Event) bool {
	key, n := len(t.x.ref.Tenant)+len(t.x.ref.ID), 0
	bytes, operations := t.m.GetBytes(), t.m.GetOperations()
	return func(produced []history.Event) bool {
		for ; n < len(produced); n++ {
			size, things := replay.Weigh(&produced[n], key)
			bytes -= int64(size)
			operations -= int64(things)
		}
		return bytes <= 0 || operations <= 0
	}
}

// leave ends a turn. An execution that has ended or failed, or that the server has closed, is closed.
func (s *Session) leave(t *turn, r *workerpb.TurnResult) {
	x := t.x
	s.cfg.Meters.turned(t, r)
	s.mu.Lock()
	delete(s.turns, t.m.GetId())
	x.busy = false
	gone := x.closed || r.GetEnded() || r.GetError() != nil || s.ctx.Err() != nil
	if gone && s.executions[x.id] == x {
		delete(s.executions, x.id)
	}
	s.mu.Unlock()
	s.answer(r)
	if gone {
		s.closeCode(x)
	}
}

// closeCode runs the deferred functions of code that has not ended, and tells the server when they have
// returned.
func (s *Session) closeCode(x *execution) {
	x.exec.Close()
	if x.closed {
		s.out.Add(func(m *workerpb.FromWorker) { m.Closed = append(m.Closed, x.id) })
	}
}

func (s *Session) answer(r *workerpb.TurnResult) {
	size := workerlink.SizeOf(r.GetEvents()...) + workerlink.SizeOf(r.GetUnreceived()...)
	s.out.AddSized(size, func(m *workerpb.FromWorker) { m.Turns = append(m.Turns, r) })
}

func (s *Session) turnOf(id uint64) *turn {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.turns[id]
}

// closeExecution closes an execution that the server is done with.
func (s *Session) closeExecution(id uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	x := s.executions[id]
	if x == nil { // it has closed it itself
		s.out.Add(func(m *workerpb.FromWorker) { m.Closed = append(m.Closed, id) })
		return
	}
	delete(s.executions, id)
	x.closed = true
	if !x.busy {
		s.work.Go(func() { s.closeCode(x) })
	}
}

// cancelSteps ends the steps of an execution.
func (s *Session) cancelSteps(execution uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.turns {
		if t.m.GetExecution() == execution {
			t.steps.cancel()
		}
	}
}

const (
	// reportAfter is how long a turn runs before its progress is reported, and reportEvery how often
	// from then on.
	reportAfter = 100 * time.Millisecond
	reportEvery = time.Second

	// blockedReports is after how many reports without progress it is said where the code waits: that
	// takes the stacks of the whole process.
	blockedReports = 3
)

// watch has the progress of turns reported for as long as there are any.
func (s *Session) watch() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.watching {
		s.watching = true
		s.cfg.Clock.AfterFunc(reportAfter, s.report)
	}
}

// report tells the server how far turns have come that take long.
func (s *Session) report() {
	now := s.cfg.Clock.Now()
	s.mu.Lock()
	var long []*turn
	for _, t := range s.turns {
		if now.Sub(t.started) >= reportAfter {
			long = append(long, t)
		}
	}
	s.watching = len(s.turns) > 0 && s.ctx.Err() == nil
	next := reportAfter
	if len(long) == len(s.turns) {
		next = reportEvery
	}
	again := s.watching
	s.mu.Unlock()
	for _, t := range long {
		p := t.progress()
		s.out.Add(func(m *workerpb.FromWorker) { m.Progress = append(m.Progress, p) })
	}
	if again { // and not before, so that there is one report at a time
		s.cfg.Clock.AfterFunc(next, s.report)
	}
}

// progress returns how far the code has come.
func (t *turn) progress() *workerpb.Progress {
	n, inStep := t.x.exec.Progress()
	p := &workerpb.Progress{Turn: t.m.GetId(), Number: n, InStep: inStep}
	if inStep || n != t.seen {
		t.seen, t.reports = n, 0
		return p
	}
	if t.reports++; t.reports%blockedReports == 0 {
		p.Blocked = history.Cut(engine.WhereBlocked())
	}
	return p
}
