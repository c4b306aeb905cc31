package rows

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/abidehq/abide/store"
)

// ahead has one key handed to a call whose group is still under way when another key is
// put, and returns when both groups have come to their end.
func (h *fixture) prefetch(f *Core) { h.prefetchTwo(f, "k0", "k1") }

func (h *fixture) prefetchTwo(f *Core, name, second string) {
	h.Helper()
	first := h.claim(h.Context(), f, time.Hour)
	hold := make(chan struct{})
	var held atomic.Bool
	h.db.fail(nil, func() error {
		if held.CompareAndSwap(false, true) {
			<-hold
		}
		return nil
	})
	go h.put(f, name)
	synctest.Wait()
	h.put(f, second)
	close(hold)
	h.got(first, name)
	h.db.fail(nil, nil)
}

func TestWhatIsPutMeanwhileIsForTheNextCall(t *testing.T) {
	withFixture(t, func(h *fixture) {
		f := h.open()
		f.Waiting() // it is there
		h.claim(h.Context(), f, time.Millisecond)
		<-time.After(time.Second)
		picks := h.db.picks.Load()
		h.prefetch(f)
		h.got(h.claim(h.Context(), f, time.Hour), "k1")
		h.same("picks", h.db.picks.Load()-picks, 0)
	})
}

func TestWhatNobodyCallsForIsLetGo(t *testing.T) {
	withFixture(t, func(h *fixture) {
		f, other := h.open(), h.open()
		h.prefetch(f)
		<-time.After(prefetchTime)
		synctest.Wait()
		h.got(h.claim(h.Context(), other, time.Second), "k1") // as its first attempt
	})
}

func TestWhatIsGoneIsNotGivenFromStock(t *testing.T) {
	withFixture(t, func(h *fixture) {
		f := h.open()
		h.prefetch(f)
		k1 := store.Key{Queue: "turns", Tenant: "acme", Name: "k1"}
		if err := f.Commit(h.Context(), &store.Tx{DeleteKeys: []store.Key{k1}}); err != nil {
			t.Fatal(err)
		}
		c := h.claim(h.Context(), f, time.Hour)
		if c.done {
			t.Errorf("claimed %v", c.claims)
		}
	})
}

func TestClosingLetsGoOfTheStock(t *testing.T) {
	withFixture(t, func(h *fixture) {
		f, other := h.open(), h.open()
		h.prefetch(f)
		f.CloseCore()
		h.got(h.claim(h.Context(), other, time.Second), "k1")
	})
}

// holdPick has the next pick return when the function that it returns is called.
func (h *fixture) holdPick() (release func()) {
	hold := make(chan struct{})
	var held atomic.Bool
	h.db.onPick(func(*LeaseResult) {
		if held.CompareAndSwap(false, true) {
			<-hold
		}
	})
	return func() { close(hold) }
}

// TestNothingIsLeasedAheadOfWhoDoesNotWait: a caller that does not wait may never
// call again, and other processes have the store open.
func TestNothingIsLeasedAheadOfWhoDoesNotWait(t *testing.T) {
	withFixture(t, func(h *fixture) {
		f, other := h.open(), h.open()
		release := h.holdPick()
		first := h.claim(h.Context(), f, 0)
		h.put(f, "k")
		h.got(h.claim(h.Context(), other, 0), "k")
		release()
		h.got(first)
	})
}

// TestWhatIsInStockIsNotMissed: a call that does not wait has looked before there was
// something in stock, and it still is, or was let go meanwhile.
func TestWhatIsInStockIsNotMissed(t *testing.T) {
	for name, after := range map[string]time.Duration{"in stock": 0, "let go": prefetchTime} {
		t.Run(name, func(t *testing.T) {
			withFixture(t, func(h *fixture) {
				f := h.open()
				release := h.holdPick()
				c := h.claim(h.Context(), f, 0)
				h.prefetch(f)
				<-time.After(after)
				synctest.Wait()
				release()
				h.got(c, "k1")
			})
		})
	}
}

// TestWhatIsBeingReleasedIsNotMissed: a call that does not wait is told that there is nothing
// only if there is nothing, and not because the store itself has leased it for nobody.
func TestWhatIsBeingReleasedIsNotMissed(t *testing.T) {
	for name, lease := range map[string]time.Duration{"on the same terms": time.Minute, "on other terms": time.Hour} {
		t.Run(name, func(t *testing.T) {
			withFixture(t, func(h *fixture) {
				f := h.open()
				claim := func() *claiming {
					c := &claiming{}
					go func() {
						req := request(0)
						req.Lease = lease
						c.claims, c.err = f.Claim(h.Context(), req)
						c.done = true
					}()
					synctest.Wait()
					return c
				}
				h.prefetch(f)
				h.got(claim(), "k1") // from stock, or after it was let go

				h.prefetchTwo(f, "k2", "k3")
				hold := make(chan struct{})
				h.db.fail(func(*ReadSet) error { <-hold; return nil }, nil)
				<-time.After(prefetchTime)
				synctest.Wait()
				c := claim()
				if c.done {
					t.Errorf("claimed %d, %v, while k3 is released", len(c.claims), c.err)
				}
				close(hold)
				h.got(c, "k3")
			})
		})
	}
}

// TestWhatIsDueComesBeforeTheStock: it may be older, or be there for quarantine.
func TestWhatIsDueComesBeforeTheStock(t *testing.T) {
	withFixture(t, func(h *fixture) {
		f, other := h.open(), h.open()
		release := h.holdPick()
		c := h.claim(h.Context(), f, time.Hour)
		h.put(other, "due")
		synctest.Wait() // it is told of
		h.put(f, "ahead")
		release()
		h.got(c, "due")
		h.got(h.claim(h.Context(), f, time.Hour), "ahead")
	})
}
