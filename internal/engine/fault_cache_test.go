package engine

import (
	"testing"
	"testing/synctest"
)

// TestTwoFlightsOfOneInstance: a turn that has lost its lease comes to its commit while
// the turn that has taken over does, in the same engine. Who waits for the first must not
// be forgotten.
func TestTwoFlightsOfOneInstance(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, key := newCache(1, nil), Ref{ID: "i"}.key()
		c.expectReturn(key)
		taken := make(chan *instance, 1)
		go func() { taken <- c.take(t.Context(), key) }()
		synctest.Wait() // it waits
		c.expectReturn(key)
		c.returned(key)
		c.returned(key)
		synctest.Wait()
		select {
		case <-taken:
		default:
			t.Error("who waits for the instance waits for ever")
		}
	})
}
