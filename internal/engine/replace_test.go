package engine

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/internal/replay"
	"github.com/abidehq/abide/store"
)

// tagged waits for an event, and returns its input and what came with the event.
func tagged(c *replay.Context, in []byte) replay.Outcome {
	return done(string(in) + " " + receive(c, "go"))
}

// replacing is a start that replaces an instance of one of these statuses.
func replacing(statuses ...Status) func(*Start) {
	return func(s *Start) { s.Replaceable = append([]Status{}, statuses...) }
}

// TestStartReplacesByStatus: an instance whose status is not replaceable is kept, and the error names it.
func TestStartReplacesByStatus(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("flow", tagged)
		r.serve()
		r.begin("i", "flow", "old")
		r.pass(0)
		for _, policy := range [][]Status{{}, {Completed, Failed}, {Pending}} {
			_, err := r.Start(r.Context(), Start{Ref: Ref{ID: "i"}, Name: "flow", Input: []byte("new"), Replaceable: policy})
			r.wantErr(err, ErrExists, "running")
		}
		want(r, "existed", r.begin("i", "flow", "new", replacing(Running)).Existed, false)
		r.raise("i", "go", "1")
		want(r, "result", r.result("i"), "new 1")
		_, err := r.Start(r.Context(), Start{Ref: Ref{ID: "i"}, Name: "flow", Replaceable: []Status{Running}})
		r.wantErr(err, ErrExists, "completed")
		r.begin("i", "flow", "third", replacing(Completed))
		r.raise("i", "go", "2")
		want(r, "result of the third", r.result("i"), "third 2")
		want(r, "events of the third begin with the first", r.events("i")[0].ID, 1)
	})
}

// TestReplacedRunLeavesNothing: its task, its timer, its pending events and its children go with it, in the
// commit of the start.
func TestReplacedRunLeavesNothing(t *testing.T) {
	for name, change := range map[string]func(*Config){"fused": func(*Config) {}, "unfused": unfused} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				ran := map[string]int{}
				r.flow("old", func(c *replay.Context, _ []byte) replay.Outcome {
					c.Activity("queued", nil, history.Activity{MaxAttempts: 1})
					busy := c.Activity("busy", nil, history.Activity{MaxAttempts: 1, ScheduleToClose: time.Hour})
					c.Child("leaf", "c", nil, history.Child{OnClose: history.TerminateChild})
					c.Timer("", c.Now().Add(time.Hour))
					c.Wait(busy)
					return done("old")
				})
				r.flow("leaf", waiter)
				r.flow("new", func(c *replay.Context, _ []byte) replay.Outcome {
					_ = sleep(c, 2*time.Hour)
					return outcome(c, c.Activity("fresh", []byte("new"), history.Activity{MaxAttempts: 1}))
				})
				var cause error
				r.act("busy", func(ctx context.Context, _ *Task) ([]byte, *history.Failure) {
					<-ctx.Done()
					cause = context.Cause(ctx)
					return []byte("late"), nil
				})
				r.act("fresh", func(_ context.Context, t *Task) ([]byte, *history.Failure) { ran["fresh"]++; return t.Input, nil })
				r.serve(change)
				r.warm()
				r.begin("i", "old", "")
				r.pass(time.Second)
				r.must2(r.Raise(r.Context(), Raise{Ref: Ref{ID: "i"}, Name: "unread", Data: []byte("x")}))
				old := r.info("i")
				r.begin("i", "new", "", replacing(Running))
				r.pass(time.Second)
				want(r, "busy ended because it is not wanted", errors.Is(cause, ErrLost), true)
				want(r, "status of the child", r.info("c").Status, Terminated)
				for _, m := range r.pending(taskKey(Ref{ID: "i"}, old.run, r.firstOf("queued"))) {
					r.Errorf("task %v is pending", m.Ref())
				}
				r.act("queued", func(context.Context, *Task) ([]byte, *history.Failure) { ran["queued"]++; return nil, nil })
				r.again(change)
				want(r, "result", r.result("i"), "new")
				want(r, "tasks of the old run that ran", ran["queued"], 0)
				want(r, "activities of the new run", ran["fresh"], 1)
				want(r, "events that reached the new run", r.countKind("i", history.EventReceived), 0)
			})
		})
	}
}

// firstOf returns the ID of the event that schedules the activity in TestReplacedRunLeavesNothing: the first
// that its code records.
func (r *rig) firstOf(name string) int32 {
	r.Helper()
	for _, tx := range r.tape.commits() {
		for _, m := range tx.Put {
			if m.Key.Queue == QueueActivities && m.Route == name {
				spec, err := decodeTask(m.Body)
				r.must(err)
				return spec.event.ID
			}
		}
	}
	r.Fatalf("no task of %q", name)
	return 0
}

