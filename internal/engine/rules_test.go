package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/internal/replay"
	"github.com/abidehq/abide/store"
)

// The rules about when a message is acknowledged, and what must be durable by then.

var errDisk = errors.New("the disk is gone")

func TestStartIsAcknowledgedWithExecutionStarted(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("flow", waiter)
		r.serve()
		r.begin("i", "flow", "in")
		r.pass(0)
		tx := r.commitWith("i", history.ExecutionStarted)
		want(r, "the commit that appends ExecutionStarted finishes the claim", finishes(&tx, Ref{ID: "i"}.key()), true)
		want(r, "history", r.kinds("i"), "TurnStarted ExecutionStarted")
		want(r, "pending messages", len(r.pending(Ref{ID: "i"}.key())), 0)
	})
}

func TestStartIsNotAcknowledgedWithoutAppend(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("flow", waiter)
		r.begin("i", "flow", "in")
		r.tape.failing(func(tx *store.Tx) error {
			if len(tx.Append) > 0 {
				return errDisk
			}
			return nil
		})
		r.serve()
		r.pass(time.Minute)
		want(r, "history", r.kinds("i"), "")
		want(r, "pending messages", len(r.pending(Ref{ID: "i"}.key())), 1)
		r.tape.failing(nil)
		r.pass(time.Minute)
		want(r, "history", r.kinds("i"), "TurnStarted ExecutionStarted")
		want(r, "pending messages", len(r.pending(Ref{ID: "i"}.key())), 0)
	})
}

// put puts a message to an instance, as who sends it again does.
func (r *rig) put(id, message string, b body) {
	r.Helper()
	r.must(r.tape.Commit(r.Context(), &store.Tx{Put: []store.Message{{Key: Ref{ID: id}.key(), ID: message, Body: b.encode()}}}))
	r.pass(0)
}

// unchanged checks that a message is acknowledged, counted and not appended.
func (r *rig) unchanged(id, message string, b body) {
	r.Helper()
	before, stale := r.kinds(id), r.Count().Stale.Load()
	commits, pending := len(r.tape.commits()), len(r.pending(Ref{ID: id}.key()))
	r.put(id, message, b)
	want(r, "history", r.kinds(id), before)
	want(r, "pending messages", len(r.pending(Ref{ID: id}.key())), pending)
	want(r, "stale messages", r.Count().Stale.Load(), stale+1)
	acknowledged := false
	for _, tx := range r.tape.commits()[commits:] {
		want(r, "entries appended", len(tx.Append), 0)
		acknowledged = acknowledged || finishes(&tx, Ref{ID: id}.key())
	}
	want(r, "acknowledged", acknowledged, true)
}

func TestStartForExistingHistoryIsAcknowledgedWithoutAppend(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("flow", waiter)
		r.serve()
		r.begin("i", "flow", "")
		r.pass(0)
		r.unchanged("i", idStart, body{kind: bodyStart, run: r.info("i").run, events: []history.Event{
			{Kind: history.ExecutionStarted, Name: "flow", Start: &history.Start{Execution: 1, Seed: r.info("i").run}},
		}})
		r.raise("i", "go", "x")
		want(r, "result", r.result("i"), "x")
	})
}

func TestCompletionForAnotherExecutionIsAcknowledgedWithoutAppend(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("flow", func(c *replay.Context, in []byte) replay.Outcome {
			if string(in) == "first" {
				return replay.Outcome{Continue: &replay.Continue{Name: "flow", Input: []byte("second")}}
			}
			return outcome(c, c.Timer("", c.Now().Add(time.Hour)))
		})
		r.serve()
		old := r.begin("i", "flow", "first")
		want(r, "existed", old.Existed, false)
		r.pass(time.Minute)
		want(r, "execution", r.info("i").Execution, 2)
		fired := []history.Event{{Kind: history.TimerFired, Ref: r.find("i", history.TimerCreated).ID}}
		r.unchanged("i", "late", body{kind: bodyEvents, run: r.info("i").run + 1, events: fired})
		want(r, "status", r.info("i").Status, Running)
		r.put("i", "right", body{kind: bodyEvents, run: r.info("i").run, events: fired})
		// It is not due, so even the right execution does not believe it.
		want(r, "status", r.info("i").Status, Running)
		r.pass(time.Hour)
		r.result("i")
	})
}

