package action_test

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/abidehq/abide/action"
	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/internal/rig"
	"github.com/abidehq/abide/store"
)

// TestIntervalMakesActions from when it was added, each at the first tick that is not
// before it.
func TestIntervalMakesActions(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := newFixture(t)
		rig.Pass(3 * time.Second)
		s := r.addSchedule(plan(every(time.Minute), func(p *action.Plan) { p.Payload, p.Idempotent = []byte("7"), true }))
		check.Equal(t, "the first run", s.Next, r.At(3*time.Second))
		r.run()
		r.until(2*time.Minute + 10*time.Second)
		r.wantMade("completed 3s", "completed 1m3s", "completed 2m3s")
		first := r.all()[0]
		check.Equal(t, "the first run", first.began, r.At(3*time.Second))
		a := first.Action
		if a.Schedule != "s" || a.Slug != "app" || string(a.Payload) != "7" || !a.Idempotent || a.Trigger.Kind != action.Scheduled {
			t.Errorf("it has made %+v", a)
		}
		for i, run := range r.all() {
			if late := run.began.Sub(run.Action.RunAt); late < 0 || late >= rate {
				t.Errorf("run %d is %v late", i, late)
			}
		}
		got := r.schedule()
		check.Equal(t, "runs", got.Runs, 3)
		check.Equal(t, "the last run", got.Last, r.At(2*time.Minute+3*time.Second))
		check.Equal(t, "the next run", got.Next, r.At(3*time.Minute+3*time.Second))
		check.Equal(t, "current", got.Current, r.last().Action.ID)
	})
}

func TestCronMakesActions(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := newFixture(t) // at midnight of a Saturday
		r.addSchedule(plan(cronAt("0 9 * * MON-FRI", "")))
		r.run()
		rig.Pass(5 * 24 * time.Hour)
		r.wantRunsAt(t, "2000-01-03T09:00:00Z", "2000-01-04T09:00:00Z", "2000-01-05T09:00:00Z")
	})
}

func TestCronWithSeconds(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := newFixture(t, func(c *action.Config) { c.Rate = time.Second })
		r.addSchedule(plan(cronAt("*/20 * * * * *", "")))
		r.run()
		rig.Pass(70 * time.Second)
		r.wantMade("completed 0s", "completed 20s", "completed 40s", "completed 1m0s")
	})
}

func TestFromUntilAndCount(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		change func(r *fixture, p *action.Plan)
		want   []string
	}{
		"from": {func(r *fixture, p *action.Plan) { p.From, p.Count = r.At(90*time.Second), 2 }, []string{"completed 1m30s", "completed 2m30s"}},
		"until is not among them": {
			func(r *fixture, p *action.Plan) { p.Until = r.At(2 * time.Minute) }, []string{"completed 0s", "completed 1m0s"},
		},
		"count": {func(_ *fixture, p *action.Plan) { p.Count = 3 }, []string{"completed 0s", "completed 1m0s", "completed 2m0s"}},
		"count ends first": {
			func(r *fixture, p *action.Plan) { p.Count, p.Until = 1, r.At(time.Hour) }, []string{"completed 0s"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			rig.Bubble(t, func(t *testing.T) {
				r := newFixture(t)
				p := plan(every(time.Minute))
				tt.change(r, &p)
				r.addSchedule(p)
				r.run()
				rig.Pass(10 * time.Minute)
				r.wantMade(tt.want...)
				got := r.schedule()
				if got.Status != action.Ended || !got.Next.IsZero() {
					t.Errorf("it is %s, next %v", got.Status, got.Next)
				}
				check.Equal(t, "messages", r.Pending(), 0)
			})
		})
	}
}

