package timer_test

import (
	"context"
	"testing"
	"time"

	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/internal/rig"
	"github.com/abidehq/abide/internal/teststore"
	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/store/storetest"
	"github.com/abidehq/abide/timer"
)

func TestADueTimeInThePastFiresAtOnce(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := newFixture(t)
		r.run()
		rig.Pass(time.Hour)
		for key, due := range map[string]time.Time{
			"a minute ago": r.At(59 * time.Minute), "now": r.At(time.Hour), "long ago": time.Date(1066, 10, 14, 9, 0, 0, 0, time.UTC),
			"1970": time.Unix(0, 0), "a nanosecond after 1970": time.Unix(0, 1),
		} {
			told := r.schedule(timer.Request{Key: key, DueAt: due})
			rig.Pass(0)
			got := r.get(key)
			check.Equal(t, key+": status", got.Status, timer.Fired)
			check.Equal(t, key+": fired at", got.FiredAt, r.At(time.Hour))
			check.Equal(t, key+": due at", got.DueAt, told.DueAt)
			if epoch := time.UnixMilli(1); due.After(epoch) {
				check.Equal(t, key+": due at", got.DueAt, due)
			} else {
				check.Equal(t, key+": due at", got.DueAt, epoch)
			}
		}
		r.schedule(timer.Request{Key: "no time and no delay"})
		rig.Pass(0)
		check.Equal(t, "status", r.get("no time and no delay").Status, timer.Fired)
	})
}

// TestADueTimeIsRoundedUp: to the millisecond, a timer is never early.
func TestADueTimeIsRoundedUp(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := newFixture(t)
		r.run()
		for _, tt := range []struct{ due, want time.Duration }{
			{10 * time.Millisecond, 10 * time.Millisecond},
			{20*time.Millisecond + 1, 21 * time.Millisecond},
			{30*time.Millisecond - 1, 30 * time.Millisecond},
		} {
			// Another zone changes nothing.
			told := r.schedule(timer.Request{Key: tt.due.String(), DueAt: r.At(tt.due).In(time.FixedZone("", 3600))})
			check.Equal(t, "due at", told.DueAt, r.At(tt.want))
			check.Equal(t, "zone", told.DueAt.Location(), time.UTC)
			rig.Pass(tt.want - time.Since(r.Began) - 1)
			check.Equal(t, tt.due.String()+": status a nanosecond before", r.get(tt.due.String()).Status, timer.Armed)
			rig.Pass(1)
			check.Equal(t, tt.due.String()+": status", r.get(tt.due.String()).Status, timer.Fired)
		}
	})
}

// TestADelayIsNeverShortened: it begins when it was asked for, and not with the
// millisecond of that.
func TestADelayIsNeverShortened(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := newFixture(t)
		r.run()
		rig.Pass(700 * time.Microsecond)
		told := r.schedule(timer.Request{Key: "k", Delay: 10 * time.Millisecond})
		check.Equal(t, "due at", told.DueAt, r.At(11*time.Millisecond))
		check.Equal(t, "registered at", told.RegisteredAt, r.Began)
		snoozed, err := r.Snooze(t.Context(), "acme", "k", 500*time.Microsecond)
		check.OK(t, err)
		check.Equal(t, "due at", snoozed.DueAt, r.At(12*time.Millisecond))
	})
}

// TestADelayIsCountedByTheStoresClock: that of the process may be minutes off, and go on
// to be so.
func TestADelayIsCountedByTheStoresClock(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for name, off := range map[string]time.Duration{"late": -7 * time.Minute, "early": 7 * time.Minute, "right": 0} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			storeClock, ownClock := base.NewManual(noon), base.NewManual(noon.Add(off))
			s := teststore.NewWithClock(t, storeClock)
			t.Cleanup(func() { _ = s.Close() })
			r := newFixtureOn(t, s, func(c *timer.Config) { c.Clock = ownClock })
			told := r.schedule(timer.Request{Key: "k", Delay: time.Hour})
			check.Equal(t, "due at", told.DueAt, noon.Add(time.Hour))
			check.Equal(t, "registered at", told.RegisteredAt, noon)

			// The clock of the process is set.
			ownClock.Advance(20 * time.Minute)
			storeClock.Advance(time.Minute)
			told = r.schedule(timer.Request{Key: "k2", Delay: time.Hour})
			check.Equal(t, "due at", told.DueAt, noon.Add(61*time.Minute))
			if told, err := r.Cancel(t.Context(), "acme", "k2"); err != nil || !told.CancelledAt.Equal(noon.Add(time.Minute)) {
				t.Errorf("cancelled at %v, %v; want %v", told.CancelledAt, err, noon.Add(time.Minute))
			}

			if t.Failed() {
				return // it would never fire
			}
			r.run()
			storeClock.Advance(59*time.Minute - time.Millisecond)
			check.Equal(t, "status a millisecond before", r.get("k").Status, timer.Armed)
			storeClock.Advance(time.Millisecond)
			if _, err := s.Await(t.Context(), store.RecordKey{Kind: "timer", Tenant: "acme", ID: "k"}, 1); err != nil {
				t.Fatal(err)
			}
			check.Equal(t, "fired at", r.get("k").FiredAt, noon.Add(time.Hour))
		})
	}
}

// TestTheStoresTimeIsAskedForUntilItIsTold: one caller who gave up does not leave the
// others with a wrong clock.
func TestTheStoresTimeIsAskedForUntilItIsTold(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	s := teststore.NewWithClock(t, base.NewManual(noon))
	t.Cleanup(func() { _ = s.Close() })
	asked := 0
	faulty := storetest.NewFaulty(s, func(c storetest.Call) storetest.Fault {
		if c.Method != "Stats" {
			return storetest.NoFault
		}
		if asked++; asked == 1 {
			return storetest.FailBefore
		}
		return storetest.NoFault
	})
	r := newFixtureOn(t, faulty, func(c *timer.Config) { c.Clock = base.NewManual(noon.Add(time.Hour)) })
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	_, _ = r.Schedule(gone, timer.Request{Tenant: "acme", Key: "k", Delay: time.Hour})
	check.Equal(t, "due at", r.schedule(timer.Request{Key: "k", Delay: time.Hour}).DueAt, noon.Add(time.Hour))
	r.schedule(timer.Request{Key: "k", Delay: time.Hour})
	check.Equal(t, "times that it was asked for", asked, 2)
}

// TestRunsOfServicesTakeTurns: timers that became due while no service ran fire at once when one
// does, and report how late they are.
func TestRunsOfServicesTakeTurns(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := newFixture(t)
		stop := r.run()
		r.schedule(timer.Request{Key: "k", Delay: time.Hour})
		stop()
		rig.Pass(24 * time.Hour)
		check.Equal(t, "status", r.get("k").Status, timer.Armed)
		r.run()
		rig.Pass(0)
		got := r.get("k")
		check.Equal(t, "due at", got.DueAt, r.At(time.Hour))
		check.Equal(t, "fired at", got.FiredAt, r.At(24*time.Hour))
	})
}
