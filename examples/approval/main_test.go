package main

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/abidetest"
)

const (
	day     = 24 * time.Hour
	lead    = "team lead"
	manager = "manager"
)

var report = Report{Items: []Item{
	{"a train ticket", 8900, []string{lead, manager}, day},
	{"a dinner", 4200, []string{lead, manager}, day},
}}

func TestSettle(t *testing.T) {
	t.Parallel()
	type answer struct {
		after time.Duration
		item  int
		yes   bool
	}
	tests := []struct {
		name    string
		answers []answer
		cents   int
		took    time.Duration
		asked   []string // about the train ticket
	}{
		{"at once", []answer{{0, 1, true}, {0, 2, true}}, 13100, 0, []string{lead}},
		{"one of two", []answer{{time.Hour, 1, true}, {2 * time.Hour, 2, false}}, 8900, 2 * time.Hour, []string{lead}},
		{"after a reminder", []answer{{time.Hour, 2, true}, {30 * time.Hour, 1, true}}, 13100, 30 * time.Hour, []string{lead, lead}},
		{"after the escalation", []answer{{time.Hour, 2, false}, {80 * time.Hour, 1, true}}, 8900, 80 * time.Hour, []string{lead, lead, lead, manager}},
		{"never", nil, 0, 6 * day, []string{lead, lead, lead, manager, manager, manager}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			abidetest.Run(t, func(t *testing.T, env *abidetest.Env) {
				env.Register(Settle, Approve)
				questions := abidetest.Stub(env, Ask, ask)
				begin := env.Now()
				instance := abidetest.Start(env, Settle, report, abide.ID("report-1"))
				for _, a := range tt.answers {
					env.After(a.after, func() { abidetest.Raise(env, Decided, fmt.Sprintf("report-1/%d", a.item), a.yes) })
				}
				if cents := instance.Result(); cents != tt.cents {
					t.Errorf("the employee gets %d, want %d", cents, tt.cents)
				}
				if took := env.Now().Sub(begin); took != tt.took {
					t.Errorf("it took %v, want %v", took, tt.took)
				}
				var asked []string
				for _, q := range questions.Inputs() {
					if q.What == "a train ticket" {
						asked = append(asked, q.Approver)
					}
				}
				if !slices.Equal(asked, tt.asked) {
					t.Errorf("asked were %q, want %q", asked, tt.asked)
				}
			})
		})
	}
}

// Who cancels the report cancels its items with it.
func TestCancelReachesItems(t *testing.T) {
	t.Parallel()
	abidetest.Run(t, func(t *testing.T, env *abidetest.Env) {
		env.Register(Settle, Approve, Ask)
		instance := abidetest.Start(env, Settle, report, abide.ID("report-1"))
		env.Advance(day / 2)
		if err := env.Client().Cancel(t.Context(), instance.Ref(), "handed in twice"); err != nil {
			t.Fatal(err)
		}
		if err := instance.Err(); !errors.Is(err, abide.ErrCancelled) {
			t.Errorf("the report ended with %v, want %v", err, abide.ErrCancelled)
		}
		if err := abidetest.Find(env, Approve, "report-1/1").Err(); !errors.Is(err, abide.ErrCancelled) {
			t.Errorf("the item ended with %v, want %v", err, abide.ErrCancelled)
		}
	})
}