// TestSchedulesThatAreRefused says which field, and what is allowed.
func TestSchedulesThatAreRefused(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := newFixture(t)
		set := func(f func(*action.Plan)) action.Plan { return plan(every(time.Minute), f) }
		for says, p := range map[string]action.Plan{
			"it needs one of them":                plan(),
			"a cron expression and an interval":   plan(every(time.Minute), cronAt("* * * * *", "")),
			`unknown time zone "Mars/Base"`:       plan(cronAt("* * * * *", "Mars/Base")),
			`unknown time zone "Local"`:           plan(cronAt("* * * * *", "Local")),
			"61":                                  plan(cronAt("61 * * * *", "")),
			"999ms":                               plan(every(999 * time.Millisecond)),
			"-1":                                  plan(every(-1)),
			"the interval is 87600h0m0.000000001": plan(every(action.MaxInterval + 1)),
			"jitter is -1ns":                      set(func(p *action.Plan) { p.Jitter = -1 }),
			"jitter is 24h0m0.000000001s":         set(func(p *action.Plan) { p.Jitter = action.MaxJitter + 1 }),
			`overlap is "never"`:                  set(overlap("never")),
			`catch-up is "some"`:                  set(catchUp("some", 0, 0)),
			"the window is -1ns":                  set(catchUp("all", -1, 0)),
			"the cap is -1":                       set(catchUp("all", 0, -1)),
			"the cap is 1001":                     set(catchUp("all", 0, 1001)),
			"the count is -1":                     set(func(p *action.Plan) { p.Count = -1 }),
			"before it begins":                    set(func(p *action.Plan) { p.From, p.Until = r.At(1), r.At(1) }),
			"no runs from now on":                 set(func(p *action.Plan) { p.Until = r.At(-1) }),
			"slug":                                set(func(p *action.Plan) { p.Slug = "a b" }),
			"ID is empty":                         set(func(p *action.Plan) { p.ID = "" }),
			"ID has 129 bytes":                    set(func(p *action.Plan) { p.ID = strings.Repeat("x", 129) }),
		} {
			_, err := r.AddSchedule(t.Context(), p)
			check.ErrorOf(t, "action", err, action.ErrInvalid, "action: add schedule: ", says)
		}
		r.addSchedule(set(func(*action.Plan) {}))
		_, err := r.AddSchedule(t.Context(), plan(every(time.Hour)))
		check.ErrorOf(t, "action", err, action.ErrExists, "acme/s")
		for _, err := range []error{
			second(r.GetSchedule(t.Context(), "acme", "x")), second(r.Pause(t.Context(), "acme", "x", "")), second(r.Resume(t.Context(), "acme", "x")),
			second(r.Trigger(t.Context(), "acme", "x")), second(r.Backfill(t.Context(), "acme", "x", r.At(0), r.At(1))), r.RemoveSchedule(t.Context(), "acme", "x"),
			second(r.UpdateSchedule(t.Context(), plan(every(time.Hour), func(p *action.Plan) { p.ID = "x" }), 0)),
		} {
			check.ErrorOf(t, "action", err, action.ErrNotFound, "acme/x")
		}
	})
}

func second[T any](_ T, err error) error { return err }

// TestPauseAndResume: what is due meanwhile is skipped, and said to be.
func TestPauseAndResume(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := newFixture(t)
		r.addSchedule(plan(every(time.Minute)))
		r.run()
		r.until(90 * time.Second)
		paused, err := r.Pause(t.Context(), "acme", "s", "holidays")
		if err != nil || paused.Status != action.Paused || paused.Reason != "holidays" || !paused.Next.IsZero() {
			t.Fatalf("it is %+v, %v", paused, err)
		}
		check.Equal(t, "paused", paused.PausedAt, r.At(90*time.Second))
		r.until(2 * time.Minute)
		if again, err := r.Pause(t.Context(), "acme", "s", "again"); err != nil || again.Reason != "holidays" {
			t.Errorf("paused again: %+v, %v", again, err)
		}
		r.until(5*time.Minute + 30*time.Second)
		check.Equal(t, "runs", len(r.all()), 2)
		resumed, err := r.Resume(t.Context(), "acme", "s")
		if err != nil || resumed.Status != action.Active || resumed.Reason != "" || !resumed.PausedAt.IsZero() {
			t.Fatalf("it is %+v, %v", resumed, err)
		}
		if again, err := r.Resume(t.Context(), "acme", "s"); err != nil || again.Version != resumed.Version {
			t.Errorf("resumed again: %+v, %v", again, err)
		}
		r.until(6 * time.Minute)
		r.wantMade("completed 0s", "completed 1m0s", "skipped 2m0s", "completed 6m0s")
		r.wantSkipped("the schedule was paused (4 runs, from 2000-01-01T00:02:00Z to 2000-01-01T00:05:00Z)")
	})
}

