package claimloop_test

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
	"github.com/abidehq/abide/internal/claimloop"
	"github.com/abidehq/abide/internal/lease"
	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/store/memstore"
	"github.com/abidehq/abide/store/storetest"
)

const leaseDuration = 30 * time.Second

// fixture is a loop on a store, in virtual time. Its Handle finishes claims, unless a test has
// it do something else.
type fixture struct {
	*claimloop.Loop
	t      *testing.T
	faulty *storetest.Faulty
	under  store.Store
	err    error // of Run
	ended  bool

	handled []string // names of keys
}

func run(t *testing.T, test func(t *testing.T, f *fixture)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New(memstore.Options{})
		t.Cleanup(func() { _ = s.Close() })
		f := &fixture{t: t, under: s, faulty: storetest.NewFaulty(s, nil)}
		f.Loop = &claimloop.Loop{
			Store: f.faulty, Clock: base.System{}, Handle: f.finish,
			Request: store.ClaimRequest{Queue: "q", Routes: []string{"r"}, Max: 16, Lease: leaseDuration},
		}
		test(t, f)
	})
}

func (f *fixture) put(names ...string) {
	f.t.Helper()
	tx := &store.Tx{}
	for _, name := range names {
		tx.Put = append(tx.Put, store.Message{Key: store.Key{Queue: "q", Name: name}, ID: "1", Route: "r"})
	}
	if err := f.under.Commit(f.t.Context(), tx); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) finish(ctx context.Context, claims []store.Claim) error {
	tx := &store.Tx{}
	for i := range claims {
		tx.Finish = append(tx.Finish, store.Finish{Lease: claims[i].Lease()})
	}
	if err := f.faulty.Commit(context.WithoutCancel(ctx), tx); err != nil {
		return err
	}
	for i := range claims {
		f.handled = append(f.handled, claims[i].Key.Name)
	}
	return nil
}

// start runs the loop, and returns what stops it and waits for it.
func (f *fixture) start() (stop func()) {
	ctx, cancel := context.WithCancel(f.t.Context())
	done := make(chan struct{})
	go func() {
		f.err = f.Run(ctx)
		f.ended = true
		close(done)
	}()
	synctest.Wait()
	return func() {
		cancel()
		<-done
	}
}

func (f *fixture) want(handled ...string) {
	f.t.Helper()
	slices.Sort(f.handled)
	if !slices.Equal(f.handled, handled) {
		f.t.Errorf("handled %v, want %v", f.handled, handled)
	}
}

func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// TestIdleLoopMakesNextToNoCalls, and handles a message in the instant of its commit.
func TestIdleLoopMakesNextToNoCalls(t *testing.T) {
	run(t, func(t *testing.T, f *fixture) {
		stop := f.start()
		pass(time.Hour)
		if n := f.faulty.Calls(); n > 7 {
			t.Errorf("%d calls in an hour", n)
		}
		f.put("a")
		synctest.Wait()
		f.want("a")
		stop()
		if f.err != nil {
			t.Errorf("error %v", f.err)
		}
	})
}

// TestOutageIsSurvived: the loop backs off, and goes on when the store is back.
func TestOutageIsSurvived(t *testing.T) {
	run(t, func(t *testing.T, f *fixture) {
		defer f.start()()
		f.put("a")
		synctest.Wait()
		f.faulty.Plan(func(storetest.Call) storetest.Fault { return storetest.FailBefore })
		f.put("b")
		calls := f.faulty.Calls()
		pass(time.Hour)
		if n := f.faulty.Calls() - calls; n < 700 || n > 1000 {
			t.Errorf("%d calls in an outage of an hour, want one in 4 to 5 s", n)
		}
		f.faulty.Plan(nil)
		pass(leaseDuration)
		f.want("a", "b")
	})
}

