package action

import (
	"encoding/json"
	"time"

	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/internal/cron"
	"github.com/abidehq/abide/internal/roster"
	"github.com/abidehq/abide/store"
)

// Plan says what to do again and again.
type Plan struct {
	// Tenant, Slug, Target, Payload and Idempotent are those of the actions that are made.
	Tenant     string          `json:"tenant"`
	Slug       string          `json:"slug"`
	Target     string          `json:"target"`
	Payload    json.RawMessage `json:"payload,omitempty"`
	Idempotent bool            `json:"idempotent,omitempty"`

	// ID names the schedule within its tenant.
	ID string `json:"id"`

	// Cron is a cron expression of five fields, or six with the seconds first. Every, if
	// there is none, is a distance: the runs are so far from each other, counted from
	// From or from when the schedule was added.
	Cron  string        `json:"cron,omitempty"`
	Every time.Duration `json:"everyNs,omitempty"`

	// Zone is the time zone of the expression, such as Europe/Berlin; UTC if it is empty.
	// Gap says what becomes of runs at local times that are skipped when clocks are set
	// forward, and Fold of those at local times that come twice when clocks are set back.
	// Expressions whose hour is * or a step of it go on in real time.
	Zone string `json:"zone,omitempty"`
	Gap  Gap    `json:"gap,omitempty"`
	Fold Fold   `json:"fold,omitempty"`

	// Jitter is by how much runs may be late, each by another part of it, so that
	// schedules with the same times do not all run at once. A run is always made before
	// the next one is due.
	Jitter time.Duration `json:"jitterNs,omitempty"`

	// Overlap says what becomes of a run that is due while the one before has not ended.
	Overlap Overlap `json:"overlap,omitempty"`

	// CatchUp says what becomes of runs that were due while nobody was there to make them.
	// Window is how long ago they may have been due, a day unless it says otherwise, and
	// Cap how many of them there may be, 100 unless it says otherwise, with [CatchUpAll].
	CatchUp CatchUp       `json:"catchUp,omitempty"`
	Window  time.Duration `json:"windowNs,omitempty"`
	Cap     int           `json:"cap,omitempty"`

	// From and Until bound the runs: From <= t < Until. Count is how many there are at
	// most. Zero means unbounded.
	From  time.Time `json:"from,omitzero"`
	Until time.Time `json:"until,omitzero"`
	Count int       `json:"count,omitempty"`
}

// Gap is what becomes of runs at local times that do not exist.
type Gap = cron.Gap

// What can become of them.
const (
	GapRunAfter = cron.RunAfter // they are made once, at the first moment after the gap
	GapSkip     = cron.Skip     // they are not made
)

// Fold is what becomes of runs at local times that exist twice.
type Fold = cron.Fold

// What can become of them.
const (
	FoldFirst  = cron.First  // they are made the first time
	FoldSecond = cron.Second // they are made the second time
	FoldBoth   = cron.Both   // they are made both times
)

// Overlap is what becomes of a run that is due while the one before has not ended.
type Overlap string

// What can become of it. Empty means OverlapSkip.
const (
	OverlapSkip   Overlap = "skip"   // it is skipped
	OverlapQueue  Overlap = "queue"  // it follows when the other has ended; one can wait like that
	OverlapAllow  Overlap = "allow"  // it runs beside the other
	OverlapCancel Overlap = "cancel" // the other one is cancelled
)

// CatchUp is what becomes of runs that were missed.
type CatchUp string

// What can become of them. Empty means CatchUpOne.
const (
	CatchUpNone CatchUp = "none" // they are skipped
	CatchUpOne  CatchUp = "one"  // the last one is made
	CatchUpAll  CatchUp = "all"  // those within Window are made, the last Cap of them, beside each other
)

// ScheduleStatus is what a schedule does.
type ScheduleStatus string

// Statuses of a schedule.
const (
	Active ScheduleStatus = roster.ActiveSchedule
	Paused ScheduleStatus = "paused"
	Ended  ScheduleStatus = "ended" // there are no more runs
)

// Schedule makes actions again and again.
type Schedule struct {
	Plan

	Status ScheduleStatus `json:"status"`
	Reason string         `json:"reason,omitempty"` // why it is paused

	PausedAt time.Time `json:"pausedAt,omitzero"`

	// Next is the time of the next run; zero if there is none. NextJitter is by how much it
	// will be late on purpose.
	Next       time.Time     `json:"next,omitzero"`
	NextJitter time.Duration `json:"nextJitterNs,omitempty"`

	// Last is the time of the last run that was made, and Runs how many were.
	Last time.Time `json:"last,omitzero"`
	Runs int       `json:"runs"`

	// Current is the ID of the action that was made last, and Queued the time of the run
	// that waits for it to end.
	Current string    `json:"current,omitempty"`
	Queued  time.Time `json:"queued,omitzero"`

	CreatedAt time.Time `json:"createdAt"`
	UpdatedAt time.Time `json:"updatedAt"`

	// Version grows with each change.
	Version int64 `json:"version"`

	// Warning is that of the actions that it makes: see [Action.Warning].
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
	setDefault(&p.Overlap, OverlapSkip)
	setDefault(&p.CatchUp, CatchUpOne)
	setDefault(&p.Window, 24*time.Hour)
	setDefault(&p.Cap, 100)
}

// most returns how many actions can be made in one commit.
func (p *Plan) most() int {
	each := 2*len(p.Payload) + 4096              // a record and a message, with all that is in them
	return min(MaxRuns, store.MaxTxBytes/each-2) // beside the schedule, and what is skipped
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
