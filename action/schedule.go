package action

import (
	"encoding/json"
	"time"

	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/internal/cron"
	"github.com/abidehq/abide/internal/roster"
	"github.com/abidehq/abide/store"
)

// Plan describes a schedule.
type Plan struct {
	// Tenant, Slug, Target, Payload and Idempotent are copied to the actions that the schedule
	// creates. An empty tenant means [DefaultTenant].
	Tenant     string          `json:"tenant"`
	Slug       string          `json:"slug"`
	Target     string          `json:"target"`
	Payload    json.RawMessage `json:"payload,omitempty"`
	Idempotent bool            `json:"idempotent,omitempty"`

	// ID names the schedule within its tenant.
	ID string `json:"id"`

	// Cron is a cron expression of five fields, or of six with the seconds first. If it is
	// empty, Every is the interval between runs, counted from From or from when the schedule was
	// added.
	Cron  string        `json:"cron,omitempty"`
	Every time.Duration `json:"everyNs,omitempty"`

	// Zone is the time zone of the expression, such as Europe/Berlin. Empty means UTC. Gap is
	// the policy for local times that are skipped when clocks are set forward, and Fold for
	// those that occur twice when clocks are set back. Expressions whose hour is * or a step of
	// * follow elapsed time.
	Zone string `json:"zone,omitempty"`
	Gap  Gap    `json:"gap,omitempty"`
	Fold Fold   `json:"fold,omitempty"`

	// Jitter delays each run by a different fraction of this duration, so that schedules with
	// the same times do not run at once. A run is always created before the next one is due.
	Jitter time.Duration `json:"jitterNs,omitempty"`

	// Overlap is the policy for a run that is due while the previous one has not ended.
	Overlap Overlap `json:"overlap,omitempty"`

	// CatchUp is the policy for runs that were missed because no service was running. Window is
	// the largest age of a missed run; zero means a day. Cap is the largest number of runs that
	// [CatchUpAll] makes up for; zero means 100.
	CatchUp CatchUp       `json:"catchUp,omitempty"`
	Window  time.Duration `json:"windowNs,omitempty"`
	Cap     int           `json:"cap,omitempty"`

	// From and Until bound the runs: From <= t < Until. Count is the largest number of runs.
	// Zero means unbounded.
	From  time.Time `json:"from,omitzero"`
	Until time.Time `json:"until,omitzero"`
	Count int       `json:"count,omitempty"`
}

// Gap is the policy for runs at local times that do not exist, when clocks are set forward.
type Gap = cron.Gap

// Gap policies. The default is [GapRunAfter].
const (
	GapRunAfter = cron.RunAfter // run once, right after the gap
	GapSkip     = cron.Skip     // do not run
)

// Fold is the policy for runs at local times that occur twice, when clocks are set back.
type Fold = cron.Fold

// Fold policies. The default is [FoldFirst].
const (
	FoldFirst  = cron.First  // run at the first occurrence
	FoldSecond = cron.Second // run at the second occurrence
	FoldBoth   = cron.Both   // run at both
)

// Overlap is the policy for a run that is due while the previous one has not ended.
type Overlap string

// Overlap policies. Empty means [OverlapSkip].
const (
	OverlapSkip   Overlap = "skip"   // skip the new run
	OverlapQueue  Overlap = "queue"  // run it after the previous one has ended; at most one is queued
	OverlapAllow  Overlap = "allow"  // run it concurrently
	OverlapCancel Overlap = "cancel" // cancel the previous run
)

// CatchUp is the policy for missed runs of a schedule.
type CatchUp string

// CatchUp policies. Empty means [CatchUpOne].
const (
	CatchUpNone CatchUp = "none" // skip all missed runs
	CatchUpOne  CatchUp = "one"  // make up for the last one
	CatchUpAll  CatchUp = "all"  // make up for the last Cap runs within Window, concurrently
)

// ScheduleStatus is the status of a schedule.
type ScheduleStatus string

// Statuses of a schedule.
const (
	Active ScheduleStatus = roster.ActiveSchedule
	Paused ScheduleStatus = "paused"
	Ended  ScheduleStatus = "ended" // there are no more runs
)

// Schedule creates actions at the times of its plan.
type Schedule struct {
	Plan

	Status ScheduleStatus `json:"status"`
	Reason string         `json:"reason,omitempty"` // why it is paused

	PausedAt time.Time `json:"pausedAt,omitzero"`

	// Next is the nominal time of the next run; it is zero if there is none. NextJitter is the
	// delay of that run by [Plan.Jitter].
	Next       time.Time     `json:"next,omitzero"`
	NextJitter time.Duration `json:"nextJitterNs,omitempty"`

	// Last is the nominal time of the last run, and Runs the number of runs so far.
	Last time.Time `json:"last,omitzero"`
	Runs int       `json:"runs"`

	// Current is the ID of the last action, and Queued the nominal time of the run that waits
	// for it to end.
	Current string    `json:"current,omitempty"`
	Queued  time.Time `json:"queued,omitzero"`

	CreatedAt time.Time `json:"createdAt"`
	UpdatedAt time.Time `json:"updatedAt"`

	// Version increases with every change.
	Version int64 `json:"version"`

	// Warning is that of the actions that it makes: see [Action.Warning]. What adds, updates or
	// resumes the schedule and [Service.GetSchedule] set it.
	Warning string `json:"warning,omitempty"`
}

