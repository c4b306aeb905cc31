package action_test

import (
	"strings"
	"testing"
	"time"

	"github.com/abidehq/abide/action"
	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/internal/rig"
	"github.com/abidehq/abide/store"
)

// TestOverlapSkip: what is due while the one before runs is not made, and says why.
func TestOverlapSkip(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := newFixture(t)
		r.will(takes(150 * time.Second))
		r.addSchedule(plan(every(time.Minute)))
		r.run()
		r.until(3*time.Minute + 30*time.Second)
		r.wantMade("completed 0s", "skipped 1m0s", "skipped 2m0s", "running 3m0s")
		first := "overlap: action " + r.all()[0].Action.ID + " has not ended"
		r.wantSkipped(first, first)
	})
}

// TestOverlapQueue: one waits for the one before to end, and follows at the next tick; the
// others are skipped.
func TestOverlapQueue(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := newFixture(t)
		r.will(takes(155 * time.Second))
		r.addSchedule(plan(every(time.Minute), overlap(action.OverlapQueue)))
		r.run()
		r.until(90 * time.Second)
		check.Equal(t, "what waits", r.schedule().Queued, r.At(time.Minute))
		r.until(165 * time.Second)
		r.wantMade("completed 0s", "running 1m0s", "skipped 2m0s")
		check.Equal(t, "its beginning", r.last().began, r.At(160*time.Second))
		if reason := r.made(action.Skipped)[0].Reason; !strings.Contains(reason, "has not ended, and the run of 2000-01-01T00:01:00Z waits for it") {
			t.Errorf("skipped: %s", reason)
		}
		check.Equal(t, "what waits", r.schedule().Queued, time.Time{})
		r.until(190 * time.Second)
		check.Equal(t, "what waits", r.schedule().Queued, r.At(3*time.Minute))
	})
}

// TestOverlapQueueKeepsTheOrder: a run that waits comes before one that becomes due at the
// tick at which the one before has ended.
func TestOverlapQueueKeepsTheOrder(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := newFixture(t)
		r.will(takes(115 * time.Second))
		r.addSchedule(plan(every(time.Minute), overlap(action.OverlapQueue)))
		r.run()
		r.until(12 * time.Minute)
		var last time.Time
		for i, run := range r.all() {
			if !run.Action.RunAt.After(last) {
				t.Errorf("run %d is that of %v, after that of %v", i, run.Action.RunAt, last)
			}
			last = run.Action.RunAt
		}
		if len(r.all()) < 5 {
			t.Errorf("%d runs", len(r.all()))
		}
	})
}

// TestOverlapQueueAfterCancel: an action that is cancelled has ended too.
func TestOverlapQueueAfterCancel(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := newFixture(t)
		r.will(takes(time.Hour))
		r.addSchedule(plan(every(time.Minute), overlap(action.OverlapQueue)))
		r.run()
		r.until(65 * time.Second)
		r.cancel(r.last().Action.ID, "")
		r.until(75 * time.Second)
		r.wantMade("cancelled 0s", "running 1m0s")
	})
}

// TestOverlapQueueAfterAChangeOfPlan: the running action does not know that a run waits
// for its end. What waits is made when the next run is due, and before that.
func TestOverlapQueueAfterAChangeOfPlan(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := newFixture(t)
		r.will(takes(90 * time.Second))
		r.addSchedule(plan(every(time.Minute), overlap(action.OverlapAllow)))
		r.run()
		r.until(30 * time.Second)
		if _, err := r.UpdateSchedule(t.Context(), plan(every(time.Minute), overlap(action.OverlapQueue)), 0); err != nil {
			t.Fatal(err)
		}
		r.until(125 * time.Second)
		r.wantMade("completed 0s", "running 1m0s")
		check.Equal(t, "what waits", r.schedule().Queued, r.At(2*time.Minute))
		r.until(225 * time.Second)
		r.wantMade("completed 0s", "completed 1m0s", "running 2m0s", "skipped 3m0s")
	})
}

// TestPauseSkipsWhatWaits.
func TestPauseSkipsWhatWaits(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := newFixture(t)
		r.will(takes(90 * time.Second))
		r.addSchedule(plan(every(time.Minute), overlap(action.OverlapQueue)))
		r.run()
		r.until(65 * time.Second)
		if _, err := r.Pause(t.Context(), "acme", "s", ""); err != nil {
			t.Fatal(err)
		}
		r.until(time.Hour)
		r.wantMade("completed 0s", "skipped 1m0s")
		r.wantSkipped("the schedule was paused")
	})
}

