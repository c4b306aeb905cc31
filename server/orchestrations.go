package server

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/server/api"
	"github.com/abidehq/abide/server/auth"
)

func (s *Server) addOrchestrations() {
	route(s, auth.Read, huma.Operation{
		OperationID: "list-orchestrations", Method: http.MethodGet, Path: "/api/v1/orchestrations", Summary: "List orchestrations", Tags: []string{"workers"},
		Description: "Those that a worker serves, and those for which messages wait because nobody does.",
	}, func(ctx context.Context, _ *struct{}) (*answer[api.OrchestrationList], error) {
		workers, err := s.cfg.Engine.Workers(ctx)
		if err != nil {
			return nil, s.engineProblem(err)
		}
		unserved, err := s.cfg.Engine.Unserved(ctx)
		if err != nil {
			return nil, s.engineProblem(err)
		}
		return &answer[api.OrchestrationList]{http.StatusOK, api.OrchestrationList{Orchestrations: orchestrations(workers, unserved)}}, nil
	})
}

// orchestrations returns what is known of orchestrations, in the order of their names.
func orchestrations(workers []abide.Worker, unserved []abide.Unserved) []api.Orchestration {
	known := map[string]*api.Orchestration{}
	get := func(route string) *api.Orchestration {
		if known[route] == nil {
			name, version, _ := strings.Cut(route, "@")
			known[route] = &api.Orchestration{Name: name, Version: version, Workers: []string{}}
		}
		return known[route]
	}
	for i := range workers {
		for _, route := range workers[i].Orchestrations {
			o := get(route)
			o.Workers = append(o.Workers, workers[i].ID)
		}
	}
	for _, u := range unserved {
		if !u.Activity {
			o := get(u.Route)
			o.Pending, o.Oldest = u.Pending, u.Oldest
		}
	}
	list := make([]api.Orchestration, 0, len(known))
	for _, route := range slices.Sorted(maps.Keys(known)) {
		list = append(list, *known[route])
	}
	return list
}
