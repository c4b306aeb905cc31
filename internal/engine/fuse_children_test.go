package engine

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/internal/replay"
	"github.com/abidehq/abide/store"
)

// manyChildren starts n children at once and returns the results of all, one after another.
func manyChildren(name string, n int) replay.Code {
	return func(c *replay.Context, in []byte) replay.Outcome {
		children := make([]*replay.Future, n)
		for i := range children {
			children[i] = c.Child(name, fmt.Sprintf("%s-%d", name, i), in, history.Child{})
		}
		all := ""
		for _, child := range children {
			c.Wait(child)
			data, bad := child.Result()
			if bad != nil {
				data = []byte(bad.Type)
			}
			all += string(data) + " "
		}
		return done(all)
	}
}

// TestCommitsOfAFusedChild: the first turn of a child is in the commit of its parent that starts it, and
// its end in that of the parent's turn that takes the result.
func TestCommitsOfAFusedChild(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("parent", manyChildren("child", 1))
		r.flow("child", calls(1))
		r.act("echo", echo)
		r.serve()
		r.warm()
		r.begin("i", "parent", "x")
		want(r, "result", r.result("i"), "ok ")
		want(r, "commits of the parent", r.commitsOf("i"), 2)
		want(r, "commits of the child", r.commitsOf("child-0"), 2)
		want(r, "status of the child", r.info("child-0").Status, Completed)
		parent, child := r.kinds("i"), r.kinds("child-0")
		r.must(r.Delete(r.Context(), Ref{ID: "child-0"}))
		r.again(unfused)
		r.begin("j", "parent", "x")
		want(r, "result", r.result("j"), "ok ")
		want(r, "history of the parent", r.kinds("j"), parent)
		want(r, "history of the child", r.kinds("child-0"), child)
	})
}

// TestChildThatEndsInItsFirstTurn, which is in the commit that starts it.
func TestChildThatEndsInItsFirstTurn(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("parent", manyChildren("child", 3))
		r.flow("child", func(*replay.Context, []byte) replay.Outcome { return done("at once") })
		r.serve()
		r.warm()
		r.begin("i", "parent", "")
		want(r, "result", r.result("i"), "at once at once at once ")
		for i := range 3 {
			want(r, "commits of a child", r.commitsOf(fmt.Sprintf("child-%d", i)), 1)
		}
	})
}

// TestChildrenThatEndTogether: their results are one turn of the parent.
func TestChildrenThatEndTogether(t *testing.T) {
	inBubble(t, func(r *rig) {
		const n = 20
		r.flow("parent", manyChildren("child", n))
		r.flow("child", calls(1))
		r.act("echo", echo)
		r.serve()
		r.warm()
		r.tape.slowly(fuseWithin / 2)
		r.begin("i", "parent", "x")
		r.result("i")
		if commits := r.commitsOf("i"); commits > n/2 {
			t.Errorf("%d commits of a parent of %d children", commits, n)
		}
		want(r, "completed", r.countKind("i", history.ChildCompleted), n)
	})
}

// TestFusedChildWhoseIDIsTaken: the parent and its other children go on, whether or not the turn of the
// parent is fused itself.
func TestFusedChildWhoseIDIsTaken(t *testing.T) {
	for _, delay := range []time.Duration{0, time.Second} {
		t.Run(delay.String(), func(t *testing.T) {
			inBubble(t, func(r *rig) {
				r.flow("parent", manyChildren("child", 3))
				r.flow("child", calls(1))
				r.act("echo", echo)
				r.serve()
				r.warm()
				r.begin("child-1", "child", "x")
				r.result("child-1")
				r.begin("i", "parent", "x", func(s *Start) { s.After = delay })
				want(r, "result", r.result("i"), "ok "+TypeExists+" ok ")
				want(r, "activities of the one that was there", r.countKind("child-1", history.ActivityScheduled), 1)
				want(r, "activities of another", r.countKind("child-0", history.ActivityScheduled), 1)
			})
		})
	}
}

