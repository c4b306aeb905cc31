package engine

import (
	"testing"
	"time"
)

// TestARestartedInstanceIsUnderItsLimits, with its priority, in place of itself and under another ID.
func TestARestartedInstanceIsUnderItsLimits(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("flow", waiter)
		r.serve()
		limited := func(s *Start) { s.Limits, s.Priority = under(), 3 }
		r.begin("a", "flow", "", limited)
		r.raise("a", "go", "1")
		r.result("a")
		r.begin("b", "flow", "", limited)
		r.until("b", Running)
		r.must(r.client().Restart(r.Context(), Ref{ID: "a"}))
		r.pass(time.Second)
		r.must(r.client().RestartAs(r.Context(), Ref{ID: "b"}, "c"))
		for _, id := range []string{"a", "c"} {
			info := r.info(id)
			want(r, "status of "+id, info.Status, Pending)
			want(r, "limits of "+id, len(info.Limits), 1)
			want(r, "priority of "+id, info.Priority, 3)
		}
		for _, id := range []string{"b", "a", "c"} {
			r.until(id, Running)
			r.raise(id, "go", "2")
			want(r, id, r.result(id), "2")
		}
		r.nothingLeft()
	})
}
