package action_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/abidehq/abide/action"
	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/internal/rig"
)

// ofNorth configures targets of several owners: do is tenant acme's, north and hooked are
// tenant north's, the latter for webhooks alone, and all is for every tenant.
func ofNorth(j *journal) func(*action.Config) {
	return func(c *action.Config) {
		run := action.Func(j.act)
		c.Targets = map[string]action.Definition{
			"do":     {Target: run, Tenants: []string{"acme"}},
			"north":  {Target: run, Tenants: []string{"north"}},
			"hooked": {Target: run, Tenants: []string{"north"}, HooksOnly: true},
			"all":    {Target: run, Attempts: 5},
		}
	}
}

// wantForbidden checks that an error is about a target, and names none that others own.
func wantForbidden(t *testing.T, what string, err error, allowed string) {
	t.Helper()
	if !errors.Is(err, action.ErrForbidden) {
		t.Errorf("%s: error %v, want %v", what, err, action.ErrForbidden)
		return
	}
	if _, list, _ := strings.Cut(err.Error(), "; "); list != "it can use "+allowed+": forbidden" {
		t.Errorf("%s: error %q, want one that lists %s", what, err, allowed)
	}
}

func TestTargetsBelongToTenants(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		j := newJournal(t)
		r := newFixtureOn(t, newFixture(t).Store, j, ofNorth(j))
		ctx := t.Context()
		plan := action.Plan{Tenant: "acme", ID: "s", Slug: "app", Target: "do", Every: time.Minute, From: r.At(time.Hour)}
		if _, err := r.AddSchedule(ctx, plan); err != nil {
			t.Fatal(err)
		}
		for _, target := range []string{"north", "hooked"} {
			_, _, err := r.Add(ctx, fill(action.Request{Target: target}))
			wantForbidden(t, "Add", err, "all, do")
			_, _, err = r.Receive(ctx, action.Received{Tenant: "acme", Slug: "app", Target: target})
			wantForbidden(t, "Receive", err, "all, do")
			foreign := plan
			foreign.Target = target
			_, err = r.UpdateSchedule(ctx, foreign, 0)
			wantForbidden(t, "UpdateSchedule", err, "all, do")
			foreign.ID = "t"
			_, err = r.AddSchedule(ctx, foreign)
			wantForbidden(t, "AddSchedule", err, "all, do")
		}
		// What is for webhooks alone is so for its own tenant too.
		_, _, err := r.Add(ctx, fill(action.Request{Tenant: "north", Target: "hooked"}))
		wantForbidden(t, "Add", err, "all, north")
		if _, _, err := r.Receive(ctx, action.Received{Tenant: "north", Slug: "app", Target: "hooked"}); err != nil {
			t.Errorf("Receive: %v", err)
		}
		for tenant, want := range map[string][]string{"acme": {"all", "do"}, "north": {"all", "north"}, "other": {"all"}, "": {"all", "do", "north"}} {
			if got := r.Targets(tenant); !slices.Equal(got, want) {
				t.Errorf("tenant %q can use %v, want %v", tenant, got, want)
			}
		}
		r.tick()
		if got := j.ids(); len(got) != 1 {
			t.Errorf("%d actions have run, want that of the webhook: %v", len(got), got)
		}
	})
}

// TestForeignActionsFailWhenTheyAreDue: a process that does not have the target takes them, and
// the one that has it does not do them, once and for all.
func TestForeignActionsFailWhenTheyAreDue(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		j := newJournal(t)
		other := newFixture(t, func(c *action.Config) { c.Targets = nil })
		r := newFixtureOn(t, other.Store, j, ofNorth(j))
		ctx := t.Context()
		foreign := other.add(action.Request{Target: "north"})
		unhooked := other.add(action.Request{Tenant: "north", Target: "hooked"})
		own := other.add(action.Request{Target: "do"})
		plan := action.Plan{Tenant: "acme", ID: "s", Slug: "app", Target: "north", Every: time.Second}
		if _, err := other.AddSchedule(ctx, plan); err != nil {
			t.Fatal(err)
		}
		r.run()
		rig.Pass(3 * rate)
		for _, a := range []action.Action{foreign, unhooked} {
			got, err := r.Get(ctx, a.Tenant, a.ID)
			check.OK(t, err)
			if got.Status != action.Failed || got.Attempt != 1 || !strings.Contains(got.Reason, "is not for scheduled actions of tenant") || strings.Contains(got.Reason, "hooked,") {
				t.Errorf("the action is %s after %d attempts: %q", got.Status, got.Attempt, got.Reason)
			}
			if _, err := r.Retry(ctx, a.Tenant, a.ID); !errors.Is(err, action.ErrForbidden) {
				t.Errorf("Retry: %v, want %v", err, action.ErrForbidden)
			}
		}
		for verb, try := range map[string]func() error{
			"Trigger":  func() error { _, err := r.Trigger(ctx, "acme", "s"); return err },
			"Backfill": func() error { _, err := r.Backfill(ctx, "acme", "s", r.Began, r.Began.Add(time.Minute)); return err },
			"Resume": func() error {
				if _, err := r.Pause(ctx, "acme", "s", ""); err != nil {
					return err
				}
				_, err := r.Resume(ctx, "acme", "s")
				return err
			},
		} {
			wantForbidden(t, verb, try(), "all, do")
		}
		if got := j.ids(); len(got) != 1 || got[0] != own.ID {
			t.Errorf("these have run: %v, want %s alone", got, own.ID)
		}
	})
}
