package workerhost

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/internal/engine"
	"github.com/abidehq/abide/internal/workerlink"
	"github.com/abidehq/abide/internal/workerpb"
)

// activity waits for the result of an attempt.
type activity struct {
	result chan *workerpb.ActivityResult // room for one
	lost   chan struct{}                 // closed when the session ends
	wake   chan struct{}                 // there is a heartbeat
	asked  bool                          // the details of the attempt before were told; of its goroutine

	mu    sync.Mutex
	beats *workerpb.Heartbeat // the last ones in one, nil if there are none
}

// Activity runs an attempt at an activity of the worker.
func (s *Session) Activity(ctx context.Context, t *engine.Task) ([]byte, *history.Failure) {
	a := &activity{result: make(chan *workerpb.ActivityResult, 1), lost: make(chan struct{}), wake: make(chan struct{}, 1)}
	m := &workerpb.Activity{
		Tenant: t.Ref.Tenant, Instance: t.Ref.ID, Execution: t.Execution, Event: t.Event, Key: t.Key, Name: t.Name, Attempt: int32(t.Attempt),
		Input: t.Input, ScheduledUs: workerlink.Micros(t.ScheduledAt), Last: workerlink.EncodeFailure(t.Last), Trace: workerlink.EncodeTrace(ctx),
	}
	if !s.beginActivity(a, m) {
		return nil, engine.WorkerGone
	}
	ended := ctx.Done()
	for {
		select {
		case r := <-a.result:
			a.passOn(s, t, m.GetId())
			failure, err := outcomeOf(r)
			if errors.Is(err, engine.ErrOutdated) {
				return nil, t.Outdated(err)
			}
			if err != nil {
				s.stop(fmt.Errorf("%w: result of activity %q: %w", ErrProtocol, t.Name, err))
				return nil, engine.WorkerLost
			}
			return r.GetResult(), failure
		case <-a.wake:
			a.passOn(s, t, m.GetId())
		case <-a.lost:
			a.passOn(s, t, m.GetId())
			return nil, engine.WorkerLost
		case <-ended:
			ended = nil
			c := &workerpb.Cancel{Id: m.GetId(), Cause: workerlink.EncodeCause(context.Cause(ctx))}
			s.out.Add(func(m *workerpb.ToWorker) { m.CancelActivities = append(m.CancelActivities, c) })
		}
	}
}

// outcomeOf returns the failure of an attempt, nil if it has none. [engine.ErrOutdated] means that the outcome is
// not known.
func outcomeOf(r *workerpb.ActivityResult) (*history.Failure, error) {
	if r.GetOutdated() != "" {
		return nil, fmt.Errorf("abide: worker: %s: %w", r.GetOutdated(), engine.ErrOutdated)
	}
	return workerlink.DecodeFailure(r.GetFailure())
}

// beginActivity sends an attempt, unless the session has ended.
func (s *Session) beginActivity(a *activity, m *workerpb.Activity) bool {
	s.mu.Lock()
	if s.activities == nil {
		s.mu.Unlock()
		return false
	}
	s.lastID++
	m.Id = s.lastID
	s.activities[m.Id] = a
	s.mu.Unlock()
	s.out.AddSized(workerlink.SizeOf(m.GetInput(), m.GetLast()), func(to *workerpb.ToWorker) { to.Activities = append(to.Activities, m) })
	return true
}

// acted passes on the result of an attempt.
func (s *Session) acted(r *workerpb.ActivityResult) error {
	s.mu.Lock()
	a := s.activities[r.GetId()]
	delete(s.activities, r.GetId())
	s.mu.Unlock()
	if a == nil {
		return fmt.Errorf("%w: the result of activity %d, which it was not sent or has answered", ErrProtocol, r.GetId())
	}
	a.result <- r
	return nil
}

// beaten notes a heartbeat, for the goroutine of the attempt to pass on. One of an attempt that has ended
// meanwhile is nobody's concern.
func (s *Session) beaten(h *workerpb.Heartbeat) {
	s.mu.Lock()
	a := s.activities[h.GetActivity()]
	s.mu.Unlock()
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.beats == nil {
		a.beats = &workerpb.Heartbeat{}
	}
	if h.GetHasDetails() {
		a.beats.HasDetails, a.beats.Details = true, h.GetDetails()
	}
	a.beats.Ask = a.beats.GetAsk() || h.GetAsk()
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// passOn passes heartbeats on to the engine. If nobody waits for the result any more, the context of the
// attempt has ended, of which the worker is told.
func (a *activity) passOn(s *Session, t *engine.Task, id uint64) {
	a.mu.Lock()
	beats := a.beats
	a.beats = nil
	a.mu.Unlock()
	if beats == nil {
		return
	}
	var details []byte
	if beats.GetHasDetails() {
		details = append([]byte{}, beats.GetDetails()...)
	}
	if err := t.Heartbeat(details); err != nil {
		s.cfg.Logger.Debug("heartbeat refused", "activity", t.Name, "error", err)
	}
	if !beats.GetAsk() || a.asked { // they do not change, and are told once
		return
	}
	a.asked = true
	r := &workerpb.HeartbeatReply{Activity: id}
	before, err := t.Details()
	if err != nil {
		r.Error = err.Error()
	}
	r.Details = before
	s.out.AddSized(len(before), func(m *workerpb.ToWorker) { m.Heartbeats = append(m.Heartbeats, r) })
}
