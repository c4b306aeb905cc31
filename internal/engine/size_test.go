package engine

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/internal/replay"
)

// TestLargeFanOutInOneTurn: activities whose inputs are more than one commit can hold are
// scheduled by several turns, in order, and the instance replays.
func TestLargeFanOutInOneTurn(t *testing.T) {
	inBubble(t, func(r *rig) {
		const n, size = 40, 1 << 20
		sizes := map[string]int{}
		r.act("size", func(_ context.Context, task *Task) ([]byte, *history.Failure) {
			return fmt.Append(nil, len(task.Input)), nil
		})
		r.flow("flow", func(c *replay.Context, _ []byte) replay.Outcome {
			var order []int
			c.Go(func(*replay.Context) { order = append(order, -1) }) // runs where the code waits, not between
			input := make([]byte, size)
			var calls []*replay.Future
			for i := range n {
				calls = append(calls, c.Activity("size", input, history.Activity{}))
				order = append(order, i)
			}
			c.Wait(calls...)
			receive(c, "go")
			sum := 0
			for _, f := range calls {
				data, _ := f.Result()
				got := 0
				_, _ = fmt.Sscan(string(data), &got)
				sum += got
			}
			return done(fmt.Sprint(sum, " ", order[len(order)-1], " ", len(order)))
		})
		r.serve()
		r.begin("i", "flow", "")
		r.pass(time.Minute)
		want(r, "status", r.info("i").Status, Running)
		if yields := r.countKind("i", history.TurnYielded); yields < 4 || yields > 8 {
			r.Errorf("%d turns ended because of their size", yields)
		}
		for _, tx := range r.tape.commits() {
			if finishes(&tx, Ref{ID: "i"}.key()) {
				_, bytes, err := tx.Size()
				r.must(err)
				sizes["largest"] = max(sizes["largest"], bytes)
			}
		}
		turnBytes, _ := turnLimits(r.tape.Limits())
		if most := turnBytes + 4*size; sizes["largest"] > most {
			r.Errorf("the largest commit of a turn has %d bytes, want at most %d", sizes["largest"], most)
		}
		r.again()
		r.raise("i", "go", "")
		want(r, "result", r.result("i"), fmt.Sprint(n*size, " ", -1, " ", n+1))
	})
}

// TestManyThingsInOneTurn: the same by their number.
func TestManyThingsInOneTurn(t *testing.T) {
	inBubble(t, func(r *rig) {
		_, turnOps := turnLimits(r.tape.Limits())
		n := turnOps/3 + 10
		r.flow("flow", func(c *replay.Context, _ []byte) replay.Outcome {
			for range n {
				c.Timer("", c.Now().Add(time.Hour))
			}
			return done(receive(c, "go"))
		})
		r.serve()
		r.begin("i", "flow", "")
		r.pass(time.Second)
		want(r, "turns that ended because of their size", r.countKind("i", history.TurnYielded), 1)
		for _, tx := range r.tape.commits() {
			if ops, _, err := tx.Size(); err != nil || ops > turnOps+10 {
				r.Errorf("a commit has %d operations, error %v", ops, err)
			}
		}
		r.again()
		r.raise("i", "go", "x")
		want(r, "result", r.result("i"), "x")
	})
}

// TestStalledBySizeOfHistory: at the limit, not before, and it goes on with a larger one.
func TestStalledBySizeOfHistory(t *testing.T) {
	inBubble(t, func(r *rig) {
		const limit = 1 << 20
		r.flow("flow", func(c *replay.Context, _ []byte) replay.Outcome {
			for receive(c, "go") != "end" {
				continue
			}
			return done("done")
		})
		r.serve(func(c *Config) { c.MaxHistoryBytes = limit })
		r.begin("i", "flow", "")
		r.raise("i", "go", strings.Repeat("x", limit/2))
		r.pass(time.Second)
		want(r, "status below the limit", r.info("i").Status, Running)
		r.raise("i", "go", strings.Repeat("x", limit/2))
		r.pass(time.Second)
		want(r, "status of the turn that passes the limit", r.info("i").Status, Running)
		r.raise("i", "go", "end")
		info := r.until("i", Stalled)
		if !strings.Contains(info.Reason, "limit: its history has") || !strings.Contains(info.Reason, fmt.Sprint(limit)) {
			r.Errorf("reason: %s", info.Reason)
		}
		r.again()
		r.must(r.Resume(r.Context(), Ref{ID: "i"}))
		want(r, "result", r.result("i"), "done")
	})
}

