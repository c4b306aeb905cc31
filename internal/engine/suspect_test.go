package engine

import (
	"context"
	"testing"
	"time"

	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/internal/replay"
)

// TestSuspectsAreAlone: of turns that were begun often and came to no end, one waits
// until the one before is done, or has had its time to show that it does no harm.
func TestSuspectsAreAlone(t *testing.T) {
	for name, tt := range map[string]struct{ work, apart time.Duration }{
		"short": {work: 2 * time.Second, apart: 2 * time.Second},
		"long":  {work: time.Minute, apart: probation},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				var begun []time.Duration
				var start time.Time
				r.flow("flow", func(c *replay.Context, _ []byte) replay.Outcome {
					begun = append(begun, time.Since(start))
					c.Step("work", func(context.Context) ([]byte, *history.Failure) {
						<-time.After(tt.work)
						return nil, nil
					})
					return done("")
				})
				ids := []string{"a", "b", "c"}
				for _, id := range ids {
					r.begin(id, "flow", "")
				}
				r.crash(queueTurns, "flow", suspectAfter)
				start = time.Now()
				r.serve()
				for _, id := range ids {
					r.until(id, Completed)
				}
				for i := range ids {
					earliest := time.Duration(i) * tt.apart
					if len(begun) != len(ids) || begun[i] < earliest || begun[i] > earliest+time.Duration(3*i)*suspectDelay {
						r.Fatalf("they began after %v, want about %v apart", begun, tt.apart)
					}
				}
			})
		})
	}
}

// TestInnocentsAreNotSuspect: what is claimed for the first time waits for nobody.
func TestInnocentsAreNotSuspect(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("flow", func(c *replay.Context, _ []byte) replay.Outcome {
			c.Step("work", func(context.Context) ([]byte, *history.Failure) {
				<-time.After(time.Second)
				return nil, nil
			})
			return done("")
		})
		r.begin("suspect", "flow", "")
		r.crash(queueTurns, "flow", suspectAfter)
		r.begin("a", "flow", "")
		r.begin("b", "flow", "")
		start := time.Now()
		r.serve()
		for _, id := range []string{"suspect", "a", "b"} {
			r.until(id, Completed)
		}
		want(r, "took", time.Since(start).Round(100*time.Millisecond), time.Second)
	})
}
