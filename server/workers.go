package server

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/abidehq/abide/server/api"
	"github.com/abidehq/abide/server/auth"
)

func (s *Server) addWorkers() {
	const tag = "workers"
	route(s, auth.Read, huma.Operation{
		OperationID: "list-workers", Method: http.MethodGet, Path: "/api/v1/workers", Summary: "List workers", Tags: []string{tag},
		Description: "What serves orchestrations and activities, or targets of actions, and was heard of within the last minute. They belong to no tenant, so they are for who may see all of them.",
	}, func(ctx context.Context, _ *struct{}) (*answer[api.WorkerList], error) {
		if err := allTenants(ctx); err != nil {
			return nil, err
		}
		workers, err := s.engine.Workers(ctx)
		if err != nil {
			return nil, s.problem(err)
		}
		list := api.WorkerList{Workers: make([]api.Worker, len(workers))}
		for i := range workers {
			list.Workers[i] = api.FromWorker(&workers[i])
		}
		return &answer[api.WorkerList]{http.StatusOK, list}, nil
	})
	route(s, auth.Read, huma.Operation{
		OperationID: "list-unserved", Method: http.MethodGet, Path: "/api/v1/unserved", Summary: "List what nobody serves", Tags: []string{tag},
		Description: "Orchestrations, activities and targets of actions for which messages wait, and targets of active schedules, which no worker serves. What waits is that of all tenants, so it is for who may see all of them.",
	}, func(ctx context.Context, _ *struct{}) (*answer[api.UnservedList], error) {
		if err := allTenants(ctx); err != nil {
			return nil, err
		}
		unserved, err := s.engine.Unserved(ctx)
		if err != nil {
			return nil, s.problem(err)
		}
		list := api.UnservedList{Unserved: make([]api.Unserved, len(unserved))}
		for i := range unserved {
			list.Unserved[i] = api.Unserved(unserved[i])
		}
		return &answer[api.UnservedList]{http.StatusOK, list}, nil
	})
}