// TestStoreThatWillNotServeAgainEndsTheLoop, whether Claim or Handle says so.
func TestStoreThatWillNotServeAgainEndsTheLoop(t *testing.T) {
	t.Run("claim", func(t *testing.T) {
		run(t, func(t *testing.T, f *fixture) {
			f.start()
			_ = f.under.Close()
			synctest.Wait()
			if !f.ended || !errors.Is(f.err, store.ErrClosed) {
				t.Errorf("ended %v, error %v", f.ended, f.err)
			}
		})
	})
	t.Run("handle", func(t *testing.T) {
		run(t, func(t *testing.T, f *fixture) {
			f.Handle = func(context.Context, []store.Claim) error { return store.ErrFailed }
			f.put("a")
			f.start()
			if !f.ended || !errors.Is(f.err, store.ErrFailed) {
				t.Errorf("ended %v, error %v", f.ended, f.err)
			}
		})
	})
}

// late is a store whose answers to claims arrive when its context has ended.
type late struct {
	store.Store
	stop func()
}

func (s *late) Claim(ctx context.Context, req store.ClaimRequest) ([]store.Claim, error) {
	claims, err := s.Store.Claim(ctx, req)
	s.stop()
	return claims, err
}

// TestStopWhileClaiming: what the store has leased is handled, although ctx has ended.
func TestStopWhileClaiming(t *testing.T) {
	run(t, func(t *testing.T, f *fixture) {
		ctx, cancel := context.WithCancel(t.Context())
		f.Store = &late{f.faulty, cancel}
		f.put("a", "b")
		if err := f.Run(ctx); err != nil {
			t.Errorf("error %v", err)
		}
		f.want("a", "b")
	})
}

// TestLostLeaseIsNoTrouble: a handler whose lease has expired leaves the claim to the next one,
// and the loop does not back off.
func TestLostLeaseIsNoTrouble(t *testing.T) {
	run(t, func(t *testing.T, f *fixture) {
		keeper := lease.NewKeeper(lease.Config{Store: f.faulty, Clock: base.System{}, Logger: slog.New(slog.DiscardHandler), Lease: leaseDuration})
		attempts := 0
		f.Handle = func(ctx context.Context, claims []store.Claim) error {
			if attempts++; attempts > 1 {
				return f.finish(ctx, claims)
			}
			work, cancel := context.WithCancel(ctx)
			defer cancel()
			keeper.Keep(&claims[0], cancel)
			f.faulty.Plan(func(c storetest.Call) storetest.Fault {
				if c.Method == "Renew" {
					return storetest.FailBefore
				}
				return storetest.NoFault
			})
			<-work.Done() // before the lease can have expired in the store
			pass(leaseDuration)
			err := f.faulty.Commit(ctx, &store.Tx{Finish: []store.Finish{{Lease: claims[0].Lease()}}})
			if !errors.Is(err, store.ErrClaimLost) {
				t.Errorf("commit under a lost lease: %v", err)
			}
			return nil
		}
		f.put("a")
		defer f.start()()
		pass(2*leaseDuration + time.Millisecond)
		f.want("a")
	})
}

// TestPanicOfUsersCode is an error of the handler, which releases the claim; the loop goes on.
func TestPanicOfUsersCode(t *testing.T) {
	run(t, func(t *testing.T, f *fixture) {
		panics := 2
		f.Handle = func(ctx context.Context, claims []store.Claim) error {
			if caught := claimloop.Catch(func() {
				if panics--; panics >= 0 {
					panic("no")
				}
			}); caught != nil {
				if caught.Error() != "panic: no" || len(caught.Stack) == 0 {
					t.Errorf("caught %v with stack %q", caught, caught.Stack)
				}
				return errors.Join(caught, claimloop.Release(f.faulty, leaseDuration, claims[0].Lease()))
			}
			if n := claims[0].Attempt(); n != 1 {
				t.Errorf("attempt %d, want those that were released not to count", n)
			}
			return f.finish(ctx, claims)
		}
		f.put("a")
		defer f.start()()
		pass(time.Second)
		f.want("a")
	})
}

