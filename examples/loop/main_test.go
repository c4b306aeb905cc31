package main

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/abidetest"
)

const day = 24 * time.Hour

func TestReports(t *testing.T) {
	t.Parallel()
	abidetest.Run(t, func(t *testing.T, env *abidetest.Env) {
		env.Register(Reports)
		sent := abidetest.Stub(env, Send, send)
		begin := env.Now().UTC().Truncate(day)
		instance := abidetest.Start(env, Reports, Schedule{Every: day})
		env.Advance(25*day + time.Hour)
		want := make([]Report, 25)
		for i := range want {
			want[i] = Report{Number: i + 1, Due: begin.Add(time.Duration(i+1) * day)}
		}
		if got := sent.Inputs(); !slices.Equal(got, want) {
			t.Errorf("after 25 days the reports are %v, want %v", got, want)
		}
		if info := instance.Info(); info.Execution != 3 {
			t.Errorf("it is execution %d after 25 reports, want 3", info.Execution)
		}
		if err := env.Client().Cancel(t.Context(), instance.Ref(), "nobody reads them"); err != nil {
			t.Fatal(err)
		}
		if err := instance.Err(); !errors.Is(err, abide.ErrCancelled) {
			t.Errorf("it ended with %v, want %v", err, abide.ErrCancelled)
		}
	})
}

// After four days of absence one report is made up for, and the next one is on time.
func TestReportsAfterPause(t *testing.T) {
	t.Parallel()
	abidetest.Run(t, func(t *testing.T, env *abidetest.Env) {
		env.Register(Reports)
		sent := abidetest.Stub(env, Send, send)
		begin := env.Now().UTC().Truncate(day)
		instance := abidetest.Start(env, Reports, Schedule{Every: day})
		env.Advance(time.Hour)
		if err := env.Client().Suspend(t.Context(), instance.Ref(), "nobody is there"); err != nil {
			t.Fatal(err)
		}
		env.Advance(4 * day)
		if err := env.Client().Resume(t.Context(), instance.Ref()); err != nil {
			t.Fatal(err)
		}
		env.Advance(day - time.Hour/2)
		want := []Report{{1, begin.Add(day)}, {2, begin.Add(5 * day)}}
		if got := sent.Inputs(); !slices.Equal(got, want) {
			t.Errorf("the reports are %v, want %v", got, want)
		}
	})
}