// TestReplacedStates: whatever the old one is at.
func TestReplacedStates(t *testing.T) {
	for name, prepare := range map[string]func(r *rig){
		"pending": func(r *rig) {
			r.begin("i", "flow", "old", func(s *Start) { s.After = time.Hour })
		},
		"suspended before it began": func(r *rig) {
			r.begin("i", "flow", "old", func(s *Start) { s.After = time.Hour })
			r.must(r.Suspend(r.Context(), Ref{ID: "i"}, ""))
			r.until("i", Suspended)
		},
		"suspended": func(r *rig) {
			r.begin("i", "flow", "old")
			r.pass(0)
			r.must(r.Suspend(r.Context(), Ref{ID: "i"}, ""))
			r.until("i", Suspended)
			r.raise("i", "go", "of the old one")
		},
		"continued, and the next execution has not begun": func(r *rig) {
			r.begin("i", "again", "")
			r.pass(0)
		},
		"child": func(r *rig) {
			r.begin("p", "parent", "")
			r.pass(0)
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				r.flow("flow", tagged)
				r.flow("parent", parenting("flow", "i", history.Child{}))
				r.flow("again", func(_ *replay.Context, _ []byte) replay.Outcome {
					return replay.Outcome{Continue: &replay.Continue{Name: "unserved"}}
				})
				r.serve()
				prepare(r)
				r.begin("i", "flow", "new", replacing(Pending, Running, Suspended))
				r.pass(0)
				r.raise("i", "go", "1")
				want(r, "result", r.result("i"), "new 1")
				if name == "child" {
					want(r, "failure of the parent", r.until("p", Failed).Failure.Type, TypeTerminated)
				}
				r.pass(2 * time.Hour)
				want(r, "starts", r.countKind("i", history.ExecutionStarted), 1)
			})
		})
	}
}

// TestReplacedRunInAnotherCache: a process that has the old run in memory does not go on with it, although
// the history of the new one is as long.
func TestReplacedRunInAnotherCache(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("flow", tagged)
		stale := r.serve()
		r.warm()
		r.begin("i", "flow", "old")
		r.pass(0)
		fresh, err := New(Config{
			Store: r.tape, Logger: slog.New(slog.DiscardHandler), Routes: []string{"flow@2"},
			Executor: Code{"flow@2": func(Ref) replay.Code { return tagged }},
		})
		r.must(err)
		defer func() { r.must(fresh.Close(context.Background())) }()
		_, err = fresh.Start(r.Context(), Start{Ref: Ref{ID: "i"}, Name: "flow", Version: "2", Input: []byte("new"), Replaceable: []Status{Running}})
		r.must(err)
		r.pass(0)
		if _, cached := stale.cache.peek(Ref{ID: "i"}.key()); !cached {
			r.Fatal("the other process has nothing in memory")
		}
		r.must2(stale.Raise(r.Context(), Raise{Ref: Ref{ID: "i"}, Name: "go", Data: []byte("1")}))
		want(r, "result", r.result("i"), "new 1")
	})
}

// TestReplaceManyAtOnce: several starts in one commit, of which some replace and one is refused.
func TestReplaceManyAtOnce(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("flow", tagged)
		r.flow("quick", quick)
		r.serve()
		r.warm()
		r.begin("running", "flow", "old")
		r.begin("ended", "quick", "old")
		r.result("ended")
		policy := []Status{Running, Completed}
		starts := []Start{
			{Ref: Ref{ID: "running"}, Name: "flow", Input: []byte("new"), Replaceable: policy},
			{Ref: Ref{ID: "none"}, Name: "flow", Input: []byte("new"), Replaceable: policy},
			{Ref: Ref{ID: "ended"}, Name: "flow", Input: []byte("new"), Replaceable: []Status{Failed}},
		}
		_, err := r.Start(r.Context(), starts...)
		r.wantErr(err, ErrExists, "completed")
		_, err = r.Get(r.Context(), Ref{ID: "none"})
		r.wantErr(err, ErrNotFound)
		starts[2].Replaceable = policy
		before := len(r.tape.commits())
		r.must2(r.Start(r.Context(), starts...))
		tx := r.tape.commits()[before]
		want(r, "records in the commit", len(tx.PutRecords), 3)
		for _, id := range []string{"running", "none", "ended"} {
			r.raise(id, "go", "1")
			want(r, id, r.result(id), "new 1")
		}
	})
}

// TestReplaceMeetsATurn: a turn that comes between is a conflict, and the start is tried again.
func TestReplaceMeetsATurn(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("flow", func(c *replay.Context, in []byte) replay.Outcome {
			receive(c, "more")
			return tagged(c, in)
		})
		r.serve(unfused)
		r.begin("i", "flow", "old")
		r.pass(0)
		met := false
		r.tape.failing(func(tx *store.Tx) error {
			if len(tx.Trim) > 0 && !met {
				met = true
				r.raise("i", "more", "")
				r.pass(time.Second)
			}
			return nil
		})
		r.begin("i", "flow", "new", replacing(Running))
		want(r, "a turn came between", met, true)
		r.tape.failing(nil)
		r.raise("i", "more", "")
		r.raise("i", "go", "1")
		want(r, "result", r.result("i"), "new 1")
	})
}