// TestReleaseReleasesTheOthers after one of them has failed, and returns that error.
func TestReleaseReleasesTheOthers(t *testing.T) {
	run(t, func(t *testing.T, f *fixture) {
		f.put("a", "b")
		claims, err := f.under.Claim(t.Context(), f.Request)
		if err != nil || len(claims) != 2 {
			t.Fatal(claims, err)
		}
		gone := claims[0].Lease()
		gone.Token = "gone"
		n := 0
		f.faulty.Plan(func(storetest.Call) storetest.Fault {
			if n++; n == 1 {
				return storetest.FailBefore
			}
			return storetest.NoFault
		})
		if err := claimloop.Release(f.faulty, leaseDuration, claims[0].Lease(), gone, claims[1].Lease()); !errors.Is(err, storetest.ErrFault) {
			t.Errorf("error %v", err)
		}
		if again, err := f.under.Claim(t.Context(), f.Request); err != nil || len(again) != 1 || again[0].Key != claims[1].Key {
			t.Errorf("claimed again: %v, %v", again, err)
		}
	})
}

// TestDrain: work goes on when claiming has ended, for as long as it may.
func TestDrain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		work, cancel := claimloop.Drain(ctx, base.System{}, 10*time.Second)
		defer cancel()
		pass(time.Hour)
		stop()
		pass(10*time.Second - 1)
		if work.Err() != nil {
			t.Error("it has ended too early")
		}
		pass(1)
		if work.Err() == nil {
			t.Error("it has not ended")
		}
		other, cancel := claimloop.Drain(t.Context(), base.System{}, time.Hour)
		if cancel(); other.Err() == nil {
			t.Error("it has not ended although it was cancelled")
		}
	})
}

// TestCapacity: the loop claims no more than there is capacity for, and returns what it does
// not use, also when a claim fails.
func TestCapacity(t *testing.T) {
	run(t, func(t *testing.T, f *fixture) {
		var taken atomic.Int64
		f.Prepare = func(ctx context.Context, req *store.ClaimRequest) bool {
			for taken.Load() >= 3 {
				if base.Sleep(ctx, base.System{}, time.Millisecond) != nil {
					return false
				}
			}
			req.Max = int(3 - taken.Load())
			taken.Add(int64(req.Max))
			return true
		}
		f.Claimed = func(most, n int) { taken.Add(int64(n - most)) }
		f.Handle = func(ctx context.Context, claims []store.Claim) error {
			go func() {
				<-time.After(time.Second)
				_ = f.finish(ctx, claims)
				taken.Add(-int64(len(claims)))
			}()
			return nil
		}
		f.put("a", "b", "c", "d")
		n := 0
		f.faulty.Plan(func(storetest.Call) storetest.Fault {
			if n++; n == 1 {
				return storetest.FailBefore
			}
			return storetest.NoFault
		})
		stop := f.start()
		pass(500 * time.Millisecond)
		if n := taken.Load(); n != 3 {
			t.Errorf("%d are handled, want 3", n)
		}
		pass(10 * time.Second)
		f.want("a", "b", "c", "d")
		stop()
		if n := taken.Load(); n != 0 || f.err != nil {
			t.Errorf("capacity of %d was not returned; error %v", n, f.err)
		}
	})
}

// TestPassHandlesWhatIsReady and does not wait for more.
func TestPassHandlesWhatIsReady(t *testing.T) {
	run(t, func(t *testing.T, f *fixture) {
		f.Request.Max = 2
		f.put("a", "b", "c")
		began := time.Now()
		if err := f.Pass(t.Context()); err != nil || time.Since(began) != 0 {
			t.Errorf("error %v after %v", err, time.Since(began))
		}
		f.want("a", "b", "c")
		f.put("d")
		f.faulty.Plan(func(storetest.Call) storetest.Fault { return storetest.FailBefore })
		if err := f.Pass(t.Context()); !errors.Is(err, storetest.ErrFault) {
			t.Errorf("error %v", err)
		}
	})
}
