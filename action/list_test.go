package action_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/abidehq/abide/action"
	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/internal/rig"
)

// TestListFilters: all that is set must match, and the order is that of what happens or
// happened last.
func TestListFilters(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := newFixture(t)
		r.will(func(ctx context.Context, run action.Run) (action.Outcome, error) {
			switch run.Action.Slug {
			case "bad":
				return action.Outcome{}, errors.New("no")
			case "slow":
				return takes(time.Hour)(ctx, run)
			default:
				return action.Outcome{}, nil
			}
		})
		r.add(action.Request{ID: "completed", At: r.At(time.Minute)})
		r.add(action.Request{ID: "failed", Slug: "bad", At: r.At(2 * time.Minute)})
		r.add(action.Request{ID: "running", Slug: "slow", At: r.At(3 * time.Minute)})
		r.add(action.Request{ID: "pending", At: r.At(time.Hour)})
		r.add(action.Request{ID: "cancelled", At: r.At(30 * time.Minute)})
		r.add(action.Request{ID: "other", Tenant: "other", At: r.At(50 * time.Minute)})
		r.run()
		r.until(4 * time.Minute)
		r.cancel("cancelled", "")
		for _, tt := range []struct {
			name string
			f    action.Filter
			want []string
		}{
			{"all", action.Filter{}, []string{"completed", "failed", "running", "cancelled", "other", "pending"}},
			{"descending", action.Filter{Descending: true}, []string{"pending", "other", "cancelled", "running", "failed", "completed"}},
			{"tenant", action.Filter{Tenant: "other"}, []string{"other"}},
			{"slug", action.Filter{Slug: "app", Tenant: "acme"}, []string{"completed", "cancelled", "pending"}},
			{"status", action.Filter{Statuses: []action.Status{action.Pending}}, []string{"other", "pending"}},
			{"statuses", action.Filter{Statuses: []action.Status{action.Failed, action.Cancelled, action.Running}}, []string{"failed", "running", "cancelled"}},
			{"from", action.Filter{From: r.At(50 * time.Minute)}, []string{"other", "pending"}},
			{"to", action.Filter{To: r.At(2 * time.Minute)}, []string{"completed"}},
			{"from and to", action.Filter{From: r.At(2 * time.Minute), To: r.At(3 * time.Minute)}, []string{"failed"}},
			{"none", action.Filter{Slug: "nobody"}, nil},
		} {
			wantPage(t, tt.name, r, tt.f, tt.want)
		}
		page, err := r.List(t.Context(), action.Filter{Slug: "bad"})
		if err != nil || len(page.Actions) != 1 {
			t.Fatalf("%+v, %v", page, err)
		}
		wantAction(t, "one of a list", page.Actions[0], r.get("failed"))
	})
}

// wantPage lists with pages of any length, and checks that they are parts of the same.
func wantPage(t *testing.T, name string, r *fixture, f action.Filter, want []string) {
	t.Helper()
	for _, limit := range []int{0, 1, 2, action.MaxPage} {
		var got []string
		f.Limit = limit
		for _, a := range check.All(t, r.All(t.Context(), f)) {
			got = append(got, a.ID)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s in pages of %d: %v, want %v", name, limit, got, want)
		}
	}
}

func TestListsThatAreRefused(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := newFixture(t)
		_, err := r.List(t.Context(), action.Filter{Limit: action.MaxPage + 1})
		check.ErrorOf(t, "action", err, action.ErrInvalid, "a page of 1001; 1 to 1000 is allowed")
		_, err = r.List(t.Context(), action.Filter{Limit: -1})
		check.ErrorOf(t, "action", err, action.ErrInvalid, "a page of -1")
		_, err = r.List(t.Context(), action.Filter{Statuses: []action.Status{"done"}})
		check.ErrorOf(t, "action", err, action.ErrInvalid, `unknown status "done"`)
		_, err = r.List(t.Context(), action.Filter{Cursor: "no cursor"})
		check.ErrorOf(t, "action", err, action.ErrInvalid)
		_, err = r.Get(t.Context(), "acme", "")
		check.ErrorOf(t, "action", err, action.ErrInvalid, "no ID")
		_, err = r.Get(t.Context(), "acme", "a")
		check.ErrorOf(t, "action", err, action.ErrNotFound, "action: get acme/a")
	})
}

// TestRetention: what has ended goes when its time is over, with the bodies that were kept;
// the rest stays.
func TestRetention(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := newFixture(t, func(c *action.Config) { c.Retention = 5 * time.Minute })
		r.will(func(ctx context.Context, run action.Run) (action.Outcome, error) {
			if run.Action.Trigger.Kind == action.Webhook {
				return action.Outcome{}, errors.New("no")
			}
			if run.Action.ID == "running" {
				return takes(time.Hour)(ctx, run)
			}
			return action.Outcome{}, nil
		})
		r.add(action.Request{ID: "completed"})
		r.add(action.Request{ID: "running"})
		r.add(action.Request{ID: "pending", Delay: 1000 * time.Hour})
		r.add(action.Request{ID: "cancelled", Delay: 1000 * time.Hour})
		r.cancel("cancelled", "")
		failed, cancelled := r.receive("f", ""), r.receive("c", "")
		r.cancel(cancelled.ID, "")
		r.run()
		for i := range 600 { // more than one commit of the sweep
			r.add(action.Request{ID: fmt.Sprint(i)})
		}
		rig.Pass(5*time.Minute - time.Second)
		check.Equal(t, "actions", len(r.Records("action")), 606)
		check.Equal(t, "bodies", len(r.Records("action.body")), 2)
		rig.Pass(3 * time.Minute)
		var left []string
		for _, rec := range r.Records("action") {
			left = append(left, rec.Key.ID)
		}
		slices.Sort(left)
		check.Equal(t, "what is left", fmt.Sprint(left), "[pending running]")
		check.Equal(t, "bodies", len(r.Records("action.body")), 0)
		if _, err := r.Body(t.Context(), "acme", failed.ID); !errors.Is(err, action.ErrNotFound) {
			t.Errorf("its body: %v", err)
		}
	})
}

func TestRetentionForEver(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := newFixture(t, func(c *action.Config) { c.Rate = action.MaxRate })
		r.add(action.Request{ID: "a"})
		r.run()
		rig.Pass(action.DefaultRetention + time.Hour)
		r.wantStatus("a", action.Completed, "")
	})
}
