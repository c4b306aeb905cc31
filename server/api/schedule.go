package api

import (
	"encoding/json"
	"time"

	"github.com/abidehq/abide/action"
)

// Plan is what to do again and again.
type Plan struct {
	Tenant     string          `json:"tenant,omitempty" default:"default" doc:"Whose schedule it is."`
	ID         string          `json:"id" doc:"Its name within the tenant."`
	Slug       string          `json:"slug" doc:"What its actions are for."`
	Target     string          `json:"target" doc:"The name of a target in the server's configuration."`
	Cron       string          `json:"cron,omitempty" doc:"A cron expression of five fields, or six with the seconds first."`
	Every      Duration        `json:"every,omitempty" doc:"Or a fixed distance between runs."`
	Zone       string          `json:"zone,omitempty" doc:"The time zone of the cron expression, such as Europe/Berlin; UTC if it is not given."`
	Gap        string          `json:"gap,omitempty" enum:"run-after,skip" default:"run-after" doc:"What becomes of runs at local times that are skipped when clocks are set forward."`
	Fold       string          `json:"fold,omitempty" enum:"first,second,both" default:"first" doc:"What becomes of runs at local times that come twice when clocks are set back."`
	Jitter     Duration        `json:"jitter,omitempty" doc:"By how much runs may be late, each by another part of it."`
	Overlap    string          `json:"overlap,omitempty" enum:"skip,queue,allow,cancel" default:"skip" doc:"What becomes of a run that is due while the one before has not ended."`
	CatchUp    string          `json:"catch_up,omitempty" enum:"none,one,all" default:"one" doc:"What becomes of runs that were due while nobody was there."`
	Window     Duration        `json:"window,omitempty" doc:"How long ago runs may have been due to be caught up on, with catch_up all; a day if it is not given."`
	Cap        int             `json:"cap,omitempty" doc:"How many runs are caught up on at most, with catch_up all; 100 if it is not given."`
	From       time.Time       `json:"from,omitzero" doc:"No run is before."`
	Until      time.Time       `json:"until,omitzero" doc:"All runs are before."`
	Count      int             `json:"count,omitempty" doc:"How many runs there are at most."`
	Payload    json.RawMessage `json:"payload,omitempty" doc:"Any JSON value for the target."`
	Idempotent bool            `json:"idempotent,omitempty" doc:"A run can be repeated if nobody knows how far it came."`
}

// Plan returns what the plan says.
func (p *Plan) Plan() (action.Plan, error) {
	plan := action.Plan{
		Tenant: p.Tenant, ID: p.ID, Slug: p.Slug, Target: p.Target,
		Cron: p.Cron, Every: time.Duration(p.Every), Zone: p.Zone, Jitter: time.Duration(p.Jitter),
		Overlap: action.Overlap(p.Overlap), CatchUp: action.CatchUp(p.CatchUp), Window: time.Duration(p.Window), Cap: p.Cap,
		From: p.From, Until: p.Until, Count: p.Count, Payload: p.Payload, Idempotent: p.Idempotent,
	}
	var gap action.Gap
	var fold action.Fold
	if err := gap.UnmarshalText([]byte(p.Gap)); err != nil {
		return plan, err
	}
	if err := fold.UnmarshalText([]byte(p.Fold)); err != nil {
		return plan, err
	}
	plan.Gap, plan.Fold = gap, fold
	return plan, nil
}

// FromPlan is the inverse of [Plan.Plan].
func FromPlan(p action.Plan) Plan {
	return Plan{
		Tenant: p.Tenant, ID: p.ID, Slug: p.Slug, Target: p.Target,
		Cron: p.Cron, Every: Duration(p.Every), Zone: p.Zone, Gap: p.Gap.String(), Fold: p.Fold.String(), Jitter: Duration(p.Jitter),
		Overlap: string(p.Overlap), CatchUp: string(p.CatchUp), Window: Duration(p.Window), Cap: p.Cap,
		From: p.From, Until: p.Until, Count: p.Count, Payload: p.Payload, Idempotent: p.Idempotent,
	}
}

// Schedule makes actions again and again.
type Schedule struct {
	Plan

	Status    string    `json:"status" enum:"active,paused,ended"`
	Reason    string    `json:"reason,omitempty" doc:"Why it is paused."`
	PausedAt  time.Time `json:"paused_at,omitzero"`
	Next      time.Time `json:"next,omitzero" doc:"The next run, in the schedule's zone."`
	Last      time.Time `json:"last,omitzero" doc:"The last run that was made."`
	Runs      int       `json:"runs" doc:"How many were made."`
	Current   string    `json:"current,omitempty" doc:"The action that was made last."`
	Queued    time.Time `json:"queued,omitzero" doc:"The run that waits for it to end."`
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`
	Version   int64     `json:"version"`
	Warning   string    `json:"warning,omitempty" doc:"No live worker serves its target, and its actions wait until one does. Names the targets that are served. Not in lists."`
}

// FromSchedule returns a schedule for the wire.
func FromSchedule(s action.Schedule) Schedule {
	next, last := s.Next, s.Last
	if zone, err := time.LoadLocation(s.Zone); err == nil {
		if !next.IsZero() {
			next = next.In(zone)
		}
		if !last.IsZero() {
			last = last.In(zone)
		}
	}
	return Schedule{
		Plan: FromPlan(s.Plan), Status: string(s.Status), Reason: s.Reason, PausedAt: s.PausedAt,
		Next: next, Last: last, Runs: s.Runs, Current: s.Current, Queued: s.Queued,
		CreatedAt: s.CreatedAt, UpdatedAt: s.UpdatedAt, Version: s.Version, Warning: s.Warning,
	}
}

// Schedule is the inverse of [FromSchedule].
func (s *Schedule) Schedule() (action.Schedule, error) {
	plan, err := s.Plan.Plan()
	return action.Schedule{
		Plan: plan, Status: action.ScheduleStatus(s.Status), Reason: s.Reason, PausedAt: s.PausedAt,
		Next: s.Next, Last: s.Last, Runs: s.Runs, Current: s.Current, Queued: s.Queued,
		CreatedAt: s.CreatedAt, UpdatedAt: s.UpdatedAt, Version: s.Version, Warning: s.Warning,
	}, err
}

// ScheduleList is a page of schedules.
type ScheduleList struct {
	Schedules     []Schedule `json:"schedules"`
	NextPageToken string     `json:"next_page_token,omitempty" doc:"What to ask for the next page with; not there on the last one."`
}

// Preview is the next runs of a schedule or a plan.
type Preview struct {
	Runs []time.Time `json:"runs"`
}
