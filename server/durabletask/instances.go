package durabletask

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/abidehq/abide/history"
	pb "github.com/abidehq/abide/internal/durabletaskpb"
	"github.com/abidehq/abide/internal/engine"
	"github.com/abidehq/abide/server/auth"
)

// statuses are those of the protocol, by those of the engine. A stalled instance runs, as far as clients are
// concerned: it goes on when it is resumed.
var statuses = map[engine.Status]pb.OrchestrationStatus{
	engine.Pending:    pb.OrchestrationStatus_ORCHESTRATION_STATUS_PENDING,
	engine.Running:    pb.OrchestrationStatus_ORCHESTRATION_STATUS_RUNNING,
	engine.Stalled:    pb.OrchestrationStatus_ORCHESTRATION_STATUS_RUNNING,
	engine.Suspended:  pb.OrchestrationStatus_ORCHESTRATION_STATUS_SUSPENDED,
	engine.Completed:  pb.OrchestrationStatus_ORCHESTRATION_STATUS_COMPLETED,
	engine.Failed:     pb.OrchestrationStatus_ORCHESTRATION_STATUS_FAILED,
	engine.Cancelled:  pb.OrchestrationStatus_ORCHESTRATION_STATUS_CANCELED,
	engine.Terminated: pb.OrchestrationStatus_ORCHESTRATION_STATUS_TERMINATED,
	engine.Continued:  pb.OrchestrationStatus_ORCHESTRATION_STATUS_CONTINUED_AS_NEW,
}

// statusesOf returns the statuses of the engine that are one of the protocol's.
func statusesOf(list []pb.OrchestrationStatus) (out []engine.Status) {
	for _, s := range engine.Statuses {
		if slices.Contains(list, statuses[s]) && s != engine.Continued {
			out = append(out, s)
		}
	}
	return out
}

// StartInstance starts an instance.
func (s *Service) StartInstance(ctx context.Context, r *pb.CreateInstanceRequest) (*pb.CreateInstanceResponse, error) {
	h, _, err := s.enter(ctx, auth.Operate)
	if err != nil {
		return nil, err
	}
	start := engine.Start{
		Ref: Ref{Tenant: h.tenant, ID: r.GetInstanceId()}, Name: r.GetName(), Version: r.GetVersion().GetValue(), Input: payload(r.GetInput()),
		Tags: r.GetTags(), At: timeOf(r.GetScheduledStartTimestamp()), Unchecked: true,
		Foreign: &history.Foreign{
			Tags: r.GetTags(), TraceParent: r.GetParentTraceContext().GetTraceParent(), TraceState: r.GetParentTraceContext().GetTraceState().GetValue(),
		},
	}
	if start.ID == "" {
		start.ID, start.New = newID(), true
	}
	if err := replaceable(&start, r.GetOrchestrationIdReusePolicy()); err != nil {
		return nil, err
	}
	route := engine.Route(start.Name, start.Version)
	if err := engine.CheckRoute(route); err != nil {
		return nil, asStatus(err)
	}
	if err := h.use(ctx, names{Orchestrations: []string{route}}); err != nil {
		return nil, asStatus(err)
	}
	_, err = h.starter(route).Start(ctx, start)
	if errors.Is(err, engine.ErrExists) {
		err = s.ignored(ctx, start.Ref, r.GetOrchestrationIdReusePolicy(), err)
	}
	if err != nil {
		return nil, asStatus(err)
	}
	return &pb.CreateInstanceResponse{InstanceId: start.ID}, nil
}