// TestPauseSkipsWhatIsDueAndNotMade, because no tick came before it.
func TestPauseSkipsWhatIsDueAndNotMade(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := newFixture(t)
		r.addSchedule(plan(every(time.Minute)))
		r.tick()
		r.until(2*time.Minute + time.Second)
		if _, err := r.Pause(t.Context(), "acme", "s", ""); err != nil {
			t.Fatal(err)
		}
		r.until(3*time.Minute + time.Second)
		if _, err := r.Resume(t.Context(), "acme", "s"); err != nil {
			t.Fatal(err)
		}
		r.tick()
		r.wantMade("completed 0s", "skipped 1m0s", "skipped 3m0s")
		r.wantSkipped("the schedule was paused (2 runs, from 2000-01-01T00:01:00Z to 2000-01-01T00:02:00Z)", "the schedule was paused")
	})
}

// TestResumeRespectsTheEnd: what would have been after it is not skipped.
func TestResumeRespectsTheEnd(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := newFixture(t)
		r.addSchedule(plan(every(time.Minute), func(p *action.Plan) { p.Until = r.At(3 * time.Minute) }))
		r.tick()
		if _, err := r.Pause(t.Context(), "acme", "s", ""); err != nil {
			t.Fatal(err)
		}
		rig.Pass(time.Hour)
		got, err := r.Resume(t.Context(), "acme", "s")
		if err != nil || got.Status != action.Ended {
			t.Errorf("it is %s, %v", got.Status, err)
		}
		r.wantSkipped("the schedule was paused (2 runs, from 2000-01-01T00:01:00Z to 2000-01-01T00:02:00Z)")
		_, err = r.Pause(t.Context(), "acme", "s", "")
		check.ErrorOf(t, "action", err, action.ErrState, "no more runs")
	})
}

// TestUpdateSchedule: the new plan counts from now on, and what was done stays.
func TestUpdateSchedule(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := newFixture(t)
		first := r.addSchedule(plan(every(time.Minute)))
		r.tick()
		r.until(61 * time.Second)
		_, err := r.UpdateSchedule(t.Context(), plan(every(time.Hour)), first.Version)
		check.ErrorOf(t, "action", err, action.ErrConflict, "it has version 2, expected 1")
		got, err := r.UpdateSchedule(t.Context(), plan(every(10*time.Minute), func(p *action.Plan) { p.Slug = "web" }), 2)
		if err != nil || got.Runs != 1 || got.Slug != "web" || got.Version != 3 {
			t.Fatalf("it is %+v, %v", got, err)
		}
		check.Equal(t, "next", got.Next, r.At(10*time.Minute))
		r.run()
		r.until(25 * time.Minute)
		r.wantMade("completed 0s", "skipped 1m0s", "completed 10m0s", "completed 20m0s")
		r.wantSkipped("the schedule was changed")
		check.Equal(t, "slug", r.last().Action.Slug, "web")
		_, err = r.UpdateSchedule(t.Context(), plan(), 0)
		check.ErrorOf(t, "action", err, action.ErrInvalid, "it needs one of them")

		if _, err := r.Pause(t.Context(), "acme", "s", ""); err != nil {
			t.Fatal(err)
		}
		got, err = r.UpdateSchedule(t.Context(), plan(every(time.Minute)), 0)
		if err != nil || got.Status != action.Paused || !got.Next.IsZero() {
			t.Errorf("paused and updated: %+v, %v", got, err)
		}
	})
}

// TestUpdateRevivesASchedule that had come to its end.
func TestUpdateRevivesASchedule(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := newFixture(t)
		r.addSchedule(plan(every(time.Minute), func(p *action.Plan) { p.Count = 1 }))
		r.run()
		rig.Pass(90 * time.Second)
		check.Equal(t, "status", r.schedule().Status, action.Ended)
		if _, err := r.UpdateSchedule(t.Context(), plan(every(time.Minute), func(p *action.Plan) { p.Count = 2 }), 0); err != nil {
			t.Fatal(err)
		}
		rig.Pass(time.Hour)
		r.wantMade("completed 0s", "completed 2m0s")
	})
}

