package teststore

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/store/memstore"
)

var order = store.Key{Queue: "turns", Tenant: "acme", Name: "order"}

func message(id string) store.Message { return store.Message{Key: order, ID: id, Route: "order"} }

// request claims for as long as a minute, and waits as long as wait.
func request(wait time.Duration) store.ClaimRequest {
	return store.ClaimRequest{Queue: order.Queue, Routes: []string{"order"}, Max: 1, Lease: time.Minute, Wait: wait}
}

// inBubbles runs f in virtual time with a store of each kind that needs no server.
func inBubbles(t *testing.T, f func(t *testing.T, s store.Store)) {
	t.Helper()
	t.Parallel()
	for _, kind := range []string{"", "memory", "pebble"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newStore(t, kind, base.System{})
				t.Cleanup(func() {
					if err := s.Close(); err != nil {
						t.Error(err)
					}
				})
				f(t, s)
			})
		})
	}
}

func commit(t *testing.T, s store.Store, tx *store.Tx) {
	t.Helper()
	if err := s.Commit(t.Context(), tx); err != nil {
		t.Fatal(err)
	}
}

// claimOne claims the key, after having waited for less than a year.
func claimOne(t *testing.T, s store.Store) store.Claim {
	t.Helper()
	claims, err := s.Claim(t.Context(), request(365*24*time.Hour))
	if err != nil || len(claims) != 1 {
		t.Fatalf("%d claims, error %v, want one", len(claims), err)
	}
	return claims[0]
}