// newID returns an ID that no instance has.
func newID() string {
	var b [16]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// ignored returns the error of a start whose ID is taken, nil if the policy of an older SDK ignores the instance.
func (s *Service) ignored(ctx context.Context, ref Ref, policy *pb.OrchestrationIdReusePolicy, exists error) error {
	if policy.GetAction() == pb.CreateOrchestrationAction_IGNORE {
		info, err := s.client.Get(ctx, ref)
		if err == nil && slices.Contains(statusesOf(policy.GetReplaceableStatus()), info.Status) {
			return nil
		}
	}
	return fmt.Errorf("orchestration instance already exists: %w", exists)
}

// replaceable applies the policy for an ID that is taken. Without one an instance is never replaced. Older SDKs say
// what is done about an instance of the statuses that the policy names, others have it replaced.
func replaceable(start *engine.Start, policy *pb.OrchestrationIdReusePolicy) error {
	start.IfExists = engine.Reject
	if policy == nil || policy.GetAction() == pb.CreateOrchestrationAction_IGNORE {
		return nil
	}
	start.Replaceable = append([]engine.Status{}, statusesOf(policy.GetReplaceableStatus())...)
	active := slices.ContainsFunc(start.Replaceable, func(s engine.Status) bool { return !s.Ended() })
	if active && policy.GetAction() != pb.CreateOrchestrationAction_TERMINATE && !slices.Contains(start.Replaceable, engine.Terminated) {
		return status.Error(codes.InvalidArgument,
			"Invalid reusable statuses: cannot exclude 'Terminated' while also allowing reuse of running instances")
	}
	return nil
}

// GetInstance returns the state of an instance.
func (s *Service) GetInstance(ctx context.Context, r *pb.GetInstanceRequest) (*pb.GetInstanceResponse, error) {
	h, _, err := s.enter(ctx, auth.Read)
	if err != nil {
		return nil, err
	}
	info, err := s.client.Get(ctx, Ref{Tenant: h.tenant, ID: r.GetInstanceId()})
	return s.found(ctx, info, err, r.GetGetInputsAndOutputs())
}

// found returns an instance, or that there is none.
func (s *Service) found(ctx context.Context, info engine.Info, err error, payloads bool) (*pb.GetInstanceResponse, error) {
	if errors.Is(err, engine.ErrNotFound) {
		return &pb.GetInstanceResponse{}, nil
	}
	if err != nil {
		return nil, asStatus(err)
	}
	state, err := s.state(ctx, &info, payloads)
	if err != nil {
		return nil, asStatus(err)
	}
	updated, err := s.client.UpdatedAt(ctx, &info)
	if err != nil && !errors.Is(err, engine.ErrNotFound) {
		return nil, asStatus(err)
	}
	if !updated.IsZero() {
		state.LastUpdatedTimestamp = stamp(updated)
	}
	return &pb.GetInstanceResponse{Exists: true, OrchestrationState: state}, nil
}

// WaitForInstanceStart returns the state of an instance as soon as its code has begun.
func (s *Service) WaitForInstanceStart(ctx context.Context, r *pb.GetInstanceRequest) (*pb.GetInstanceResponse, error) {
	return s.wait(ctx, r, func(info *engine.Info) bool { return info.Status != engine.Pending })
}

// WaitForInstanceCompletion returns the state of an instance as soon as it has ended.
func (s *Service) WaitForInstanceCompletion(ctx context.Context, r *pb.GetInstanceRequest) (*pb.GetInstanceResponse, error) {
	return s.wait(ctx, r, func(info *engine.Info) bool { return info.Status.Ended() })
}

// wait waits until an instance is as wanted. It does not wait for one that does not exist.
func (s *Service) wait(ctx context.Context, r *pb.GetInstanceRequest, until func(*engine.Info) bool) (*pb.GetInstanceResponse, error) {
	h, _, err := s.enter(ctx, auth.Read)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-s.stop:
			cancel()
		case <-ctx.Done():
		}
	}()
	ref := Ref{Tenant: h.tenant, ID: r.GetInstanceId()}
	info, err := s.client.Get(ctx, ref)
	for err == nil && !until(&info) {
		info, err = s.client.Await(ctx, ref, info.Revision)
	}
	if err != nil && s.isStopping() {
		return nil, status.Error(codes.Unavailable, "the server is about to stop")
	}
	return s.found(ctx, info, err, r.GetGetInputsAndOutputs())
}