func TestRemoveSchedule(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := newFixture(t)
		r.addSchedule(plan(every(time.Minute)))
		r.run()
		rig.Pass(90 * time.Second)
		check.OK(t, r.RemoveSchedule(t.Context(), "acme", "s"))
		check.Equal(t, "messages", r.Pending(), 0)
		rig.Pass(time.Hour)
		r.wantMade("completed 0s", "completed 1m0s")
		r.addSchedule(plan(every(time.Minute))) // the ID is free again
		rig.Pass(time.Minute)
		check.Equal(t, "runs", len(r.all()), 4)
	})
}

// TestTrigger makes an action now, also while the schedule is paused.
func TestTrigger(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := newFixture(t)
		r.addSchedule(plan(every(time.Hour)))
		r.run()
		rig.Pass(time.Minute)
		a, err := r.Trigger(t.Context(), "acme", "s")
		if err != nil || a.Schedule != "s" || a.Status != action.Pending {
			t.Fatalf("%+v, %v", a, err)
		}
		if _, err := r.Pause(t.Context(), "acme", "s", ""); err != nil {
			t.Fatal(err)
		}
		rig.Pass(time.Minute)
		if _, err := r.Trigger(t.Context(), "acme", "s"); err != nil {
			t.Fatal(err)
		}
		rig.Pass(time.Minute)
		r.wantMade("completed 0s", "completed 1m0s", "completed 2m0s")
		check.Equal(t, "runs of the plan", r.schedule().Runs, 1)
	})
}

// TestBackfill makes the actions of a range, the end of which is not in it.
func TestBackfill(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := newFixture(t)
		r.addSchedule(plan(cronAt("30 2 * * *", "Europe/Berlin")))
		from := time.Date(1999, 3, 27, 1, 30, 0, 0, time.UTC) // the first run of the range
		made, err := r.Backfill(t.Context(), "acme", "s", from, time.Date(1999, 3, 30, 0, 30, 0, 0, time.UTC))
		if err != nil || len(made) != 3 {
			t.Fatalf("%d are made, %v", len(made), err)
		}
		r.tick()
		r.wantRunsAt(t, "1999-03-27T01:30:00Z", "1999-03-28T01:00:00Z", "1999-03-29T00:30:00Z") // the second is in a gap
		check.Equal(t, "runs of the plan", r.schedule().Runs, 0)

		if none, err := r.Backfill(t.Context(), "acme", "s", from.Add(1), from.Add(2)); err != nil || len(none) != 0 {
			t.Errorf("%d are made, %v", len(none), err)
		}
		_, err = r.Backfill(t.Context(), "acme", "s", from, from)
		check.ErrorOf(t, "action", err, action.ErrInvalid, "is not a range")
		_, err = r.Backfill(t.Context(), "acme", "s", from, from.AddDate(10, 0, 0))
		check.ErrorOf(t, "action", err, action.ErrInvalid, "more than 1000 runs")
	})
}

// TestLargePayloadsFitIntoACommit: as many runs as fit are caught up on, and a backfill of
// more is refused.
func TestLargePayloadsFitIntoACommit(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := newFixture(t, func(c *action.Config) { c.Targets = nil }) // nobody runs them
		large := []byte(`"` + strings.Repeat("x", action.MaxPayload-2) + `"`)
		r.addSchedule(plan(every(time.Minute), catchUp(action.CatchUpAll, 240*time.Hour, 1000), func(p *action.Plan) { p.Payload = large }))
		_, err := r.Backfill(t.Context(), "acme", "s", r.At(0), r.At(1000*time.Minute))
		check.ErrorOf(t, "action", err, action.ErrInvalid, "more than 125 runs")
		rig.Pass(1000 * time.Minute)
		r.tick()
		check.Equal(t, "what is made", len(r.made(action.Pending)), 125)
		r.wantSkipped("missed: more than can be caught up on (876 runs, from 2000-01-01T00:00:00Z to 2000-01-01T14:35:00Z)")
		if _, err := r.Backfill(t.Context(), "acme", "s", r.At(0), r.At(125*time.Minute)); err != nil {
			t.Error(err)
		}
	})
}

