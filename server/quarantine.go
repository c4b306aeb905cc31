package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/server/api"
	"github.com/abidehq/abide/server/auth"
	"github.com/abidehq/abide/store"
)

func (s *Server) addQuarantine() {
	const path, tag = "/api/v1/quarantine", "quarantine"
	const one = path + "/{tenant}/{id}"
	c := s.engine
	route(s, auth.Read, huma.Operation{
		OperationID: "list-quarantine", Method: http.MethodGet, Path: path, Summary: "List quarantined messages", Tags: []string{tag},
		Description: "Messages that could not be handled, and wait for a person.",
	}, func(ctx context.Context, in *struct {
		PageSize  int    `query:"page_size" minimum:"1" maximum:"10000" default:"100" doc:"How many there are on a page at most."`
		PageToken string `query:"page_token" doc:"The next_page_token of the page before."`
		Tenant    string `query:"tenant" doc:"Of one tenant."`
	}) (*answer[api.QuarantineList], error) {
		name, err := scope(ctx, in.Tenant)
		if err != nil {
			return nil, err
		}
		f := abide.QuarantineFilter{Limit: in.PageSize, Cursor: in.PageToken}
		if name != "" {
			f.Tenant = &name
		}
		page, err := c.Quarantine(ctx, f)
		if err != nil {
			return nil, s.problem(err)
		}
		list := api.QuarantineList{Messages: make([]api.Quarantined, len(page.Messages)), NextPageToken: page.Next}
		for i := range page.Messages {
			list.Messages[i] = api.FromQuarantined(&page.Messages[i])
		}
		return &answer[api.QuarantineList]{http.StatusOK, list}, nil
	})
	route(s, auth.Read, huma.Operation{
		OperationID: "get-quarantined", Method: http.MethodGet, Path: one, Summary: "Get a quarantined message", Tags: []string{tag},
	}, func(ctx context.Context, in *named) (*answer[api.Quarantined], error) {
		q, err := s.quarantined(ctx, in.Tenant, in.ID)
		if err != nil {
			return nil, s.problem(err)
		}
		return &answer[api.Quarantined]{http.StatusOK, api.FromQuarantined(&q)}, nil
	})
	route(s, auth.Operate, huma.Operation{
		OperationID: "redrive-quarantined", Method: http.MethodPost, Path: one + "/redrive", Summary: "Put a quarantined message back", Tags: []string{tag},
		Description: "As if it had never been tried.", DefaultStatus: http.StatusNoContent,
	}, func(ctx context.Context, in *named) (*struct{}, error) {
		return nil, s.problem(c.Redrive(ctx, in.Tenant, in.ID))
	})
	route(s, auth.Operate, huma.Operation{
		OperationID: "discard-quarantined", Method: http.MethodDelete, Path: one, Summary: "Discard a quarantined message", Tags: []string{tag},
		Description: "It is gone for good.", DefaultStatus: http.StatusNoContent,
	}, func(ctx context.Context, in *named) (*struct{}, error) {
		return nil, s.problem(c.Discard(ctx, in.Tenant, in.ID))
	})
}

// quarantined returns a quarantined message. In the store, those of
// the default tenant have its name if they are of timers and actions, and no tenant if they are
// of instances.
func (s *Server) quarantined(ctx context.Context, tenant, id string) (abide.Quarantined, error) {
	key := store.RecordKey{Kind: store.KindQuarantine, Tenant: tenant, ID: id}
	r, err := s.cfg.Store.Get(ctx, key)
	if errors.Is(err, store.ErrNotFound) && tenant == abide.DefaultTenant {
		key.Tenant = ""
		r, err = s.cfg.Store.Get(ctx, key)
	}
	if errors.Is(err, store.ErrNotFound) {
		return abide.Quarantined{}, fmt.Errorf("quarantined message %q of tenant %q: %w", id, tenant, abide.ErrNotFound)
	}
	if err != nil {
		return abide.Quarantined{}, err
	}
	m, err := store.Quarantined(r)
	return abide.Quarantined{
		Tenant: tenant, ID: r.Key.ID, Reason: r.Status, At: r.Time,
		Queue: m.Key.Queue, Key: m.Key.Name, Route: m.Route, Message: m.ID, Attempts: m.Attempt, Body: m.Body,
	}, err
}