// TestAWaitIsAsLongAsItMustBe: a claim waits for days of virtual time, to the millisecond,
// for whatever makes its key ready.
func TestAWaitIsAsLongAsItMustBe(t *testing.T) {
	t.Parallel()
	const long = 20 * time.Hour
	later := func(after time.Duration, do func() error) {
		go func() {
			<-time.After(after)
			if err := do(); err != nil {
				t.Error(err)
			}
		}()
	}
	for name, prepare := range map[string]func(t *testing.T, s store.Store){
		"a message that is due": func(t *testing.T, s store.Store) {
			m := message("m")
			m.VisibleAt = time.Now().Add(long)
			commit(t, s, &store.Tx{Put: []store.Message{m}})
		},
		"a message that was moved": func(t *testing.T, s store.Store) {
			m := message("m")
			m.VisibleAt = time.Now().Add(9 * long)
			commit(t, s, &store.Tx{Put: []store.Message{m}})
			commit(t, s, &store.Tx{Retime: []store.Retime{{Ref: m.Ref(), VisibleAt: time.Now().Add(long)}}})
		},
		"a lease that ends": func(t *testing.T, s store.Store) {
			commit(t, s, &store.Tx{Put: []store.Message{message("m")}})
			<-time.After(long - time.Minute)
			claimOne(t, s)
		},
		"a lease that was renewed": func(t *testing.T, s store.Store) {
			holdFor(t, s, long)
		},
		"a release with a delay": func(t *testing.T, s store.Store) {
			if err := s.Release(t.Context(), store.Release{Lease: holdFor(t, s, time.Hour), After: long}); err != nil {
				t.Fatal(err)
			}
		},
		"a commit": func(t *testing.T, s store.Store) {
			later(long, func() error { return s.Commit(t.Context(), &store.Tx{Put: []store.Message{message("m")}}) })
		},
		"a release": func(t *testing.T, s store.Store) {
			lease := holdFor(t, s, store.MaxLease)
			later(long, func() error { return s.Release(t.Context(), store.Release{Lease: lease}) })
		},
		"a finish that keeps a message": func(t *testing.T, s store.Store) {
			lease := holdFor(t, s, store.MaxLease)
			later(long, func() error {
				return s.Commit(t.Context(), &store.Tx{Finish: []store.Finish{{Lease: lease, Keep: []string{"m"}}}})
			})
		},
		"a delete of a delivered message": func(t *testing.T, s store.Store) {
			holdFor(t, s, store.MaxLease)
			commit(t, s, &store.Tx{Put: []store.Message{message("n")}})
			later(long, func() error {
				return s.Commit(t.Context(), &store.Tx{Delete: []store.MessageRef{{Key: order, ID: "m"}}})
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubbles(t, func(t *testing.T, s store.Store) {
				begun := time.Now()
				prepare(t, s)
				c := claimOne(t, s)
				if got := time.Since(begun); got != long {
					t.Errorf("it waited for %v, want %v", got, long)
				}
				if !c.Now.Equal(begun.Add(long)) {
					t.Errorf("the store's time is %v, want %v", c.Now, begun.Add(long))
				}
			})
		})
	}
}

// holdFor puts a message, and leases its key for as long as d.
func holdFor(t *testing.T, s store.Store, d time.Duration) store.Lease {
	t.Helper()
	commit(t, s, &store.Tx{Put: []store.Message{message("m")}})
	c := claimOne(t, s)
	if lost, err := s.Renew(t.Context(), d, []store.Lease{c.Lease()}); err != nil || len(lost) > 0 {
		t.Fatalf("renew: %v lost, error %v", lost, err)
	}
	return c.Lease()
}

// TestAWaitHasAnEnd: that of the request, that of its context, that of the store.
func TestAWaitHasAnEnd(t *testing.T) {
	inBubbles(t, func(t *testing.T, s store.Store) {
		begun := time.Now()
		if claims, err := s.Claim(t.Context(), request(time.Hour)); err != nil || len(claims) > 0 || time.Since(begun) != time.Hour {
			t.Errorf("after %v: %d claims, error %v, want none after an hour", time.Since(begun), len(claims), err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		key := store.RecordKey{Kind: "order", ID: "o"}
		waits := map[string]func(ctx context.Context) error{
			"claim": func(ctx context.Context) error { _, err := s.Claim(ctx, request(time.Hour)); return err },
			"await": func(ctx context.Context) error { _, err := s.Await(ctx, key, 0); return err },
		}
		for name, wait := range waits {
			if err := wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: error %v, want that of the context", name, err)
			}
		}
		ended := make(chan error, len(waits))
		for _, wait := range waits {
			go func() { ended <- wait(t.Context()) }()
		}
		synctest.Wait()
		if stats, err := s.Stats(t.Context()); err != nil || stats.Waiting != 1 {
			t.Errorf("%d claims wait, error %v, want 1", stats.Waiting, err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		for range waits {
			if err := <-ended; !errors.Is(err, store.ErrClosed) {
				t.Errorf("error %v, want %v", err, store.ErrClosed)
			}
		}
	})
}

// TestQuarantineIsSeen by calls that await it, at the latest with the next claim.
func TestQuarantineIsSeen(t *testing.T) {
	inBubbles(t, func(t *testing.T, s store.Store) {
		begun := time.Now()
		m := message("m")
		m.Route, m.TTL = "", time.Hour
		commit(t, s, &store.Tx{Put: []store.Message{m}})
		pending, err := s.Pending(t.Context(), order, 0)
		if err != nil || len(pending) != 1 {
			t.Fatalf("%d messages, error %v, want one", len(pending), err)
		}
		key := store.Quarantine(pending[0], "", store.ReasonExpired, begun.Add(m.TTL)).Record.Key
		claimed := make(chan struct{})
		go func() {
			defer close(claimed)
			if claims, err := s.Claim(t.Context(), request(2*time.Hour)); err != nil || len(claims) > 0 {
				t.Errorf("%d claims, error %v, want none", len(claims), err)
			}
		}()
		r, err := s.Await(t.Context(), key, 0)
		if err != nil || r.Status != store.ReasonExpired || time.Since(begun) != time.Hour {
			t.Errorf("after %v: %v, error %v", time.Since(begun), r, err)
		}
		<-claimed
	})
}

// slow is a backend that takes its time to put messages, outside of all bubbles.
type slow struct {
	store.Store
	begins chan struct{} // a call has begun
	ends   chan struct{} // the call may return
}

func (s *slow) Commit(ctx context.Context, tx *store.Tx) error {
	if len(tx.Put) == 0 {
		return s.Store.Commit(ctx, tx)
	}
	s.begins <- struct{}{}
	select {
	case <-s.ends:
		return s.Store.Commit(ctx, tx)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// newSlow returns a slow store for a bubble, and its backend. Make it outside.
func newSlow(t *testing.T) (hidden *base.Manual, backend *slow) {
	t.Helper()
	hidden = base.NewManual(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC))
	inner := memstore.New(memstore.Options{Clock: hidden})
	t.Cleanup(func() { _ = inner.Close() })
	return hidden, &slow{Store: inner, begins: make(chan struct{}, 1), ends: make(chan struct{})}
}

// TestNoTimePassesDuringACall: a backend may be as slow as it likes.
func TestNoTimePassesDuringACall(t *testing.T) {
	t.Parallel()
	hidden, backend := newSlow(t)
	go func() { // outside
		<-backend.begins
		for end := time.Now().Add(20 * time.Millisecond); time.Now().Before(end); {
			<-time.After(time.Millisecond)
		}
		close(backend.ends)
	}()
	synctest.Test(t, func(t *testing.T) {
		s := wrap(backend, base.System{}, hidden)
		begun := time.Now()
		tick := time.AfterFunc(time.Nanosecond, func() {})
		commit(t, s, &store.Tx{Put: []store.Message{message("m")}})
		if got := time.Since(begun); got != 0 || !tick.Stop() {
			t.Errorf("%v have passed", got)
		}
	})
}

// TestACallEndsWithItsContext, although that is of the bubble and the call is not.
func TestACallEndsWithItsContext(t *testing.T) {
	t.Parallel()
	hidden, backend := newSlow(t)
	synctest.Test(t, func(t *testing.T) {
		s := wrap(backend, base.System{}, hidden)
		ctx, cancel := context.WithCancel(t.Context())
		called := make(chan error)
		go func() { called <- s.Commit(ctx, &store.Tx{Put: []store.Message{message("m")}}) }()
		<-backend.begins
		cancel()
		if err := <-called; !errors.Is(err, context.Canceled) {
			t.Errorf("error %v, want %v", err, context.Canceled)
		}
		late, end := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
		defer end()
		if err := s.Commit(late, &store.Tx{Put: []store.Message{message("m")}}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v, want %v", err, context.DeadlineExceeded)
		}
	})
}

// hasty is a backend with which something happens as soon as a claim has found nothing.
type hasty struct {
	store.Store
	happens func()
}

func (h *hasty) Claim(ctx context.Context, req store.ClaimRequest) ([]store.Claim, error) {
	claims, err := h.Store.Claim(ctx, req)
	if len(claims) == 0 && err == nil {
		h.happens()
	}
	return claims, err
}

// TestNothingIsMissedBeforeTheWait: what becomes ready when a claim has looked, and does
// not wait yet, is claimed.
func TestNothingIsMissedBeforeTheWait(t *testing.T) {
	t.Parallel()
	for name, at := range map[string]time.Duration{"at once": 0, "in a moment": time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clock := base.NewManual(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
			hidden := hiddenClock(clock)
			backend := &hasty{Store: memstore.New(memstore.Options{Clock: hidden})}
			s := wrap(backend, clock, hidden)
			t.Cleanup(func() { _ = s.Close() })
			m := message("m")
			m.VisibleAt = clock.Now().Add(at)
			backend.happens = sync.OnceFunc(func() {
				if err := s.Commit(t.Context(), &store.Tx{Put: []store.Message{m}}); err != nil {
					t.Error(err)
				}
				clock.Advance(at)
			})
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			claims, err := s.Claim(ctx, request(time.Hour))
			if err != nil || len(claims) != 1 || ctx.Err() != nil { // it looks once more at the end
				t.Errorf("%d claims, error %v, want one before the context has ended", len(claims), err)
			}
		})
	}
}

// leasing is a backend that leases keys for callers who give up, as one on a server does.
type leasing struct {
	store.Store
	giveUp func()
}

func (l *leasing) Claim(ctx context.Context, req store.ClaimRequest) ([]store.Claim, error) {
	claims, err := l.Store.Claim(ctx, req)
	l.giveUp()
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(200 * time.Millisecond): // which is long for a message to who ends contexts
		return claims, err
	}
}

// TestNoKeyIsLeasedUnknown: a claim whose context ends during the call says what it has
// leased, as memstore does.
func TestNoKeyIsLeasedUnknown(t *testing.T) {
	t.Parallel()
	hidden := hiddenClock(base.System{})
	ctx, cancel := context.WithCancel(t.Context())
	s := wrap(&leasing{Store: memstore.New(memstore.Options{Clock: hidden}), giveUp: cancel}, base.System{}, hidden)
	t.Cleanup(func() { _ = s.Close() })
	commit(t, s, &store.Tx{Put: []store.Message{message("m")}})
	if claims, err := s.Claim(ctx, request(time.Hour)); err != nil || len(claims) != 1 {
		t.Errorf("%d claims, error %v, want one", len(claims), err)
	}
}

// failing is a test that fails without harm.
type failing struct {
	testing.TB
	why string
}

func (f *failing) Fatalf(format string, args ...any) { f.Fatal(fmt.Sprintf(format, args...)) }

func (f *failing) Fatal(args ...any) {
	f.why = fmt.Sprint(args...)
	runtime.Goexit()
}

// TestWhatCannotBeOpenedFailsTheTest: also what gives up outside does not leave the test
// waiting.
func TestWhatCannotBeOpenedFailsTheTest(t *testing.T) {
	t.Parallel()
	for kind, says := range map[string]string{
		"papyrus": "memory, pebble",
		"broken":  "it is broken",
		"gone":    "no store was opened",
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			f := &failing{TB: t}
			done := make(chan struct{})
			go func() {
				defer close(done)
				newStoreOf(f, kind, map[string]opener{
					"memory": openMemory, "pebble": openPebble,
					"broken": func(context.Context, testing.TB, base.Clock) (store.Store, error) {
						return nil, errors.New("it is broken")
					},
					"gone": func(context.Context, testing.TB, base.Clock) (store.Store, error) { runtime.Goexit(); return nil, nil },
				}, base.System{})
			}()
			<-done
			if !strings.Contains(f.why, says) {
				t.Errorf("the test fails because of %q, want %q", f.why, says)
			}
		})
	}
}
