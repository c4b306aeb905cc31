package timer_test

import (
	"math"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/internal/rig"
	"github.com/abidehq/abide/internal/teststore"
	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/store/storetest"
	"github.com/abidehq/abide/timer"
)

func quota(n int) func(*timer.Config) { return func(c *timer.Config) { c.Quota = n } }

// wantFree checks that so many more timers can be armed, and no more.
func (r *fixture) wantFree(n int) {
	r.T.Helper()
	before := r.armed()
	for i := range n {
		if _, err := r.Schedule(r.T.Context(), timer.Request{Tenant: "acme", Key: "free-" + strconv.Itoa(i), Delay: time.Hour}); err != nil {
			r.T.Fatalf("the %d. of %d that should be free: %v", i+1, n, err)
		}
	}
	_, err := r.Schedule(r.T.Context(), timer.Request{Tenant: "acme", Key: "one too many", Delay: time.Hour})
	check.ErrorOf(r.T, "timer", err, timer.ErrQuota, "tenant acme")
	check.Equal(r.T, "armed", r.armed(), before+n)
}

func TestQuotaIsExact(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := newFixture(t, quota(3))
		r.wantFree(3)
		_, err := r.Schedule(t.Context(), timer.Request{Tenant: "acme", Key: "k"})
		check.ErrorOf(t, "timer", err, timer.ErrQuota, "has 3 armed timers and may have 3, so 1 more")
		r.schedule(timer.Request{Tenant: "other", Key: "k", Delay: time.Hour})
	})
}

// TestQuotaIsExactForManyAtOnce: those who come together do not count the same room twice.
func TestQuotaIsExactForManyAtOnce(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := newFixture(t, quota(10))
		var wg sync.WaitGroup
		for i := range 50 {
			wg.Go(func() {
				_, _ = r.Schedule(t.Context(), timer.Request{Tenant: "acme", Key: strconv.Itoa(i), Delay: time.Hour})
			})
		}
		wg.Wait()
		check.Equal(t, "armed", r.armed(), 10)
	})
}

func TestMovingCountsNothing(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := newFixture(t, quota(2))
		r.wantFree(2)
		r.schedule(timer.Request{Key: "free-0", Delay: 2 * time.Hour})
		if _, err := r.Snooze(t.Context(), "acme", "free-1", time.Hour); err != nil {
			t.Error(err)
		}
		if _, err := r.ScheduleAll(t.Context(), []timer.Request{
			{Tenant: "acme", Key: "free-0", Delay: time.Hour}, {Tenant: "acme", Key: "free-1", Delay: time.Hour},
		}); err != nil {
			t.Error(err)
		}
		r.wantFree(0)
	})
}

func TestArmingAgainCounts(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := newFixture(t, quota(2))
		r.run()
		r.schedule(timer.Request{Key: "fired"})
		r.schedule(timer.Request{Key: "cancelled", Delay: time.Hour})
		r.cancel("cancelled")
		rig.Pass(0)
		r.wantFree(2)
		_, err := r.Snooze(t.Context(), "acme", "fired", time.Hour)
		check.ErrorOf(t, "timer", err, timer.ErrQuota, "snooze")
		for _, key := range []string{"fired", "cancelled"} {
			_, err := r.Schedule(t.Context(), timer.Request{Tenant: "acme", Key: key, Delay: time.Hour})
			check.ErrorOf(t, "timer", err, timer.ErrQuota)
		}
		check.Equal(t, "status", r.get("fired").Status, timer.Fired)
		r.cancel("free-0")
		if _, err := r.Snooze(t.Context(), "acme", "fired", time.Hour); err != nil {
			t.Error(err)
		}
		r.wantFree(0)
	})
}

