package lease_test

import (
	"context"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/internal/lease"
	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/store/storetest"
)

// silent is a store that does not answer a renewal while it is told to be silent.
type silent struct {
	store.Store
	now bool
}

func (s *silent) Renew(ctx context.Context, d time.Duration, leases []store.Lease) ([]store.Lease, error) {
	if s.now {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return s.Store.Renew(ctx, d, leases)
}

// TestWhoIsCutOffIsToldInTime: a lease that cannot be renewed is lost before it has ended in
// the store, and with that before anybody else can have it; but not long before.
func TestWhoIsCutOffIsToldInTime(t *testing.T) {
	for name, cut := range map[string]func(r *rig, s *silent){
		"all calls fail": func(r *rig, _ *silent) {
			r.faulty.Plan(func(storetest.Call) storetest.Fault { return storetest.FailBefore })
		},
		"nobody answers": func(_ *rig, s *silent) { s.now = true },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				s := &silent{Store: r.faulty}
				r.keeper = lease.NewKeeper(lease.Config{Store: s, Clock: base.System{}, Logger: slog.New(slog.DiscardHandler), Lease: lasts})
				l := r.claim("a")[0]
				lost := time.Time{}
				r.keeper.Keep(l, func() { lost = time.Now() })
				pass(time.Minute) // it was renewed at the end of it
				cut(r, s)
				end := time.Now().Add(lasts)
				for r.live(l) {
					pass(time.Millisecond)
				}
				if over := time.Now(); over.Before(end) {
					t.Fatalf("the lease has ended at %v, and was to last until %v", over, end)
				}
				if lost.IsZero() || !lost.Before(end) {
					t.Errorf("its holder was told at %v, and the lease has ended at %v", lost, end)
				}
				if lost.Before(end.Add(-lasts / 5)) {
					t.Errorf("its holder was told %v before the end: there was time to try again", end.Sub(lost))
				}
			})
		})
	}
}

// TestWhoIsCutOffForAWhileKeepsItsLease: an answer that comes at the last moment is one.
func TestWhoIsCutOffForAWhileKeepsItsLease(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		l := r.claim("a")[0]
		r.keeper.Keep(l, func() { t.Error("it is said to be lost") })
		for range 10 {
			pass(time.Minute)
			r.faulty.Plan(func(storetest.Call) storetest.Fault { return storetest.FailBefore })
			pass(lasts * 2 / 5)
			r.faulty.Plan(nil)
		}
		pass(time.Minute)
		if !r.live(l) {
			t.Error("the lease is over")
		}
	})
}

// TestKeeperThatIsStuck: leases are given up in time although a renewal never returns, also
// one that was claimed meanwhile.
func TestKeeperThatIsStuck(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		s := &stuck{Store: r.store, over: make(chan struct{})}
		defer close(s.over)
		r.keeper = lease.NewKeeper(lease.Config{Store: s, Clock: base.System{}, Logger: slog.New(slog.DiscardHandler), Lease: lasts})
		for _, name := range []string{"a", "b"} {
			began := time.Now()
			var lost time.Duration
			c := r.claim(name)[0]
			r.keeper.Keep(c, func() { lost = time.Since(began) })
			pass(lasts - time.Millisecond)
			r.delete(c)
			if lost == 0 || lost >= lasts || lost < lasts*4/5 {
				t.Errorf("the holder of %s was told after %v, the lease lasts for %v", name, lost, lasts)
			}
		}
	})
}

// stuck is a store whose renewals return when it is over.
type stuck struct {
	store.Store
	over chan struct{}
}

func (s *stuck) Renew(context.Context, time.Duration, []store.Lease) ([]store.Lease, error) {
	<-s.over
	return nil, nil
}

// TestLateClaims: a lease is counted from when it was claimed, not from when the keeper was
// told, and is renewed at once if much of it is over.
func TestLateClaims(t *testing.T) {
	for _, late := range []time.Duration{lasts / 4, lasts * 3 / 4} {
		t.Run(late.String(), func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				first := r.claim("first")[0] // by which the keeper knows how late it is there
				r.keeper.Keep(first, nil)
				r.keeper.Drop(first.Lease())
				r.delete(first)
				pass(time.Minute)
				calls := r.faulty.Calls()
				r.faulty.Plan(func(storetest.Call) storetest.Fault { return storetest.FailBefore })
				began := time.Now()
				c := r.claim("a")[0]
				pass(late)
				var lost time.Time
				r.keeper.Keep(c, func() { lost = time.Now() })
				pass(time.Millisecond)
				if n := r.faulty.Calls() - calls; (n == 1) != (late > lasts/2) {
					t.Errorf("%d renewals at once", n)
				}
				pass(lasts)
				if over := lost.Sub(began); lost.IsZero() || over >= lasts || over < lasts*4/5 {
					t.Errorf("given up %v after it was claimed, the lease lasts for %v", over, lasts)
				}
			})
		})
	}
}

// TestClocksThatDiffer: the store's clock may show another time, and may be set.
func TestClocksThatDiffer(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		for _, ahead := range []time.Duration{-time.Hour, time.Hour, -24 * time.Hour, 0, 0} {
			c := r.claim("a")[0]
			c.Now = c.Now.Add(ahead)
			calls := r.faulty.Calls()
			r.keeper.Keep(c, func() { t.Errorf("%v ahead: it is said to be lost", ahead) })
			pass(time.Minute)
			if n := r.faulty.Calls() - calls; n > 8 {
				t.Errorf("%d renewals in a minute", n)
			}
			if !r.live(c) {
				t.Errorf("%v ahead: the lease is over", ahead)
			}
			r.keeper.Drop(c.Lease())
			pass(time.Minute)
			r.delete(c)
		}
	})
}

// held is a store in which one lease cannot be renewed.
type held struct {
	store.Store
	lease store.Lease
}

func (s *held) Renew(ctx context.Context, d time.Duration, leases []store.Lease) ([]store.Lease, error) {
	i := slices.Index(leases, s.lease)
	if i < 0 {
		return s.Store.Renew(ctx, d, leases)
	}
	lost, err := s.Store.Renew(ctx, d, slices.Delete(slices.Clone(leases), i, i+1))
	if err != nil {
		return nil, err
	}
	return lost, &store.NotRenewedError{Leases: []store.Lease{s.lease}}
}

// TestOneLeaseThatCannotBeRenewed: it is lost in time, and the others are kept.
func TestOneLeaseThatCannotBeRenewed(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		leases := r.claim("a", "b", "c")
		r.keeper = lease.NewKeeper(lease.Config{
			Store: &held{r.store, leases[1].Lease()}, Clock: base.System{}, Logger: slog.New(slog.DiscardHandler), Lease: lasts,
		})
		end := time.Now().Add(lasts)
		lost := map[*store.Claim]time.Time{}
		for _, l := range leases {
			r.keeper.Keep(l, func() { lost[l] = time.Now() })
		}
		pass(5 * time.Minute)
		if at := lost[leases[1]]; len(lost) != 1 || at.IsZero() || !at.Before(end) || at.Before(end.Add(-lasts/5)) {
			t.Errorf("lost: %v, want the one that cannot be renewed, shortly before %v", lost, end)
		}
		if !r.live(leases[0]) || !r.live(leases[2]) {
			t.Error("a lease that could be renewed has ended")
		}
	})
}
