package timer_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/abidehq/abide/bus"
	"github.com/abidehq/abide/internal/teststore"
	"github.com/abidehq/abide/store/storetest"
	"github.com/abidehq/abide/timer"
)

func retention(d time.Duration) func(*timer.Config) {
	return func(c *timer.Config) { c.Retention = d }
}

// wantGone checks that there is no such timer of acme.
func (r *rig) wantGone(key string) {
	r.t.Helper()
	if got, err := r.Get(r.t.Context(), "acme", key); !errors.Is(err, timer.ErrNotFound) {
		r.t.Errorf("%s is %s, %v; it should be gone", key, got.Status, err)
	}
}

func TestRetentionRemovesWhatIsNotArmed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, retention(time.Hour))
		r.schedule(timer.Request{Key: "cancelled", Delay: 24 * time.Hour})
		r.schedule(timer.Request{Key: "fired", Delay: 30 * time.Minute})
		r.schedule(timer.Request{Key: "armed", Delay: 24 * time.Hour})
		r.cancel("cancelled")
		r.run()
		r.pass(time.Hour)
		wantEqual(t, "status after an hour", r.get("cancelled").Status, timer.Cancelled)
		r.pass(time.Minute)
		r.wantGone("cancelled")
		r.pass(29 * time.Minute)
		wantEqual(t, "status an hour after it fired", r.get("fired").Status, timer.Fired)
		r.pass(time.Minute)
		r.wantGone("fired")
		r.pass(10 * time.Hour)
		wantEqual(t, "status of one that was scheduled long ago", r.get("armed").Status, timer.Armed)
		wantEqual(t, "version of one that is scheduled anew", r.schedule(timer.Request{Key: "fired", Delay: time.Hour}).Version, 1)
	})
}

func TestRetentionIsAWeekUnlessItSaysOtherwise(t *testing.T) {
	for name, tt := range map[string]struct {
		retention time.Duration
		gone      bool
	}{"default": {0, true}, "for ever": {-1, false}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := newRig(t, retention(tt.retention))
				r.schedule(timer.Request{Key: "k"})
				r.run()
				r.pass(7 * 24 * time.Hour)
				r.get("k")
				r.pass(time.Minute)
				if tt.gone {
					r.wantGone("k")
				} else {
					r.get("k")
				}
			})
		})
	}
}

// TestRetentionLeavesWhatIsOverdue: a timer that nobody fires for long is still armed.
func TestRetentionLeavesWhatIsOverdue(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := teststore.New(t)
		t.Cleanup(func() { _ = s.Close() })
		r := newRigOn(t, storetest.NewFaulty(s, func(c storetest.Call) storetest.Fault {
			if c.Method == "Claim" {
				return storetest.FailBefore
			}
			return storetest.NoFault
		}), retention(time.Hour))
		r.schedule(timer.Request{Key: "k"})
		r.run()
		r.pass(3 * time.Hour)
		wantEqual(t, "status", r.get("k").Status, timer.Armed)
	})
}

// TestRetentionGoesOnInSmallCommits, so that others are not kept waiting.
func TestRetentionGoesOnInSmallCommits(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := teststore.New(t)
		t.Cleanup(func() { _ = s.Close() })
		commits := 0
		r := newRigOn(t, storetest.NewFaulty(s, func(c storetest.Call) storetest.Fault {
			if c.Method == "Commit" {
				commits++
			}
			return storetest.NoFault
		}), retention(time.Hour))
		if _, err := r.ScheduleAll(t.Context(), many("acme", 1200)); err != nil {
			t.Fatal(err)
		}
		if _, err := r.CancelAll(t.Context(), timer.Filter{Tenant: "acme"}); err != nil {
			t.Fatal(err)
		}
		commits = 0
		r.run()
		r.pass(2 * time.Hour)
		wantEqual(t, "commits", commits, 3)
		wantEqual(t, "timers that are left", r.keys(timer.Cancelled), "")
	})
}

// TestWhatIsArmedAgainDuringTheSweepSurvives, and the others are removed all the same.
func TestWhatIsArmedAgainDuringTheSweepSurvives(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := teststore.New(t)
		t.Cleanup(func() { _ = s.Close() })
		other := newRigOn(t, s)
		sweeping := false
		r := newRigOn(t, storetest.NewFaulty(s, func(c storetest.Call) storetest.Fault {
			if c.Method == "Commit" && !sweeping {
				sweeping = true
				other.schedule(timer.Request{Key: "k3", Delay: 24 * time.Hour})
			}
			return storetest.NoFault
		}), retention(time.Hour))
		for i := range 8 {
			key := fmt.Sprintf("k%d", i)
			other.schedule(timer.Request{Key: key, Delay: time.Hour})
			other.cancel(key)
		}
		r.run()
		r.pass(2 * time.Hour)
		wantEqual(t, "swept", sweeping, true)
		wantEqual(t, "armed", r.keys(timer.Armed), "k3")
		wantEqual(t, "cancelled", r.keys(timer.Cancelled), "")
		r.pass(24 * time.Hour)
		wantEqual(t, "envelopes", r.sink.count(), 1)
	})
}

// TestAnOldEnvelopeLeavesANewTimerAlone: a timer that was removed and scheduled anew may
// have the version that the old one had when it fired.
func TestAnOldEnvelopeLeavesANewTimerAlone(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, retention(time.Hour))
		r.sink.set(func(bus.Envelope) error { return bus.ErrPermanent })
		r.run()
		r.schedule(timer.Request{Key: "k"})
		r.pass(2 * time.Hour)
		r.wantGone("k")
		r.sink.set(nil)
		r.schedule(timer.Request{Key: "k", Delay: time.Hour})
		r.schedule(timer.Request{Key: "k", Delay: 2 * time.Hour})
		r.redrive()
		r.pass(0)
		wantEqual(t, "envelopes", r.sink.count(), 1)
		wantEqual(t, "status", r.get("k").Status, timer.Armed)
		r.pass(2 * time.Hour)
		wantEqual(t, "envelopes", r.sink.count(), 2)
	})
}
