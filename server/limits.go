package server

import (
	"context"
	"errors"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/server/api"
	"github.com/abidehq/abide/server/auth"
)

const (
	limitsPath = "/api/v1/limits"
	limitPath  = limitsPath + "/{tenant}/{name}"
	tagLimits  = "limits"
)

// namedLimit is a path that names a limit.
type namedLimit struct {
	Tenant string `path:"tenant"`
	Name   string `path:"name" doc:"The name of the limit."`
}

// changedLimit is a request that changes a limit.
type changedLimit struct {
	Tenant  string `path:"tenant"`
	Name    string `path:"name" doc:"The name of the limit."`
	IfMatch string `header:"If-Match" doc:"The ETag that it must have."`
	Body    api.LimitChange
}

// addLimits adds the routes of limits.
func (s *Server) addLimits() {
	route(s, auth.Read, huma.Operation{
		OperationID: "list-limits", Method: http.MethodGet, Path: limitsPath, Summary: "List limits", Tags: []string{tagLimits},
		Description: "Those of a tenant, by name. A limit is there from when work was first scheduled under it, or when an operator has made it.",
	}, func(ctx context.Context, in *struct {
		Tenant string `query:"tenant" doc:"Whose limits. Without it, those of the caller's only tenant, or, for a caller with access to all tenants, of the tenant default."`
	}) (*answer[api.LimitList], error) {
		name, err := scope(ctx, in.Tenant)
		if err != nil {
			return nil, err
		}
		found, err := s.engine.Limits(ctx, name)
		if err != nil {
			return nil, s.problem(err)
		}
		list := api.LimitList{Limits: make([]api.Limit, len(found))}
		for i := range found {
			list.Limits[i] = api.FromLimit(&found[i])
		}
		return &answer[api.LimitList]{http.StatusOK, list}, nil
	})
	route(s, auth.Read, huma.Operation{
		OperationID: "get-limit", Method: http.MethodGet, Path: limitPath, Summary: "Get a limit, and what waits for it", Tags: []string{tagLimits},
		Description: "The ETag changes with what is declared, set or paused, and not with what is under way.",
	}, func(ctx context.Context, in *namedLimit) (*tagged[api.Limit], error) {
		return s.limit(s.engine.Limit(ctx, in.Tenant, in.Name))
	})
	route(s, auth.Operate, huma.Operation{
		OperationID: "change-limit", Method: http.MethodPatch, Path: limitPath, Summary: "Change or make a limit", Tags: []string{tagLimits},
		Description: "For all processes, within a second. What is under way goes on: a limit that is lowered drains, and one that is raised admits what waits at once. " +
			"What the body does not have stays as it is.",
	}, func(ctx context.Context, in *changedLimit) (*tagged[api.Limit], error) {
		revision, err := ifMatch(in.IfMatch)
		if err != nil {
			return nil, err
		}
		change := in.Body.LimitChange()
		change.Revision = revision
		return s.changeLimit(ctx, in.Tenant, in.Name, change)
	})
	for _, v := range []struct {
		name, summary, description string
		change                     abide.LimitChange
	}{
		{"pause", "Pause a limit", "Nothing begins under it until it is resumed. What is under way goes on.", abide.LimitChange{Paused: new(true)}},
		{"resume", "Resume a limit", "What waits is admitted by its rule at once.", abide.LimitChange{Paused: new(false)}},
		{"unset", "Go back to the rule that code declares", "A limit that no code has declared is deleted.", abide.LimitChange{Unset: true}},
	} {
		route(s, auth.Operate, huma.Operation{
			OperationID: v.name + "-limit", Method: http.MethodPost, Path: limitPath + "/" + v.name, Summary: v.summary, Tags: []string{tagLimits}, Description: v.description,
		}, func(ctx context.Context, in *namedLimit) (*tagged[api.Limit], error) {
			return s.changeLimit(ctx, in.Tenant, in.Name, v.change)
		})
	}
}

func (s *Server) changeLimit(ctx context.Context, tenant, name string, change abide.LimitChange) (*tagged[api.Limit], error) {
	info, err := s.engine.ChangeLimit(ctx, tenant, name, change)
	if change.Revision != 0 && errors.Is(err, abide.ErrConflict) {
		return nil, unmatched(err)
	}
	return s.limit(info, err)
}

// limit answers with a limit, or a problem. One that was deleted has no revision.
func (s *Server) limit(info abide.LimitInfo, err error) (*tagged[api.Limit], error) {
	if err != nil {
		return nil, s.problem(err)
	}
	out := &tagged[api.Limit]{Status: http.StatusOK, Body: api.FromLimit(&info)}
	if info.Revision != 0 {
		out.ETag = etag(info.Revision)
	}
	return out, nil
}
