package durabletask

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/abidehq/abide/history"
	pb "github.com/abidehq/abide/internal/durabletaskpb"
	"github.com/abidehq/abide/internal/engine"
	"github.com/abidehq/abide/internal/replay"
)

// execution is the code of an instance as its worker runs it: the worker keeps nothing between turns, and is sent
// the history with each of them. One goroutine at a time uses it.
type execution struct {
	s       *session
	ref     Ref
	name    string
	version string

	translate *translator
	past      []*pb.HistoryEvent
	bytes     int // of past

	run        uint64           // of the execution
	number     int32            // of the execution, from 1
	status     string           // the custom status
	locks      map[string]int32 // events that request locks, by the ID of the critical section
	unreceived []history.Event
	ended      bool
}

var _ engine.Execution = (*execution)(nil)

// Load returns an execution that has not begun.
func (s *session) Load(_ context.Context, ref engine.Ref, name, version string) (engine.Execution, error) {
	return &execution{s: s, ref: ref, name: name, version: version, translate: newTranslator(ref), locks: map[string]int32{}}, nil
}

// Replay notes what has happened. The code learns of it with the next turn.
func (x *execution) Replay(events []history.Event) error {
	x.note(events)
	return nil
}

// note adds events to those that the worker is sent as the past.
func (x *execution) note(events []history.Event) {
	for _, e := range x.events(events) {
		x.past = append(x.past, e)
		x.bytes += proto.Size(e)
	}
}

// events returns events as the worker is sent them, and remembers what they say of the execution.
func (x *execution) events(events []history.Event) []*pb.HistoryEvent {
	var out []*pb.HistoryEvent
	for i := range events {
		e := &events[i]
		switch e.Kind {
		case history.ExecutionStarted:
			x.run, x.number = e.Start.Seed, e.Start.Execution
		case history.StatusSet:
			x.status = e.Name
		case history.EntityLockRequested:
			if e.Foreign != nil {
				x.locks[e.Foreign.Request] = e.ID
			}
		default:
		}
		if e.Kind.Quiet() || e.Kind.Ends() {
			continue
		}
		if event := x.translate.event(e); event != nil {
			out = append(out, event)
		}
	}
	return out
}

// Turn has the worker run a turn.
func (x *execution) Turn(live replay.Live, incoming []history.Event) ([]history.Event, error) {
	return x.turn(live, x.events(incoming), incoming[len(incoming)-1].ID)
}

// ContinueTurn has the worker run a turn that history breaks off: what the code did so far is past, and it answers
// with what is left of the turn.
func (x *execution) ContinueTurn(live replay.Live, incoming, expected []history.Event) ([]history.Event, error) {
	x.note(incoming)
	x.note(expected)
	last := incoming[len(incoming)-1].ID
	if len(expected) > 0 {
		last = expected[len(expected)-1].ID
	}
	wake := x.events([]history.Event{{Kind: history.TurnStarted, At: x.translate.now}})
	return x.turn(live, wake, last)
}

func (x *execution) turn(live replay.Live, news []*pb.HistoryEvent, last int32) ([]history.Event, error) {
	r, err := x.ask(live.Context, news)
	if err != nil {
		return nil, err
	}
	for _, e := range news {
		x.past = append(x.past, e)
		x.bytes += proto.Size(e)
	}
	did, err := x.decide(r)
	if err != nil {
		return nil, err
	}
	for i := range did {
		did[i].ID = last + int32(i) + 1
	}
	x.note(did)
	if err := x.s.hub.use(live.Context, namesOf(did)); err != nil {
		return nil, fmt.Errorf("%w: %w", err, engine.ErrUnavailable)
	}
	if live.Full != nil {
		live.Full(did)
	}
	return did, nil
}

// streamAbove is how many bytes of history are sent with a turn to a worker that can read it by itself.
const streamAbove = 512 << 10

// ask has the worker run the code, and returns its answer.
func (x *execution) ask(ctx context.Context, news []*pb.HistoryEvent) (*pb.OrchestratorResponse, error) {
	request := &pb.OrchestratorRequest{
		InstanceId: x.ref.ID, ExecutionId: wrapperspb.String(executionID(x.run)), NewEvents: news,
		EntityParameters: &pb.OrchestratorEntityParameters{},
	}
	if x.s.streams && x.bytes > streamAbove {
		request.RequiresHistoryStreaming = true
	} else {
		request.PastEvents = x.past
	}
	i := x.s.begin(&pb.WorkItem{Request: &pb.WorkItem_OrchestratorRequest{OrchestratorRequest: request}})
	got, err := i.await(ctx)
	if err != nil {
		return nil, err
	}
	answer, ok := got.(*pb.OrchestratorResponse)
	if !ok || answer.GetRequiresHistory() {
		return nil, fmt.Errorf("the worker asks for a history that it was sent: %w", engine.ErrUnavailable)
	}
	return answer, nil
}

