package base

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestSleepEndsWithItsTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		if err := Sleep(t.Context(), System{}, time.Hour); err != nil || time.Since(began) != time.Hour {
			t.Errorf("it slept for %v, %v", time.Since(began), err)
		}
		for _, d := range []time.Duration{0, -1} {
			if err := Sleep(t.Context(), System{}, d); err != nil || time.Since(began) != time.Hour {
				t.Errorf("a sleep of %v took until %v, %v", d, time.Since(began), err)
			}
		}
	})
}

func TestSleepEndsWithItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := Sleep(ctx, System{}, time.Hour); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Minute {
			t.Errorf("it slept for %v, %v", time.Since(began), err)
		}
		for _, d := range []time.Duration{0, time.Hour} {
			if err := Sleep(ctx, System{}, d); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Minute {
				t.Errorf("a sleep of %v after the end took until %v, %v", d, time.Since(began), err)
			}
		}
	})
}

// TestSleepLeavesNoAlarm when its context has ended.
func TestSleepLeavesNoAlarm(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		clock := NewManual(noon)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- Sleep(ctx, clock, time.Hour) }()
		synctest.Wait()
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("error %v", err)
		}
		if len(clock.alarms) != 0 {
			t.Errorf("%d alarms are left", len(clock.alarms))
		}
	})
}
