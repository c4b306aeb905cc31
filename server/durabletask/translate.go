package durabletask

import (
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/abidehq/abide/history"
	pb "github.com/abidehq/abide/internal/durabletaskpb"
	"github.com/abidehq/abide/internal/engine"
)

// outside is the event ID of what no action of the code has asked for.
const outside = -1

// text returns a payload as the protocol has it, nil for none.
func text(data []byte) *wrapperspb.StringValue {
	if data == nil {
		return nil
	}
	return wrapperspb.String(string(data))
}

// optional returns a text as the protocol has it, nil if it is empty.
func optional(s string) *wrapperspb.StringValue {
	if s == "" {
		return nil
	}
	return wrapperspb.String(s)
}

// payload returns a text of the protocol as a payload, nil for none.
func payload(s *wrapperspb.StringValue) []byte {
	if s.GetValue() == "" {
		return nil
	}
	return []byte(s.GetValue())
}

// stamp returns a time as the protocol has it, nil for the zero time.
func stamp(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}

// timeOf returns a time of the protocol, zero for none.
func timeOf(t *timestamppb.Timestamp) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.AsTime()
}

// dueAt returns when a timer is due, in whole milliseconds and not before the time that the code has named.
func dueAt(t *timestamppb.Timestamp) time.Time {
	at := timeOf(t)
	if whole := at.Truncate(time.Millisecond); !whole.Equal(at) {
		return whole.Add(time.Millisecond)
	}
	return at
}

// translator turns the events of an execution into those of the protocol. Answers refer to what the code asked for
// by the number that the SDK has given to it, so the translator sees all events from the first.
type translator struct {
	ref Ref

	now time.Time // of the turn

	// By the ID of an event: the number that the SDK has given to it, when its timer is due, and the ID of its
	// request to an entity.
	ids      map[int32]int32
	due      map[int32]time.Time
	requests map[int32]string
}

// Ref is the instance whose history is translated.
type Ref = engine.Ref

func newTranslator(ref Ref) *translator {
	return &translator{ref: ref, ids: map[int32]int32{}, due: map[int32]time.Time{}, requests: map[int32]string{}}
}

// asked returns the number that the SDK has given to what an event asks for. Code in Go has none, and has the
// number of the event.
func (t *translator) asked(e *history.Event) int32 {
	id := e.ID
	if e.Foreign != nil {
		id = e.Foreign.ID
	}
	t.ids[e.ID] = id
	return id
}

// event returns the event of the protocol, nil if it has none.
func (t *translator) event(e *history.Event) *pb.HistoryEvent {
	if e.Kind == history.TurnStarted {
		t.now = e.At
	}
	out := &pb.HistoryEvent{EventId: outside, Timestamp: stamp(t.now)}
	if !t.turn(e, out) && !t.question(e, out) && !t.answer(e, out) && !t.end(e, out) {
		return nil
	}
	return out
}

// turn translates how an execution begins, and what reaches it by itself.
func (t *translator) turn(e *history.Event, out *pb.HistoryEvent) bool {
	switch e.Kind {
	case history.TurnStarted:
		out.EventType = &pb.HistoryEvent_OrchestratorStarted{OrchestratorStarted: &pb.OrchestratorStartedEvent{}}
	case history.ExecutionStarted:
		out.EventType = &pb.HistoryEvent_ExecutionStarted{ExecutionStarted: t.started(e)}
	case history.EventReceived:
		if e.Discarded {
			return false
		}
		out.EventType = &pb.HistoryEvent_EventRaised{EventRaised: &pb.EventRaisedEvent{Name: e.Name, Input: text(e.Data)}}
	default:
		return false
	}
	return true
}

func (t *translator) started(e *history.Event) *pb.ExecutionStartedEvent {
	s := &pb.ExecutionStartedEvent{
		Name: e.Name, Version: optional(e.Start.Version), Input: text(e.Data),
		OrchestrationInstance: &pb.OrchestrationInstance{InstanceId: t.ref.ID, ExecutionId: wrapperspb.String(executionID(e.Start.Seed))},
	}
	f := e.Foreign
	if f != nil {
		s.Tags, s.ParentTraceContext = f.Tags, traceOf(f)
	}
	if e.Start.Parent != "" {
		s.ParentInstance = &pb.ParentInstanceInfo{
			TaskScheduledId: e.Start.ParentEvent, Name: optional(e.Start.ParentName),
			OrchestrationInstance: &pb.OrchestrationInstance{InstanceId: e.Start.Parent},
		}
		if f != nil {
			s.ParentInstance.TaskScheduledId = f.ID
		}
	}
	return s
}

// executionID returns the ID of an execution: its run.
func executionID(run uint64) string { return fmt.Sprintf("%016x", run) }

func traceOf(f *history.Foreign) *pb.TraceContext {
	if f == nil || f.TraceParent == "" {
		return nil
	}
	return &pb.TraceContext{TraceParent: f.TraceParent, TraceState: optional(f.TraceState)}
}