// Limits of schedules.
const (
	MaxRuns     = 1_000          // in a preview, a backfill, or caught up; fewer of the latter two if the payload is large
	MaxJitter   = 24 * time.Hour // of a plan
	MaxInterval = 10 * 365 * 24 * time.Hour
)

// check returns the times of the plan, or an error that names the field and what is
// allowed.
func (p *Plan) check(verb string, created time.Time) (cron.Times, error) {
	if err := checkWork(verb, p.Tenant, p.Slug, p.Target, p.Payload); err != nil {
		return nil, err
	}
	if err := checkName(verb, "ID", p.ID, MaxID); err != nil {
		return nil, err
	}
	switch {
	case (p.Cron == "") == (p.Every == 0):
		return nil, invalid(verb, "schedule %q has a cron expression and an interval, or neither; it needs one of them", p.ID)
	case p.Jitter < 0 || p.Jitter > MaxJitter:
		return nil, invalid(verb, "schedule %q: jitter is %v; 0 to %v is allowed", p.ID, p.Jitter, MaxJitter)
	case p.Overlap != OverlapSkip && p.Overlap != OverlapQueue && p.Overlap != OverlapAllow && p.Overlap != OverlapCancel:
		return nil, invalid(verb, "schedule %q: overlap is %q; %s, %s, %s and %s are allowed", p.ID, p.Overlap, OverlapSkip, OverlapQueue, OverlapAllow, OverlapCancel)
	case p.CatchUp != CatchUpNone && p.CatchUp != CatchUpOne && p.CatchUp != CatchUpAll:
		return nil, invalid(verb, "schedule %q: catch-up is %q; %s, %s and %s are allowed", p.ID, p.CatchUp, CatchUpNone, CatchUpOne, CatchUpAll)
	case p.Window < 0:
		return nil, invalid(verb, "schedule %q: the window is %v, which is negative", p.ID, p.Window)
	case p.Cap < 1 || p.Cap > MaxRuns:
		return nil, invalid(verb, "schedule %q: the cap is %d; 1 to %d is allowed", p.ID, p.Cap, MaxRuns)
	case p.Count < 0:
		return nil, invalid(verb, "schedule %q: the count is %d, which is negative", p.ID, p.Count)
	case !p.From.IsZero() && !p.Until.IsZero() && !p.From.Before(p.Until):
		return nil, invalid(verb, "schedule %q ends at %s, before it begins at %s", p.ID, p.Until.Format(time.RFC3339), p.From.Format(time.RFC3339))
	}
	return p.times(verb, created)
}

// times returns the times of the plan.
func (p *Plan) times(verb string, created time.Time) (cron.Times, error) {
	if p.Every != 0 {
		anchor := p.From
		if anchor.IsZero() {
			anchor = created
		}
		if p.Every > MaxInterval {
			return nil, invalid(verb, "schedule %q: the interval is %v; at most %v is allowed", p.ID, p.Every, MaxInterval)
		}
		times, err := cron.Every(p.Every, anchor)
		if err != nil {
			return nil, invalid(verb, "schedule %q: %v", p.ID, err)
		}
		return times, nil
	}
	expression, err := cron.Parse(p.Cron)
	if err != nil {
		return nil, invalid(verb, "schedule %q: %v", p.ID, err)
	}
	zone, err := time.LoadLocation(p.Zone)
	if err != nil || p.Zone == "Local" {
		return nil, invalid(verb, "schedule %q: unknown time zone %q; names such as Europe/Berlin are allowed", p.ID, p.Zone)
	}
	return cron.Rule{Expression: expression, Location: zone, Gap: p.Gap, Fold: p.Fold}, nil
}

func (p *Plan) setDefaults() {
	setDefault(&p.Tenant, DefaultTenant)
	setDefault(&p.Overlap, OverlapSkip)
	setDefault(&p.CatchUp, CatchUpOne)
	setDefault(&p.Window, 24*time.Hour)
	setDefault(&p.Cap, 100)
}

// most returns how many actions can be made in one commit to a store.
func (p *Plan) most(l store.Limits) int {
	each := 2*len(p.Payload) + 4096 // a record and a message, with all that is in them
	// Beside the schedule, and what is skipped.
	return min(MaxRuns, l.TxBytes/each-2, l.TxOps/4)
}

// lastDue returns the latest run that is not after now, of those from the first one on.
func (p *Plan) lastDue(times cron.Times, first, now time.Time) time.Time {
	end := now.Add(1)
	if !p.Until.IsZero() && p.Until.Before(end) {
		end = p.Until
	}
	if last, ok := times.Prev(end); ok {
		return base.Later(first, last)
	}
	return first
}

// next returns the first run after a time that the plan has, and whether there is one.
func (p *Plan) next(times cron.Times, after time.Time) (time.Time, bool) {
	if !p.From.IsZero() && after.Before(p.From) {
		after = p.From.Add(-1)
	}
	next, ok := times.Next(after)
	if !ok || (!p.Until.IsZero() && !next.Before(p.Until)) {
		return time.Time{}, false
	}
	return next, true
}
