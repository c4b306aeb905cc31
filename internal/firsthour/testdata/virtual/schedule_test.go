package main

import (
	"testing"
	"time"

	"github.com/abidehq/abide/abidetest"
	"github.com/abidehq/abide/action"
)

// TestScheduleInVirtualTime lets a night pass.
func TestScheduleInVirtualTime(t *testing.T) {
	abidetest.Run(t, func(t *testing.T, env *abidetest.Env) {
		register(env, definitions...)
		actions, err := newActions(env.Store(), env.Client(), env.Config.Logger)
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() { done <- actions.Run(t.Context()) }()
		t.Cleanup(func() {
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
		if _, err := actions.AddSchedule(t.Context(), action.Plan{ID: "night", Slug: "report", Target: "report", Cron: "30 2 * * *"}); err != nil {
			t.Fatal(err)
		}
		env.Advance(4 * time.Hour)
		if got := abidetest.Find(env, Report, "report-2000-01-01").Result(); got != "report of 1999-12-31" {
			t.Errorf("got %q", got)
		}
	})
}
