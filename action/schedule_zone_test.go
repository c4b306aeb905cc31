package action_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/abidehq/abide/action"
	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/internal/rig"
	"github.com/abidehq/abide/internal/teststore"
)

// TestDaylightSaving has runs made around the days on which clocks are set, tick by tick.
// Its bubbles are in the year 2000.
func TestDaylightSaving(t *testing.T) {
	t.Parallel()
	const (
		berlin, newYork, lordHowe, tokyo = "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Tokyo"
	)
	for _, tt := range []struct {
		name  string
		cron  string
		zone  string
		begin string // the day before, at noon
		gap   action.Gap
		fold  action.Fold
		want  []string
	}{
		{"Berlin, gap, run after", "30 2 * * *", berlin, "2000-03-25", action.GapRunAfter, 0, []string{"2000-03-26T01:00:00Z", "2000-03-27T00:30:00Z"}},
		{"Berlin, gap, skip", "30 2 * * *", berlin, "2000-03-25", action.GapSkip, 0, []string{"2000-03-27T00:30:00Z"}},
		{"Berlin, many in the gap", "*/15 2 * * *", berlin, "2000-03-25", action.GapRunAfter, 0, []string{"2000-03-26T01:00:00Z", "2000-03-27T00:00:00Z", "2000-03-27T00:15:00Z", "2000-03-27T00:30:00Z", "2000-03-27T00:45:00Z"}},
		{"Berlin, fold, first", "30 2 * * *", berlin, "2000-10-28", 0, action.FoldFirst, []string{"2000-10-29T00:30:00Z", "2000-10-30T01:30:00Z"}},
		{"Berlin, fold, second", "30 2 * * *", berlin, "2000-10-28", 0, action.FoldSecond, []string{"2000-10-29T01:30:00Z", "2000-10-30T01:30:00Z"}},
		{"Berlin, fold, both", "30 2 * * *", berlin, "2000-10-28", 0, action.FoldBoth, []string{"2000-10-29T00:30:00Z", "2000-10-29T01:30:00Z", "2000-10-30T01:30:00Z"}},
		{"Berlin, a rhythm in the fold", "30 */6 * * *", berlin, "2000-10-28", 0, action.FoldFirst, []string{
			"2000-10-28T16:30:00Z", "2000-10-28T22:30:00Z", "2000-10-29T05:30:00Z", "2000-10-29T11:30:00Z", "2000-10-29T17:30:00Z", "2000-10-29T23:30:00Z", "2000-10-30T05:30:00Z", "2000-10-30T11:30:00Z",
		}},
		{"New York, gap, run after", "15 2 * * *", newYork, "2000-04-01", action.GapRunAfter, 0, []string{"2000-04-02T07:00:00Z", "2000-04-03T06:15:00Z"}},
		{"New York, gap, skip", "15 2 * * *", newYork, "2000-04-01", action.GapSkip, 0, []string{"2000-04-03T06:15:00Z"}},
		{"New York, fold, first", "15 1 * * *", newYork, "2000-10-28", 0, action.FoldFirst, []string{"2000-10-29T05:15:00Z", "2000-10-30T06:15:00Z"}},
		{"New York, fold, second", "15 1 * * *", newYork, "2000-10-28", 0, action.FoldSecond, []string{"2000-10-29T06:15:00Z", "2000-10-30T06:15:00Z"}},
		{"New York, fold, both", "15 1 * * *", newYork, "2000-10-28", 0, action.FoldBoth, []string{"2000-10-29T05:15:00Z", "2000-10-29T06:15:00Z", "2000-10-30T06:15:00Z"}},
		{"Lord Howe, half an hour of gap, run after", "15 2 * * *", lordHowe, "2000-08-26", action.GapRunAfter, 0, []string{"2000-08-26T15:30:00Z", "2000-08-27T15:15:00Z"}},
		{"Lord Howe, half an hour of gap, skip", "15 2 * * *", lordHowe, "2000-08-26", action.GapSkip, 0, []string{"2000-08-27T15:15:00Z"}},
		{"Lord Howe, just after the gap", "30 2 * * *", lordHowe, "2000-08-26", action.GapSkip, 0, []string{"2000-08-26T15:30:00Z", "2000-08-27T15:30:00Z"}},
		{"Lord Howe, half an hour of fold, first", "45 1 * * *", lordHowe, "2000-03-25", 0, action.FoldFirst, []string{"2000-03-25T14:45:00Z", "2000-03-26T15:15:00Z"}},
		{"Lord Howe, half an hour of fold, second", "45 1 * * *", lordHowe, "2000-03-25", 0, action.FoldSecond, []string{"2000-03-25T15:15:00Z", "2000-03-26T15:15:00Z"}},
		{"Lord Howe, half an hour of fold, both", "45 1 * * *", lordHowe, "2000-03-25", 0, action.FoldBoth, []string{"2000-03-25T14:45:00Z", "2000-03-25T15:15:00Z", "2000-03-26T15:15:00Z"}},
		{"Tokyo has none of it", "30 2 * * *", tokyo, "2000-03-25", action.GapSkip, action.FoldBoth, []string{"2000-03-25T17:30:00Z", "2000-03-26T17:30:00Z"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			rig.Bubble(t, func(t *testing.T) {
				r := newFixture(t)
				begin, err := time.Parse(time.DateOnly, tt.begin)
				check.OK(t, err)
				rig.Pass(time.Until(begin.Add(12 * time.Hour)))
				r.addSchedule(plan(cronAt(tt.cron, tt.zone), func(p *action.Plan) { p.Gap, p.Fold = tt.gap, tt.fold }))
				for range 48 * 12 {
					rig.Pass(5 * time.Minute)
					r.tick()
				}
				r.wantRunsAt(t, tt.want...)
				r.wantSkipped() // what the policy leaves out is no run
				for _, run := range r.all() {
					if late := run.began.Sub(run.Action.RunAt); late < 0 || late > 5*time.Minute {
						t.Errorf("the run of %v was %v late", run.Action.RunAt, late)
					}
				}
			})
		})
	}
}

