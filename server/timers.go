package server

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/abidehq/abide/server/api"
	"github.com/abidehq/abide/server/auth"
	"github.com/abidehq/abide/timer"
)

const (
	timersPath = "/api/v1/timers"
	timerPath  = timersPath + "/{tenant}/{key}"
	tagTimers  = "timers"
)

// addTimers adds the routes of timers.
func (s *Server) addTimers() {
	s.addTimerReads()
	s.addTimerChanges()
	s.addManyTimers()
}

// namedTimer is a path that names a timer. Its key may hold any text, percent-encoded.
type namedTimer struct {
	Tenant string `path:"tenant"`
	Key    string `path:"key"`
}

type timersQuery struct {
	PageSize      int      `query:"page_size" minimum:"1" maximum:"1000" default:"100" doc:"How many there are on a page at most."`
	PageToken     string   `query:"page_token" doc:"The next_page_token of the page before."`
	Tenant        string   `query:"tenant" doc:"Of one tenant."`
	Status        []string `query:"status" enum:"armed,fired,cancelled" doc:"With one of these statuses."`
	From          when     `query:"from" doc:"Due, fired or cancelled at that time or later."`
	To            when     `query:"to" doc:"Due, fired or cancelled before that time."`
	CorrelationID string   `query:"correlation_id" doc:"With that correlation ID."`
	KeyPrefix     string   `query:"key_prefix" doc:"With a key that begins so. A page may hold fewer than it could, and have a next one."`
	Latest        bool     `query:"latest" doc:"The latest first."`
}

func (s *Server) addTimerReads() {
	timers := s.cfg.Timers
	route(s, auth.Read, huma.Operation{
		OperationID: "get-timer", Method: http.MethodGet, Path: timerPath, Summary: "Get a timer", Tags: []string{tagTimers},
	}, func(ctx context.Context, in *namedTimer) (*tagged[api.Timer], error) {
		return s.timer(timers.Get(ctx, in.Tenant, in.Key))
	})
	route(s, auth.Read, huma.Operation{
		OperationID: "list-timers", Method: http.MethodGet, Path: timersPath, Summary: "List timers", Tags: []string{tagTimers},
		Description: "In the order in which they are due, have fired or were cancelled.",
	}, func(ctx context.Context, in *timersQuery) (*answer[api.TimerList], error) {
		tenant, err := scope(ctx, in.Tenant)
		if err != nil {
			return nil, err
		}
		f := timer.Filter{
			Tenant: tenant, From: in.From.at(s.clock.Now()), To: in.To.at(s.clock.Now()), CorrelationID: in.CorrelationID, KeyPrefix: in.KeyPrefix, Descending: in.Latest,
			Limit: in.PageSize, Cursor: in.PageToken,
		}
		for _, status := range in.Status {
			f.Statuses = append(f.Statuses, timer.Status(status))
		}
		page, err := timers.List(ctx, f)
		if err != nil {
			return nil, s.problem(err)
		}
		return &answer[api.TimerList]{http.StatusOK, api.FromTimers(page.Timers, page.Next)}, nil
	})
}

func (s *Server) addTimerChanges() {
	timers := s.cfg.Timers
	route(s, auth.Operate, huma.Operation{
		OperationID: "schedule-timer", Method: http.MethodPut, Path: timerPath, Summary: "Schedule a timer", Tags: []string{tagTimers},
		Description: "It is armed and durable when the answer arrives. One that is there is moved, and one that has fired or was cancelled is armed again. " +
			"The answer to the first time has status 201.",
	}, func(ctx context.Context, in *struct {
		Tenant      string `path:"tenant"`
		Key         string `path:"key"`
		IfMatch     string `header:"If-Match" doc:"The ETag that it must have; * means that it must be there."`
		IfNoneMatch string `header:"If-None-Match" doc:"* means that there must be none, whatever its status."`
		Body        api.NewTimer
	}) (*tagged[api.Timer], error) {
		r, err := in.Body.Request(in.Tenant, in.Key)
		if err != nil {
			return nil, s.problem(err)
		}
		if err := s.preconditions(ctx, &r, in.IfMatch, in.IfNoneMatch); err != nil {
			return nil, err
		}
		t, err := timers.Schedule(ctx, r)
		switch {
		case r.IfVersion > 0 && errors.Is(err, timer.ErrConflict), errors.Is(err, timer.ErrExists):
			return nil, unmatched(err)
		case err == nil && t.Version == 1:
			return &tagged[api.Timer]{http.StatusCreated, etag(t.Version), api.FromTimer(&t)}, nil
		}
		return s.timer(t, err)
	})
	route(s, auth.Operate, huma.Operation{
		OperationID: "cancel-timer", Method: http.MethodDelete, Path: timerPath, Summary: "Cancel a timer", Tags: []string{tagTimers},
		Description: "It is kept for a while, as one that was cancelled. For one that has fired it is too late.",
	}, func(ctx context.Context, in *struct {
		Tenant  string `path:"tenant"`
		Key     string `path:"key"`
		IfMatch string `header:"If-Match" doc:"The ETag that it must have."`
	}) (*tagged[api.Timer], error) {
		version, err := ifMatch(in.IfMatch)
		if err != nil {
			return nil, err
		}
		if version == 0 {
			return s.timer(timers.Cancel(ctx, in.Tenant, in.Key))
		}
		t, err := timers.CancelIf(ctx, in.Tenant, in.Key, version)
		if errors.Is(err, timer.ErrConflict) {
			return nil, unmatched(err)
		}
		return s.timer(t, err)
	})
	route(s, auth.Operate, huma.Operation{
		OperationID: "snooze-timer", Method: http.MethodPost, Path: timerPath + "/snooze", Summary: "Have a timer fire later", Tags: []string{tagTimers},
		Description: "One that has fired is armed again.",
	}, func(ctx context.Context, in *struct {
		Tenant string `path:"tenant"`
		Key    string `path:"key"`
		Body   api.TimerSnooze
	}) (*tagged[api.Timer], error) {
		return s.timer(timers.Snooze(ctx, in.Tenant, in.Key, time.Duration(in.Body.Delay)))
	})
	route(s, auth.Operate, huma.Operation{
		OperationID: "redeliver-timer", Method: http.MethodPost, Path: timerPath + "/redeliver", Summary: "Publish a timer's envelope once more", Tags: []string{tagTimers},
		Description: "With the same ID. If it is in quarantine it is redriven, and if it is to be tried again later it is tried now: nothing is published twice by that.",
	}, func(ctx context.Context, in *struct {
		Tenant string `path:"tenant"`
		Key    string `path:"key"`
		Body   api.TimerRedelivery
	}) (*tagged[api.Timer], error) {
		return s.timer(timers.Redeliver(ctx, in.Tenant, in.Key, in.Body.Sink))
	})
}

