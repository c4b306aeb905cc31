package engine

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/internal/replay"
	"github.com/abidehq/abide/store"
)

// flaky is an activity that fails with its first n calls.
type flaky struct{ fails, calls atomic.Int32 }

func (f *flaky) run(_ context.Context, t *Task) ([]byte, *history.Failure) {
	if n := f.calls.Add(1); n <= f.fails.Load() {
		return nil, failure("call %d", n)
	}
	return t.Input, nil
}

// flaky registers an activity that fails with its first n calls.
func (r *rig) flaky(name string, n int32) *flaky {
	f := &flaky{}
	f.fails.Store(n)
	r.act(name, f.run)
	return f
}

// rewind rewinds an instance that has failed, and checks that its history is one: IDs without gaps, and
// references to earlier events.
func (r *rig) rewind(id string) {
	r.Helper()
	before := r.info(id)
	r.must(r.client().Rewind(WithActor(r.Context(), "operator"), Ref{ID: id}, "again"))
	events := r.events(id)
	for i, e := range events {
		want(r, "ID", int(e.ID), i+1)
		if e.Ref != 0 && e.Ref >= e.ID || e.Ref == 0 && isFailure(e.Kind) {
			r.Errorf("%v refers to %d", &e, e.Ref)
		}
	}
	if !slices.ContainsFunc(events, func(e history.Event) bool {
		return e.Kind == history.ExecutionRewound && e.Name == "again" && e.By == "operator" && e.Failure != nil
	}) {
		r.Errorf("no remark of the rewind: %s", r.kinds(id))
	}
	after := r.info(id)
	if after.run == before.run {
		r.Error("the run is the same")
	}
}

// call calls an activity once.
func call(c *replay.Context, name, input string) *replay.Future {
	return c.Activity(name, []byte(input), history.Activity{MaxAttempts: 1})
}

func TestRewindAfterAnActivityFailed(t *testing.T) {
	for name, change := range map[string]func(*Config){"fused": func(*Config) {}, "unfused": unfused} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				first, second := r.flaky("first", 0), r.flaky("second", 1)
				r.flow("flow", func(c *replay.Context, _ []byte) replay.Outcome {
					c.Wait(call(c, "first", "1"))
					return outcome(c, call(c, "second", "2"))
				})
				r.serve(change, func(c *Config) { c.Retention = time.Hour })
				r.warm()
				r.begin("i", "flow", "")
				want(r, "failure", r.until("i", Failed).Failure.Message, "call 1")
				r.rewind("i")
				want(r, "result", r.result("i"), "2")
				want(r, "calls of the first", first.calls.Load(), 1)
				want(r, "calls of the second", second.calls.Load(), 2)
				want(r, "failures in the history", r.countKind("i", history.ActivityFailed), 0)
				r.pass(2 * time.Hour)
				_, err := r.Get(r.Context(), Ref{ID: "i"})
				r.wantErr(err, ErrNotFound) // it is deleted after its second end
			})
		})
	}
}

// TestRewindOfOneOfThree: the others do not run again, also if the failure came first.
func TestRewindOfOneOfThree(t *testing.T) {
	for _, bad := range []int{0, 1, 2} {
		t.Run(fmt.Sprint(bad), func(t *testing.T) {
			inBubble(t, func(r *rig) {
				acts := make([]*flaky, 3)
				for i := range acts {
					acts[i] = r.flaky(fmt.Sprintf("a%d", i), 0)
					run := r.acts[fmt.Sprintf("a%d", i)]
					r.act(fmt.Sprintf("a%d", i), func(ctx context.Context, t *Task) ([]byte, *history.Failure) {
						<-time.After(time.Duration(i+1) * time.Second)
						return run(ctx, t)
					})
				}
				acts[bad].fails.Store(1)
				r.flow("flow", func(c *replay.Context, _ []byte) replay.Outcome {
					var all []*replay.Future
					for i := range acts {
						all = append(all, call(c, fmt.Sprintf("a%d", i), fmt.Sprint(i)))
					}
					for _, f := range all {
						c.Wait(f)
					}
					var results []string
					for _, f := range all {
						data, failure := f.Result()
						if failure != nil {
							return failed(failure)
						}
						results = append(results, string(data))
					}
					return done(strings.Join(results, ""))
				})
				r.serve()
				r.begin("i", "flow", "")
				r.until("i", Failed)
				r.rewind("i")
				want(r, "result", r.result("i"), "012")
				for i, a := range acts {
					calls := int32(1)
					if i == bad {
						calls = 2
					}
					want(r, fmt.Sprintf("calls of %d", i), a.calls.Load(), calls)
				}
			})
		})
	}
}

