package main

import (
	"testing"
	"time"

	"github.com/abidehq/abide/abidetest"
)

const day = 24 * time.Hour

func TestTrial(t *testing.T) {
	t.Parallel()
	type act struct {
		day    int    // of the trial
		plan   string // that the customer subscribes to, or
		extend int    // the day to which an operator moves the end
	}
	tests := []struct {
		name string
		acts []act
		plan string
		took time.Duration
	}{
		{"expires", nil, "none", 14 * day},
		{"subscribes", []act{{day: 10, plan: "basic"}}, "basic", 10 * day},
		{"is extended", []act{{day: 13, extend: 21}}, "none", 21 * day},
		{"is extended twice", []act{{day: 13, extend: 21}, {day: 20, extend: 30}}, "none", 30 * day},
		{"subscribes after the extension", []act{{day: 13, extend: 21}, {day: 20, plan: "gold"}}, "gold", 20 * day},
		{"is cut short", []act{{day: 5, extend: 7}}, "none", 7 * day},
		{"is over at once", []act{{day: 5, extend: 2}}, "none", 5 * day},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			abidetest.Run(t, func(t *testing.T, env *abidetest.Env) {
				env.Register(Trial)
				locks := abidetest.Stub(env, Lock, lock)
				begin := env.Now()
				on := func(n int) time.Time { return begin.Add(time.Duration(n) * day) }
				account := abidetest.Start(env, Trial, Account{Customer: "the customer", Day: day})
				for _, act := range tt.acts {
					env.At(on(act.day), func() {
						if act.plan != "" {
							abidetest.Raise(env, Subscribed, account.ID(), act.plan)
						} else if err := extend(t.Context(), env.Client(), account.ID(), on(act.extend)); err != nil {
							t.Error(err)
						}
					})
				}
				if plan := account.Result(); plan != tt.plan {
					t.Errorf("the plan is %q, want %q", plan, tt.plan)
				}
				if took := env.Now().Sub(begin); took != tt.took {
					t.Errorf("it took %v, want %v", took, tt.took)
				}
				locked := 0
				if tt.plan == "none" {
					locked = 1
				}
				if locks.Calls() != locked {
					t.Errorf("the account was locked %d times, want %d", locks.Calls(), locked)
				}
			})
		})
	}
}