// TestCountIncludesWhatWaits.
func TestCountIncludesWhatWaits(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := newFixture(t)
		r.will(takes(90 * time.Second))
		r.addSchedule(plan(every(time.Minute), overlap(action.OverlapQueue), func(p *action.Plan) { p.Count = 2 }))
		r.run()
		r.until(65 * time.Second)
		check.Equal(t, "status", r.schedule().Status, action.Ended)
		r.until(time.Hour)
		r.wantMade("completed 0s", "completed 1m0s")
		check.Equal(t, "runs", r.schedule().Runs, 2)
		check.Equal(t, "messages", r.Pending(), 0)
	})
}

func TestOverlapAllow(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := newFixture(t)
		r.will(takes(150 * time.Second))
		r.addSchedule(plan(every(time.Minute), overlap(action.OverlapAllow)))
		r.run()
		r.until(2*time.Minute + time.Second)
		r.wantMade("running 0s", "running 1m0s", "running 2m0s")
	})
}

// TestOverlapCancel: the one before is cancelled, and says why.
func TestOverlapCancel(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := newFixture(t)
		r.will(takes(150 * time.Second))
		r.addSchedule(plan(every(time.Minute), overlap(action.OverlapCancel)))
		r.run()
		r.until(2*time.Minute + time.Second)
		r.wantMade("cancelled 0s", "cancelled 1m0s", "running 2m0s")
		check.Equal(t, "reason", r.made()[0].Reason, "overlap: the next run of schedule s is due")
		check.Error(t, r.all()[0].cause, action.ErrCancelled)
	})
}

// down has a service do its first run, and then nothing for a while.
func down(t *testing.T, d time.Duration, change ...func(*action.Plan)) *fixture {
	t.Helper()
	r := newFixture(t, slots(2000))
	r.addSchedule(plan(append([]func(*action.Plan){every(time.Minute)}, change...)...))
	r.tick()
	r.until(d)
	return r
}

func TestCatchUpNone(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := down(t, 10*time.Minute+30*time.Second, every(5*time.Minute), catchUp(action.CatchUpNone, 0, 0))
		r.tick() // 30 s late is in time
		r.wantMade("completed 0s", "skipped 5m0s", "completed 10m0s")
		r.wantSkipped("missed: only the last one is caught up on")
		r.until(24 * time.Minute)
		r.tick()
		r.wantMade("completed 0s", "skipped 5m0s", "completed 10m0s", "skipped 15m0s")
		check.Equal(t, "skipped", r.made()[3].Reason, "missed: nothing is caught up on (2 runs, from 2000-01-01T00:15:00Z to 2000-01-01T00:20:00Z)")
		check.Equal(t, "next", r.schedule().Next, r.At(25*time.Minute))
	})
}

// TestCatchUpOne is what happens if the plan does not say.
func TestCatchUpOne(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := down(t, 24*time.Hour+30*time.Second)
		r.tick()
		r.wantMade("completed 0s", "skipped 1m0s", "completed 24h0m0s")
		r.wantSkipped("missed: only the last one is caught up on (1439 runs, from 2000-01-01T00:01:00Z to 2000-01-01T23:59:00Z)")
		r.until(24*time.Hour + 70*time.Second)
		r.tick()
		check.Equal(t, "runs", len(r.all()), 3)
	})
}

// TestCatchUpAll makes those within the window, beside each other.
func TestCatchUpAll(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := down(t, 10*time.Minute+30*time.Second, catchUp(action.CatchUpAll, 3*time.Minute, 0))
		r.will(takes(time.Second))
		r.tick()
		r.wantMade("completed 0s", "skipped 1m0s", "running 8m0s", "running 9m0s", "running 10m0s")
		r.wantSkipped("missed: more than can be caught up on (7 runs, from 2000-01-01T00:01:00Z to 2000-01-01T00:07:00Z)")
		rig.Pass(time.Second)
	})
}

func TestCatchUpAllWithinItsCap(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := down(t, 10*time.Minute+30*time.Second, catchUp(action.CatchUpAll, 0, 2))
		r.tick()
		r.wantMade("completed 0s", "skipped 1m0s", "completed 9m0s", "completed 10m0s")
		check.Equal(t, "runs", r.schedule().Runs, 3)
	})
}

func TestCatchUpAllOfWhatIsTooLongAgo(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := down(t, 50*time.Minute, every(30*time.Minute), catchUp(action.CatchUpAll, 10*time.Minute, 0))
		r.tick()
		r.wantMade("completed 0s", "skipped 30m0s")
		r.wantSkipped("missed: longer ago than 10m0s, which is as far as is caught up")
	})
}

// TestCatchUpRespectsTheEnd and the count of a plan.
func TestCatchUpRespectsTheEnd(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := newFixture(t)
		r.addSchedule(plan(every(time.Minute), func(p *action.Plan) { p.Until = r.At(5 * time.Minute) }))
		r.addSchedule(plan(every(time.Minute), catchUp(action.CatchUpAll, 0, 0), func(p *action.Plan) { p.ID, p.Count = "counted", 3 }))
		rig.Pass(time.Hour)
		r.tick()
		r.wantMade("skipped 0s", "completed 4m0s")
		r.wantSkipped("missed: only the last one is caught up on (4 runs, from 2000-01-01T00:00:00Z to 2000-01-01T00:03:00Z)")
		got, err := r.GetSchedule(t.Context(), "acme", "counted")
		if err != nil || got.Runs != 3 || got.Status != action.Ended {
			t.Errorf("it has %d runs and is %s, %v", got.Runs, got.Status, err)
		}
	})
}