func TestQuotaIsFreed(t *testing.T) {
	for name, free := range map[string]func(*fixture){
		"by firing":     func(*fixture) { rig.Pass(time.Minute) },
		"by cancelling": func(r *fixture) { r.cancel("k00000"); r.cancel("k00001") },
		"by cancelling all": func(r *fixture) {
			if _, err := r.CancelAll(r.T.Context(), timer.Filter{Tenant: "acme", To: r.At(time.Hour)}); err != nil {
				r.T.Error(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			rig.Bubble(t, func(t *testing.T) {
				r := newFixture(t, quota(4))
				r.run()
				requests := many("acme", 4)
				requests[0].Delay, requests[1].Delay = 100*time.Millisecond, 200*time.Millisecond
				if _, err := r.ScheduleAll(t.Context(), requests); err != nil {
					t.Fatal(err)
				}
				r.wantFree(0)
				free(r)
				r.wantFree(2)
			})
		})
	}
}

func TestBulkOverTheQuotaChangesNothing(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := newFixture(t, quota(5))
		r.schedule(timer.Request{Key: "k00000", Delay: 2 * time.Hour})
		requests := append(many("other", 3), many("acme", 6)...)
		_, err := r.ScheduleAll(t.Context(), requests)
		check.ErrorOf(t, "timer", err, timer.ErrQuota, "tenant acme has 1 armed timers and may have 5, so 5 more")
		check.Equal(t, "armed", r.armed(), 1)
		check.Equal(t, "due at", r.get("k00000").DueAt, r.At(2*time.Hour))
		if _, err := r.ScheduleAll(t.Context(), many("acme", 5)); err != nil { // one of which is there
			t.Error(err)
		}
		if _, err := r.ScheduleAll(t.Context(), many("other", 5)); err != nil {
			t.Errorf("what was refused is counted: %v", err)
		}
	})
}

func TestATenantHasItsOwnQuota(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := newFixture(t, func(c *timer.Config) {
			c.Quota = 1
			c.QuotaOf = func(tenant string) int { return map[string]int{"acme": 2, "huge": math.MaxInt}[tenant] }
		})
		r.wantFree(2)
		for _, tenant := range []string{"huge", "any number"} {
			if _, err := r.ScheduleAll(t.Context(), many(tenant, 10)); err != nil {
				t.Errorf("%s: %v", tenant, err)
			}
		}
	})
}

// TestTheLargestQuotaCanBeCounted.
func TestTheLargestQuotaCanBeCounted(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := newFixture(t, quota(store.MaxCount))
		r.schedule(timer.Request{Key: "k", Delay: time.Hour})
	})
}

// TestWhatOthersDoIsCountedAnew: after a minute for sure, and after a second if there
// seems to be no room.
func TestWhatOthersDoIsCountedAnew(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := newFixture(t, quota(5))
		other := newFixtureOn(t, r.Store)
		r.wantFree(5)
		if _, err := other.CancelAll(t.Context(), timer.Filter{Tenant: "acme"}); err != nil {
			t.Fatal(err)
		}
		rig.Pass(time.Second)
		r.wantFree(5)

		r.cancel("free-0")
		r.cancel("free-1")
		other.schedule(timer.Request{Key: "of another", Delay: time.Hour})
		rig.Pass(time.Minute)
		r.wantFree(1)
	})
}

// TestFarMoreThanTheQuotaAreNotForgotten: counting stops at the quota, and what is freed
// is no room as long as there are more.
func TestFarMoreThanTheQuotaAreNotForgotten(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		other := newFixture(t)
		if _, err := other.ScheduleAll(t.Context(), many("acme", 20)); err != nil {
			t.Fatal(err)
		}
		r := newFixtureOn(t, other.Store, quota(5))
		r.wantFree(0)
		for i := range 15 {
			r.cancel("k000" + strconv.Itoa(i/10) + strconv.Itoa(i%10))
			r.wantFree(0)
		}
		r.cancel("k00015")
		r.wantFree(1)
	})
}

// TestAFailedCommitTakesNothing of the quota.
func TestAFailedCommitTakesNothing(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		s := teststore.New(t)
		t.Cleanup(func() { _ = s.Close() })
		fail := true
		faulty := storetest.NewFaulty(s, func(c storetest.Call) storetest.Fault {
			if c.Method == "Commit" && fail {
				return storetest.FailBefore
			}
			return storetest.NoFault
		})
		r := newFixtureOn(t, faulty, quota(2))
		_, err := r.ScheduleAll(t.Context(), many("acme", 2))
		check.ErrorOf(t, "timer", err, storetest.ErrFault)
		fail = false
		synctest.Wait()
		r.wantFree(2)
	})
}