func TestDuplicateCompletionIsAcknowledgedWithoutAppend(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("leaf", func(*replay.Context, []byte) replay.Outcome { return done("leaf") })
		r.flow("flow", func(c *replay.Context, _ []byte) replay.Outcome {
			c.Wait(
				c.Activity("echo", nil, history.Activity{}), c.Timer("", c.Now().Add(time.Second)),
				c.Child("leaf", "leaf", nil, history.Child{}),
			)
			return done(receive(c, "go"))
		})
		r.act("echo", echo)
		r.serve()
		r.begin("i", "flow", "")
		r.pass(time.Minute)
		run := r.info("i").run
		refs := map[history.Kind]int32{
			history.ActivityCompleted: r.find("i", history.ActivityScheduled).ID,
			history.ActivityFailed:    r.find("i", history.ActivityScheduled).ID,
			history.TimerFired:        r.find("i", history.TimerCreated).ID,
			history.ChildCompleted:    r.find("i", history.ChildStarted).ID,
			history.ChildFailed:       r.find("i", history.ChildStarted).ID,
		}
		for kind, ref := range refs {
			e := history.Event{Kind: kind, Ref: ref, Data: []byte("other")}
			if kind == history.ActivityFailed || kind == history.ChildFailed {
				e = history.Event{Kind: kind, Ref: ref, Failure: failure("late")}
			}
			r.unchanged("i", "again", body{kind: bodyEvents, run: run, events: []history.Event{e}})
		}
		// One for something that was never asked for is no better.
		r.unchanged("i", "again", body{kind: bodyEvents, run: run, events: []history.Event{{Kind: history.ActivityCompleted, Ref: 1000}}})
		r.unchanged("i", "again", body{kind: bodyEvents, run: run, events: []history.Event{{Kind: history.TimerFired, Ref: refs[history.ActivityCompleted]}}})
		r.raise("i", "go", "x")
		want(r, "result", r.result("i"), "x")
		r.again()
		want(r, "stale messages so far", r.Count().Stale.Load(), 0)
	})
}

// TestAnswerOfAnotherKindIsAcknowledgedWithoutAppend: what is open is a timer, and not an
// activity.
func TestAnswerOfAnotherKindIsAcknowledgedWithoutAppend(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("flow", func(c *replay.Context, _ []byte) replay.Outcome {
			return outcome(c, c.Timer("", c.Now().Add(time.Hour)))
		})
		r.serve()
		r.begin("i", "flow", "")
		r.pass(0)
		r.unchanged("i", "odd", body{kind: bodyEvents, run: r.info("i").run, events: []history.Event{
			{Kind: history.ActivityCompleted, Ref: r.find("i", history.TimerCreated).ID},
		}})
	})
}

func TestDuplicatesInOneTurnAreAppendedOnce(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("flow", caller)
		r.serve()
		r.begin("i", "flow", "nobody")
		r.pass(0)
		r.shut()
		e := []history.Event{{Kind: history.ActivityCompleted, Ref: r.find("i", history.ActivityScheduled).ID, Data: []byte("x")}}
		b := body{kind: bodyEvents, run: r.info("i").run, events: e}
		for _, id := range []string{"one", "two"} {
			r.put("i", id, b)
		}
		r.serve()
		want(r, "result", r.result("i"), "x")
		r.find("i", history.ActivityCompleted)
		want(r, "stale", r.Count().Stale.Load(), 1)
	})
}