// TestRewindTwice: each rewind is in the history.
func TestRewindTwice(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flaky("act", 2)
		r.flow("flow", func(c *replay.Context, _ []byte) replay.Outcome { return outcome(c, call(c, "act", "x")) })
		r.serve()
		r.begin("i", "flow", "")
		for range 2 {
			r.until("i", Failed)
			r.rewind("i")
			r.pass(time.Second)
		}
		want(r, "result", r.result("i"), "x")
		want(r, "remarks", r.countKind("i", history.ExecutionRewound), 2)
	})
}

// TestRewindSetsTimersAgain: those that were open when it failed fire when they are due.
func TestRewindSetsTimersAgain(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flaky("act", 1)
		r.flow("flow", func(c *replay.Context, _ []byte) replay.Outcome {
			due := c.Timer("", c.Now().Add(time.Hour))
			f := call(c, "act", "x")
			c.Wait(f)
			if _, failure := f.Result(); failure != nil {
				return failed(failure)
			}
			c.Wait(due)
			return done(c.Now().Format(time.TimeOnly))
		})
		began := time.Now()
		r.serve()
		r.begin("i", "flow", "")
		r.until("i", Failed)
		r.pass(time.Minute)
		r.rewind("i")
		want(r, "result", r.result("i"), began.UTC().Add(time.Hour).Format(time.TimeOnly))
	})
}

// TestRewindKeepsWhatWasCaught: a failure to which the code has reacted stays.
func TestRewindKeepsWhatWasCaught(t *testing.T) {
	inBubble(t, func(r *rig) {
		caught := r.flaky("caught", 100)
		r.flaky("act", 1)
		r.flow("flow", func(c *replay.Context, _ []byte) replay.Outcome {
			f := call(c, "caught", "")
			c.Wait(f)
			if _, failure := f.Result(); failure == nil {
				return done("not caught")
			}
			return outcome(c, call(c, "act", "after it"))
		})
		r.serve()
		r.begin("i", "flow", "")
		r.until("i", Failed)
		r.rewind("i")
		want(r, "result", r.result("i"), "after it")
		want(r, "calls of what was caught", caught.calls.Load(), 1)
		want(r, "failures in the history", r.countKind("i", history.ActivityFailed), 1)
	})
}

// TestRewindOfCodeThatFails by itself: its last turn runs again, with the events that reached it and at the
// time of now.
func TestRewindOfCodeThatFails(t *testing.T) {
	inBubble(t, func(r *rig) {
		var broken atomic.Bool
		broken.Store(true)
		r.flow("at once", func(*replay.Context, []byte) replay.Outcome {
			if broken.Load() {
				return failed(failure("not yet"))
			}
			return done("at once")
		})
		r.flow("with an event", func(c *replay.Context, _ []byte) replay.Outcome {
			got := receive(c, "go")
			c.SetStatus("has " + got)
			if broken.Load() {
				return failed(failure("not yet"))
			}
			return done(got + " " + c.Now().Format(time.TimeOnly))
		})
		r.serve()
		r.begin("a", "at once", "")
		r.begin("e", "with an event", "")
		r.pass(0)
		r.raise("e", "go", "x")
		r.until("a", Failed)
		r.until("e", Failed)
		r.pass(time.Hour)
		r.rewind("a")
		want(r, "still broken", r.until("a", Failed).Failure.Message, "not yet")
		broken.Store(false)
		r.rewind("a")
		r.rewind("e")
		want(r, "at once", r.result("a"), "at once")
		want(r, "with an event", r.result("e"), "x "+time.Now().UTC().Format(time.TimeOnly))
		want(r, "status", r.info("e").Text, "has x")
		want(r, "events received", r.countKind("e", history.EventReceived), 1)
	})
}