// decide returns what the worker's answer means, as events without IDs.
func (x *execution) decide(r *pb.OrchestratorResponse) ([]history.Event, error) {
	var did []history.Event
	if s := r.GetCustomStatus(); s != nil && s.GetValue() != x.status {
		if n := len(s.GetValue()); n > maxCustomStatus {
			return nil, fmt.Errorf("limit: its custom status has %d bytes, at most %d are allowed", n, maxCustomStatus)
		}
		did = append(did, history.Event{Kind: history.StatusSet, Name: s.GetValue()})
	}
	var end *history.Event
	actions := r.GetActions() // of some SDKs in any order
	slices.SortStableFunc(actions, func(a, b *pb.OrchestratorAction) int { return cmp.Compare(a.GetId(), b.GetId()) })
	for _, action := range actions {
		e, err := x.action(action)
		if err != nil {
			return nil, err
		}
		switch {
		case e.Kind.Ends():
			end = &e
		default:
			did = append(did, e)
		}
	}
	if end != nil {
		x.ended = true
		did = append(did, *end)
	}
	return did, nil
}

// maxCustomStatus is the largest custom status, in bytes.
const maxCustomStatus = 16 << 10

// errUnknownAction stalls an instance whose SDK does something that this release does not know.
var errUnknownAction = errors.New("the SDK has answered with an action that this release of Abide does not support")

// action returns the event that an action is.
func (x *execution) action(action *pb.OrchestratorAction) (history.Event, error) {
	f := &history.Foreign{ID: action.GetId()}
	e := history.Event{Foreign: f}
	switch a := action.GetOrchestratorActionType().(type) {
	case *pb.OrchestratorAction_ScheduleTask:
		x.schedule(&e, a.ScheduleTask)
	case *pb.OrchestratorAction_CreateTimer:
		e.Kind, e.At = history.TimerCreated, dueAt(a.CreateTimer.GetFireAt())
	case *pb.OrchestratorAction_CreateSubOrchestration:
		x.start(&e, a.CreateSubOrchestration)
	case *pb.OrchestratorAction_SendEvent:
		e.Kind, e.Target, e.Name, e.Data = history.EventSent, a.SendEvent.GetInstance().GetInstanceId(), a.SendEvent.GetName(), payload(a.SendEvent.GetData())
	case *pb.OrchestratorAction_SendEntityMessage:
		if err := x.message(&e, a.SendEntityMessage); err != nil {
			return e, err
		}
	case *pb.OrchestratorAction_CompleteOrchestration:
		x.complete(&e, a.CompleteOrchestration)
	default:
		return e, fmt.Errorf("%w: %T", errUnknownAction, a)
	}
	if err := x.check(&e); err != nil {
		return history.Event{}, err
	}
	return e, nil
}

// schedule fills in an activity. It is retried by the SDK, so that a failure is the end of it; an attempt whose worker
// was lost is none. Without a version it has that of the orchestration.
func (x *execution) schedule(e *history.Event, a *pb.ScheduleTaskAction) {
	version := a.GetVersion().GetValue()
	e.Foreign.Version = version
	if version == "" {
		version = x.version
	}
	e.Foreign.Tags = a.GetTags()
	x.trace(e.Foreign, a.GetParentTraceContext())
	e.Kind, e.Name, e.Data, e.Activity = history.ActivityScheduled, engine.Route(a.GetName(), version), payload(a.GetInput()), &history.Activity{}
}

// start fills in a sub-orchestration. It goes on if its parent ends first. Some SDKs leave its ID to the backend.
func (x *execution) start(e *history.Event, a *pb.CreateSubOrchestrationAction) {
	e.Foreign.Tags = a.GetTags()
	x.trace(e.Foreign, a.GetParentTraceContext())
	e.Kind, e.Name, e.Target, e.Data = history.ChildStarted, a.GetName(), cmp.Or(a.GetInstanceId(), newID()), payload(a.GetInput())
	e.Child = &history.Child{Version: a.GetVersion().GetValue(), OnClose: history.AbandonChild, Tags: a.GetTags(), Replace: true}
}