// state returns the state of an instance as the protocol has it.
func (s *Service) state(ctx context.Context, info *engine.Info, payloads bool) (*pb.OrchestrationState, error) {
	out := &pb.OrchestrationState{
		InstanceId: info.ID, Name: info.Name, Version: optional(info.Version), OrchestrationStatus: statuses[info.Status],
		CreatedTimestamp: stamp(info.CreatedAt), LastUpdatedTimestamp: stamp(cmp.Or(info.EndedAt, info.BegunAt, info.CreatedAt)),
		CompletedTimestamp: stamp(info.EndedAt), CustomStatus: optional(info.Text), ExecutionId: wrapperspb.String(executionID(info.Run())),
		ParentInstanceId: optional(info.Parent), Tags: info.Tags,
	}
	if info.Status == engine.Failed || info.Status == engine.Cancelled {
		out.FailureDetails = describe(info.Failure)
	}
	if !payloads {
		return out, nil
	}
	out.Output = text(info.Result)
	input, err := s.client.Input(ctx, info)
	if errors.Is(err, engine.ErrNotFound) {
		err = nil // deleted, or continued as new, meanwhile
	}
	out.Input = text(input)
	return out, err
}

// RaiseEvent raises an event for an instance.
func (s *Service) RaiseEvent(ctx context.Context, r *pb.RaiseEventRequest) (*pb.RaiseEventResponse, error) {
	h, _, err := s.enter(ctx, auth.Operate)
	if err != nil {
		return nil, err
	}
	_, err = s.client.Raise(ctx, engine.Raise{
		Ref: Ref{Tenant: h.tenant, ID: r.GetInstanceId()}, Name: r.GetName(), Data: payload(r.GetInput()), MustExist: true, IgnoreEnded: true,
	})
	return &pb.RaiseEventResponse{}, asStatus(err)
}

// SuspendInstance suspends an instance.
func (s *Service) SuspendInstance(ctx context.Context, r *pb.SuspendRequest) (*pb.SuspendResponse, error) {
	h, _, err := s.enter(ctx, auth.Operate)
	if err != nil {
		return nil, err
	}
	err = s.client.Suspend(ctx, Ref{Tenant: h.tenant, ID: r.GetInstanceId()}, r.GetReason().GetValue())
	return &pb.SuspendResponse{}, asStatus(err)
}

// ResumeInstance resumes an instance. One that is not suspended goes on as it is.
func (s *Service) ResumeInstance(ctx context.Context, r *pb.ResumeRequest) (*pb.ResumeResponse, error) {
	h, _, err := s.enter(ctx, auth.Operate)
	if err != nil {
		return nil, err
	}
	err = s.client.Resume(ctx, Ref{Tenant: h.tenant, ID: r.GetInstanceId()})
	if errors.Is(err, engine.ErrStalled) {
		err = nil // it was resumed
	}
	return &pb.ResumeResponse{}, asStatus(err)
}

// TerminateInstance ends an instance without asking its code, and its sub-orchestrations if the request says so. One
// that has ended stays as it is.
func (s *Service) TerminateInstance(ctx context.Context, r *pb.TerminateRequest) (*pb.TerminateResponse, error) {
	h, _, err := s.enter(ctx, auth.Operate)
	if err != nil {
		return nil, err
	}
	err = s.client.TerminateWith(ctx, Ref{Tenant: h.tenant, ID: r.GetInstanceId()}, engine.Termination{
		Result: payload(r.GetOutput()), Recursive: r.GetRecursive(),
	})
	if errors.Is(err, engine.ErrState) {
		err = nil
	}
	return &pb.TerminateResponse{}, asStatus(err)
}

// maxInstances is how many instances one request may name.
const maxInstances = 500

// SkipGracefulOrchestrationTerminations terminates instances, and says which could not be: Abide always terminates
// without asking the code.
func (s *Service) SkipGracefulOrchestrationTerminations(ctx context.Context, r *pb.SkipGracefulOrchestrationTerminationsRequest) (*pb.SkipGracefulOrchestrationTerminationsResponse, error) {
	h, _, err := s.enter(ctx, auth.Operate)
	if err != nil {
		return nil, err
	}
	ids := r.GetInstanceBatch().GetInstanceIds()
	if len(ids) > maxInstances {
		return nil, status.Errorf(codes.InvalidArgument, "the request names %d instances, at most %d are allowed", len(ids), maxInstances)
	}
	out := &pb.SkipGracefulOrchestrationTerminationsResponse{}
	for _, id := range ids {
		err := s.client.TerminateWith(ctx, Ref{Tenant: h.tenant, ID: id}, engine.Termination{Reason: r.GetReason().GetValue()})
		switch {
		case errors.Is(err, engine.ErrNotFound), errors.Is(err, engine.ErrState), errors.Is(err, engine.ErrInvalid):
			out.UnterminatedInstanceIds = append(out.UnterminatedInstanceIds, id)
		case err != nil:
			return nil, asStatus(err)
		}
	}
	return out, nil
}

