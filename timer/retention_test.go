package timer_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/abidehq/abide/bus"
	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/internal/rig"
	"github.com/abidehq/abide/internal/teststore"
	"github.com/abidehq/abide/store/storetest"
	"github.com/abidehq/abide/timer"
)

func retention(d time.Duration) func(*timer.Config) {
	return func(c *timer.Config) { c.Retention = d }
}

// wantGone checks that there is no such timer of acme.
func (r *fixture) wantGone(key string) {
	r.T.Helper()
	if got, err := r.Get(r.T.Context(), "acme", key); !errors.Is(err, timer.ErrNotFound) {
		r.T.Errorf("%s is %s, %v; it should be gone", key, got.Status, err)
	}
}

func TestRetentionRemovesWhatIsNotArmed(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := newFixture(t, retention(time.Hour))
		r.schedule(timer.Request{Key: "cancelled", Delay: 24 * time.Hour})
		r.schedule(timer.Request{Key: "fired", Delay: 30 * time.Minute})
		r.schedule(timer.Request{Key: "armed", Delay: 24 * time.Hour})
		r.cancel("cancelled")
		r.run()
		rig.Pass(time.Hour)
		check.Equal(t, "status after an hour", r.get("cancelled").Status, timer.Cancelled)
		rig.Pass(time.Minute)
		r.wantGone("cancelled")
		rig.Pass(29 * time.Minute)
		check.Equal(t, "status an hour after it fired", r.get("fired").Status, timer.Fired)
		rig.Pass(time.Minute)
		r.wantGone("fired")
		rig.Pass(10 * time.Hour)
		check.Equal(t, "status of one that was scheduled long ago", r.get("armed").Status, timer.Armed)
		check.Equal(t, "version of one that is scheduled anew", r.schedule(timer.Request{Key: "fired", Delay: time.Hour}).Version, 1)
	})
}

func TestRetentionIsAWeekUnlessItSaysOtherwise(t *testing.T) {
	for name, tt := range map[string]struct {
		retention time.Duration
		gone      bool
	}{"default": {0, true}, "for ever": {-1, false}} {
		t.Run(name, func(t *testing.T) {
			rig.Bubble(t, func(t *testing.T) {
				r := newFixture(t, retention(tt.retention))
				r.schedule(timer.Request{Key: "k"})
				r.run()
				rig.Pass(7 * 24 * time.Hour)
				r.get("k")
				rig.Pass(time.Minute)
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
	rig.Bubble(t, func(t *testing.T) {
		s := teststore.New(t)
		t.Cleanup(func() { _ = s.Close() })
		r := newFixtureOn(t, storetest.NewFaulty(s, func(c storetest.Call) storetest.Fault {
			if c.Method == "Claim" {
				return storetest.FailBefore
			}
			return storetest.NoFault
		}), retention(time.Hour))
		r.schedule(timer.Request{Key: "k"})
		r.run()
		rig.Pass(3 * time.Hour)
		check.Equal(t, "status", r.get("k").Status, timer.Armed)
	})
}

// TestRetentionGoesOnInSmallCommits, so that others are not kept waiting.
func TestRetentionGoesOnInSmallCommits(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		s := teststore.New(t)
		t.Cleanup(func() { _ = s.Close() })
		commits := 0
		r := newFixtureOn(t, storetest.NewFaulty(s, func(c storetest.Call) storetest.Fault {
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
		rig.Pass(2 * time.Hour)
		check.Equal(t, "commits", commits, 3)
		check.Equal(t, "timers that are left", r.keys(timer.Cancelled), "")
	})
}

// TestWhatIsArmedAgainDuringTheSweepSurvives, and the others are removed all the same.
func TestWhatIsArmedAgainDuringTheSweepSurvives(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		s := teststore.New(t)
		t.Cleanup(func() { _ = s.Close() })
		other := newFixtureOn(t, s)
		sweeping := false
		r := newFixtureOn(t, storetest.NewFaulty(s, func(c storetest.Call) storetest.Fault {
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
		rig.Pass(2 * time.Hour)
		check.Equal(t, "swept", sweeping, true)
		check.Equal(t, "armed", r.keys(timer.Armed), "k3")
		check.Equal(t, "cancelled", r.keys(timer.Cancelled), "")
		rig.Pass(24 * time.Hour)
		check.Equal(t, "envelopes", len(r.sink.Accepted()), 1)
	})
}

// TestAnOldEnvelopeLeavesANewTimerAlone: a timer that was removed and scheduled anew may
// have the version that the old one had when it fired.
func TestAnOldEnvelopeLeavesANewTimerAlone(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := newFixture(t, retention(time.Hour))
		r.sink.Refuse(func(bus.Envelope) error { return bus.ErrPermanent })
		r.run()
		r.schedule(timer.Request{Key: "k"})
		rig.Pass(2 * time.Hour)
		r.wantGone("k")
		r.sink.Refuse(nil)
		r.schedule(timer.Request{Key: "k", Delay: time.Hour})
		r.schedule(timer.Request{Key: "k", Delay: 2 * time.Hour})
		r.Redrive()
		rig.Pass(0)
		check.Equal(t, "envelopes", len(r.sink.Accepted()), 1)
		check.Equal(t, "status", r.get("k").Status, timer.Armed)
		rig.Pass(2 * time.Hour)
		check.Equal(t, "envelopes", len(r.sink.Accepted()), 2)
	})
}
