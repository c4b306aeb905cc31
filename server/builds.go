package server

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/server/api"
	"github.com/abidehq/abide/server/auth"
)

const buildsPath = "/api/v1/builds"

type buildPath struct {
	Build string `path:"build" maxLength:"128" doc:"The ID of the build."`
}

type setBuild struct {
	Build string `path:"build" maxLength:"128" doc:"The ID of the build."`
	Body  api.BuildChange
}

type moveBuild struct {
	Build string `path:"build" maxLength:"128" doc:"The ID of the build."`
	Body  api.BuildMove
}

// addBuilds adds the routes of builds. They belong to no tenant.
func (s *Server) addBuilds() {
	const tag = "builds"
	route(s, auth.Read, huma.Operation{
		OperationID: "list-builds", Method: http.MethodGet, Path: buildsPath, Summary: "List builds, and what needs them", Tags: []string{tag},
		Description: "Those that pin instances, or for which something is set. They belong to no tenant, so they are for who may see all of them.",
	}, func(ctx context.Context, _ *struct{}) (*answer[api.BuildList], error) {
		found, err := s.builds(ctx, "")
		if err != nil {
			return nil, err
		}
		list := api.BuildList{Builds: make([]api.Build, len(found))}
		for i := range found {
			list.Builds[i] = api.FromBuild(&found[i])
		}
		return &answer[api.BuildList]{http.StatusOK, list}, nil
	})
	route(s, auth.Read, huma.Operation{
		OperationID: "get-build", Method: http.MethodGet, Path: buildsPath + "/{build}", Summary: "See a build, and what needs it", Tags: []string{tag},
	}, func(ctx context.Context, in *buildPath) (*answer[api.Build], error) {
		return s.build(ctx, in.Build)
	})
	route(s, auth.Operate, huma.Operation{
		OperationID: "set-build", Method: http.MethodPatch, Path: buildsPath + "/{build}", Summary: "Set the share of a build, or drain it", Tags: []string{tag},
		Description: "What the body does not have stays as it is. All shares together are at most 100 percent.",
	}, func(ctx context.Context, in *setBuild) (*answer[api.Build], error) {
		if err := allTenants(ctx); err != nil {
			return nil, err
		}
		if err := s.engine.SetBuild(ctx, in.Build, abide.BuildChange(in.Body)); err != nil {
			return nil, s.problem(err)
		}
		return s.build(ctx, in.Build)
	})
	route(s, auth.Operate, huma.Operation{
		OperationID: "move-build", Method: http.MethodPost, Path: buildsPath + "/{build}/move", Summary: "Move instances to another build", Tags: []string{tag},
		Description: "The open instances that are pinned to the build, up to 1,000 of them. The new build replays their histories, and an instance stalls if its code does not fit.",
	}, func(ctx context.Context, in *moveBuild) (*answer[api.BuildMoved], error) {
		if err := allTenants(ctx); err != nil {
			return nil, err
		}
		moved, err := s.engine.MoveBuild(ctx, abide.BuildMove{From: in.Build, To: in.Body.To, Orchestrations: in.Body.Orchestrations, Live: in.Body.Live})
		if err != nil {
			return nil, s.problem(err)
		}
		return &answer[api.BuildMoved]{http.StatusOK, api.BuildMoved(moved)}, nil
	})
}

// builds returns the builds, or one of them, for who may see all tenants.
func (s *Server) builds(ctx context.Context, id string) ([]abide.Build, error) {
	if err := allTenants(ctx); err != nil {
		return nil, err
	}
	found, err := s.engine.Builds(ctx, id)
	if err != nil {
		return nil, s.problem(err)
	}
	return found, nil
}

func (s *Server) build(ctx context.Context, id string) (*answer[api.Build], error) {
	found, err := s.builds(ctx, id)
	if err != nil {
		return nil, err
	}
	return &answer[api.Build]{http.StatusOK, api.FromBuild(&found[0])}, nil
}