// preconditions puts into a request what the headers say must hold.
func (s *Server) preconditions(ctx context.Context, r *timer.Request, match, noneMatch string) (err error) {
	if r.IfVersion, err = ifMatch(match); err != nil {
		return err
	}
	switch noneMatch {
	case "":
	case "*":
		r.IfAbsent = true
	default:
		return newProblem(http.StatusBadRequest, api.CodeInvalid, "invalid request", "If-None-Match is "+strconv.Quote(noneMatch)+"; only * is allowed")
	}
	if match == "*" {
		_, err := s.cfg.Timers.Get(ctx, r.Tenant, r.Key)
		if errors.Is(err, timer.ErrNotFound) {
			return unmatched(err)
		}
		return s.problem(err)
	}
	return nil
}

func (s *Server) addManyTimers() {
	timers := s.cfg.Timers
	route(s, auth.Operate, huma.Operation{
		OperationID: "schedule-timers", Method: http.MethodPost, Path: timersPath + "/bulk", Summary: "Schedule many timers", Tags: []string{tagTimers},
		MaxBodyBytes: maxBulkBody, BodyReadTimeout: bulkReadTimeout,
		Description: "Up to 10,000 in one commit: all of them, or none.",
	}, func(ctx context.Context, in *struct{ Body api.NewTimers }) (*answer[api.TimerList], error) {
		for i := range in.Body.Timers {
			if err := tenant(ctx, in.Body.Timers[i].Tenant); err != nil {
				return nil, err
			}
		}
		requests, err := in.Body.Requests()
		if err != nil {
			return nil, s.problem(err)
		}
		scheduled, err := timers.ScheduleAll(ctx, requests)
		if err != nil {
			return nil, s.problem(err)
		}
		return &answer[api.TimerList]{http.StatusOK, api.FromTimers(scheduled, "")}, nil
	})
	route(s, auth.Operate, huma.Operation{
		OperationID: "cancel-timers", Method: http.MethodPost, Path: timersPath + "/cancel", Summary: "Cancel many timers", Tags: []string{tagTimers},
		Description: "The armed ones of a tenant that match, in small commits. A client without an answer sends the request again: it continues from there.",
	}, func(ctx context.Context, in *struct{ Body api.TimerCancellation }) (*answer[api.TimersCancelled], error) {
		b := &in.Body
		if err := tenant(ctx, b.Tenant); err != nil {
			return nil, err
		}
		n, err := timers.CancelAll(ctx, timer.Filter{
			Tenant: b.Tenant, From: b.From, To: b.To, CorrelationID: b.CorrelationID, KeyPrefix: b.KeyPrefix,
		})
		if err != nil {
			return nil, s.problem(err)
		}
		return &answer[api.TimersCancelled]{http.StatusOK, api.TimersCancelled{Cancelled: n}}, nil
	})
}

// timer answers with a timer, or a problem.
func (s *Server) timer(t timer.Timer, err error) (*tagged[api.Timer], error) {
	if err != nil {
		return nil, s.problem(err)
	}
	return &tagged[api.Timer]{http.StatusOK, etag(t.Version), api.FromTimer(&t)}, nil
}
