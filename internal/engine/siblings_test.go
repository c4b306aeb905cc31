package engine

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/internal/replay"
)

// family starts the engine of a server, which runs nothing, and one for each of some workers on its store.
func (r *rig) family(n int, change func(i int, c *Config)) (server *Engine, workers []*Engine) {
	r.Helper()
	server = r.serve(func(c *Config) { c.Routes, c.Activities = nil, nil })
	for i := range n {
		workers = append(workers, r.serve(func(c *Config) {
			c.Store, c.Elsewhere = server.Observed(), &Worker{Host: fmt.Sprint(i)}
			if change != nil {
				change(i, c)
			}
		}))
	}
	r.Engine = server
	return server, workers
}

// leave closes the engines of workers.
func (r *rig) leave(workers []*Engine) {
	for _, e := range workers {
		r.stop(e)
	}
}

// TestTurnsGoToTheWorkerThatHasTheInstance: of several workers of one server, the one that has an instance
// in memory takes its turns, whatever causes them, and wherever its activities run. None is replayed.
func TestTurnsGoToTheWorkerThatHasTheInstance(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"fused": func(*Config) {}, "claimed": unfused,
		"pinned": func(c *Config) { c.Unfused, c.Build, c.Pins = true, "b1", map[string]Pin{"flow": Pinned} },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				r.act("echo", func(ctx context.Context, task *Task) ([]byte, *history.Failure) {
					<-time.After(time.Second) // so that the attempts go to all workers
					return echo(ctx, task)
				})
				r.flow("flow", func(c *replay.Context, _ []byte) replay.Outcome {
					<-time.After(time.Millisecond) // so that all workers take some
					for range 3 {
						outcome(c, c.Activity("echo", []byte("x"), history.Activity{MaxAttempts: 1}))
						receive(c, "go")
						if failure := sleep(c, time.Second); failure != nil {
							return failed(failure)
						}
					}
					return done("done")
				})
				_, workers := r.family(4, func(_ int, c *Config) { c.MaxTurns, c.MaxActivities = 5, 5; change(c) })
				const n = 20
				for i := range n {
					r.begin(fmt.Sprint(i), "flow", "")
				}
				for range 3 {
					r.pass(2 * time.Second)
					for i := range n {
						r.raise(fmt.Sprint(i), "go", "")
					}
					r.pass(2 * time.Second)
				}
				used, fused := 0, int64(0)
				for i := range n {
					want(r, "result", r.result(fmt.Sprint(i)), "done")
				}
				r.pass(time.Second)
				for i, e := range workers {
					want(r, fmt.Sprintf("turns of worker %d that were replayed", i), e.Count().Replays.Load(), 0)
					if e.Count().Turns.Load() > 0 {
						used++
					}
					fused += e.Count().Fused.Load()
					want(r, "instances that are held", e.siblings.n.Load(), 0)
				}
				want(r, "workers that have run turns", used, len(workers))
				if name == "fused" {
					want(r, "fused turns, of activities and events", fused, 6*n)
				}
				r.leave(workers)
			})
		})
	}
}

// TestWorkerWithoutASlot: a turn is taken by another worker if the one that has the instance has no free
// slot, and by another one if it has left.
func TestWorkerWithoutASlot(t *testing.T) {
	inBubble(t, func(r *rig) {
		block := make(chan struct{})
		r.flow("flow", func(c *replay.Context, _ []byte) replay.Outcome { return done(receive(c, "go")) })
		r.flow("blocks", func(*replay.Context, []byte) replay.Outcome {
			<-block
			return done("")
		})
		server := r.serve(func(c *Config) { c.Routes, c.Activities = nil, nil })
		worker := func(routes ...string) *Engine {
			e := r.serve(func(c *Config) {
				c.Store, c.Elsewhere, c.Routes, c.MaxTurns, c.Unfused = server.Observed(), &Worker{}, routes, 1, true
				c.DeadlockTimeout = -1
			})
			r.Engine = server
			return e
		}
		first := worker("flow", "blocks")
		r.begin("a", "flow", "")
		r.begin("b", "flow", "")
		r.pass(time.Second)
		want(r, "turns of the first", first.Count().Turns.Load(), 2)
		r.begin("c", "blocks", "")
		r.pass(time.Second)
		second := worker("flow")
		r.raise("a", "go", "a")
		r.pass(time.Second)
		want(r, "turns of the second", second.Count().Turns.Load(), 1)
		want(r, "result", r.result("a"), "a")
		close(block)
		r.pass(time.Second)
		r.stop(first)
		r.raise("b", "go", "b")
		r.pass(time.Second)
		want(r, "result", r.result("b"), "b")
		r.stop(second)
	})
}
