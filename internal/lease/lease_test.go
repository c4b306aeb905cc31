package lease_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/internal/lease"
	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/store/memstore"
	"github.com/abidehq/abide/store/storetest"
)

// lasts is how long a lease lasts.
const lasts = 30 * time.Second

// rig is a keeper of leases on a store, in virtual time, and what counts its calls.
type rig struct {
	t      *testing.T
	store  *memstore.Store
	faulty *storetest.Faulty
	keeper *lease.Keeper
}

func bubble(t *testing.T, f func(t *testing.T, r *rig)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New(memstore.Options{})
		t.Cleanup(func() { _ = s.Close() })
		r := &rig{t: t, store: s, faulty: storetest.NewFaulty(s, nil)}
		r.keeper = lease.NewKeeper(lease.Config{Store: r.faulty, Clock: base.System{}, Logger: slog.New(slog.DiscardHandler), Lease: lasts})
		f(t, r)
	})
}

// claim puts messages, and claims them.
func (r *rig) claim(names ...string) []*store.Claim {
	r.t.Helper()
	tx := &store.Tx{}
	for _, name := range names {
		tx.Put = append(tx.Put, store.Message{Key: key(name), ID: "1", Route: "r"})
	}
	if err := r.store.Commit(r.t.Context(), tx); err != nil {
		r.t.Fatal(err)
	}
	claims, err := r.store.Claim(r.t.Context(), store.ClaimRequest{Queue: "q", Routes: []string{"r"}, Max: 100, Lease: lasts})
	if err != nil || len(claims) != len(names) {
		r.t.Fatalf("%d claims, %v", len(claims), err)
	}
	var made []*store.Claim
	for i := range claims {
		made = append(made, &claims[i])
	}
	return made
}

func key(name string) store.Key { return store.Key{Queue: "q", Name: name} }

// live reports whether the store knows the lease.
func (r *rig) live(c *store.Claim) bool {
	r.t.Helper()
	l := c.Lease()
	lost, err := r.store.Renew(r.t.Context(), time.Millisecond, []store.Lease{l})
	if err != nil {
		r.t.Fatal(err)
	}
	return !slices.Contains(lost, l)
}

// delete removes what was claimed.
func (r *rig) delete(c *store.Claim) {
	r.t.Helper()
	if err := r.store.Commit(r.t.Context(), &store.Tx{DeleteKeys: []store.Key{c.Key}}); err != nil {
		r.t.Fatal(err)
	}
}

func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func TestKeptLeasesLast(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		leases := r.claim("a", "b")
		for _, l := range leases {
			r.keeper.Keep(l, func() { t.Error("a lease is said to be lost") })
		}
		pass(time.Hour)
		for _, l := range leases {
			if !r.live(l) {
				t.Errorf("lease %v is over", l.Key)
			}
		}
		// All of them with one call, three times as often as they would end.
		if n := r.faulty.Calls(); n < 350 || n > 365 {
			t.Errorf("%d calls in an hour", n)
		}
	})
}

// TestDroppedLeasesEnd, and nobody is told.
func TestDroppedLeasesEnd(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		leases := r.claim("a", "b")
		for _, l := range leases {
			r.keeper.Keep(l, func() { t.Error("a lease is said to be lost") })
		}
		pass(time.Minute)
		r.keeper.Drop(leases[0].Lease(), leases[1].Lease())
		r.keeper.Drop(leases[0].Lease())
		pass(lasts)
		for _, l := range leases {
			if r.live(l) {
				t.Errorf("lease %v lasts", l.Key)
			}
		}
		// The keeper rests, and goes on when there is something to keep.
		calls := r.faulty.Calls()
		pass(time.Hour)
		if n := r.faulty.Calls() - calls; n != 0 {
			t.Errorf("%d calls for nothing", n)
		}
		for _, l := range r.claim("a", "b") { // which are free again
			r.keeper.Keep(l, nil)
			pass(lasts / 2)
			if !r.live(l) {
				t.Error("a lease is over that is kept after a rest")
			}
		}
	})
}

// TestLostLeasesAreTold within a third of a lease, once, and the others go on.
func TestLostLeasesAreTold(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		leases := r.claim("a", "b", "c")
		var lost [3]atomic.Int64
		for i, l := range leases {
			told := func() { lost[i].Add(1) }
			if i == 2 {
				told = nil // who does not want to know
			}
			r.keeper.Keep(l, told)
		}
		tx := &store.Tx{Delete: []store.MessageRef{{Key: leases[0].Key, ID: "1"}, {Key: leases[2].Key, ID: "1"}}}
		if err := r.store.Commit(t.Context(), tx); err != nil {
			t.Fatal(err)
		}
		pass(lasts / 3)
		if lost[0].Load() != 1 || lost[1].Load() != 0 {
			t.Errorf("told %d and %d times", lost[0].Load(), lost[1].Load())
		}
		pass(time.Hour)
		if lost[0].Load() != 1 || lost[1].Load() != 0 || !r.live(leases[1]) {
			t.Errorf("told %d and %d times; the other lasts: %v", lost[0].Load(), lost[1].Load(), r.live(leases[1]))
		}
	})
}