// TestRewindOfChildren: failed ones are rewound, with theirs; those that run report to the new run; the
// outcomes of those that have ended since, and of those that were deleted, come too.
func TestRewindOfChildren(t *testing.T) {
	inBubble(t, func(r *rig) {
		act, other := r.flaky("act", 1), r.flaky("other", 0)
		r.flow("leaf", func(c *replay.Context, _ []byte) replay.Outcome { return outcome(c, call(c, "act", "leaf")) })
		r.flow("middle", func(c *replay.Context, _ []byte) replay.Outcome {
			c.Wait(call(c, "other", ""))
			return outcome(c, c.Child("leaf", "leaf", nil, history.Child{OnClose: history.AbandonChild}))
		})
		r.flow("wait", waiter)
		ids := []string{"middle", "runs", "ends", "deleted"}
		r.flow("parent", func(c *replay.Context, _ []byte) replay.Outcome {
			var all []*replay.Future
			for _, id := range ids {
				name := "wait"
				if id == "middle" {
					name = id
				}
				all = append(all, c.Child(name, id, nil, history.Child{OnClose: history.AbandonChild}))
			}
			var results []string
			for _, f := range all {
				c.Wait(f)
				data, failure := f.Result()
				if failure != nil {
					return failed(failure)
				}
				results = append(results, string(data))
			}
			return done(strings.Join(results, " "))
		})
		r.serve()
		r.begin("p", "parent", "")
		r.until("p", Failed)
		want(r, "grandchild", r.info("leaf").Status, Failed)
		r.raise("ends", "go", "ended")
		r.raise("deleted", "go", "gone")
		r.result("ends")
		r.result("deleted")
		r.must(r.Delete(r.Context(), Ref{ID: "deleted"}))
		r.rewind("p")
		r.pass(time.Second)
		want(r, "parent", r.info("p").Status, Running)
		want(r, "grandchild then", r.info("leaf").Status, Completed)
		r.raise("deleted", "go", "again")
		r.raise("runs", "go", "ran")
		want(r, "result", r.result("p"), "leaf ran ended again")
		want(r, "calls", act.calls.Load(), 2)
		want(r, "calls of what had not failed", other.calls.Load(), 1)
		want(r, "remark of the child that ran", r.find("runs", history.ExecutionRewound).Target, "p")
	})
}

// TestRewindOfAChildAlone: its parent, which was told of the failure and goes on, is not disturbed.
func TestRewindOfAChildAlone(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flaky("act", 1)
		r.flow("leaf", func(c *replay.Context, _ []byte) replay.Outcome { return outcome(c, call(c, "act", "leaf")) })
		r.flow("parent", func(c *replay.Context, _ []byte) replay.Outcome {
			c.Wait(c.Child("leaf", "c", nil, history.Child{}))
			return done("failed, " + receive(c, "go"))
		})
		r.serve()
		r.begin("p", "parent", "")
		r.pass(time.Second)
		r.until("c", Failed)
		r.pass(time.Second)
		r.rewind("c")
		want(r, "child", r.result("c"), "leaf")
		r.pass(time.Second)
		r.raise("p", "go", "goes on")
		want(r, "parent", r.result("p"), "failed, goes on")
		want(r, "outcomes of the child", r.countKind("p", history.ChildCompleted), 0)
	})
}

// TestRewindRefuses what has not failed.
func TestRewindRefuses(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("flow", waiter)
		r.serve()
		r.begin("i", "flow", "")
		r.pass(0)
		rewind := func() error { return r.Rewind(r.Context(), Ref{ID: "i"}, "") }
		r.wantErr(rewind(), ErrState, "running")
		r.raise("i", "go", "")
		r.result("i")
		r.wantErr(rewind(), ErrState, "completed")
		r.begin("i", "flow", "", func(s *Start) { s.IfExists = Replace })
		r.must(r.Terminate(r.Context(), Ref{ID: "i"}, ""))
		r.until("i", Terminated)
		r.wantErr(rewind(), ErrState, "terminated")
		r.wantErr(r.Rewind(r.Context(), Ref{ID: "none"}, ""), ErrNotFound)
		r.wantErr(r.Rewind(r.Context(), Ref{ID: "i"}, strings.Repeat("x", MaxReason+1)), ErrInvalid)
	})
}

