package durabletask

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/abidehq/abide/history"
	pb "github.com/abidehq/abide/internal/durabletaskpb"
	"github.com/abidehq/abide/internal/engine"
	"github.com/abidehq/abide/server/auth"
)

// entity has the worker run a batch of operations.
func (s *session) entity(ctx context.Context, b *engine.EntityBatch) (*engine.EntityOutcome, error) {
	request := &pb.EntityBatchRequest{InstanceId: b.Ref.ID, EntityState: text(b.State)}
	for i := range b.Operations {
		op := &b.Operations[i]
		request.Operations = append(request.Operations, &pb.OperationRequest{Operation: op.Name, RequestId: op.Request, Input: text(op.Input)})
	}
	i := s.begin(&pb.WorkItem{Request: &pb.WorkItem_EntityRequest{EntityRequest: request}})
	got, err := i.await(ctx)
	if err != nil {
		return nil, err
	}
	r, ok := got.(*pb.EntityBatchResult)
	if !ok {
		return nil, fmt.Errorf("operations of an entity were answered with %T: %w", got, engine.ErrUnavailable)
	}
	if f := r.GetFailureDetails(); f != nil {
		return nil, fmt.Errorf("%s: %s", f.GetErrorType(), f.GetErrorMessage())
	}
	out := s.outcome(r)
	return out, s.hub.use(ctx, namesSent(out))
}

// outcome returns what an SDK says of a batch.
func (s *session) outcome(r *pb.EntityBatchResult) *engine.EntityOutcome {
	out := &engine.EntityOutcome{State: payload(r.GetEntityState())}
	for _, result := range r.GetResults() {
		if f := result.GetFailure(); f != nil {
			failure := failureOf(f.GetFailureDetails())
			if failure == nil {
				failure = &history.Failure{Message: "the operation failed, and its SDK does not say why"}
			}
			out.Results = append(out.Results, engine.EntityResult{Failure: failure.Bounded()})
			continue
		}
		out.Results = append(out.Results, engine.EntityResult{Data: payload(result.GetSuccess().GetResult())})
	}
	for _, action := range r.GetActions() {
		switch a := action.GetOperationActionType().(type) {
		case *pb.OperationAction_SendSignal:
			out.Signals = append(out.Signals, engine.EntitySignal{
				To: a.SendSignal.GetInstanceId(), Name: a.SendSignal.GetName(), Input: payload(a.SendSignal.GetInput()), At: timeOf(a.SendSignal.GetScheduledTime()),
			})
		case *pb.OperationAction_StartNewOrchestration:
			o := a.StartNewOrchestration
			start := engine.Start{
				Ref: Ref{Tenant: s.hub.tenant, ID: o.GetInstanceId()}, Name: o.GetName(), Version: o.GetVersion().GetValue(), Input: payload(o.GetInput()),
				At: timeOf(o.GetScheduledTime()), Unchecked: true, Foreign: &history.Foreign{},
			}
			if start.ID == "" {
				start.ID = newID()
			}
			out.Starts = append(out.Starts, start)
		}
	}
	return out
}

// namesSent returns the names that an outcome needs.
func namesSent(out *engine.EntityOutcome) (n names) {
	for i := range out.Signals {
		n.addEntity(out.Signals[i].To)
	}
	for i := range out.Starts {
		n.Orchestrations = append(n.Orchestrations, engine.Route(out.Starts[i].Name, out.Starts[i].Version))
	}
	return n
}

// addEntity adds the name of an entity's ID, if it is one.
func (n *names) addEntity(id string) {
	if name, _, err := engine.ParseEntityID(id); err == nil {
		n.Entities = append(n.Entities, name)
	}
}

// addLocked adds the names of entities whose locks are requested.
func (n *names) addLocked(e *history.Event) {
	var set []string
	_ = json.Unmarshal(e.Data, &set) // the adapter has written it
	for _, id := range set {
		n.addEntity(id)
	}
}

// lower returns the ID of an entity with its name in lower case.
func lower(id string) string {
	if name, key, err := engine.ParseEntityID(id); err == nil {
		return engine.EntityID(name, key)
	}
	return id
}

