package action_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/abidehq/abide/action"
	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/internal/rig"
	"github.com/abidehq/abide/internal/roster"
	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/store/storetest"
)

// without has a service that has another target than the one that is gone.
func without(c *action.Config) {
	c.Targets = map[string]action.Definition{"other": {Target: c.Targets["do"].Target}}
}

// abandoned returns a store with actions that were running when their process died: one that
// is idempotent, one that is not, one whose target is declared so, and a webhook.
func abandoned(t *testing.T) (store.Store, map[string]action.Action) {
	t.Helper()
	j := newJournal(t)
	r := newFixture(t)
	faulty := storetest.NewFaulty(r.Store, nil)
	first := newFixtureOn(t, faulty, j, func(c *action.Config) {
		c.Targets["sure"] = action.Definition{Target: c.Targets["do"].Target, Idempotent: true}
	})
	all := map[string]action.Action{
		"plain":      first.add(action.Request{ID: "plain"}),
		"idempotent": first.add(action.Request{ID: "idempotent", Idempotent: true}),
		"sure":       first.add(action.Request{ID: "sure", Target: "sure"}),
		"webhook":    first.receive("body", "webhook"),
		"pending":    first.add(action.Request{ID: "pending", Delay: time.Second}),
	}
	j.will(func(ctx context.Context, _ action.Run) (action.Outcome, error) {
		<-ctx.Done()
		return action.Outcome{}, ctx.Err()
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- first.Run(ctx) }()
	synctest.Wait()
	check.Equal(t, "actions that run", len(j.all()), 4)
	faulty.Kill()
	t.Cleanup(func() { cancel(); <-done })
	return r.Store, all
}

// TestActionsOfAMissingTargetAreEnded: they were running when their process died, and nobody has
// their target any more.
func TestActionsOfAMissingTargetAreEnded(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		s, all := abandoned(t)
		j := newJournal(t)
		r := newFixtureOn(t, s, j, without)
		r.run()
		rig.Pass(2 * time.Minute) // until the leases have ended, and a sweep
		r.wantStatus("plain", action.Failed, "recovered from restart")
		r.wantStatus(all["webhook"].ID, action.Failed, "recovered from restart")
		r.wantBody(all["webhook"].ID, "body")
		for _, id := range []string{"idempotent", "sure"} {
			if got := r.get(id); got.Status != action.Pending || got.Attempt != 1 || got.Reason != "recovered from restart" {
				t.Errorf("%s is %s after %d runs: %q", id, got.Status, got.Attempt, got.Reason)
			}
		}
		check.Equal(t, "runs of what only waits", r.get("pending").Attempt, 0)
		j.wantIDs()

		// A process that has the targets again does what is left.
		again := newFixtureOn(t, s, j, func(c *action.Config) { c.Targets["sure"] = c.Targets["do"] })
		again.run()
		rig.Pass(rate)
		for _, id := range []string{"idempotent", "sure", "pending"} {
			again.wantStatus(id, action.Completed, "")
		}
		check.Equal(t, "attempts", again.get("idempotent").Attempt, 2)
	})
}

// TestActionsOfLiveWorkersAreLeftAlone: what another process runs, or will take over itself, is
// not ended by one that does not have the target.
func TestActionsOfLiveWorkersAreLeftAlone(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		release := make(chan struct{})
		first := newFixture(t) // it does not show, so that nobody but the lease protects its action
		first.will(blocks(release))
		first.add(action.Request{ID: "a"})
		first.run()
		other := newFixtureOn(t, first.Store, newJournal(t), without)
		other.run()
		rig.Pass(10 * time.Minute)
		first.wantStatus("a", action.Running, "")
		close(release)
		rig.Pass(0)
		first.wantStatus("a", action.Completed, "")
	})
	t.Run("that show", func(t *testing.T) {
		rig.Bubble(t, func(t *testing.T) {
			s, _ := abandoned(t)
			w := roster.Worker{ID: "w", Name: "w", Targets: []string{"do", "sure"}}
			r := newFixtureOn(t, s, newJournal(t), without)
			r.run()
			for range 10 {
				w.SeenAt = time.Now()
				check.OK(t, s.Commit(t.Context(), &store.Tx{PutRecords: []store.PutRecord{w.Put()}}))
				rig.Pass(roster.Every)
			}
			r.wantStatus("plain", action.Running, "") // until that one takes it over
			rig.Pass(10 * time.Minute)
			r.wantStatus("plain", action.Failed, "recovered from restart")
		})
	})
}

