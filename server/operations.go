package server

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/abidehq/abide/server/api"
	"github.com/abidehq/abide/server/auth"
	"github.com/abidehq/abide/server/operation"
)

const (
	operationsPath = "/api/v1/operations"
	operationPath  = operationsPath + "/{id}"
	tagOperations  = "operations"
)

// namedOperation is a path that names an operation.
type namedOperation struct {
	ID     string `path:"id"`
	Tenant string `query:"tenant" doc:"Whose operation it is. Without it, that of the caller's only tenant, or, for a caller with access to all tenants, one about all of them."`
}

type operationsQuery struct {
	PageSize  int      `query:"page_size" minimum:"1" maximum:"1000" default:"100" doc:"How many there are on a page at most."`
	PageToken string   `query:"page_token" doc:"The next_page_token of the page before."`
	Tenant    string   `query:"tenant" doc:"On instances of one tenant."`
	Status    []string `query:"status" enum:"pending,running,completed,cancelled,failed" doc:"With one of these statuses."`
	Kind      []string `query:"kind" enum:"cancel,terminate,suspend,resume,restart,rewind,delete" doc:"Of one of these kinds."`
}

// addOperations adds the routes of operations.
func (s *Server) addOperations() {
	operations := s.cfg.Operations
	route(s, auth.Operate, huma.Operation{
		OperationID: "start-operation", Method: http.MethodPost, Path: operationsPath, Summary: "Do one thing to many instances", Tags: []string{tagOperations},
		DefaultStatus: http.StatusAccepted,
		Description: "The operation is durable when the answer arrives, and goes through the instances after that, in the order in which they were started. " +
			"Those that are started later are left alone. With an id that exists in the tenant, or among operations on all tenants, that operation is returned if it does the same.",
	}, func(ctx context.Context, in *struct{ Body api.NewOperation }) (*answer[api.Operation], error) {
		if err := operationTenant(ctx, in.Body.Filter.Tenant, in.Body.All); err != nil {
			return nil, err
		}
		if in.Body.ID == "" {
			in.Body.ID = idempotentID(ctx)
		}
		who, _ := auth.Of(ctx)
		o, err := operations.Start(ctx, in.Body.Request(who.Subject))
		return s.operation(http.StatusAccepted, &o, err)
	})
	route(s, auth.Read, huma.Operation{
		OperationID: "list-operations", Method: http.MethodGet, Path: operationsPath, Summary: "List operations", Tags: []string{tagOperations},
		Description: "The latest first.",
	}, func(ctx context.Context, in *operationsQuery) (*answer[api.OperationList], error) {
		tenant, err := scope(ctx, in.Tenant)
		if err != nil {
			return nil, err
		}
		q := operation.Query{Tenant: tenant, Limit: in.PageSize, Cursor: in.PageToken}
		for _, status := range in.Status {
			q.Statuses = append(q.Statuses, operation.Status(status))
		}
		for _, kind := range in.Kind {
			q.Kinds = append(q.Kinds, operation.Kind(kind))
		}
		page, err := operations.List(ctx, q)
		if err != nil {
			return nil, s.problem(err)
		}
		list := api.OperationList{Operations: make([]api.Operation, len(page.Operations)), NextPageToken: page.Next}
		for i := range page.Operations {
			list.Operations[i] = api.FromOperation(&page.Operations[i])
		}
		return &answer[api.OperationList]{http.StatusOK, list}, nil
	})
	route(s, auth.Read, huma.Operation{
		OperationID: "get-operation", Method: http.MethodGet, Path: operationPath, Summary: "Get an operation", Tags: []string{tagOperations},
		Description: "It is kept for a week after it has ended.",
	}, func(ctx context.Context, in *namedOperation) (*answer[api.Operation], error) {
		tenant, err := scope(ctx, in.Tenant)
		if err != nil {
			return nil, err
		}
		o, err := operations.Get(ctx, tenant, in.ID)
		return s.operation(http.StatusOK, &o, err)
	})
	route(s, auth.Operate, huma.Operation{
		OperationID: "cancel-operation", Method: http.MethodPost, Path: operationPath + "/cancel", Summary: "Cancel an operation", Tags: []string{tagOperations},
		Description: "What is done is done, and what is being done at the moment may be done.",
	}, func(ctx context.Context, in *namedOperation) (*answer[api.Operation], error) {
		tenant, err := scope(ctx, in.Tenant)
		if err != nil {
			return nil, err
		}
		if tenant != "" {
			requestOf(ctx).about(tenant) // also the caller's only one, for the audit log
		}
		o, err := operations.Cancel(ctx, tenant, in.ID)
		return s.operation(http.StatusOK, &o, err)
	})
}

// operationTenant returns an error unless the caller may do something to the instances that are
// meant. Without a tenant and without all, it is for the service to refuse.
func operationTenant(ctx context.Context, name string, all bool) error {
	switch {
	case all:
		return allTenants(ctx)
	case name != "":
		return tenant(ctx, name)
	default:
		return nil
	}
}

// operation answers with an operation, or a problem.
func (s *Server) operation(status int, o *operation.Operation, err error) (*answer[api.Operation], error) {
	if err != nil {
		return nil, s.problem(err)
	}
	return &answer[api.Operation]{status, api.FromOperation(o)}, nil
}
