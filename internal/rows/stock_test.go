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
func (h *house) ahead(f *Frame) {
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
	go h.put(f, "k0")
	synctest.Wait()
	h.put(f, "k1")
	close(hold)
	h.got(first, "k0")
	h.db.fail(nil, nil)
}

func TestWhatIsPutMeanwhileIsForTheNextCall(t *testing.T) {
	inHouse(t, func(h *house) {
		f := h.open()
		f.Waiting() // it is there
		h.claim(h.Context(), f, time.Millisecond)
		<-time.After(time.Second)
		picks := h.db.picks.Load()
		h.ahead(f)
		h.got(h.claim(h.Context(), f, time.Hour), "k1")
		h.same("picks", h.db.picks.Load()-picks, 0)
	})
}

func TestWhatNobodyCallsForIsLetGo(t *testing.T) {
	inHouse(t, func(h *house) {
		f, other := h.open(), h.open()
		h.ahead(f)
		<-time.After(stockTime)
		synctest.Wait()
		h.got(h.claim(h.Context(), other, time.Second), "k1") // as its first attempt
	})
}

func TestWhatIsGoneIsNotGivenFromStock(t *testing.T) {
	inHouse(t, func(h *house) {
		f := h.open()
		h.ahead(f)
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
	inHouse(t, func(h *house) {
		f, other := h.open(), h.open()
		h.ahead(f)
		f.CloseFrame()
		h.got(h.claim(h.Context(), other, time.Second), "k1")
	})
}
