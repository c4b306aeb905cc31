package main

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/abidetest"
)

func TestAllCanBeHad(t *testing.T) {
	t.Parallel()
	abidetest.Run(t, func(t *testing.T, env *abidetest.Env) {
		env.Register(Trip, Book)
		cancels := abidetest.Stub(env, Cancel, cancel)
		trip := abidetest.Start(env, Trip, []string{"flight", "hotel", "car"})
		if got, want := trip.Result(), []string{"the flight", "the hotel", "the car"}; !slices.Equal(got, want) {
			t.Errorf("the bookings are %q, want %q", got, want)
		}
		if got := cancels.Inputs(); len(got) > 0 {
			t.Errorf("it cancelled %q", got)
		}
	})
}

func TestSoldOut(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name      string
		parts     []string
		cancelled []string
	}{
		{"the last", []string{"flight", "hotel", "balloon"}, []string{"the hotel", "the flight"}},
		{"the first", []string{"balloon", "flight"}, nil},
		{"the only one", []string{"balloon"}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			abidetest.Run(t, func(t *testing.T, env *abidetest.Env) {
				env.Register(Trip, Book)
				cancels := abidetest.Stub(env, Cancel, cancel)
				trip := abidetest.Start(env, Trip, tt.parts)
				if err := trip.Err(); !errors.Is(err, ErrSoldOut) {
					t.Errorf("it ended with %v, want %v", err, ErrSoldOut)
				}
				if got := cancels.Inputs(); !slices.Equal(got, tt.cancelled) {
					t.Errorf("it cancelled %q, want %q", got, tt.cancelled)
				}
			})
		})
	}
}

// A booking is cancelled in the end, and only then the one before it.
func TestCancelIsTriedAgain(t *testing.T) {
	t.Parallel()
	abidetest.Run(t, func(t *testing.T, env *abidetest.Env) {
		env.Register(Trip, Book)
		cancels := abidetest.Stub(env, Cancel, func(ctx context.Context, booking string) (abide.None, error) {
			if info, _ := abide.ActivityOf(ctx); info.Attempt < 10 && booking == "the hotel" {
				return abide.None{}, errors.New("nobody answers the phone")
			}
			return cancel(ctx, booking)
		})
		trip := abidetest.Start(env, Trip, []string{"flight", "hotel", "balloon"})
		if err := trip.Err(); !errors.Is(err, ErrSoldOut) {
			t.Errorf("it ended with %v, want %v", err, ErrSoldOut)
		}
		want := append(slices.Repeat([]string{"the hotel"}, 10), "the flight")
		if got := cancels.Inputs(); !slices.Equal(got, want) {
			t.Errorf("it tried to cancel %q, want %q", got, want)
		}
	})
}