// TestPreview: within the bounds of the plan, in its zone.
func TestPreview(t *testing.T) {
	t.Parallel()
	from := time.Date(2026, 3, 28, 12, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		name string
		p    action.Plan
		n    int
		want string
	}{
		{"cron", plan(cronAt("30 2 * * *", "Europe/Berlin")), 2, "2026-03-29T03:00:00+02:00 2026-03-30T02:30:00+02:00"},
		{"gap", plan(cronAt("30 2 * * *", "Europe/Berlin"), func(p *action.Plan) { p.Gap = action.GapSkip }), 1, "2026-03-30T02:30:00+02:00"},
		{"interval", plan(every(time.Hour)), 2, "2026-03-28T12:00:00Z 2026-03-28T13:00:00Z"},
		{"from", plan(every(time.Hour), func(p *action.Plan) { p.From = from.Add(time.Minute) }), 1, "2026-03-28T12:01:00Z"},
		{"until", plan(every(time.Hour), func(p *action.Plan) { p.Until = from.Add(time.Hour) }), 5, "2026-03-28T12:00:00Z"},
		{"count", plan(every(time.Hour), func(p *action.Plan) { p.Count = 1 }), 5, "2026-03-28T12:00:00Z"},
	} {
		runs, err := action.Preview(tt.p, from, tt.n)
		var got []string
		for _, at := range runs {
			got = append(got, at.Format(time.RFC3339))
		}
		if err != nil || strings.Join(got, " ") != tt.want {
			t.Errorf("%s: %v, %v, want %s", tt.name, got, err, tt.want)
		}
	}
	for _, n := range []int{0, action.MaxRuns + 1} {
		_, err := action.Preview(plan(every(time.Hour)), from, n)
		check.ErrorOf(t, "action", err, action.ErrInvalid, fmt.Sprintf("%d runs; 1 to 1000", n))
	}
	_, err := action.Preview(plan(), from, 1)
	check.ErrorOf(t, "action", err, action.ErrInvalid, "action: preview: ")
}

// TestPreviewIsWhatHappens.
func TestPreviewIsWhatHappens(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := newFixture(t, func(c *action.Config) { c.Rate = time.Minute })
		p := plan(cronAt("*/7 */5 * * *", "America/New_York"))
		want, err := action.Preview(p, r.At(0), 30)
		check.OK(t, err)
		r.addSchedule(p)
		r.run()
		rig.Pass(want[29].Sub(r.Began) + time.Minute)
		made := r.made(action.Completed)
		check.Equal(t, "runs", len(made), 30)
		for i, a := range made {
			check.Equal(t, fmt.Sprint("run ", i), a.RunAt, want[i])
		}
	})
}

// TestJitterStaysWithinItsBounds, differs from run to run, and is the same in each process:
// it is in the record before the run.
func TestJitterStaysWithinItsBounds(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := newFixture(t, func(c *action.Config) { c.Rate = time.Second })
		r.addSchedule(plan(every(10*time.Minute), func(p *action.Plan) { p.Jitter = 5 * time.Minute }))
		// The same plan under the same ID, on another store.
		twin := newFixture(t, func(c *action.Config) { c.Rate = time.Second })
		twin.addSchedule(plan(every(10*time.Minute), func(p *action.Plan) { p.Jitter = 5 * time.Minute }))
		r.run()
		twin.run()
		rig.Pass(5 * time.Hour)
		least, most := time.Duration(math.MaxInt64), time.Duration(0)
		for i, run := range r.all() {
			late := run.began.Sub(run.Action.RunAt)
			least, most = min(least, late), max(most, late)
			if late < 0 || late > 5*time.Minute+time.Second {
				t.Errorf("run %d is %v late", i, late)
			}
			// A run begins at the first tick after it is due. The time of a real store is in whole
			// milliseconds, so one that is due within a millisecond of a tick may miss it.
			if other := twin.all()[i].began; other.Sub(run.began).Abs() > time.Second {
				t.Errorf("run %d is made at %v here, and at %v there", i, run.began, other)
			}
			check.Equal(t, fmt.Sprint("the time of run ", i), run.Action.RunAt, r.At(time.Duration(i)*10*time.Minute))
		}
		if n := len(r.all()); n < 30 || least > time.Minute || most < 4*time.Minute {
			t.Errorf("%d runs are %v to %v late", n, least, most)
		}
		r.wantSkipped()
	})
}

