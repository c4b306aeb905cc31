package action_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/abidehq/abide/action"
	"github.com/abidehq/abide/internal/check"
)

// plan returns a plan of acme with the ID s.
func plan(change ...func(*action.Plan)) action.Plan {
	p := action.Plan{Tenant: "acme", Slug: "app", Target: "do", ID: "s"}
	for _, f := range change {
		f(&p)
	}
	return p
}

func every(d time.Duration) func(*action.Plan) { return func(p *action.Plan) { p.Every = d } }

func cronAt(expression, zone string) func(*action.Plan) {
	return func(p *action.Plan) { p.Cron, p.Zone = expression, zone }
}

func overlap(o action.Overlap) func(*action.Plan) { return func(p *action.Plan) { p.Overlap = o } }

func catchUp(c action.CatchUp, window time.Duration, most int) func(*action.Plan) {
	return func(p *action.Plan) { p.CatchUp, p.Window, p.Cap = c, window, most }
}

func (r *fixture) addSchedule(p action.Plan) action.Schedule {
	r.T.Helper()
	s, err := r.AddSchedule(r.T.Context(), p)
	check.OK(r.T, err)
	return s
}

func (r *fixture) schedule() action.Schedule {
	r.T.Helper()
	s, err := r.GetSchedule(r.T.Context(), "acme", "s")
	check.OK(r.T, err)
	return s
}

// made returns the actions of schedule s in the order of the times that they stand for.
func (r *fixture) made(statuses ...action.Status) []action.Action {
	r.T.Helper()
	var made []action.Action
	for _, a := range check.All(r.T, r.All(r.T.Context(), action.Filter{Statuses: statuses, Limit: action.MaxPage})) {
		if a.Schedule == "s" {
			made = append(made, a)
		}
	}
	slices.SortStableFunc(made, func(a, b action.Action) int { return a.RunAt.Compare(b.RunAt) })
	return made
}

// wantMade checks the times of the runs that were made, in this form: status and how long
// after the rig was made, such as "completed 10s".
func (r *fixture) wantMade(want ...string) {
	r.T.Helper()
	var got []string
	for _, a := range r.made() {
		got = append(got, fmt.Sprintf("%s %v", a.Status, a.RunAt.Sub(r.Began)))
	}
	if !slices.Equal(got, want) {
		r.T.Errorf("there are\n  %v, want\n  %v", strings.Join(got, ", "), strings.Join(want, ", "))
	}
}

// wantSkipped checks the reasons of runs that were skipped.
func (r *fixture) wantSkipped(want ...string) {
	r.T.Helper()
	var got []string
	for _, a := range r.made(action.Skipped) {
		got = append(got, a.Reason)
		if a.EndedAt.IsZero() || !a.StartedAt.IsZero() || a.Attempt != 0 {
			r.T.Errorf("skipped: %+v", a)
		}
	}
	if !slices.Equal(got, want) {
		r.T.Errorf("skipped are\n  %v, want\n  %v", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

// wantRunsAt checks when runs were made, by the times that they stand for.
func (r *fixture) wantRunsAt(t *testing.T, want ...string) {
	t.Helper()
	var got []string
	for _, a := range r.made(action.Completed) {
		got = append(got, a.RunAt.Format(time.RFC3339))
	}
	check.Equal(t, "runs at", got, want)
}