// message fills in what the code sends to an entity.
func (x *execution) message(e *history.Event, m *pb.SendEntityMessageAction) error {
	switch a := m.GetEntityMessageType().(type) {
	case *pb.SendEntityMessageAction_EntityOperationCalled:
		c := a.EntityOperationCalled
		e.Kind, e.Name, e.Target, e.Data, e.At = history.EntityCalled, c.GetOperation(), lower(c.GetTargetInstanceId().GetValue()), payload(c.GetInput()), dueAt(c.GetScheduledTime())
		e.Foreign.Request = c.GetRequestId()
	case *pb.SendEntityMessageAction_EntityOperationSignaled:
		s := a.EntityOperationSignaled
		e.Kind, e.Name, e.Target, e.Data, e.At = history.EntitySignaled, s.GetOperation(), lower(s.GetTargetInstanceId().GetValue()), payload(s.GetInput()), dueAt(s.GetScheduledTime())
		e.Foreign.Request = s.GetRequestId()
	case *pb.SendEntityMessageAction_EntityLockRequested:
		set := make([]string, 0, len(a.EntityLockRequested.GetLockSet()))
		for _, id := range a.EntityLockRequested.GetLockSet() {
			set = append(set, lower(id))
		}
		slices.Sort(set)
		data, err := json.Marshal(slices.Compact(set))
		if err != nil {
			return err
		}
		e.Kind, e.Data = history.EntityLockRequested, data
		e.Foreign.Request = a.EntityLockRequested.GetCriticalSectionId()
	case *pb.SendEntityMessageAction_EntityUnlockSent:
		section := a.EntityUnlockSent.GetCriticalSectionId()
		request, ok := x.locks[section]
		if !ok {
			return fmt.Errorf("it releases locks of the critical section %q, which it has not requested", section)
		}
		e.Kind, e.Ref, e.Target = history.EntityUnlocked, request, lower(a.EntityUnlockSent.GetTargetInstanceId().GetValue())
		e.Foreign.Request = section
	default:
		return fmt.Errorf("%w: %T", errUnknownAction, a)
	}
	return x.checkMessage(e)
}

// checkMessage returns what is wrong with a message to an entity.
func (x *execution) checkMessage(e *history.Event) error {
	if e.Kind == history.EntityLockRequested {
		return nil // the engine checks each of them
	}
	_, _, err := engine.ParseEntityID(e.Target)
	return err
}

// toEntity translates what the code has sent to an entity.
func (t *translator) toEntity(e *history.Event, f *history.Foreign, out *pb.HistoryEvent) bool {
	t.requests[e.ID] = f.Request
	switch e.Kind {
	case history.EntityCalled:
		out.EventType = &pb.HistoryEvent_EntityOperationCalled{EntityOperationCalled: &pb.EntityOperationCalledEvent{
			RequestId: f.Request, Operation: e.Name, ScheduledTime: stamp(e.At), Input: text(e.Data), TargetInstanceId: wrapperspb.String(e.Target),
		}}
	case history.EntitySignaled:
		out.EventType = &pb.HistoryEvent_EntityOperationSignaled{EntityOperationSignaled: &pb.EntityOperationSignaledEvent{
			RequestId: f.Request, Operation: e.Name, ScheduledTime: stamp(e.At), Input: text(e.Data), TargetInstanceId: wrapperspb.String(e.Target),
		}}
	case history.EntityLockRequested:
		var set []string
		_ = json.Unmarshal(e.Data, &set) // the adapter or the engine has written it
		out.EventType = &pb.HistoryEvent_EntityLockRequested{EntityLockRequested: &pb.EntityLockRequestedEvent{CriticalSectionId: f.Request, LockSet: set}}
	case history.EntityUnlocked:
		out.EventType = &pb.HistoryEvent_EntityUnlockSent{EntityUnlockSent: &pb.EntityUnlockSentEvent{
			CriticalSectionId: f.Request, TargetInstanceId: wrapperspb.String(e.Target),
		}}
	default:
		return false
	}
	out.EventId = t.asked(e)
	return true
}

// fromEntity translates the answer of an entity.
func (t *translator) fromEntity(e *history.Event, out *pb.HistoryEvent) bool {
	request := t.requests[e.Ref]
	switch e.Kind {
	case history.EntityCompleted:
		out.EventType = &pb.HistoryEvent_EntityOperationCompleted{EntityOperationCompleted: &pb.EntityOperationCompletedEvent{RequestId: request, Output: text(e.Data)}}
	case history.EntityFailed:
		out.EventType = &pb.HistoryEvent_EntityOperationFailed{EntityOperationFailed: &pb.EntityOperationFailedEvent{RequestId: request, FailureDetails: describe(e.Failure)}}
	case history.EntityLocked:
		out.EventType = &pb.HistoryEvent_EntityLockGranted{EntityLockGranted: &pb.EntityLockGrantedEvent{CriticalSectionId: request}}
	default:
		return false
	}
	return true
}

// CompleteEntityTask takes the outcome of operations of an entity.
func (s *Service) CompleteEntityTask(ctx context.Context, r *pb.EntityBatchResult) (*pb.CompleteTaskResponse, error) {
	return s.complete(ctx, r.GetCompletionToken(), itemKey{kind: entityItem}, r)
}

