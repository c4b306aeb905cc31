package server

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/abidehq/abide/server/api"
	"github.com/abidehq/abide/server/auth"
)

// workerID names a worker.
type workerID struct {
	ID string `path:"id" maxLength:"200" doc:"Of the worker, as in the list of workers."`
}

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
		OperationID: "list-worker-leases", Method: http.MethodGet, Path: "/api/v1/workers/{id}/leases", Summary: "List what a worker has leased", Tags: []string{tag},
		Description: "The turns and activities that it works on now. They are those of all tenants, so they are for who may see all of them.",
	}, func(ctx context.Context, in *workerID) (*answer[api.HeldList], error) {
		if err := allTenants(ctx); err != nil {
			return nil, err
		}
		held, err := s.engine.Held(ctx, in.ID)
		if err != nil {
			return nil, s.problem(err)
		}
		list := api.HeldList{Leases: make([]api.Held, len(held))}
		for i := range held {
			list.Leases[i] = api.FromHeld(&held[i])
		}
		return &answer[api.HeldList]{http.StatusOK, list}, nil
	})
	route(s, auth.Operate, huma.Operation{
		OperationID: "drain-worker", Method: http.MethodPost, Path: "/api/v1/workers/{id}/drain", Summary: "Drain a worker", Tags: []string{tag},
		Description: "It claims nothing new, ends what is under way, and serves nothing until its program is started again. A worker of another process heeds it with its next report, within 20 seconds. " +
			"Workers belong to no tenant, so it is for who may see all of them.",
		DefaultStatus: http.StatusNoContent,
	}, func(ctx context.Context, in *workerID) (*struct{}, error) {
		if err := allTenants(ctx); err != nil {
			return nil, err
		}
		return nil, s.problem(s.engine.DrainWorker(ctx, in.ID))
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