// TestCodeKnowsTheSizeOfItsHistory: the same live and replayed, and after continue-as-new it
// begins anew.
func TestCodeKnowsTheSizeOfItsHistory(t *testing.T) {
	inBubble(t, func(r *rig) {
		const limit = 1 << 20
		var seen []replay.Size
		r.flow("flow", func(c *replay.Context, _ []byte) replay.Outcome {
			seen = []replay.Size{c.Size()}
			for {
				if receive(c, "go") == "end" {
					return done("")
				}
				seen = append(seen, c.Size())
				if c.Size().Suggested {
					return replay.Outcome{Continue: &replay.Continue{Name: "flow"}}
				}
			}
		})
		small := func(c *Config) { c.MaxHistoryBytes = limit }
		r.serve(small)
		r.begin("i", "flow", "")
		r.pass(time.Second)
		r.raise("i", "go", strings.Repeat("x", limit/3))
		r.pass(time.Second)
		r.raise("i", "go", strings.Repeat("x", limit/3))
		r.pass(time.Second)
		live := seen
		want(r, "turns", len(live), 3)
		bytes, events := int64(0), r.events("i")
		for i := range events {
			if e := &events[i]; e.Kind == history.TurnStarted {
				want(r, "size at a turn", live[0], replay.Size{Events: i, Bytes: bytes})
				live = live[1:]
			}
			bytes += int64(len(history.Append(nil, &events[i])))
		}
		live = seen
		r.again(small)
		r.raise("i", "go", "one more") // more than half of the limit is used
		r.pass(time.Second)
		want(r, "execution", r.info("i").Execution, 2)
		want(r, "first of the next execution", seen[0], replay.Size{})
		r.raise("i", "go", "end")
		r.result("i")
		_, before, err := r.History(r.Context(), Ref{ID: "i"}, 1)
		r.must(err)
		x := replay.New("i", func(c *replay.Context, in []byte) replay.Outcome { return r.code["flow"](Ref{ID: "i"})(c, in) })
		r.must(x.Replay(before))
		want(r, "turns that are replayed", len(seen), 4)
		for i := range live {
			want(r, "size when it is replayed", seen[i], live[i])
		}
		want(r, "suggested in the end", seen[3].Suggested, true)
	})
}

// TestLargeHistoryIsWarnedOf: once, when it passes the limit.
func TestLargeHistoryIsWarnedOf(t *testing.T) {
	inBubble(t, func(r *rig) {
		const n = WarnHistoryBytes/MaxPayload + 2
		r.flow("flow", func(c *replay.Context, _ []byte) replay.Outcome {
			for range n {
				receive(c, "go")
			}
			return done("")
		})
		log := &lines{}
		r.serve(log.configure)
		r.begin("i", "flow", "")
		for range n {
			r.raise("i", "go", strings.Repeat("x", MaxPayload))
			r.pass(time.Second)
		}
		r.result("i")
		want(r, "warnings", strings.Count(log.text.String(), "history grows long"), 1)
		want(r, "bytes in the warning", log.find(r, "history grows long")["bytes"].(float64) >= WarnHistoryBytes, true)
	})
}

// TestSizeIsTheSameAfterATurnIsDoneOnceMore: an instance is suspended during a step, so its
// turn is committed behind what that has appended. The code is told the same when it replays.
func TestSizeIsTheSameAfterATurnIsDoneOnceMore(t *testing.T) {
	inBubble(t, func(r *rig) {
		var seen []replay.Size
		runs := 0
		r.flow("flow", func(c *replay.Context, _ []byte) replay.Outcome {
			seen = nil
			receive(c, "go")
			seen = append(seen, c.Size())
			c.Step("step", func(ctx context.Context) ([]byte, *history.Failure) {
				if runs++; runs == 1 {
					r.must(r.Suspend(ctx, Ref{ID: "i"}, ""))
					r.until("i", Suspended)
				}
				return nil, nil
			})
			told := receive(c, "go")
			seen = append(seen, c.Size())
			return done(told + receive(c, "go"))
		})
		r.serve()
		r.begin("i", "flow", "")
		r.raise("i", "go", "")
		r.pass(time.Second)
		want(r, "status", r.info("i").Status, Suspended)
		want(r, "runs of the step", runs, 1)
		live := seen[0]
		r.must(r.Resume(r.Context(), Ref{ID: "i"}))
		r.raise("i", "go", "a")
		r.pass(time.Second)
		r.again()
		r.raise("i", "go", "b")
		want(r, "result", r.result("i"), "ab")
		want(r, "size when it is replayed", seen[0], live)
		want(r, "runs of the step in the end", runs, 1)
	})
}