// newSkewed returns a rig with a store whose clock is a manual one, beside the virtual time
// of the bubble.
func newSkewed(t *testing.T, clock *base.Manual) *fixture {
	t.Helper()
	s := teststore.NewWithClock(t, clock)
	t.Cleanup(func() { _ = s.Close() })
	return newFixtureOn(t, s, newJournal(t))
}

// TestTheStoresClockDecides: the process's clock is off by minutes, either way, and nothing
// happens early or is lost because of it.
func TestTheStoresClockDecides(t *testing.T) {
	t.Parallel()
	for name, off := range map[string]time.Duration{"behind": -7 * time.Minute, "ahead": 7 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			rig.Bubble(t, func(t *testing.T) {
				there := time.Now().Add(-off) // our clock is off by so much
				clock := base.NewManual(there)
				r := newSkewed(t, clock)
				r.journal.late = off < 0
				a := r.addAt(action.Request{ID: "a", Delay: time.Minute}, there)
				check.Equal(t, "due", a.Trigger.At, there.Add(time.Minute))
				r.addSchedule(plan(every(time.Minute), func(p *action.Plan) { p.From = there.Add(time.Minute) }))
				step := func(d time.Duration) {
					clock.Advance(d)
					rig.Pass(d)
					if err := r.Tick(t.Context()); err != nil {
						t.Error(err)
					}
					synctest.Wait()
				}
				step(59 * time.Second)
				check.Equal(t, "runs", len(r.all()), 0)
				step(time.Second)
				check.Equal(t, "runs", len(r.all()), 2)
				got := r.get("a")
				check.Equal(t, "its beginning", got.StartedAt, there.Add(time.Minute))
				check.Equal(t, "its end", got.EndedAt, there.Add(time.Minute))
				r.receive("x", "d")
				step(time.Second)
				check.Equal(t, "runs", len(r.all()), 3)
			})
		})
	}
}

// addAt adds an action, and checks when it was, by the clock of the store.
func (r *fixture) addAt(req action.Request, now time.Time) action.Action {
	r.T.Helper()
	a := r.add(req)
	check.Equal(r.T, "created", a.CreatedAt, now)
	return a
}

// TestTheStoresClockStepsForward by hours, as after downtime: what is due runs, late, and
// schedules catch up.
func TestTheStoresClockStepsForward(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		clock := base.NewManual(time.Now())
		r := newSkewed(t, clock)
		r.journal.late = true // by our clock, it is early
		r.add(action.Request{ID: "a", Delay: time.Hour})
		r.addSchedule(plan(every(time.Hour)))
		r.tick()
		clock.Advance(5*time.Hour + time.Minute)
		r.tick()
		r.wantStatus("a", action.Completed, "")
		r.wantMade("completed 0s", "skipped 1h0m0s", "completed 5h0m0s")
		for _, run := range r.made(action.Completed) {
			if run.EndedAt.Before(run.StartedAt) {
				t.Errorf("it has ended at %v, before it began at %v", run.EndedAt, run.StartedAt)
			}
		}
		// In a minute it is known how late it is.
		rig.Pass(time.Minute)
		clock.Advance(time.Minute)
		check.Equal(t, "the end", r.addAt(action.Request{ID: "b"}, clock.Now()).CreatedAt, r.At(5*time.Hour+2*time.Minute))
	})
}