// RestartInstance starts an instance once more that has ended, or another one like it.
func (s *Service) RestartInstance(ctx context.Context, r *pb.RestartInstanceRequest) (*pb.RestartInstanceResponse, error) {
	h, _, err := s.enter(ctx, auth.Operate)
	if err != nil {
		return nil, err
	}
	id := r.GetInstanceId()
	ref := Ref{Tenant: h.tenant, ID: id}
	if r.GetRestartWithNewInstanceId() {
		id = newID()
		err = s.client.RestartAs(ctx, ref, id)
	} else {
		err = s.client.Restart(ctx, ref)
	}
	if err != nil {
		return nil, asStatus(err)
	}
	return &pb.RestartInstanceResponse{InstanceId: id}, nil
}

// RewindInstance has an instance that has failed go on from before its failure.
func (s *Service) RewindInstance(ctx context.Context, r *pb.RewindInstanceRequest) (*pb.RewindInstanceResponse, error) {
	h, _, err := s.enter(ctx, auth.Operate)
	if err != nil {
		return nil, err
	}
	err = s.client.Rewind(ctx, Ref{Tenant: h.tenant, ID: r.GetInstanceId()}, r.GetReason().GetValue())
	return &pb.RewindInstanceResponse{}, asStatus(err)
}

// PurgeInstances deletes instances that have ended: one, some, or those that match a filter.
func (s *Service) PurgeInstances(ctx context.Context, r *pb.PurgeInstancesRequest) (*pb.PurgeInstancesResponse, error) {
	h, _, err := s.enter(ctx, auth.Operate)
	if err != nil {
		return nil, err
	}
	done, n := true, 0
	switch request := r.GetRequest().(type) {
	case *pb.PurgeInstancesRequest_InstanceId:
		n, err = s.purge(ctx, h, request.InstanceId, r.GetRecursive())
	case *pb.PurgeInstancesRequest_InstanceBatch:
		n, err = s.purgeBatch(ctx, h, request.InstanceBatch.GetInstanceIds(), r.GetRecursive())
	case *pb.PurgeInstancesRequest_PurgeInstanceFilter:
		f := request.PurgeInstanceFilter
		filter := engine.PurgeFilter{
			Tenant: &h.tenant, Statuses: statusesOf(f.GetRuntimeStatus()), From: timeOf(f.GetCreatedTimeFrom()), To: timeOf(f.GetCreatedTimeTo()),
			Recursive: r.GetRecursive(), Timeout: f.GetTimeout().AsDuration(),
		}
		if len(f.GetRuntimeStatus()) == 0 || len(filter.Statuses) > 0 { // or of statuses that no instance has
			n, done, err = s.client.PurgeWhere(ctx, filter)
		}
	default:
		return nil, status.Error(codes.InvalidArgument, "the request names neither an instance, nor several, nor a filter")
	}
	if err != nil {
		return nil, asStatus(err)
	}
	return &pb.PurgeInstancesResponse{DeletedInstanceCount: int32(n), IsComplete: wrapperspb.Bool(done)}, nil
}

// purge deletes an instance. There is nothing to delete of one that does not exist, or has not ended.
func (s *Service) purge(ctx context.Context, h *hub, id string, recursive bool) (int, error) {
	n, err := s.client.Purge(ctx, Ref{Tenant: h.tenant, ID: id}, recursive)
	if errors.Is(err, engine.ErrNotFound) || errors.Is(err, engine.ErrState) {
		return n, nil
	}
	return n, err
}

// purgeBatch deletes instances.
func (s *Service) purgeBatch(ctx context.Context, h *hub, ids []string, recursive bool) (n int, err error) {
	if len(ids) > maxInstances {
		return 0, fmt.Errorf("the request names %d instances, at most %d are allowed: %w", len(ids), maxInstances, engine.ErrInvalid)
	}
	for _, id := range ids {
		more, err := s.purge(ctx, h, id, recursive)
		if err != nil {
			return n, err
		}
		n += more
	}
	return n, nil
}