// TestNothingIsAcknowledgedBeforeAppend: each message that changes history is consumed by the
// commit that appends what it caused, and so is what a fused turn takes instead of a message.
func TestNothingIsAcknowledgedBeforeAppend(t *testing.T) {
	for _, fused := range []bool{true, false} {
		t.Run(fmt.Sprintf("fused=%t", fused), func(t *testing.T) {
			inBubble(t, func(r *rig) {
				r.flow("leaf", func(*replay.Context, []byte) replay.Outcome { return done("leaf") })
				r.flow("flow", func(c *replay.Context, _ []byte) replay.Outcome {
					c.Wait(c.Activity("echo", nil, history.Activity{}))
					c.Wait(c.Timer("", c.Now().Add(time.Second)))
					c.Wait(c.Child("leaf", "leaf", nil, history.Child{}))
					return done(receive(c, "go"))
				})
				r.act("echo", echo)
				r.serve(func(c *Config) { c.Unfused = !fused })
				if fused {
					r.warm()
				}
				r.begin("i", "flow", "")
				r.raise("i", "go", "x")
				r.result("i")
				for _, kind := range []history.Kind{
					history.ExecutionStarted, history.EventReceived, history.ActivityCompleted, history.TimerFired, history.ChildCompleted,
				} {
					tx := r.commitWith("i", kind)
					acknowledged := finishes(&tx, Ref{ID: "i"}.key())
					switch {
					case fused && kind == history.ExecutionStarted:
						acknowledged = slices.ContainsFunc(tx.PutRecords, func(p store.PutRecord) bool { return p.Expect == 0 })
					case fused && kind == history.ActivityCompleted:
						acknowledged = slices.ContainsFunc(tx.Finish, func(f store.Finish) bool { return f.Lease.Key.Queue == QueueActivities })
					case fused && kind == history.EventReceived:
						acknowledged = len(tx.Append) == 1 // it has no message
					}
					want(r, kind.String()+" is appended and acknowledged in one commit", acknowledged, true)
				}
				for _, tx := range r.tape.commits() {
					if finishes(&tx, Ref{ID: "i"}.key()) && len(tx.Append) == 0 {
						r.Errorf("a commit acknowledges without appending: %+v", tx)
					}
				}
			})
		})
	}
}

func TestWorkerAcknowledgesWithTheCompletion(t *testing.T) {
	inBubble(t, func(r *rig) {
		for _, fails := range []bool{false, true} {
			r.act("act", func(context.Context, *Task) ([]byte, *history.Failure) {
				if fails {
					return nil, failure("no")
				}
				return nil, nil
			})
			id := map[bool]string{false: "good", true: "bad"}[fails]
			r.flow("flow", caller)
			r.again()
			r.begin(id, "flow", "act")
			info := r.until(id, Completed, Failed)
			key := taskKey(info.Ref, info.run, r.find(id, history.ActivityScheduled).ID)
			n := 0
			for _, tx := range r.tape.commits() {
				if finishes(&tx, key) {
					n++
					want(r, "completions in the commit that acknowledges the task", len(puts(&tx, info.Ref.key())), 1)
				}
			}
			want(r, "commits that acknowledge the task", n, 1)
		}
	})
}

func TestTaskIsPutWithActivityScheduled(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("flow", caller)
		r.serve()
		r.begin("i", "flow", "nobody")
		r.pass(0)
		tx := r.commitWith("i", history.ActivityScheduled)
		key := taskKey(Ref{ID: "i"}, r.info("i").run, r.find("i", history.ActivityScheduled).ID)
		ms := puts(&tx, key)
		if len(ms) != 1 || ms[0].Route != "nobody" {
			r.Fatalf("tasks put with ActivityScheduled: %+v", ms)
		}
	})
}

func TestTimerIsPutWithTimerCreated(t *testing.T) {
	inBubble(t, func(r *rig) {
		at := time.Now().Add(73 * time.Hour).Truncate(time.Millisecond)
		r.flow("flow", func(c *replay.Context, _ []byte) replay.Outcome { return outcome(c, c.Timer("nap", at)) })
		r.serve()
		r.begin("i", "flow", "")
		r.pass(0)
		tx := r.commitWith("i", history.TimerCreated)
		ms := puts(&tx, Ref{ID: "i"}.key())
		if len(ms) != 1 {
			r.Fatalf("messages put with TimerCreated: %+v", ms)
		}
		want(r, "visible at", ms[0].VisibleAt.UnixMilli(), at.UnixMilli())
		b, err := decodeBody(ms[0].Body)
		r.must(err)
		want(r, "body", b.events[0].Kind, history.TimerFired)
		want(r, "acknowledges", finishes(&tx, Ref{ID: "i"}.key()), true)
		stats, err := r.tape.Stats(r.Context())
		r.must(err)
		for _, route := range stats.Routes {
			want(r, "a timer waits in the queue of turns", route.Queue, queueTurns)
		}
	})
}