// TestJitterIsOverBeforeTheNextRun: with more of it than there is between two runs, each is
// made all the same, and none is taken for missed.
func TestJitterIsOverBeforeTheNextRun(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := newFixture(t, func(c *action.Config) { c.Rate = time.Second })
		r.addSchedule(plan(every(time.Minute), func(p *action.Plan) { p.Jitter = time.Hour }))
		r.run()
		rig.Pass(31 * time.Minute)
		for i, a := range r.made() {
			check.Equal(t, "status", a.Status, action.Completed)
			check.Equal(t, "its time", a.RunAt, r.At(time.Duration(i)*time.Minute))
		}
		if n := len(r.all()); n < 30 {
			t.Errorf("%d runs", n)
		}
	})
}

// TestListSchedules in the order of their next run.
func TestListSchedules(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := newFixture(t)
		for i, tenant := range []string{"acme", "other", "acme"} {
			r.addSchedule(plan(every(time.Hour), func(p *action.Plan) {
				p.ID, p.Tenant, p.From = fmt.Sprint(i), tenant, r.At(time.Duration(10-i)*time.Minute)
			}))
		}
		ids := func(tenant string, limit int) (ids []string) {
			for _, s := range check.All(t, r.AllSchedules(t.Context(), action.ScheduleFilter{Tenant: tenant, Limit: limit})) {
				ids = append(ids, s.ID)
			}
			return ids
		}
		for _, limit := range []int{0, 1} {
			check.Equal(t, "all", fmt.Sprint(ids("", limit)), "[2 1 0]")
			check.Equal(t, "of acme", fmt.Sprint(ids("acme", limit)), "[2 0]")
		}
		_, err := r.ListSchedules(t.Context(), action.ScheduleFilter{Limit: action.MaxPage + 1})
		check.ErrorOf(t, "action", err, action.ErrInvalid, "a page of 1001")
	})
}

// TestAScheduleThatIsOutOfOrder keeps no other from its runs, and can be replaced.
func TestAScheduleThatIsOutOfOrder(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := newFixture(t, slots(200))
		for i := range 130 { // more than are looked after at once
			r.addSchedule(plan(every(time.Minute), func(p *action.Plan) { p.ID = fmt.Sprintf("s%03d", i) }))
		}
		page, err := r.Store.List(t.Context(), store.Query{Kind: "schedule", Limit: 200})
		check.OK(t, err)
		for _, rec := range page.Records {
			if rec.Key.ID < "s064" {
				body := []byte(strings.Replace(string(rec.Body), `"everyNs":60000000000`, `"cron":"* * * * *","zone":"Mars/Base"`, 1))
				if rec.Key.ID == "s000" {
					body = []byte("{")
				}
				rec.Body = body
				check.OK(t, r.Store.Commit(t.Context(), &store.Tx{PutRecords: []store.PutRecord{{Record: rec, Expect: 1}}}))
			}
		}
		r.tick()
		check.Equal(t, "runs", len(r.all()), 130-64)
		if _, err := r.GetSchedule(t.Context(), "acme", "s000"); !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("error %v", err)
		}
		rig.Pass(time.Second)
		got, err := r.UpdateSchedule(t.Context(), plan(every(time.Minute), func(p *action.Plan) { p.ID = "s001" }), 0)
		check.OK(t, err)
		rig.Pass(time.Minute)
		r.tick()
		if got, err = r.GetSchedule(t.Context(), "acme", got.ID); err != nil || got.Runs != 1 {
			t.Errorf("it has %d runs, %v", got.Runs, err)
		}
	})
}
