package server

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/server/api"
	"github.com/abidehq/abide/server/auth"
)

type entitiesQuery struct {
	PageSize  int       `query:"page_size" minimum:"1" maximum:"1000" default:"100" doc:"How many there are on a page at most."`
	PageToken string    `query:"page_token" doc:"The next_page_token of the page before."`
	Tenant    string    `query:"tenant" doc:"Of one tenant."`
	Prefix    string    `query:"prefix" doc:"What the ID begins with, such as @cart@."`
	From      time.Time `query:"from" doc:"Modified at that time or later."`
	To        time.Time `query:"to" doc:"Modified before that time."`
	Empty     bool      `query:"empty" doc:"Also those that have no state and are only locked."`
}

func (s *Server) addEntities() {
	const path, tag = "/api/v1/entities", "entities"
	const one = path + "/{tenant}/{id}"
	route(s, auth.Read, huma.Operation{
		OperationID: "list-entities", Method: http.MethodGet, Path: path, Summary: "List entities", Tags: []string{tag},
		Description: "In the order in which they were modified.",
	}, s.listEntities)
	route(s, auth.Read, huma.Operation{
		OperationID: "get-entity", Method: http.MethodGet, Path: one, Summary: "Get an entity", Tags: []string{tag},
		Description: "Its state, who has locked it, and what waits for the lock.",
	}, func(ctx context.Context, in *named) (*answer[api.Entity], error) {
		e, err := s.engine.Entity(ctx, ref(in.Tenant, in.ID))
		if err != nil {
			return nil, s.problem(err)
		}
		return &answer[api.Entity]{http.StatusOK, api.FromEntity(&e)}, nil
	})
	route(s, auth.Operate, huma.Operation{
		OperationID: "signal-entity", Method: http.MethodPost, Path: one + "/signal", Summary: "Signal an entity", Tags: []string{tag},
		Description:   "Sends an operation, and does not wait until it has run. The entity need not exist.",
		DefaultStatus: http.StatusNoContent,
	}, func(ctx context.Context, in *struct {
		Tenant string `path:"tenant"`
		ID     string `path:"id"`
		Body   api.NewSignal
	},
	) (*struct{}, error) {
		input, err := api.Payload(in.Body.Input)
		if err != nil {
			return nil, s.problem(err)
		}
		return nil, s.problem(s.engine.Signal(ctx, abide.SignalRequest{
			Ref: ref(in.Tenant, in.ID), Operation: in.Body.Operation, Input: input, ID: in.Body.ID, At: in.Body.At,
		}))
	})
}

func (s *Server) listEntities(ctx context.Context, in *entitiesQuery) (*answer[api.EntityList], error) {
	name, err := scope(ctx, in.Tenant)
	if err != nil {
		return nil, err
	}
	f := abide.EntityFilter{Prefix: in.Prefix, From: in.From, To: in.To, Empty: in.Empty, Limit: in.PageSize, Cursor: in.PageToken}
	if name != "" {
		f.Tenant = &name
	}
	page, err := s.engine.Entities(ctx, f)
	if err != nil {
		return nil, s.problem(err)
	}
	list := api.EntityList{Entities: make([]api.Entity, len(page.Entities)), NextPageToken: page.Next}
	for i := range page.Entities {
		list.Entities[i] = api.FromEntity(&page.Entities[i])
	}
	return &answer[api.EntityList]{http.StatusOK, list}, nil
}
