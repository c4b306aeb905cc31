package durabletask

import (
	"context"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/abidehq/abide/internal/durabletaskpb"
	"github.com/abidehq/abide/internal/engine"
	"github.com/abidehq/abide/server/auth"
)

// Pages of lists.
const (
	defaultPage = 100
	maxPage     = 1_000
)

// page returns the size of a page.
func page(asked int32) int {
	if asked <= 0 {
		return defaultPage
	}
	return min(int(asked), maxPage)
}

// QueryInstances lists instances.
func (s *Service) QueryInstances(ctx context.Context, r *pb.QueryInstancesRequest) (*pb.QueryInstancesResponse, error) {
	h, _, err := s.enter(ctx, auth.Read)
	if err != nil {
		return nil, err
	}
	q := r.GetQuery()
	query := engine.Query{
		Tenant: &h.tenant, Statuses: statusesOf(q.GetRuntimeStatus()), From: timeOf(q.GetCreatedTimeFrom()), To: timeOf(q.GetCreatedTimeTo()),
		Prefix: q.GetInstanceIdPrefix().GetValue(), Limit: page(q.GetMaxInstanceCount()), Cursor: q.GetContinuationToken().GetValue(),
	}
	if len(q.GetRuntimeStatus()) > 0 && len(query.Statuses) == 0 {
		return &pb.QueryInstancesResponse{}, nil // of statuses that no instance has
	}
	list, next, err := s.client.List(ctx, query)
	if err != nil {
		return nil, asStatus(err)
	}
	out := &pb.QueryInstancesResponse{ContinuationToken: optional(next)}
	for i := range list {
		state, err := s.state(ctx, &list[i], q.GetFetchInputsAndOutputs())
		if err != nil {
			return nil, asStatus(err)
		}
		out.OrchestrationState = append(out.OrchestrationState, state)
	}
	return out, nil
}

// ListInstanceIds lists the IDs of instances that have ended in a time, in the order in which they were started.
func (s *Service) ListInstanceIds(ctx context.Context, r *pb.ListInstanceIdsRequest) (*pb.ListInstanceIdsResponse, error) { //nolint:revive // the name is the protocol's
	h, _, err := s.enter(ctx, auth.Read)
	if err != nil {
		return nil, err
	}
	query := engine.Query{
		Tenant: &h.tenant, Statuses: statusesOf(r.GetRuntimeStatus()), EndedFrom: timeOf(r.GetCompletedTimeFrom()), EndedTo: timeOf(r.GetCompletedTimeTo()),
		Limit: page(r.GetPageSize()), Cursor: r.GetLastInstanceKey().GetValue(),
	}
	if len(r.GetRuntimeStatus()) > 0 && len(query.Statuses) == 0 {
		return &pb.ListInstanceIdsResponse{}, nil
	}
	out := &pb.ListInstanceIdsResponse{}
	for began := s.cfg.Clock.Now(); ; {
		list, next, err := s.client.List(ctx, query)
		if err != nil {
			return nil, asStatus(err)
		}
		for i := range list {
			out.InstanceIds = append(out.InstanceIds, list[i].ID)
		}
		query.Cursor, query.Limit = next, query.Limit-len(list)
		if next == "" || query.Limit <= 0 || s.cfg.Clock.Now().Sub(began) > listPatience {
			out.LastInstanceKey = optional(next)
			return out, nil
		}
	}
}

// listPatience is how long a page is filled: a list by the time of the end looks at instances that do not match.
const listPatience = time.Second

// CreateTaskHub does nothing: a task hub is there as soon as it is used.
func (s *Service) CreateTaskHub(ctx context.Context, r *pb.CreateTaskHubRequest) (*pb.CreateTaskHubResponse, error) {
	if _, _, err := s.enter(ctx, auth.Admin); err != nil {
		return nil, err
	}
	if r.GetRecreateIfExists() {
		return nil, status.Error(codes.Unimplemented, "a task hub is a tenant of Abide's, and is not deleted by clients: purge its instances, or use another name")
	}
	return &pb.CreateTaskHubResponse{}, nil
}

// DeleteTaskHub is not supported.
func (s *Service) DeleteTaskHub(ctx context.Context, _ *pb.DeleteTaskHubRequest) (*pb.DeleteTaskHubResponse, error) {
	if _, _, err := s.enter(ctx, auth.Admin); err != nil {
		return nil, err
	}
	return nil, status.Error(codes.Unimplemented, "a task hub is a tenant of Abide's, and is not deleted by clients: purge its instances")
}

// GetTombstonedPayloads returns nothing: Abide keeps payloads itself, and a reference that an SDK keeps as a payload
// means nothing to it.
func (s *Service) GetTombstonedPayloads(ctx context.Context, _ *pb.GetTombstonedPayloadsRequest) (*pb.GetTombstonedPayloadsResponse, error) {
	_, _, err := s.enter(ctx, auth.Worker)
	return &pb.GetTombstonedPayloadsResponse{}, err
}

// AckPurgedPayloads does nothing: see GetTombstonedPayloads.
func (s *Service) AckPurgedPayloads(ctx context.Context, _ *pb.AckPurgedPayloadsRequest) (*pb.AckPurgedPayloadsResponse, error) {
	_, _, err := s.enter(ctx, auth.Worker)
	return &pb.AckPurgedPayloadsResponse{}, err
}