// AbandonTaskEntityWorkItem takes operations of an entity back.
func (s *Service) AbandonTaskEntityWorkItem(ctx context.Context, r *pb.AbandonEntityTaskRequest) (*pb.AbandonEntityTaskResponse, error) {
	_, err := s.complete(ctx, r.GetCompletionToken(), itemKey{kind: entityItem}, abandoned{})
	return &pb.AbandonEntityTaskResponse{}, err
}

// maxEntityID is how many characters the ID of an entity may have that a client signals: as many as in other
// backends of the protocol, so that a program which works here works there.
const maxEntityID = 100

// SignalEntity sends an operation to an entity.
func (s *Service) SignalEntity(ctx context.Context, r *pb.SignalEntityRequest) (*pb.SignalEntityResponse, error) {
	h, _, err := s.enter(ctx, auth.Operate)
	if err != nil {
		return nil, err
	}
	if n := utf8.RuneCountInString(r.GetInstanceId()); n > maxEntityID {
		return nil, status.Errorf(codes.InvalidArgument, "the ID of the entity has %d characters, a length of at most %d is allowed", n, maxEntityID)
	}
	var n names
	n.addEntity(r.GetInstanceId())
	if err := h.use(ctx, n); err != nil {
		return nil, asStatus(err)
	}
	err = s.client.SignalEntity(ctx, Ref{Tenant: h.tenant, ID: r.GetInstanceId()}, r.GetName(), payload(r.GetInput()), timeOf(r.GetScheduledTime()), r.GetRequestId())
	return &pb.SignalEntityResponse{}, asStatus(err)
}

// GetEntity returns the state of an entity.
func (s *Service) GetEntity(ctx context.Context, r *pb.GetEntityRequest) (*pb.GetEntityResponse, error) {
	h, _, err := s.enter(ctx, auth.Read)
	if err != nil {
		return nil, err
	}
	info, err := s.client.GetEntity(ctx, Ref{Tenant: h.tenant, ID: r.GetInstanceId()})
	if errors.Is(err, engine.ErrNotFound) {
		return &pb.GetEntityResponse{}, nil
	}
	if err != nil {
		return nil, asStatus(err)
	}
	return &pb.GetEntityResponse{Exists: true, Entity: metadataOf(&info, r.GetIncludeState())}, nil
}

func metadataOf(info *engine.EntityInfo, state bool) *pb.EntityMetadata {
	m := &pb.EntityMetadata{
		InstanceId: info.ID, LastModifiedTime: stamp(info.ModifiedAt), BacklogQueueSize: int32(info.Backlog), LockedBy: optional(info.LockedBy),
	}
	if state {
		m.SerializedState = text(info.State)
	}
	return m
}

// QueryEntities lists entities.
func (s *Service) QueryEntities(ctx context.Context, r *pb.QueryEntitiesRequest) (*pb.QueryEntitiesResponse, error) {
	h, _, err := s.enter(ctx, auth.Read)
	if err != nil {
		return nil, err
	}
	q := r.GetQuery()
	list, next, err := s.client.ListEntities(ctx, engine.EntityQuery{
		Tenant: &h.tenant, Prefix: q.GetInstanceIdStartsWith().GetValue(), ModifiedFrom: timeOf(q.GetLastModifiedFrom()), ModifiedTo: timeOf(q.GetLastModifiedTo()),
		IncludeEmpty: q.GetIncludeTransient(), Limit: page(q.GetPageSize().GetValue()), Cursor: q.GetContinuationToken().GetValue(),
	})
	if err != nil {
		return nil, asStatus(err)
	}
	out := &pb.QueryEntitiesResponse{ContinuationToken: optional(next)}
	for i := range list {
		out.Entities = append(out.Entities, metadataOf(&list[i], q.GetIncludeState()))
	}
	return out, nil
}

// CleanEntityStorage removes what is left of entities without a state, and releases locks of instances that are gone.
func (s *Service) CleanEntityStorage(ctx context.Context, r *pb.CleanEntityStorageRequest) (*pb.CleanEntityStorageResponse, error) {
	h, _, err := s.enter(ctx, auth.Operate)
	if err != nil {
		return nil, err
	}
	removed, released, next, err := s.client.CleanEntities(ctx, &h.tenant, r.GetRemoveEmptyEntities(), r.GetReleaseOrphanedLocks(), r.GetContinuationToken().GetValue())
	if err != nil {
		return nil, asStatus(err)
	}
	return &pb.CleanEntityStorageResponse{ContinuationToken: optional(next), EmptyEntitiesRemoved: int32(removed), OrphanedLocksReleased: int32(released)}, nil
}
