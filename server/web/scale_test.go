package web_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/internal/testenv"
	"github.com/abidehq/abide/store/pebblestore"
	"github.com/abidehq/abide/timer"
)

// TestPagesStayFastWithMuchInTheStore: no page costs more because there is more in the
// store. It proves the shape with some thousands, and the numbers of the promise, 100,000
// instances and a million timers, when tests may take their time.
func TestPagesStayFastWithMuchInTheStore(t *testing.T) {
	t.Parallel()
	instances, timers, limit := 2_000, 10_000, 2*time.Second // a busy machine with the race detector
	if testenv.Long() {
		instances, timers, limit = 100_000, 1_000_000, 200*time.Millisecond
	}
	st, err := pebblestore.Open(t.Context(), t.TempDir(), pebblestore.Options{})
	check.OK(t, err)
	t.Cleanup(func() { _ = st.Close() })
	w := newWorldOn(t, st)
	ctx := t.Context()
	for i := 0; i < instances; i += 1_000 {
		requests := make([]abide.StartRequest, 1_000)
		for j := range requests {
			id := abide.ID(fmt.Sprintf("order-%06d", i+j))
			if requests[j], err = abide.OrchestrationNamed[abide.None, abide.None]("elsewhere").Prepare(w.engine, abide.None{}, id, abide.Unchecked()); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := w.engine.Start(ctx, requests...); err != nil {
			t.Fatal(err)
		}
	}
	for i := 0; i < timers; i += timer.MaxBulk {
		requests := make([]timer.Request, timer.MaxBulk)
		for j := range requests {
			requests[j] = timer.Request{Tenant: "acme", Key: fmt.Sprintf("timer-%07d", i+j), Delay: time.Hour + time.Duration(i+j)*time.Millisecond}
		}
		if _, err := w.timers.ScheduleAll(ctx, requests); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range append([]string{"/instances?status=pending", "/instances?orchestration=elsewhere", "/timers?tenant=acme", "/instances/default/order-000017"}, listPages...) {
		best := time.Hour
		for range 3 {
			begun := time.Now()
			w.see(path)
			best = min(best, time.Since(begun))
		}
		t.Logf("%s: %v", path, best)
		if best > limit {
			t.Errorf("%s takes %v, want %v at most", path, best, limit)
		}
	}
}
