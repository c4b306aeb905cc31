package server

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/abidehq/abide/action"
	"github.com/abidehq/abide/server/api"
	"github.com/abidehq/abide/server/auth"
)

// named is a path that names something of a tenant. Requests with more repeat it: what is
// embedded would have to be exported.
type named struct {
	Tenant string `path:"tenant"`
	ID     string `path:"id"`
}

// answer is a response with a body.
type answer[T any] struct {
	Status int
	Body   T
}

type actionsQuery struct {
	PageSize  int      `query:"page_size" minimum:"1" maximum:"1000" default:"100" doc:"How many there are on a page at most."`
	PageToken string   `query:"page_token" doc:"The next_page_token of the page before."`
	Tenant    string   `query:"tenant" doc:"Of one tenant."`
	Slug      string   `query:"slug" doc:"With that slug."`
	Status    []string `query:"status" enum:"pending,running,completed,failed,cancelled,skipped" doc:"With one of these statuses."`
	From      when     `query:"from" doc:"Due, begun or ended at that time or later."`
	To        when     `query:"to" doc:"Due, begun or ended before that time."`
	Latest    bool     `query:"latest" doc:"The latest first."`
}

func (s *Server) addActions() {
	const base, tag = "/api/v1/actions", "actions"
	actions := s.cfg.Actions
	route(s, auth.Operate, huma.Operation{
		OperationID: "add-action", Method: http.MethodPost, Path: base, Summary: "Add an action", Tags: []string{tag},
		DefaultStatus: http.StatusCreated,
		Description:   "It is durable when the answer arrives. With an id that exists, that action is returned, with status 200.",
	}, func(ctx context.Context, in *struct{ Body api.NewAction }) (*answer[api.Action], error) {
		if err := tenant(ctx, in.Body.Tenant); err != nil {
			return nil, err
		}
		request := in.Body.Request()
		if request.ID == "" {
			request.ID = idempotentID(ctx)
		}
		a, existed, err := actions.Add(ctx, request)
		if err != nil {
			return nil, s.problem(err)
		}
		status := http.StatusCreated
		if existed {
			status = http.StatusOK
		}
		return &answer[api.Action]{status, api.FromAction(a)}, nil
	})
	route(s, auth.Read, huma.Operation{
		OperationID: "list-actions", Method: http.MethodGet, Path: base, Summary: "List actions", Tags: []string{tag},
	}, func(ctx context.Context, in *actionsQuery) (*answer[api.ActionList], error) {
		tenant, err := scope(ctx, in.Tenant)
		if err != nil {
			return nil, err
		}
		f := action.Filter{Tenant: tenant, Slug: in.Slug, From: in.From.at(s.clock.Now()), To: in.To.at(s.clock.Now()), Descending: in.Latest, Limit: in.PageSize, Cursor: in.PageToken}
		for _, status := range in.Status {
			f.Statuses = append(f.Statuses, action.Status(status))
		}
		page, err := actions.List(ctx, f)
		if err != nil {
			return nil, s.problem(err)
		}
		list := api.ActionList{Actions: make([]api.Action, len(page.Actions)), NextPageToken: page.Next}
		for i, a := range page.Actions {
			list.Actions[i] = api.FromAction(a)
		}
		return &answer[api.ActionList]{http.StatusOK, list}, nil
	})
	route(s, auth.Read, huma.Operation{
		OperationID: "get-action", Method: http.MethodGet, Path: base + "/{tenant}/{id}", Summary: "Get an action", Tags: []string{tag},
	}, func(ctx context.Context, in *named) (*answer[api.Action], error) {
		return s.action(actions.Get(ctx, in.Tenant, in.ID))
	})
	route(s, auth.Read, huma.Operation{
		OperationID: "get-action-body", Method: http.MethodGet, Path: base + "/{tenant}/{id}/body", Summary: "Get the body of a webhook", Tags: []string{tag},
		Description: "Byte for byte as it was received, until the action has completed or was removed.",
	}, func(ctx context.Context, in *named) (*struct {
		ContentType string `header:"Content-Type"`
		Body        []byte
	}, error) {
		body, err := actions.Body(ctx, in.Tenant, in.ID)
		if err != nil {
			return nil, s.problem(err)
		}
		return &struct {
			ContentType string `header:"Content-Type"`
			Body        []byte
		}{"application/octet-stream", body}, nil
	})
	s.api.OpenAPI().Paths[base+"/{tenant}/{id}/body"].Get.Responses["200"].Content = map[string]*huma.MediaType{
		"application/octet-stream": {Schema: &huma.Schema{Type: huma.TypeString, Format: "binary"}},
	}
	route(s, auth.Operate, huma.Operation{
		OperationID: "cancel-action", Method: http.MethodPost, Path: base + "/{tenant}/{id}/cancel", Summary: "Cancel an action", Tags: []string{tag},
		Description: "One that runs is interrupted.",
	}, func(ctx context.Context, in *reasoned) (*answer[api.Action], error) {
		why, err := in.why(action.MaxReason)
		if err != nil {
			return nil, err
		}
		return s.action(actions.Cancel(ctx, in.Tenant, in.ID, why))
	})
	route(s, auth.Operate, huma.Operation{
		OperationID: "retry-action", Method: http.MethodPost, Path: base + "/{tenant}/{id}/retry", Summary: "Have an action happen again", Tags: []string{tag},
		Description: "One that has failed or was cancelled, at the next tick.",
	}, func(ctx context.Context, in *named) (*answer[api.Action], error) {
		return s.action(actions.Retry(ctx, in.Tenant, in.ID))
	})
}

// action answers with an action, or a problem.
func (s *Server) action(a action.Action, err error) (*answer[api.Action], error) {
	if err != nil {
		return nil, s.problem(err)
	}
	return &answer[api.Action]{http.StatusOK, api.FromAction(a)}, nil
}
