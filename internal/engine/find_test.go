package engine

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/internal/replay"
)

// weighed is an executor that notes how much history is replayed at once.
type weighed struct {
	Executor
	calls, largest atomic.Int64
}

func (m *weighed) Load(ctx context.Context, ref Ref, name, version string) (Execution, error) {
	x, err := m.Executor.Load(ctx, ref, name, version)
	return &weighedExecution{x, m}, err
}

type weighedExecution struct {
	Execution
	m *weighed
}

func (x *weighedExecution) Replay(events []history.Event) error {
	size := int64(0)
	for i := range events {
		size += int64(len(events[i].Data))
	}
	x.m.calls.Add(1)
	x.m.largest.Store(max(x.m.largest.Load(), size))
	return x.Execution.Replay(events)
}

// TestLargeHistoryIsReplayedInParts: it is never in memory as a whole.
func TestLargeHistoryIsReplayedInParts(t *testing.T) {
	inBubble(t, func(r *rig) {
		const n, size = 20, 1 << 20
		r.flow("flow", func(c *replay.Context, _ []byte) replay.Outcome {
			sum := 0
			for range n {
				sum += len(receive(c, "go"))
			}
			return done(fmt.Sprint(sum, receive(c, "go")))
		})
		r.serve()
		r.begin("i", "flow", "")
		for range n {
			r.raise("i", "go", strings.Repeat("x", size))
			r.pass(time.Second)
		}
		var m *weighed
		r.again(func(c *Config) {
			m = &weighed{Executor: c.Executor}
			c.Executor = m
		})
		r.raise("i", "go", "!")
		want(r, "result", r.result("i"), fmt.Sprint(n*size, "!"))
		if calls := m.calls.Load(); calls < n*size/(2*keptHistory) {
			r.Errorf("%d parts", calls)
		}
		if most := m.largest.Load(); most > keptHistory+size {
			r.Errorf("%d bytes were replayed at once, want at most %d", most, keptHistory+size)
		}
	})
}
