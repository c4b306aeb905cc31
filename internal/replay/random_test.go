package replay_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/abidehq/abide/internal/history"
	"github.com/abidehq/abide/internal/replay"
)

// random returns an orchestration that does what the seed says: everything that code
// can do, in any order, in several coroutines.
func random(seed uint64) replay.Code {
	return func(c *replay.Context, _ []byte) replay.Outcome {
		rng := rand.New(rand.NewPCG(seed, seed))
		var body func(c *replay.Context, depth int)
		body = func(c *replay.Context, depth int) {
			var open []*replay.Future
			for i := range rng.IntN(8) + 1 {
				switch rng.IntN(12) {
				case 0, 1:
					open = append(open, c.Activity(fmt.Sprintf("a%d", i), nil, history.Activity{}))
				case 2:
					open = append(open, c.Timer("", c.Now().Add(time.Duration(c.Uint64()%100)*time.Millisecond)))
				case 3:
					open = append(open, c.Receive(fmt.Sprintf("e%d", rng.IntN(2))))
				case 4:
					open = append(open, c.Child("child", fmt.Sprintf("c%d", i), nil, history.Child{}))
				case 5:
					if depth < 3 {
						c.Go(func(c *replay.Context) { body(c, depth+1) })
					}
				case 6:
					if len(open) > 0 {
						c.Wait(open[rng.IntN(len(open))])
					}
				case 7:
					if len(open) > 0 {
						c.WaitAny(open...)
					}
				case 8:
					if len(open) > 0 {
						c.Cancel(open[rng.IntN(len(open))])
					}
				case 9:
					c.Step("s", func(context.Context) ([]byte, *history.Failure) { return []byte("x"), nil })
				case 10:
					c.Changed(fmt.Sprintf("change-%d", rng.IntN(3)))
				case 11:
					scope, cancel := c.WithScope()
					scope.Activity("scoped", nil, history.Activity{})
					c.Wait(c.Receive("e0"))
					cancel("")
				}
			}
		}
		body(c, 0)
		return result("done")
	}
}

// TestEveryPrefixOfARandomHistoryReplays runs random orchestrations with random
// completions, and shows after each turn that an execution which has replayed the
// history so far is where the live one is.
func TestEveryPrefixOfARandomHistoryReplays(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		code := random(rapid.Uint64().Draw(rt, "code"))
		r := start(rt, code, "")
		for range 30 {
			same(rt, r, code)
			if r.x.Ended() {
				return
			}
			var incoming []history.Event
			for range rapid.IntRange(1, 3).Draw(rt, "events") {
				incoming = append(incoming, drawIncoming(rt, r))
			}
			r.turn(incoming...)
		}
	})
}

// drawIncoming returns an event that may reach the instance; now and then one that
// is stale, or comes twice.
func drawIncoming(t *rapid.T, r *run) history.Event {
	ids := r.x.Open()
	if len(ids) == 0 || rapid.IntRange(0, 3).Draw(t, "what") == 0 {
		return raised(fmt.Sprintf("e%d", rapid.IntRange(0, 1).Draw(t, "name")), "")
	}
	id := rapid.SampledFrom(ids).Draw(t, "of")
	switch r.events[id-1].Kind {
	case history.TimerCreated:
		return history.Event{Kind: history.TimerFired, Ref: id}
	case history.ChildStarted:
		return history.Event{Kind: history.ChildFailed, Ref: id, Failure: &history.Failure{Message: "no"}}
	default:
		return done(id, "ok")
	}
}

// same compares the live execution with one that has replayed its history.
func same(t *rapid.T, r *run, code replay.Code) {
	x := replay.New("self", code)
	defer x.Close()
	if err := x.Replay(r.events); err != nil {
		t.Fatalf("replay: %v", err)
	}
	if x.LastID() != r.x.LastID() || x.Ended() != r.x.Ended() ||
		!slices.Equal(x.Open(), r.x.Open()) || !slices.Equal(x.Waiting(), r.x.Waiting()) {
		t.Fatalf("replayed: event %d, ended %v, open %v, waiting %v\nlive: event %d, ended %v, open %v, waiting %v",
			x.LastID(), x.Ended(), x.Open(), x.Waiting(), r.x.LastID(), r.x.Ended(), r.x.Open(), r.x.Waiting())
	}
}
