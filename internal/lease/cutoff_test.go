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
				r.keeper = lease.NewKeeper(s, base.System{}, slog.New(slog.DiscardHandler), lasts)
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
		r.keeper = lease.NewKeeper(&held{r.store, leases[1]}, base.System{}, slog.New(slog.DiscardHandler), lasts)
		end := time.Now().Add(lasts)
		lost := map[store.Lease]time.Time{}
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
