package timer_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/internal/rig"
	"github.com/abidehq/abide/internal/teststore"
	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/timer"
)

// slowReads is a store whose records take their time.
type slowReads struct {
	store.Store
	takes time.Duration
}

func (s slowReads) Get(ctx context.Context, key store.RecordKey) (store.Record, error) {
	select {
	case <-time.After(s.takes):
		return s.Store.Get(ctx, key)
	case <-ctx.Done():
		return store.Record{}, ctx.Err()
	}
}

// Timers whose claim was lost before are read before they are fired. If that takes
// longer than the lease for all of a batch, some of them are fired all the same.
func TestSlowReadsDoNotKeepTimersFromFiring(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		st := teststore.New(t)
		t.Cleanup(func() { _ = st.Close() })
		r := newFixtureOn(t, slowReads{st, 100 * time.Millisecond}, func(c *timer.Config) { c.LeaseDuration = 2 * time.Second })
		const n = 200
		for i := range n {
			r.schedule(timer.Request{Key: fmt.Sprint(i), Delay: time.Second})
		}
		rig.Pass(time.Second)
		lost, err := st.Claim(t.Context(), store.ClaimRequest{Queue: "timers", Routes: []string{"timer"}, Max: n, Lease: time.Second})
		if err != nil || len(lost) != n {
			t.Fatalf("claimed %d, %v", len(lost), err)
		}
		rig.Pass(time.Second)
		r.run()
		rig.Pass(time.Minute)
		check.Equal(t, "are published", len(r.sink.Accepted()), n)
	})
}
