package main

import (
	"errors"
	"testing"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/abidetest"
)

var teapot = Order{Item: "a teapot", Cents: 2500, RemindEvery: 24 * time.Hour}

func TestApproved(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name      string
		after     time.Duration
		reminders int
	}{
		{"in time", 5 * time.Hour, 0},
		{"after a reminder", 30 * time.Hour, 1},
		{"at the last moment", 96*time.Hour - time.Millisecond, 3},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			abidetest.Run(t, func(t *testing.T, env *abidetest.Env) {
				env.Register(Place)
				reminders := abidetest.Stub(env, Remind, remind)
				charges := abidetest.Stub(env, Charge, charge)
				parcels := abidetest.Stub(env, Ship, ship)
				begin := env.Now()
				order := abidetest.Start(env, Place, teapot)
				env.After(tt.after, func() { abidetest.Raise(env, Approved, order.ID(), "the manager") })
				if receipt := order.Result(); receipt.ApprovedBy != "the manager" || receipt.Parcel != "parcel with a teapot" {
					t.Errorf("the receipt is %+v", receipt)
				}
				if took := env.Now().Sub(begin); took != tt.after {
					t.Errorf("it took %v, want %v", took, tt.after)
				}
				if reminders.Calls() != tt.reminders || charges.Calls() != 1 || parcels.Calls() != 1 {
					t.Errorf("%d reminders, want %d; %d charges and %d parcels, want 1 of each",
						reminders.Calls(), tt.reminders, charges.Calls(), parcels.Calls())
				}
			})
		})
	}
}

func TestApprovedBeforeItIsPlaced(t *testing.T) {
	t.Parallel()
	abidetest.Run(t, func(t *testing.T, env *abidetest.Env) {
		env.Register(Place, Remind, Charge, Ship)
		abidetest.Raise(env, Approved, "order-1", "the director")
		env.Advance(time.Hour)
		order := abidetest.Start(env, Place, teapot, abide.ID("order-1"))
		if receipt := order.Result(); receipt.ApprovedBy != "the director" {
			t.Errorf("the receipt is %+v", receipt)
		}
	})
}

func TestNotApproved(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name      string
		cancel    time.Duration // when the customer changes their mind, if ever
		err       error
		took      time.Duration
		reminders int
	}{
		{"nobody decides", 0, ErrNotApproved, 96 * time.Hour, 3},
		{"the customer cancels", 50 * time.Hour, abide.ErrCancelled, 50 * time.Hour, 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			abidetest.Run(t, func(t *testing.T, env *abidetest.Env) {
				env.Register(Place)
				reminders := abidetest.Stub(env, Remind, remind)
				charges := abidetest.Stub(env, Charge, charge)
				begin := env.Now()
				order := abidetest.Start(env, Place, teapot)
				if tt.cancel > 0 {
					env.Advance(tt.cancel)
					if err := env.Client().Cancel(t.Context(), order.Ref(), "the customer has changed their mind"); err != nil {
						t.Fatal(err)
					}
				}
				if err := order.Err(); !errors.Is(err, tt.err) {
					t.Errorf("it ended with %v, want %v", err, tt.err)
				}
				if took := env.Now().Sub(begin); took != tt.took {
					t.Errorf("it took %v, want %v", took, tt.took)
				}
				if reminders.Calls() != tt.reminders || charges.Calls() != 0 {
					t.Errorf("%d reminders, want %d; %d charges, want none", reminders.Calls(), tt.reminders, charges.Calls())
				}
			})
		})
	}
}