func TestEventIsMatchedByName(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("flow", func(c *replay.Context, _ []byte) replay.Outcome {
			a := receive(c, "a")
			return done(a + receive(c, "b"))
		})
		r.serve()
		r.begin("i", "flow", "")
		r.raise("i", "b", "2")
		r.pass(time.Minute)
		want(r, "status", r.info("i").Status, Running)
		r.raise("i", "c", "3")
		r.raise("i", "a", "1")
		want(r, "result", r.result("i"), "12")
	})
}

func TestAwaitedEventIsAppendedIfSomebodyWaits(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("flow", waiter)
		r.serve()
		r.begin("i", "flow", "")
		r.pass(0)
		r.must2(r.Raise(r.Context(), Raise{Ref: Ref{ID: "i"}, Name: "go", Data: []byte("x"), Awaited: true}))
		want(r, "result", r.result("i"), "x")
		want(r, "dropped", r.Count().Unawaited.Load(), 0)
	})
}

func TestUnawaitedEventIsDroppedAcknowledgedAndCounted(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("flow", func(c *replay.Context, _ []byte) replay.Outcome {
			sleep(c, time.Hour)
			return done(receive(c, "go"))
		})
		r.serve()
		r.begin("i", "flow", "")
		r.pass(0)
		before := r.kinds("i")
		r.must2(r.Raise(r.Context(), Raise{Ref: Ref{ID: "i"}, Name: "go", Data: []byte("early"), Awaited: true}))
		r.pass(0)
		want(r, "history", r.kinds("i"), before)
		want(r, "dropped", r.Count().Unawaited.Load(), 1)
		want(r, "pending, which is the timer", len(r.pending(Ref{ID: "i"}.key())), 1)
		r.pass(time.Hour)
		r.must2(r.Raise(r.Context(), Raise{Ref: Ref{ID: "i"}, Name: "other", Awaited: true}))
		r.must2(r.Raise(r.Context(), Raise{Ref: Ref{ID: "i"}, Name: "go", Data: []byte("now"), Awaited: true}))
		want(r, "result", r.result("i"), "now")
		want(r, "dropped", r.Count().Unawaited.Load(), 2)
	})
}

// TestAwaitedEventSeesWhatCameBefore: the code waits for it by the time that it is its turn,
// although both arrive together.
func TestAwaitedEventSeesWhatCameBefore(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("flow", func(c *replay.Context, _ []byte) replay.Outcome {
			first := receive(c, "first")
			return done(first + receive(c, "second"))
		})
		r.begin("i", "flow", "")
		awaited := func(name, data string) Raise {
			return Raise{Ref: Ref{ID: "i"}, Name: name, Data: []byte(data), Awaited: true}
		}
		r.must2(r.client().Raise(r.Context(), awaited("second", "no"), awaited("first", "1"), awaited("first", "no"), awaited("second", "2")))
		r.serve()
		want(r, "result", r.result("i"), "12")
		want(r, "dropped", r.Count().Unawaited.Load(), 2)
	})
}

// rules is an orchestration in which everything that can happen to one does.
func rules(c *replay.Context, _ []byte) replay.Outcome {
	a := c.Activity("echo", []byte("a"), history.Activity{})
	c.Wait(a)
	data, _ := a.Result()
	out := string(data)
	sleep(c, time.Hour)
	out += receive(c, "go")
	child := c.Child("leaf", "", []byte("c"), history.Child{})
	c.Wait(child)
	data, _ = child.Result()
	out += string(data)
	for range 3 {
		step, _ := c.Step("step", func(context.Context) ([]byte, *history.Failure) { return []byte("s"), nil })
		out += string(step)
	}
	sleep(c, time.Hour)
	return done(out)
}

func (r *rig) useRules() {
	r.flow("leaf", func(_ *replay.Context, in []byte) replay.Outcome { return done(string(in)) })
	r.flow("flow", rules)
	r.act("echo", echo)
}

