package base

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

func TestPaceWaitsAfterAPortionThatIsNotSmall(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		took int
		idle time.Duration // before the next portion
		want time.Duration // that it waits
	}{
		{"nothing", 0, 0, 0},
		{"a small portion", smallPortion, 0, 0},
		{"more than that", smallPortion + 1, 0, 5 * time.Second},
		{"more, some time ago", smallPortion + 1, 3 * time.Second, 2 * time.Second},
		{"more, long ago", smallPortion + 1, time.Minute, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := Pace{Clock: System{}, Every: 5 * time.Second}
				p.Took(100)
				p.Took(tt.took) // only the last one counts
				_ = Sleep(t.Context(), System{}, tt.idle)
				began := time.Now()
				p.Wait(t.Context())
				if waited := time.Since(began); waited != tt.want {
					t.Errorf("it waited for %v, want %v", waited, tt.want)
				}
			})
		})
	}
}

func TestPaceEndsWithItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := Pace{Clock: System{}, Every: time.Hour}
		p.Took(100)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		p.Wait(ctx)
		if waited := time.Since(began); waited != time.Second {
			t.Errorf("it waited for %v, want a second", waited)
		}
	})
}
