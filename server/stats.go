package server

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/abidehq/abide/server/api"
	"github.com/abidehq/abide/server/auth"
)

func (s *Server) addStats() {
	route(s, auth.Read, huma.Operation{
		OperationID: "get-stats", Method: http.MethodGet, Path: "/api/v1/stats", Summary: "Get what the store holds", Tags: []string{"store"},
		Description: "Queues with what is pending in them, leases, room on disk: of all tenants, so it is for who may see all of them.",
	}, func(ctx context.Context, _ *struct{}) (*answer[api.Stats], error) {
		if err := allTenants(ctx); err != nil {
			return nil, err
		}
		stats, err := s.cfg.Store.Stats(ctx)
		if err != nil {
			return nil, s.problem(err)
		}
		return &answer[api.Stats]{http.StatusOK, api.FromStats(&stats)}, nil
	})
}
