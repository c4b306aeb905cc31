package server

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/server/api"
	"github.com/abidehq/abide/server/auth"
	"github.com/abidehq/abide/store"
)

func (s *Server) addShards() {
	route(s, auth.Read, huma.Operation{
		OperationID: "list-shards", Method: http.MethodGet, Path: "/api/v1/shards", Summary: "List shards", Tags: []string{"store"},
		Description: "The databases that the store consists of, what they hold, and the move of a tenant between them that is under way: of all tenants, so it is for who may see all of them.",
	}, func(ctx context.Context, _ *struct{}) (*answer[api.Shards], error) {
		if err := allTenants(ctx); err != nil {
			return nil, err
		}
		sharded, ok := s.cfg.Store.(store.Sharded)
		if !ok {
			return &answer[api.Shards]{http.StatusOK, api.Shards{Shards: []api.Shard{}}}, nil
		}
		shards, err := sharded.Shards(ctx)
		if err != nil {
			return nil, s.problem(err)
		}
		return &answer[api.Shards]{http.StatusOK, api.FromShards(&shards, abide.DefaultTenant)}, nil
	})
}