// TestRewindInParts: a history that is too large for one commit, of which some parts are appended by a rewind
// that is interrupted.
func TestRewindInParts(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flaky("act", 1)
		const n, size = 40, 2 << 20
		r.flow("flow", func(c *replay.Context, _ []byte) replay.Outcome {
			for range n {
				receive(c, "go")
			}
			return outcome(c, call(c, "act", "x"))
		})
		r.serve()
		r.begin("i", "flow", "")
		for range n {
			r.raise("i", "go", strings.Repeat("x", size))
			r.pass(time.Second)
		}
		r.until("i", Failed)
		parts := 0
		r.tape.failing(func(tx *store.Tx) error {
			if len(tx.Append) == 1 && tx.Append[0].Key == (Ref{ID: "i"}).key() && len(tx.PutRecords) == 0 {
				if parts++; parts == 2 {
					return errBroken
				}
			}
			return nil
		})
		r.wantErr(r.Rewind(r.Context(), Ref{ID: "i"}, "again"), errBroken)
		want(r, "still", r.info("i").Status, Failed)
		want(r, "the last event", r.events("i")[len(r.events("i"))-1].Kind, history.ExecutionFailed)
		r.rewind("i")
		if parts < 4 {
			r.Errorf("%d parts", parts)
		}
		want(r, "result", r.result("i"), "x")
	})
}

// TestRewindMeetsAnother: of two rewinds at once one is refused, and the instance is rewound once.
func TestRewindMeetsAnother(t *testing.T) {
	inBubble(t, func(r *rig) {
		act := r.flaky("act", 1)
		r.flow("flow", func(c *replay.Context, _ []byte) replay.Outcome { return outcome(c, call(c, "act", "x")) })
		r.serve()
		r.begin("i", "flow", "")
		r.until("i", Failed)
		var met atomic.Bool
		r.tape.failing(func(tx *store.Tx) error {
			if len(tx.Trim) > 0 && met.CompareAndSwap(false, true) {
				r.rewind("i")
				r.pass(time.Second)
			}
			return nil
		})
		r.wantErr(r.Rewind(r.Context(), Ref{ID: "i"}, "too late"), ErrState, "completed")
		want(r, "result", r.result("i"), "x")
		want(r, "calls", act.calls.Load(), 2)
	})
}

// TestRewindCallsEntitiesAgain: a call that failed is made again, and one that did not is not. Locks that the
// instance held are lost with its failure.
func TestRewindCallsEntitiesAgain(t *testing.T) {
	inBubble(t, func(r *rig) {
		var fixed atomic.Bool
		code := func(ctx context.Context, b *EntityBatch) (*EntityOutcome, error) {
			for i := range b.Operations {
				if op := &b.Operations[i]; op.Name == "fail" && fixed.Load() {
					op.Name = "get"
				}
			}
			return counter(ctx, b)
		}
		r.flow("flow", func(c *replay.Context, _ []byte) replay.Outcome {
			c.Wait(c.CallEntity("@counter@a", "add", []byte("2")))
			return outcome(c, c.CallEntity("@counter@a", "fail", nil))
		})
		r.flow("locks", func(c *replay.Context, _ []byte) replay.Outcome {
			c.Wait(c.LockEntities([]byte(`["@counter@a"]`)))
			return outcome(c, c.CallEntity("@counter@a", "fail", nil))
		})
		r.serve(entities(map[string]EntityCode{"counter": code}))
		r.begin("i", "flow", "")
		r.begin("l", "locks", "")
		want(r, "failure", r.until("i", Failed).Failure.Type, "refused")
		r.until("l", Failed)
		fixed.Store(true)
		r.rewind("i")
		want(r, "result", r.result("i"), "2")
		r.wantErr(r.Rewind(r.Context(), Ref{ID: "l"}, ""), ErrState, "locks")
	})
}
