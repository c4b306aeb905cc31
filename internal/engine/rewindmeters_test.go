package engine

import (
	"sync/atomic"
	"testing"

	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/internal/replay"
)

// TestMetricsOfRewinds: each instance that is rewound counts, a failed child too, whether or not its last turn
// runs again; none of them is started once more.
func TestMetricsOfRewinds(t *testing.T) {
	inBubble(t, func(r *rig) {
		m := newMeasured(r)
		var broken atomic.Bool
		broken.Store(true)
		m.flaky("try", 1)
		m.flow("activity", func(c *replay.Context, _ []byte) replay.Outcome { return outcome(c, call(c, "try", "1")) })
		m.flow("code", func(*replay.Context, []byte) replay.Outcome {
			if broken.Load() {
				return failed(failure("not yet"))
			}
			return done("code")
		})
		m.flow("parent", func(c *replay.Context, _ []byte) replay.Outcome {
			return outcome(c, c.Child("code", "child", nil, history.Child{}))
		})
		m.serve(m.configure)
		expect := func(rewound, started, failed, completed float64) {
			m.Helper()
			got := m.read()
			want(r, "rewound", got["instance.rewound"], rewound)
			want(r, "started", got["instance.started"], started)
			want(r, "failed", got["instance.ended{status=failed}"], failed)
			want(r, "completed", got["instance.ended{status=completed}"], completed)
		}
		for _, id := range []string{"activity", "code", "parent"} {
			m.begin(id, id, "")
			m.until(id, Failed)
		}
		expect(0, 4, 4, 0)
		m.rewind("code") // and fails again
		m.until("code", Failed)
		expect(1, 4, 5, 0)
		broken.Store(false)
		for _, id := range []string{"activity", "code", "parent"} {
			m.rewind(id)
			m.result(id)
		}
		m.pass(0)
		expect(5, 4, 5, 4)
		m.wantErr(m.Rewind(m.Context(), Ref{ID: "code"}, ""), ErrState)
		expect(5, 4, 5, 4)
	})
}