// TestLoseTellsAtOnce: who knows that a lease is lost need not wait.
func TestLoseTellsAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		leases := r.claim("a", "b")
		lost := 0
		r.keeper.Keep(leases[0], func() { lost++ })
		r.keeper.Keep(leases[1], func() { t.Error("the wrong one") })
		r.keeper.Lose(leases[0].Key)
		r.keeper.Lose(leases[0].Key)
		r.keeper.Lose(key("nobody"))
		if lost != 1 {
			t.Errorf("told %d times", lost)
		}
		pass(time.Minute)
	})
}

// TestWhoIsToldMayDrop, or keep another one: no lock is held then.
func TestWhoIsToldMayDrop(t *testing.T) {
	bubble(t, func(_ *testing.T, r *rig) {
		leases := r.claim("a", "b")
		r.keeper.Keep(leases[0], func() {
			r.keeper.Drop(leases[0].Lease())
			r.keeper.Keep(leases[1], nil)
		})
		r.keeper.Lose(leases[0].Key)
		r.keeper.Drop(leases[1].Lease())
	})
}

// TestTroubleIsTriedAgain: a call that fails loses nothing if the next one comes in time.
func TestTroubleIsTriedAgain(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		l := r.claim("a")[0]
		r.keeper.Keep(l, func() { t.Error("it is said to be lost") })
		r.faulty.Plan(func(c storetest.Call) storetest.Fault {
			if c.N%2 == 1 {
				return storetest.FailBefore
			}
			return storetest.NoFault
		})
		pass(time.Hour)
		if !r.live(l) {
			t.Error("the lease is over")
		}
	})
}

// TestInsist: while it is unknown what became of a commit it is tried again, and after that
// somebody knows.
func TestInsist(t *testing.T) {
	t.Parallel()
	put := &store.Tx{PutRecords: []store.PutRecord{{Record: store.Record{Key: store.RecordKey{Kind: "k", ID: "i"}}}}}
	for _, tt := range []struct {
		name  string
		how   storetest.Fault
		calls int
		want  error
	}{
		{"nothing goes wrong", storetest.NoFault, 1, nil},
		{"it does not happen twice", storetest.FailBefore, 3, nil},
		{"it happens and nobody knows", storetest.FailAfter, 3, store.ErrConflict}, // the second one fails, too
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				r.faulty.Plan(func(c storetest.Call) storetest.Fault {
					if c.N <= 2 {
						return tt.how
					}
					return storetest.NoFault
				})
				err := lease.Insist(t.Context(), r.faulty, base.System{}, put)
				if !errors.Is(err, tt.want) || r.faulty.Calls() != tt.calls {
					t.Errorf("error %v after %d calls, want %v after %d", err, r.faulty.Calls(), tt.want, tt.calls)
				}
				if _, err := r.store.Get(t.Context(), put.PutRecords[0].Record.Key); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestInsistGivesUp when its time is over, or when another try would change nothing.
func TestInsistGivesUp(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.faulty.Plan(func(storetest.Call) storetest.Fault { return storetest.FailBefore })
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		err := lease.Insist(ctx, r.faulty, base.System{}, &store.Tx{})
		if !errors.Is(err, storetest.ErrFault) || time.Since(began) != time.Minute {
			t.Errorf("error %v after %v", err, time.Since(began))
		}
		if n := r.faulty.Calls(); n < 10 || n > 30 { // twice as long each time, up to 5 s
			t.Errorf("%d calls in a minute", n)
		}

		r.faulty.Plan(nil)
		lost := &store.Tx{Finish: []store.Finish{{Lease: store.Lease{Key: key("a"), Token: "no"}}}}
		invalid := &store.Tx{PutRecords: []store.PutRecord{{}}}
		for tx, want := range map[*store.Tx]error{lost: store.ErrClaimLost, invalid: store.ErrInvalid} {
			calls := r.faulty.Calls()
			if err := lease.Insist(t.Context(), r.faulty, base.System{}, tx); !errors.Is(err, want) || r.faulty.Calls() != calls+1 {
				t.Errorf("error %v after %d calls, want %v", err, r.faulty.Calls()-calls, want)
			}
		}
		if err := r.store.Close(); err != nil {
			t.Fatal(err)
		}
		if err := lease.Insist(t.Context(), r.faulty, base.System{}, &store.Tx{}); !errors.Is(err, store.ErrClosed) {
			t.Errorf("error %v", err)
		}
	})
}