// TestChildrenThatCannotBeFused start with a message, as ever: the parent does not wait for them.
func TestChildrenThatCannotBeFused(t *testing.T) {
	for name, code := range map[string]func(release <-chan struct{}) replay.Code{
		"slow": func(<-chan struct{}) replay.Code {
			return func(*replay.Context, []byte) replay.Outcome { <-time.After(time.Second); return done("ok") }
		},
		"with a step": func(<-chan struct{}) replay.Code {
			return func(c *replay.Context, _ []byte) replay.Outcome {
				data, _ := c.Step("step", func(context.Context) ([]byte, *history.Failure) { return []byte("ok"), nil })
				return done(string(data))
			}
		},
		"with children": func(<-chan struct{}) replay.Code { return manyChildren("leaf", 1) },
		"blocked": func(release <-chan struct{}) replay.Code {
			return func(*replay.Context, []byte) replay.Outcome { <-release; return done("ok") }
		},
		"ends its goroutine": func(<-chan struct{}) replay.Code {
			return func(*replay.Context, []byte) replay.Outcome { runtime.Goexit(); return done("") }
		},
		"not here": nil,
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				release := make(chan struct{})
				r.flow("parent", manyChildren("child", 2))
				r.flow("leaf", func(*replay.Context, []byte) replay.Outcome { return done("leaf") })
				if code != nil {
					r.flow("child", code(release))
				}
				r.serve()
				r.warm()
				began := time.Now()
				r.begin("i", "parent", "x")
				if took := time.Since(began); took > 3*fuseWithin {
					t.Errorf("the start took %v", took)
				}
				r.pass(fuseWithin)
				for _, id := range []string{"child-0", "child-1"} {
					want(r, "parent of "+id, r.info(id).Parent, "i")
				}
				close(release)
				r.pass(time.Minute)
				if name == "with children" {
					want(r, "status of the child's child", r.info("leaf-0").Status, Completed)
				}
			})
		})
	}
}

// TestFusedStartsInBulk are one commit with their first turns, and none is started if one exists.
func TestFusedStartsInBulk(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("flow", calls(1))
		r.act("echo", echo)
		r.serve()
		r.warm()
		starts := make([]Start, 10)
		for i := range starts {
			starts[i] = Start{Ref: Ref{ID: fmt.Sprint("i-", i)}, Name: "flow", Input: []byte("x"), IfExists: Reject}
		}
		before := r.Count().Fused.Load()
		r.must2(r.Client.Start(r.Context(), starts...))
		want(r, "fused", r.Count().Fused.Load()-before, 10)
		for i := range starts {
			want(r, "result", r.result(starts[i].ID), "ok")
			want(r, "commits", r.commitsOf(starts[i].ID), 2)
		}
		for i := range starts {
			starts[i].ID = fmt.Sprint("j-", i)
		}
		starts[7].ID = "i-7"
		_, err := r.Client.Start(r.Context(), starts...)
		r.wantErr(err, ErrExists)
		r.pass(time.Minute)
		_, err = r.Client.Get(r.Context(), Ref{ID: "j-0"})
		r.wantErr(err, ErrNotFound)
		for i := range starts {
			starts[i].IfExists = Return
		}
		r.must2(r.Client.Start(r.Context(), starts...))
		want(r, "result", r.result("j-0"), "ok")
	})
}

// TestStartsInBulkThatAreTooLargeToFuse are started without their first turns.
func TestStartsInBulkThatAreTooLargeToFuse(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("flow", calls(1))
		r.act("echo", echo)
		r.serve()
		r.warm()
		const size = 256 << 10
		starts := make([]Start, store.MaxTxBytes*3/4/size) // the input is in the history, and again in the task
		for i := range starts {
			starts[i] = Start{Ref: Ref{ID: fmt.Sprint("i-", i)}, Name: "flow", Input: make([]byte, size)}
		}
		before := r.Count().Fused.Load()
		r.must2(r.Client.Start(r.Context(), starts...))
		want(r, "fused", r.Count().Fused.Load()-before, 0)
		want(r, "result", r.result("i-0"), "ok")
	})
}
