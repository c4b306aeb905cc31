package server

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/abidehq/abide/server/api"
	"github.com/abidehq/abide/server/auth"
)

func (s *Server) addOrchestrations() {
	route(s, auth.Read, huma.Operation{
		OperationID: "list-orchestrations", Method: http.MethodGet, Path: "/api/v1/orchestrations", Summary: "List orchestrations", Tags: []string{"workers"},
		Description: "Those that a worker serves, and those for which messages wait because nobody does. What waits is that of all tenants, so it is for who may see all of them.",
	}, func(ctx context.Context, _ *struct{}) (*answer[api.OrchestrationList], error) {
		if err := allTenants(ctx); err != nil {
			return nil, err
		}
		workers, err := s.engine.Workers(ctx)
		if err != nil {
			return nil, s.problem(err)
		}
		unserved, err := s.engine.Unserved(ctx)
		if err != nil {
			return nil, s.problem(err)
		}
		return &answer[api.OrchestrationList]{http.StatusOK, api.OrchestrationList{Orchestrations: api.Orchestrations(workers, unserved)}}, nil
	})
}