// TestCatchUpMeetsWhatStillRuns: what is caught up runs beside each other, and not beside
// what was there before.
func TestCatchUpMeetsWhatStillRuns(t *testing.T) {
	t.Parallel()
	for how, want := range map[action.Overlap][]string{
		action.OverlapSkip:   {"running 0s", "skipped 1m0s", "skipped 2m0s", "skipped 3m0s"},
		action.OverlapQueue:  {"running 0s", "skipped 2m0s", "skipped 3m0s"},
		action.OverlapAllow:  {"running 0s", "running 1m0s", "running 2m0s", "running 3m0s"},
		action.OverlapCancel: {"cancelled 0s", "running 1m0s", "running 2m0s", "running 3m0s"},
	} {
		t.Run(string(how), func(t *testing.T) {
			rig.Bubble(t, func(t *testing.T) {
				r := newFixture(t)
				r.will(takes(time.Hour))
				r.addSchedule(plan(every(time.Minute), catchUp(action.CatchUpAll, 0, 0), overlap(how)))
				r.tick()
				r.until(3*time.Minute + time.Second)
				r.tick()
				r.wantMade(want...)
				rig.Pass(2 * time.Hour)
			})
		})
	}
}

// TestASchedulesMessageIsNeverDoubled: whatever is done to a schedule, there is one message
// that wakes it.
func TestASchedulesMessageIsNeverDoubled(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := newFixture(t)
		key := store.Key{Queue: "schedules", Tenant: "acme", Name: "s"}
		want := func(what string, n int) {
			t.Helper()
			pending, err := r.Store.Pending(t.Context(), key, 10)
			if err != nil || len(pending) != n {
				t.Errorf("%s: %d messages, %v, want %d", what, len(pending), err, n)
			}
		}
		r.addSchedule(plan(every(time.Minute)))
		want("added", 1)
		for range 3 {
			r.tick()
			want("a tick", 1)
			if _, err := r.UpdateSchedule(t.Context(), plan(every(time.Minute)), 0); err != nil {
				t.Fatal(err)
			}
			want("updated", 1)
			if _, err := r.Trigger(t.Context(), "acme", "s"); err != nil {
				t.Fatal(err)
			}
			want("triggered", 1)
			if _, err := r.Pause(t.Context(), "acme", "s", ""); err != nil {
				t.Fatal(err)
			}
			want("paused", 0)
			if _, err := r.Resume(t.Context(), "acme", "s"); err != nil {
				t.Fatal(err)
			}
			want("resumed", 1)
			rig.Pass(time.Minute)
		}
	})
}

// TestAChangeDuringAWake: the schedule is as it was changed, and continues at the same tick.
func TestAChangeDuringAWake(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := newFixture(t)
		r.addSchedule(plan(every(time.Minute)))
		once := false
		other := newFixtureOn(t, &rig.Hooked{Store: r.Store, Hook: func(method string, after bool) {
			if method == "Commit" && !after && !once {
				once = true
				if _, err := r.UpdateSchedule(t.Context(), plan(every(time.Minute), func(p *action.Plan) { p.Slug = "web" }), 0); err != nil {
					t.Error(err)
				}
			}
		}}, r.journal)
		other.tick()
		r.wantMade("skipped 0s")
		rig.Pass(time.Minute)
		other.tick()
		r.wantMade("skipped 0s", "completed 1m0s")
		check.Equal(t, "slug", r.last().Action.Slug, "web")
	})
}

// TestAnEndThatMeetsAChange is not lost: the run that waits follows soon, and not only when
// the lease is over.
func TestAnEndThatMeetsAChange(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := newFixture(t)
		r.will(takes(65 * time.Second))
		r.addSchedule(plan(every(time.Minute), overlap(action.OverlapQueue)))
		r.tick()
		r.until(60 * time.Second)
		r.tick()
		r.until(70 * time.Second)
		once := false
		other := newFixtureOn(t, &rig.Hooked{Store: r.Store, Hook: func(method string, after bool) {
			if method == "Commit" && !after && !once {
				once = true
				if _, err := r.UpdateSchedule(t.Context(), plan(every(time.Minute), overlap(action.OverlapQueue)), 0); err != nil {
					t.Error(err)
				}
			}
		}}, r.journal)
		other.tick()
		r.wantMade("completed 0s", "running 1m0s")
		rig.Pass(2 * time.Minute)
	})
}