// TestTargetsOfSchedules: those of active schedules are found, as long as they are active.
func TestTargetsOfSchedules(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := newFixture(t)
		wantOrphans := func(when string, want map[string]int) {
			t.Helper()
			got, err := roster.Scheduled(t.Context(), r.Store)
			if err != nil || !maps.Equal(got, want) {
				t.Errorf("%s: %v, %v; want %v", when, got, err, want)
			}
		}
		must := func(_ action.Schedule, err error) {
			t.Helper()
			check.OK(t, err)
		}
		wantOrphans("without schedules", nil)
		for id, target := range map[string]string{"a": "one", "b": "two", "c": "two"} {
			must(r.AddSchedule(t.Context(), action.Plan{Tenant: "acme", ID: id, Slug: "app", Target: target, Every: time.Hour, From: r.At(time.Hour)}))
		}
		wantOrphans("active", map[string]int{"one": 1, "two": 2})
		must(r.Pause(t.Context(), "acme", "a", ""))
		wantOrphans("with one paused", map[string]int{"two": 2})
	})
}

// TestUnservedTargetsAreSeen: who adds something for a target that no live worker serves is told,
// and the log says it once, at the start and when it happens.
func TestUnservedTargetsAreSeen(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		var log bytes.Buffer
		logged := func(c *action.Config) { c.Logger = slog.New(slog.NewTextHandler(&log, nil)) }
		warned := func(what string, want int) {
			t.Helper()
			if n := strings.Count(log.String(), `msg="no live worker serves target"`); n != want {
				t.Errorf("%s: the log says %d times that a target is not served, want %d:\n%s", what, n, want, log.String())
			}
		}
		r := newFixture(t, logged)
		const text = `no live worker serves target "else"; it waits until one does; served targets: do`
		if a := r.add(action.Request{}); a.Warning != "" {
			t.Errorf("an action for a target of the service has the warning %q", a.Warning)
		}
		a := r.add(action.Request{ID: "a", Target: "else", Delay: time.Hour})
		check.Equal(t, "warning", a.Warning, text)
		a, _, _ = r.Add(t.Context(), fill(action.Request{ID: "a", Target: "else"}))
		check.Equal(t, "warning the second time", a.Warning, text)
		check.Equal(t, "warning of what is read", r.get("a").Warning, text)
		plan := action.Plan{Tenant: "acme", ID: "s", Slug: "app", Target: "else", Every: time.Hour, From: r.At(time.Hour)}
		sch, err := r.AddSchedule(t.Context(), plan)
		check.OK(t, err)
		check.Equal(t, "warning of a schedule", sch.Warning, text)
		plan.Target = "third"
		if sch, err = r.UpdateSchedule(t.Context(), plan, 0); err != nil {
			t.Fatal(err)
		}
		check.Equal(t, "warning of a schedule that is changed", sch.Warning, strings.Replace(text, "else", "third", 1))
		warned("when they are added", 2)
		read, err := r.GetSchedule(t.Context(), "acme", "s")
		check.OK(t, err)
		check.Equal(t, "warning of a schedule that is read", read.Warning, sch.Warning)
		rec, err := r.Store.Get(t.Context(), store.RecordKey{Kind: "schedule", Tenant: "acme", ID: "s"})
		if err != nil || strings.Contains(string(rec.Body), "warning") {
			t.Errorf("the record has the warning: %s, %v", rec.Body, err)
		}

		log.Reset() // another process
		second := newFixtureOn(t, r.Store, newJournal(t), logged)
		second.run()
		warned("at the start", 2)
		if !strings.Contains(log.String(), "target=else actions=1 schedules=0") || !strings.Contains(log.String(), "target=third actions=0 schedules=1") {
			t.Errorf("the log does not say what waits:\n%s", log.String())
		}
		rig.Pass(30 * time.Minute)
		warned("later", 2)
		served, err := second.Served(t.Context(), "else")
		if err != nil || served {
			t.Errorf("Served: %v, %v", served, err)
		}

		// An unlisted service is not known to serve it.
		unlisted := newFixtureOn(t, r.Store, newJournal(t), func(c *action.Config) {
			c.Unlisted = true
			c.Targets = map[string]action.Definition{"else": {Target: c.Targets["do"].Target}}
		})
		stop := unlisted.run()
		rig.Pass(2 * time.Minute)
		if served, err := second.Served(t.Context(), "else"); err != nil || served {
			t.Errorf("Served by an unlisted service: %v, %v", served, err)
		}
		stop()

		// A service is listed without a name of its own.
		third := newFixtureOn(t, r.Store, newJournal(t), func(c *action.Config) {
			c.Targets = map[string]action.Definition{"else": {Target: c.Targets["do"].Target}}
		})
		stop = third.run()
		rig.Pass(2 * time.Minute)
		if a := r.add(action.Request{ID: "b", Target: "else", Delay: time.Hour}); a.Warning != "" {
			t.Errorf("the warning is %q although a worker serves it", a.Warning)
		}
		if !strings.Contains(log.String(), "target=else") || strings.Count(log.String(), `msg="target is served again, or nothing waits for it"`) != 1 {
			t.Errorf("the log does not say that it is served again:\n%s", log.String())
		}
		stop()
		rig.Pass(time.Minute)
		a = r.add(action.Request{ID: "c", Target: "else", Delay: time.Hour})
		check.Equal(t, "warning when the worker has ended", a.Warning, text)
	})
}