func (*execution) trace(f *history.Foreign, t *pb.TraceContext) {
	f.TraceParent, f.TraceState = t.GetTraceParent(), t.GetTraceState().GetValue()
}

// complete fills in the end of the execution.
func (x *execution) complete(e *history.Event, a *pb.CompleteOrchestrationAction) {
	switch a.GetOrchestrationStatus() {
	case pb.OrchestrationStatus_ORCHESTRATION_STATUS_CONTINUED_AS_NEW:
		version := x.version
		if v := a.GetNewVersion(); v != nil {
			version = v.GetValue()
		}
		e.Kind, e.Name, e.Data = history.ExecutionContinued, x.name, payload(a.GetResult())
		e.Start = &history.Start{Version: version, Execution: x.number + 1}
		x.carryOver(a.GetCarryoverEvents())
	case pb.OrchestrationStatus_ORCHESTRATION_STATUS_FAILED:
		e.Kind, e.Failure = history.ExecutionFailed, failureOf(a.GetFailureDetails())
		if e.Failure == nil {
			e.Failure = &history.Failure{Message: "the orchestration failed, and its SDK does not say why"}
		}
		e.Failure = e.Failure.Bounded()
	case pb.OrchestrationStatus_ORCHESTRATION_STATUS_CANCELED:
		e.Kind, e.Failure = history.ExecutionCancelled, &history.Failure{Type: replay.CancelledType, Message: "cancelled", Final: true}
	default:
		e.Kind, e.Data = history.ExecutionCompleted, payload(a.GetResult())
	}
}

// carryOver keeps the events that the next execution is to receive.
func (x *execution) carryOver(events []*pb.HistoryEvent) {
	for _, e := range events {
		if raised := e.GetEventRaised(); raised != nil {
			x.unreceived = append(x.unreceived, history.Event{Kind: history.EventReceived, Name: raised.GetName(), Data: payload(raised.GetInput())})
		}
	}
}

// check returns what is wrong with what the code asked for. The instance stalls then.
func (x *execution) check(e *history.Event) error {
	if len(e.Data) > engine.MaxPayload {
		return fmt.Errorf("limit: a payload of %v has %d bytes, at most %d are allowed", e, len(e.Data), engine.MaxPayload)
	}
	switch e.Kind {
	case history.ActivityScheduled:
		return engine.CheckRoute(e.Name)
	case history.ChildStarted:
		if err := engine.CheckRoute(engine.Route(e.Name, e.Child.Version)); err != nil {
			return err
		}
		return engine.CheckRef(Ref{Tenant: x.ref.Tenant, ID: e.Target})
	case history.EventSent:
		if err := engine.CheckName("event", e.Name); err != nil {
			return err
		}
		return engine.CheckRef(Ref{Tenant: x.ref.Tenant, ID: e.Target})
	case history.TimerCreated:
		if e.At.Year() > engine.MaxYear {
			return fmt.Errorf("limit: a timer is due in the year %d, at most %d is allowed", e.At.Year(), engine.MaxYear)
		}
	case history.ExecutionContinued:
		return engine.CheckVersion(e.Start.Version)
	default:
	}
	return nil
}

// namesOf returns the names that events ask for.
func namesOf(did []history.Event) (n names) {
	for i := range did {
		switch e := &did[i]; e.Kind {
		case history.ActivityScheduled:
			n.Activities = append(n.Activities, e.Name)
		case history.ChildStarted:
			n.Orchestrations = append(n.Orchestrations, engine.Route(e.Name, e.Child.Version))
		case history.EntityCalled, history.EntitySignaled:
			n.addEntity(e.Target)
		case history.EntityLockRequested:
			n.addLocked(e)
		case history.ExecutionContinued:
			n.Orchestrations = append(n.Orchestrations, engine.Route(e.Name, e.Start.Version))
		default:
		}
	}
	return n
}

// Awaits reports whether the code waits for an event of that name: an SDK does not say, and takes any.
func (x *execution) Awaits(string) bool { return true }

// Awaited returns nothing: an SDK does not say what its code waits for.
func (x *execution) Awaited() []engine.Awaited { return nil }

// Unreceived returns the events that the code has carried over to the next execution.
func (x *execution) Unreceived() []history.Event { return slices.Clone(x.unreceived) }

// Progress says that the code may take its time: a worker is not heard of until it answers.
func (x *execution) Progress() (n uint64, inStep bool) { return 0, true }

// Ended reports whether the code has come to an end.
func (x *execution) Ended() bool { return x.ended }

// Close does nothing: the worker keeps nothing between turns.
func (x *execution) Close() {}
