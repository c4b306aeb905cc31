package worker

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/internal/claimloop"
	"github.com/abidehq/abide/internal/engine"
	"github.com/abidehq/abide/internal/workerlink"
	"github.com/abidehq/abide/internal/workerpb"
)

// activity is an attempt at an activity that runs.
type activity struct {
	s    *Session
	m    *workerpb.Activity
	ctx  context.Context //nolint:containedctx // given to the function by the API
	stop context.CancelCauseFunc
	span trace.Span // nil without a tracer

	// details asks for the details of the attempt before, once, and reply gets the answer.
	details func() ([]byte, error)
	reply   chan *workerpb.HeartbeatReply
}

var _ engine.Reporter = (*activity)(nil)

// beginActivity runs an activity in a goroutine of its own.
func (s *Session) beginActivity(m *workerpb.Activity) {
	a := &activity{s: s, m: m, reply: make(chan *workerpb.HeartbeatReply, 1)}
	a.details = sync.OnceValues(a.askDetails)
	a.ctx, a.stop = context.WithCancelCause(a.beginSpan(workerlink.WithTrace(s.ctx, m.GetTrace())))
	s.mu.Lock()
	s.activities[m.GetId()] = a
	s.mu.Unlock()
	s.cfg.Meters.begun()
	s.do(a.run)
}

func (s *Session) activityOf(id uint64) *activity {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.activities[id]
}

// run runs the activity, and answers. Code that ends its goroutine, as failing tests do, has failed.
func (a *activity) run() {
	r := &workerpb.ActivityResult{Id: a.m.GetId(), Failure: workerlink.EncodeFailure(&history.Failure{
		Type: engine.TypePanic, Message: fmt.Sprintf("the function of activity %q has ended its goroutine", a.m.GetName()),
	})}
	defer func() {
		a.stop(nil)
		a.endSpan(r)
		a.s.cfg.Meters.acted(r)
		a.s.mu.Lock()
		delete(a.s.activities, a.m.GetId())
		a.s.mu.Unlock()
		a.s.out.AddSized(workerlink.SizeOf(r.GetResult(), r.GetFailure()), func(m *workerpb.FromWorker) { m.Activities = append(m.Activities, r) })
	}()
	data, failure, err := a.call()
	if err != nil {
		r.Failure, r.Outdated = nil, workerlink.EncodeOutdated(err)
		return
	}
	if failure == nil && len(data) > engine.MaxPayload { // as the server would say: it may be no message
		data, failure = nil, engine.TooLarge(data)
	}
	r.Result, r.Failure = data, workerlink.EncodeFailure(failure)
}

// beginSpan begins the span of the function, below that of the attempt, which is the server's.
func (a *activity) beginSpan(ctx context.Context) context.Context {
	if a.s.cfg.Tracer == nil {
		return ctx
	}
	ctx, a.span = a.s.cfg.Tracer.Start(ctx, "run "+a.m.GetName(), trace.WithTimestamp(a.s.cfg.Clock.Now()), trace.WithAttributes(
		engine.ActivityAttributes(engine.Ref{Tenant: a.m.GetTenant(), ID: a.m.GetInstance()}, a.m.GetName(), int(a.m.GetAttempt()))...))
	return ctx
}

// endSpan emits the span, whatever becomes of the attempt.
func (a *activity) endSpan(r *workerpb.ActivityResult) {
	if a.span == nil {
		return
	}
	if f, err := workerlink.DecodeFailure(r.GetFailure()); err == nil && f != nil {
		a.span.SetStatus(codes.Error, f.Message)
	}
	a.span.End(trace.WithTimestamp(a.s.cfg.Clock.Now()))
}

// call calls the function. A panic is a failure like any other. An error means that it was not called, because the
// server is of a later release.
func (a *activity) call() (data []byte, failure *history.Failure, err error) {
	m := a.m
	f := a.s.cfg.Activities[m.GetName()]
	last, unread := workerlink.DecodeFailure(m.GetLast())
	if errors.Is(unread, engine.ErrOutdated) {
		return nil, nil, fmt.Errorf("the failure of the attempt before: %w", unread)
	}
	if f == nil || unread != nil {
		return nil, &history.Failure{Message: fmt.Sprintf("activity %q cannot be run by its worker: %v", m.GetName(), unread)}, nil
	}
	t := &engine.Task{
		Ref: engine.Ref{Tenant: m.GetTenant(), ID: m.GetInstance()}, Execution: m.GetExecution(), Event: m.GetEvent(), Key: m.GetKey(),
		Name: m.GetName(), Attempt: int(m.GetAttempt()), Input: m.GetInput(), ScheduledAt: workerlink.Time(m.GetScheduledUs()), Last: last,
	}
	t.ReportTo(a)
	if p := claimloop.Catch(func() { data, failure = f(a.ctx, t) }); p != nil {
		return nil, engine.PanicFailure(p.Value, p.Stack), nil //nolint:nilerr // the panic is the failure of the activity
	}
	return data, failure, nil
}

// Heartbeat tells the server that the activity is alive. What has not been sent yet is replaced.
func (a *activity) Heartbeat(details []byte) error {
	if cause := context.Cause(a.ctx); cause != nil {
		return cause
	}
	if len(details) > engine.MaxPayload {
		return fmt.Errorf("abide: heartbeat: details have %d bytes, at most %d are allowed: %w", len(details), engine.MaxPayload, engine.ErrInvalid)
	}
	id := a.m.GetId()
	a.s.out.AddSized(len(details), func(m *workerpb.FromWorker) {
		for _, h := range m.GetHeartbeats() {
			if h.GetActivity() == id && !h.GetAsk() {
				if details != nil {
					h.HasDetails, h.Details = true, append([]byte{}, details...)
				}
				return
			}
		}
		m.Heartbeats = append(m.Heartbeats, &workerpb.Heartbeat{Activity: id, HasDetails: details != nil, Details: append([]byte{}, details...)})
	})
	return nil
}

// Details returns the details of the attempt before.
func (a *activity) Details() ([]byte, error) {
	if a.m.GetAttempt() == 1 {
		return nil, nil
	}
	return a.details()
}

// askDetails asks the server for the details of the attempt before.
func (a *activity) askDetails() ([]byte, error) {
	a.s.out.Add(func(m *workerpb.FromWorker) {
		m.Heartbeats = append(m.Heartbeats, &workerpb.Heartbeat{Activity: a.m.GetId(), Ask: true})
	})
	select {
	case r := <-a.reply:
		if r.GetError() != "" {
			return nil, errors.New(r.GetError())
		}
		if len(r.GetDetails()) == 0 {
			return nil, nil
		}
		return r.GetDetails(), nil
	case <-a.ctx.Done():
		return nil, fmt.Errorf("abide: details: %w", context.Cause(a.ctx))
	}
}

// answered has askDetails return.
func (a *activity) answered(r *workerpb.HeartbeatReply) {
	select {
	case a.reply <- r:
	default:
	}
}
