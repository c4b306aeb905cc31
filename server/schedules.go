package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/abidehq/abide/action"
	"github.com/abidehq/abide/server/api"
	"github.com/abidehq/abide/server/auth"
)

func (s *Server) addSchedules() {
	const base, tag = "/api/v1/schedules", "schedules"
	const one = base + "/{tenant}/{id}"
	actions := s.cfg.Actions
	route(s, auth.Operate, huma.Operation{
		OperationID: "add-schedule", Method: http.MethodPost, Path: base, Summary: "Add a schedule", Tags: []string{tag},
		DefaultStatus: http.StatusCreated,
	}, func(ctx context.Context, in *struct{ Body api.Plan }) (*tagged[api.Schedule], error) {
		if err := tenant(ctx, in.Body.Tenant); err != nil {
			return nil, err
		}
		plan, err := in.Body.Plan()
		if err != nil {
			return nil, s.problem(fmt.Errorf("%w: %w", err, action.ErrInvalid))
		}
		return s.schedule(http.StatusCreated)(actions.AddSchedule(ctx, plan))
	})
	route(s, auth.Read, huma.Operation{
		OperationID: "list-schedules", Method: http.MethodGet, Path: base, Summary: "List schedules", Tags: []string{tag},
		Description: "In the order of their next run.",
	}, func(ctx context.Context, in *struct {
		PageSize  int    `query:"page_size" minimum:"1" maximum:"1000" default:"100" doc:"How many there are on a page at most."`
		PageToken string `query:"page_token" doc:"The next_page_token of the page before."`
		Tenant    string `query:"tenant" doc:"Of one tenant."`
	}) (*answer[api.ScheduleList], error) {
		tenant, err := scope(ctx, in.Tenant)
		if err != nil {
			return nil, err
		}
		page, err := actions.ListSchedules(ctx, action.ScheduleFilter{Tenant: tenant, Limit: in.PageSize, Cursor: in.PageToken})
		if err != nil {
			return nil, s.problem(err)
		}
		list := api.ScheduleList{Schedules: make([]api.Schedule, len(page.Schedules)), NextPageToken: page.Next}
		for i, sch := range page.Schedules {
			list.Schedules[i] = api.FromSchedule(sch)
		}
		return &answer[api.ScheduleList]{http.StatusOK, list}, nil
	})
	route(s, auth.Read, huma.Operation{
		OperationID: "get-schedule", Method: http.MethodGet, Path: one, Summary: "Get a schedule", Tags: []string{tag},
	}, func(ctx context.Context, in *named) (*tagged[api.Schedule], error) {
		return s.schedule(http.StatusOK)(actions.GetSchedule(ctx, in.Tenant, in.ID))
	})
	route(s, auth.Operate, huma.Operation{
		OperationID: "update-schedule", Method: http.MethodPut, Path: one, Summary: "Give a schedule another plan", Tags: []string{tag},
	}, func(ctx context.Context, in *struct {
		Tenant  string `path:"tenant"`
		ID      string `path:"id"`
		IfMatch string `header:"If-Match" doc:"The ETag that it must have."`
		Body    api.Plan
	}) (*tagged[api.Schedule], error) {
		version, err := ifMatch(in.IfMatch)
		if err != nil {
			return nil, err
		}
		in.Body.Tenant, in.Body.ID = in.Tenant, in.ID
		plan, err := in.Body.Plan()
		if err != nil {
			return nil, s.problem(fmt.Errorf("%w: %w", err, action.ErrInvalid))
		}
		sch, err := actions.UpdateSchedule(ctx, plan, version)
		if version > 0 && errors.Is(err, action.ErrConflict) {
			return nil, unmatched(err)
		}
		return s.schedule(http.StatusOK)(sch, err)
	})
	route(s, auth.Operate, huma.Operation{
		OperationID: "remove-schedule", Method: http.MethodDelete, Path: one, Summary: "Remove a schedule", Tags: []string{tag},
		Description: "The actions that it has made stay.", DefaultStatus: http.StatusNoContent,
	}, func(ctx context.Context, in *named) (*struct{}, error) {
		return nil, s.problem(actions.RemoveSchedule(ctx, in.Tenant, in.ID))
	})
	route(s, auth.Operate, huma.Operation{
		OperationID: "pause-schedule", Method: http.MethodPost, Path: one + "/pause", Summary: "Pause a schedule", Tags: []string{tag},
	}, func(ctx context.Context, in *reasoned) (*tagged[api.Schedule], error) {
		why, err := in.why(action.MaxReason)
		if err != nil {
			return nil, err
		}
		return s.schedule(http.StatusOK)(actions.Pause(ctx, in.Tenant, in.ID, why))
	})
	route(s, auth.Operate, huma.Operation{
		OperationID: "resume-schedule", Method: http.MethodPost, Path: one + "/resume", Summary: "Resume a schedule", Tags: []string{tag},
		Description: "What was due meanwhile is skipped.",
	}, func(ctx context.Context, in *named) (*tagged[api.Schedule], error) {
		return s.schedule(http.StatusOK)(actions.Resume(ctx, in.Tenant, in.ID))
	})
	route(s, auth.Operate, huma.Operation{
		OperationID: "trigger-schedule", Method: http.MethodPost, Path: one + "/trigger", Summary: "Run a schedule now", Tags: []string{tag},
		DefaultStatus: http.StatusCreated,
	}, func(ctx context.Context, in *named) (*answer[api.Action], error) {
		a, err := actions.Trigger(ctx, in.Tenant, in.ID)
		if err != nil {
			return nil, s.problem(err)
		}
		return &answer[api.Action]{http.StatusCreated, api.FromAction(a)}, nil
	})
	route(s, auth.Operate, huma.Operation{
		OperationID: "backfill-schedule", Method: http.MethodPost, Path: one + "/backfill", Summary: "Make the runs of a range of time", Tags: []string{tag},
		DefaultStatus: http.StatusCreated, Description: "All of them now, beside each other; at most 1,000.",
	}, func(ctx context.Context, in *struct {
		Tenant string `path:"tenant"`
		ID     string `path:"id"`
		From   when   `query:"from" required:"true" doc:"The first run is not before."`
		To     when   `query:"to" required:"true" doc:"The last run is before."`
	}) (*answer[api.ActionList], error) {
		made, err := actions.Backfill(ctx, in.Tenant, in.ID, in.From.at(s.clock.Now()), in.To.at(s.clock.Now()))
		if err != nil {
			return nil, s.problem(err)
		}
		list := api.ActionList{Actions: make([]api.Action, len(made))}
		for i, a := range made {
			list.Actions[i] = api.FromAction(a)
		}
		return &answer[api.ActionList]{http.StatusCreated, list}, nil
	})
}

// schedule returns what answers with a schedule, or a problem.
func (s *Server) schedule(status int) func(action.Schedule, error) (*tagged[api.Schedule], error) {
	return func(sch action.Schedule, err error) (*tagged[api.Schedule], error) {
		if err != nil {
			return nil, s.problem(err)
		}
		return &tagged[api.Schedule]{status, etag(sch.Version), api.FromSchedule(sch)}, nil
	}
}