// question translates what the code asked for.
func (t *translator) question(e *history.Event, out *pb.HistoryEvent) bool {
	f := e.Foreign
	if f == nil {
		f = &history.Foreign{}
	}
	switch e.Kind {
	case history.ActivityScheduled:
		name, _, _ := strings.Cut(e.Name, "@")
		out.EventType = &pb.HistoryEvent_TaskScheduled{TaskScheduled: &pb.TaskScheduledEvent{
			Name: name, Version: optional(f.Version), Input: text(e.Data), Tags: f.Tags, ParentTraceContext: traceOf(f),
		}}
	case history.TimerCreated:
		t.due[e.ID] = e.At
		out.EventType = &pb.HistoryEvent_TimerCreated{TimerCreated: &pb.TimerCreatedEvent{FireAt: stamp(e.At)}}
	case history.ChildStarted:
		out.EventType = &pb.HistoryEvent_SubOrchestrationInstanceCreated{SubOrchestrationInstanceCreated: &pb.SubOrchestrationInstanceCreatedEvent{
			InstanceId: e.Target, Name: e.Name, Version: optional(e.Child.Version), Input: text(e.Data), Tags: f.Tags, ParentTraceContext: traceOf(f),
		}}
	case history.EventSent:
		out.EventType = &pb.HistoryEvent_EventSent{EventSent: &pb.EventSentEvent{InstanceId: e.Target, Name: e.Name, Input: text(e.Data)}}
	default:
		return t.toEntity(e, f, out)
	}
	out.EventId = t.asked(e)
	return true
}

// answer translates the outcome of what the code asked for.
func (t *translator) answer(e *history.Event, out *pb.HistoryEvent) bool {
	id := t.ids[e.Ref]
	switch e.Kind {
	case history.ActivityCompleted:
		out.EventType = &pb.HistoryEvent_TaskCompleted{TaskCompleted: &pb.TaskCompletedEvent{TaskScheduledId: id, Result: text(e.Data)}}
	case history.ActivityFailed:
		out.EventType = &pb.HistoryEvent_TaskFailed{TaskFailed: &pb.TaskFailedEvent{TaskScheduledId: id, FailureDetails: describe(e.Failure)}}
	case history.ChildCompleted:
		out.EventType = &pb.HistoryEvent_SubOrchestrationInstanceCompleted{SubOrchestrationInstanceCompleted: &pb.SubOrchestrationInstanceCompletedEvent{
			TaskScheduledId: id, Result: text(e.Data),
		}}
	case history.ChildFailed:
		out.EventType = &pb.HistoryEvent_SubOrchestrationInstanceFailed{SubOrchestrationInstanceFailed: &pb.SubOrchestrationInstanceFailedEvent{
			TaskScheduledId: id, FailureDetails: describe(e.Failure),
		}}
	case history.TimerFired:
		out.EventType = &pb.HistoryEvent_TimerFired{TimerFired: &pb.TimerFiredEvent{FireAt: stamp(t.due[e.Ref]), TimerId: id}}
	case history.TimerMoveReceived:
		t.due[e.Ref] = e.At
		return false
	default:
		return t.fromEntity(e, out)
	}
	return true
}

// end translates the end of an execution.
func (t *translator) end(e *history.Event, out *pb.HistoryEvent) bool {
	if e.Foreign != nil {
		out.EventId = e.Foreign.ID
	}
	completed := func(status pb.OrchestrationStatus, result []byte, f *history.Failure) {
		out.EventType = &pb.HistoryEvent_ExecutionCompleted{ExecutionCompleted: &pb.ExecutionCompletedEvent{
			OrchestrationStatus: status, Result: text(result), FailureDetails: describe(f),
		}}
	}
	switch e.Kind {
	case history.ExecutionCompleted:
		completed(pb.OrchestrationStatus_ORCHESTRATION_STATUS_COMPLETED, e.Data, nil)
	case history.ExecutionFailed:
		completed(pb.OrchestrationStatus_ORCHESTRATION_STATUS_FAILED, nil, e.Failure)
	case history.ExecutionCancelled:
		completed(pb.OrchestrationStatus_ORCHESTRATION_STATUS_CANCELED, nil, e.Failure)
	case history.ExecutionContinued:
		out.EventType = &pb.HistoryEvent_ContinueAsNew{ContinueAsNew: &pb.ContinueAsNewEvent{Input: text(e.Data)}}
	case history.ExecutionTerminated:
		out.EventType = &pb.HistoryEvent_ExecutionTerminated{ExecutionTerminated: &pb.ExecutionTerminatedEvent{Input: text(e.Data)}}
	case history.ExecutionSuspended:
		out.EventType = &pb.HistoryEvent_ExecutionSuspended{ExecutionSuspended: &pb.ExecutionSuspendedEvent{Input: optional(e.Name)}}
	case history.ExecutionResumed:
		out.EventType = &pb.HistoryEvent_ExecutionResumed{ExecutionResumed: &pb.ExecutionResumedEvent{}}
	case history.ExecutionRewound:
		out.EventType = &pb.HistoryEvent_ExecutionRewound{ExecutionRewound: &pb.ExecutionRewoundEvent{Reason: optional(e.Name)}}
	default:
		return false
	}
	return true
}
