package remote

import (
	"context"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/abidehq/abide/action"
	"github.com/abidehq/abide/internal/pages"
	"github.com/abidehq/abide/server/api"
)

// AddSchedule adds a schedule.
func (a *Actions) AddSchedule(ctx context.Context, p action.Plan) (action.Schedule, error) {
	return a.schedule(ctx, http.MethodPost, "/api/v1/schedules", nil, api.FromPlan(p))
}

// GetSchedule returns a schedule.
func (a *Actions) GetSchedule(ctx context.Context, tenant, id string) (action.Schedule, error) {
	return a.schedule(ctx, http.MethodGet, where("schedules", tenant, id), nil, nil)
}

// UpdateSchedule gives a schedule another plan.
func (a *Actions) UpdateSchedule(ctx context.Context, p action.Plan, version int64) (action.Schedule, error) {
	header := http.Header{}
	if version != 0 {
		header.Set("If-Match", strconv.Quote(strconv.FormatInt(version, 10)))
	}
	var s api.Schedule
	if _, err := a.c.send(ctx, http.MethodPut, where("schedules", p.Tenant, p.ID), nil, header, api.FromPlan(p), &s); err != nil {
		return action.Schedule{}, err
	}
	return s.Schedule()
}

// Pause pauses a schedule.
func (a *Actions) Pause(ctx context.Context, tenant, id, why string) (action.Schedule, error) {
	q := url.Values{}
	set(q, "reason", why)
	return a.schedule(ctx, http.MethodPost, where("schedules", tenant, id, "pause"), q, nil)
}

// Resume resumes a schedule.
func (a *Actions) Resume(ctx context.Context, tenant, id string) (action.Schedule, error) {
	return a.schedule(ctx, http.MethodPost, where("schedules", tenant, id, "resume"), nil, nil)
}

// RemoveSchedule removes a schedule.
func (a *Actions) RemoveSchedule(ctx context.Context, tenant, id string) error {
	_, err := a.c.call(ctx, http.MethodDelete, where("schedules", tenant, id), nil, nil, nil)
	return err
}

// Trigger runs a schedule now.
func (a *Actions) Trigger(ctx context.Context, tenant, id string) (action.Action, error) {
	return a.one(ctx, http.MethodPost, where("schedules", tenant, id, "trigger"), nil)
}

// Backfill makes the runs of a range of time.
func (a *Actions) Backfill(ctx context.Context, tenant, id string, from, to time.Time) ([]action.Action, error) {
	q := url.Values{}
	setTime(q, "from", from)
	setTime(q, "to", to)
	var list api.ActionList
	if _, err := a.c.call(ctx, http.MethodPost, where("schedules", tenant, id, "backfill"), q, nil, &list); err != nil {
		return nil, err
	}
	return actions(list), nil
}

// ListSchedules returns a page of the schedules that match f, as [action.Service.ListSchedules] does.
func (a *Actions) ListSchedules(ctx context.Context, f action.ScheduleFilter) (action.SchedulePage, error) {
	q := page(f.Limit, f.Cursor)
	set(q, "tenant", f.Tenant)
	var list api.ScheduleList
	if _, err := a.c.call(ctx, http.MethodGet, "/api/v1/schedules", q, nil, &list); err != nil {
		return action.SchedulePage{}, err
	}
	out := action.SchedulePage{Next: list.NextPageToken, Schedules: make([]action.Schedule, len(list.Schedules))}
	for i := range list.Schedules {
		var err error
		if out.Schedules[i], err = list.Schedules[i].Schedule(); err != nil {
			return action.SchedulePage{}, err
		}
	}
	return out, nil
}

// AllSchedules returns the schedules that match f, page by page. It is [action.Service.AllSchedules] of the server: the
// sequence is no snapshot, and ends after the first error.
func (a *Actions) AllSchedules(ctx context.Context, f action.ScheduleFilter) iter.Seq2[action.Schedule, error] {
	return pages.All(f.Cursor, func(cursor string) ([]action.Schedule, string, error) {
		f := f
		f.Cursor = cursor
		page, err := a.ListSchedules(ctx, f)
		return page.Schedules, page.Next, err
	})
}

func (a *Actions) schedule(ctx context.Context, method, path string, q url.Values, in any) (action.Schedule, error) {
	var out api.Schedule
	if _, err := a.c.call(ctx, method, path, q, in, &out); err != nil {
		return action.Schedule{}, err
	}
	return out.Schedule()
}