// TestChangesForUnservedTargetsWarn: each change after which something waits for a target that no
// live worker serves has the warning.
func TestChangesForUnservedTargetsWarn(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := newFixture(t)
		const text = `no live worker serves target "else"; it waits until one does; served targets: do`
		warned := func(what, warning string, err error) {
			t.Helper()
			if err != nil || warning != text {
				t.Errorf("%s: warning %q, %v", what, warning, err)
			}
		}
		r.add(action.Request{ID: "a", Target: "else", Delay: time.Hour})
		cancelled, err := r.Cancel(t.Context(), "acme", "a", "")
		if err != nil || cancelled.Warning != "" {
			t.Errorf("a cancelled action: warning %q, %v", cancelled.Warning, err)
		}
		check.Equal(t, "warning of a cancelled action", r.get("a").Warning, "")
		retried, err := r.Retry(t.Context(), "acme", "a")
		warned("retry", retried.Warning, err)

		sch, err := r.AddSchedule(t.Context(), action.Plan{Tenant: "acme", ID: "s", Slug: "app", Target: "else", Every: time.Hour, From: r.At(time.Hour)})
		warned("add schedule", sch.Warning, err)
		_, err = r.Pause(t.Context(), "acme", "s", "")
		check.OK(t, err)
		sch, err = r.Resume(t.Context(), "acme", "s")
		warned("resume", sch.Warning, err)
		made, err := r.Trigger(t.Context(), "acme", "s")
		warned("trigger", made.Warning, err)
		runs, err := r.Backfill(t.Context(), "acme", "s", r.At(time.Hour), r.At(3*time.Hour))
		check.Equal(t, "runs", len(runs), 2)
		for _, run := range runs {
			warned("backfill", run.Warning, err)
		}
	})
}

// TestWarningsNameTargetsOfTheTenant: of the targets that are served, a warning names those that
// the tenant can use, here and in other processes.
func TestWarningsNameTargetsOfTheTenant(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := newFixture(t, func(c *action.Config) { c.Targets = nil })
		add := func(id, want string) {
			t.Helper()
			a := r.add(action.Request{ID: id, Target: "else", Delay: time.Hour})
			check.Equal(t, "warning", a.Warning, `no live worker serves target "else"; it waits until one does; `+want)
		}
		add("a", "no other target is served")
		other := newFixtureOn(t, r.Store, newJournal(t), func(c *action.Config) {
			target := c.Targets["do"].Target
			c.WorkerName = "other"
			c.Targets = map[string]action.Definition{
				"mail": {Target: target}, "report": {Target: target},
				"private": {Target: target, Tenants: []string{"globex"}}, "hook": {Target: target, HooksOnly: true},
			}
		})
		other.run()
		rig.Pass(10 * time.Second)
		add("b", "served targets: mail, report")
		many := newFixtureOn(t, r.Store, newJournal(t), func(c *action.Config) {
			for i := range 20 {
				c.Targets[fmt.Sprintf("t%02d", i)] = c.Targets["do"]
			}
			c.Targets["private"] = action.Definition{Target: c.Targets["do"].Target, Tenants: []string{"globex"}}
		})
		a, _, err := many.Add(t.Context(), fill(action.Request{ID: "c", Target: "else"}))
		check.OK(t, err)
		if !strings.HasSuffix(a.Warning, "served targets: do, mail, report, t00, t01, t02, t03, t04, t05, t06, t07, t08, t09, t10, t11, t12, t13, t14, t15, t16 and 3 more") {
			t.Errorf("many targets: %s", a.Warning)
		}
	})
}
