package faults_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/store/storetest"
)

// TestPoisonTakesNobodyWithIt: an activity takes its process down each time, and fails in the
// end. One that was under way in the same process each time does not.
func TestPoisonTakesNobodyWithIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var faulty *storetest.Faulty
		bad := abide.NewActivity("bad", func(ctx context.Context, _ int) (int, error) {
			pass(time.Second)
			faulty.Kill()
			<-ctx.Done()
			return 0, context.Cause(ctx)
		}, abide.Retry(0))
		good := abide.NewActivity("good", func(_ context.Context, n int) (int, error) {
			pass(2 * time.Second)
			return n, nil
		}, abide.Retry(0))
		flow := abide.NewOrchestration("flow", func(ctx abide.Context, isBad bool) (int, error) {
			if isBad {
				return bad.Call(ctx, 1)
			}
			return good.Call(ctx, 2)
		})
		w := newWorld(t, flow, bad, good)
		start(w, flow, true, "bad")
		start(w, flow, false, "good")
		for range 30 {
			faulty = storetest.NewFaulty(w.store, nil)
			e := w.engine(faulty, quick)
			pass(unit)
			stop(e)
		}
		info, err := w.client.Get(t.Context(), abide.Ref{ID: "bad"})
		if w.do(err); info.Status != abide.Failed || !strings.Contains(info.Err.Error(), "its process was lost each time") {
			t.Errorf("the bad one is %s: %v", info.Status, info.Err)
		}
		info, err = w.client.Get(t.Context(), abide.Ref{ID: "good"})
		if w.do(err); result(info) != "2" {
			t.Errorf("the innocent one is %s", info.Status)
		}
		w.checkNoQuarantine()
	})
}