func TestRehydrationGivesTheSameResult(t *testing.T) {
	tests := map[string]func(r *rig){
		"cached": func(r *rig) {
			r.serve()
			r.begin("i", "flow", "")
			r.raise("i", "go", "e")
		},
		"evicted": func(r *rig) {
			r.serve(func(c *Config) { c.CacheSize = 1 })
			r.begin("i", "flow", "")
			r.raise("i", "go", "e")
			for _, id := range []string{"j", "k", "l"} {
				r.begin(id, "flow", "")
				r.raise(id, "go", "e")
				r.pass(time.Second)
			}
		},
		"new engine after each event": func(r *rig) {
			r.serve()
			r.begin("i", "flow", "")
			r.raise("i", "go", "e")
			for range 3 {
				r.again()
				r.pass(30 * time.Minute)
			}
		},
	}
	for name, f := range tests {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				r.useRules()
				f(r)
				want(r, "result", r.result("i"), "aecsss")
				ids := []int32{}
				for _, e := range r.events("i") {
					ids = append(ids, e.ID)
				}
				want(r, "IDs count from 1", slices.IsSorted(ids) && ids[0] == 1 && int(ids[len(ids)-1]) == len(ids), true)
				want(r, "replayed", r.Count().Replays.Load() > 0, name != "cached")
			})
		})
	}
}

// TestRedeliveryAfterAppendFails: every commit fails once, and the history is as if none
// had.
func TestRedeliveryAfterAppendFails(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.useRules()
		r.serve()
		r.begin("plain", "flow", "")
		r.raise("plain", "go", "e")
		r.result("plain")
		r.begin("i", "flow", "")
		r.raise("i", "go", "e")
		good := false
		r.tape.failing(func(tx *store.Tx) error {
			if !finishes(tx, Ref{ID: "i"}.key()) {
				return nil
			}
			if good = !good; good {
				return errDisk
			}
			return nil
		})
		want(r, "result", r.result("i"), "aecsss")
		r.tape.failing(nil)
		want(r, "executions", r.countKind("i", history.ExecutionStarted), 1)
		for _, kind := range []history.Kind{history.ActivityScheduled, history.ActivityCompleted, history.EventReceived, history.ChildStarted, history.ChildCompleted} {
			want(r, kind.String(), r.countKind("i", kind), 1)
		}
		want(r, "quarantined", len(r.quarantined()), 0)
	})
}

// TestConflictEvicts: a turn whose claim is lost is forgotten, and somebody else's is not
// disturbed.
func TestConflictEvicts(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("flow", collect(2))
		r.serve(unfused)
		r.begin("i", "flow", "")
		r.pass(0)
		lost := r.Count().Lost.Load()
		once := true
		r.tape.failing(func(tx *store.Tx) error {
			if once && len(tx.Append) > 0 {
				once = false
				return store.ErrClaimLost
			}
			return nil
		})
		r.raise("i", "go", "1")
		r.pass(time.Minute)
		want(r, "lost", r.Count().Lost.Load(), lost+1)
		r.raise("i", "go", "2")
		want(r, "result", r.result("i"), "1 2")
		want(r, "replayed after the conflict", r.Count().Replays.Load(), 1)
	})
}

func TestUndecodableMessageGoesToQuarantine(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("flow", waiter)
		r.serve()
		r.begin("i", "flow", "")
		r.pass(0)
		r.must(r.tape.Commit(r.Context(), &store.Tx{Put: []store.Message{{Key: Ref{ID: "i"}.key(), ID: "bad", Body: []byte{99}}}}))
		r.pass(0)
		q := r.quarantined()
		if len(q) != 1 || q[0].Status != ReasonUndecodable {
			r.Fatalf("in quarantine: %+v", q)
		}
		r.raise("i", "go", "x")
		want(r, "result", r.result("i"), "x")
	})
}

func TestMessageOfAnInstanceWithoutRecordGoesToQuarantine(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("flow", waiter)
		r.serve()
		r.begin("i", "flow", "")
		r.pass(0)
		r.must(r.tape.Commit(r.Context(), &store.Tx{DeleteRecords: []store.DeleteRecord{{Key: Ref{ID: "i"}.record(), Expect: store.AnyVersion}}}))
		r.again()
		r.raise("i", "go", "x")
		r.pass(time.Minute)
		q := r.quarantined()
		if len(q) != 1 || q[0].Status != ReasonNoInstance {
			r.Fatalf("in quarantine: %+v", q)
		}
	})
}
