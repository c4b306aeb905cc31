package rows

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// openGathering returns a core that gathers, of two on one database.
func (h *fixture) openGathering() *Core {
	f := New(Options{Writers: 2, Aside: true, Gather: time.Millisecond})
	h.db.frames = append(h.db.frames, f)
	h.db.shared.Store(true)
	f.Start(h.db)
	h.Cleanup(func() { f.CloseCore() })
	return f
}

// TestCallersAreGathered: callers that commit again and again share groups, and a group waits no
// longer than it may for one that does not come back.
func TestCallersAreGathered(t *testing.T) {
	withFixture(t, func(h *fixture) {
		f := h.openGathering()
		h.db.fail(func(*ReadSet) error { <-time.After(time.Millisecond); return nil }, nil) // each group takes as long
		const callers, rounds = 32, 100
		before := h.db.updates.Load()
		began := time.Now()
		var wg sync.WaitGroup
		for i := range callers {
			wg.Go(func() {
				for j := range rounds + i { // the last ones commit with fewer and fewer others
					h.put(f, fmt.Sprint("k", i, "-", j))
				}
			})
		}
		wg.Wait()
		groups := h.db.updates.Load() - before
		if groups > 2*rounds {
			t.Errorf("%d groups of %d commits by %d callers", groups, callers*rounds, callers)
		}
		if took, most := time.Since(began), time.Duration(groups+callers)*time.Millisecond; took > most {
			t.Errorf("took %v, want %v at most: groups waited for callers that had ended", took, most)
		}
	})
}

// TestSingleCallerIsNotDelayed: nobody else is waited for.
func TestSingleCallerIsNotDelayed(t *testing.T) {
	withFixture(t, func(h *fixture) {
		f := h.openGathering()
		began := time.Now()
		for i := range 100 {
			h.put(f, fmt.Sprint("k", i))
		}
		synctest.Wait()
		if took := time.Since(began); took > 0 {
			t.Errorf("100 commits of one caller took %v", took)
		}
	})
}
