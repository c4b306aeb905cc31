package engine

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/internal/replay"
	"github.com/abidehq/abide/store"
)

// calls calls an activity n times, one after the other.
func calls(n int) replay.Code {
	return func(c *replay.Context, in []byte) replay.Outcome {
		for range n {
			f := c.Activity("echo", in, history.Activity{MaxAttempts: 3})
			c.Wait(f)
			if data, bad := f.Result(); bad != nil {
				return failed(bad)
			} else if string(data) != string(in) {
				return done("wrong: " + string(data))
			}
		}
		return done("ok")
	}
}

// commitsOf returns how many commits were about an instance or its tasks.
func (r *rig) commitsOf(id string) (n int) {
	for _, tx := range r.tape.commits() {
		key := Ref{ID: id}.key()
		about := finishes(&tx, key)
		for i := range tx.Append {
			about = about || tx.Append[i].Key == key
		}
		for i := range tx.Put {
			about = about || tx.Put[i].Key == key && tx.Put[i].ID != idExpire
		}
		if about {
			n++
		}
	}
	return n
}

// TestCommitsOfAFusedInstance: a start and its first turn are one commit, and so is the outcome of an
// activity with the turn that it causes.
func TestCommitsOfAFusedInstance(t *testing.T) {
	for _, tt := range []struct{ calls, fused, unfused int }{{0, 1, 2}, {1, 2, 4}, {10, 11, 22}} {
		t.Run(fmt.Sprint(tt.calls), func(t *testing.T) {
			inBubble(t, func(r *rig) {
				r.flow("flow", calls(tt.calls))
				r.act("echo", echo)
				r.serve()
				r.warm()
				r.begin("i", "flow", "x")
				want(r, "result", r.result("i"), "ok")
				want(r, "commits", r.commitsOf("i"), tt.fused)
				want(r, "fused", r.Count().Fused.Load(), int64(tt.fused))
				history := r.kinds("i")
				r.again(unfused)
				r.begin("j", "flow", "x")
				want(r, "result", r.result("j"), "ok")
				want(r, "commits", r.commitsOf("j"), tt.unfused)
				want(r, "history", r.kinds("j"), history)
			})
		})
	}
}

// TestFusedEvents: an event and the turn that it causes are one commit, and what the event has found
// is known without a read.
func TestFusedEvents(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("flow", collect(3))
		r.serve()
		r.warm()
		r.begin("i", "flow", "")
		for i := range 3 {
			raised, err := r.Raise(r.Context(), Raise{Ref: Ref{ID: "i"}, Name: "go", Data: fmt.Append(nil, i)})
			r.must(err)
			want(r, "outcome", raised[0].Outcome, OutcomeAwaited)
		}
		want(r, "result", r.result("i"), "0 1 2")
		want(r, "commits", r.commitsOf("i"), 4)
		_, err := r.Raise(r.Context(), Raise{Ref: Ref{ID: "i"}, Name: "go"})
		r.wantErr(err, ErrState)
	})
}

// TestFusedStartOfAnIDThatExists: the code of the start that comes second leaves no trace.
func TestFusedStartOfAnIDThatExists(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("flow", calls(1))
		r.act("echo", echo)
		r.serve()
		r.warm()
		r.begin("i", "flow", "x")
		want(r, "result", r.result("i"), "ok")
		again := r.begin("i", "flow", "y")
		want(r, "existed", again.Existed, true)
		r.pass(time.Minute)
		want(r, "activities", r.countKind("i", history.ActivityScheduled), 1)
		want(r, "starts", r.countKind("i", history.ExecutionStarted), 1)
		_, err := r.Client.Start(r.Context(), Start{Ref: Ref{ID: "i"}, Name: "flow", IfExists: Reject})
		r.wantErr(err, ErrExists)
	})
}

// TestEventsBeforeAFusedStart wait for the instance, and come after its first turn.
func TestEventsBeforeAFusedStart(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("flow", collect(2))
		r.serve()
		r.warm()
		r.raise("i", "go", "1")
		r.raise("i", "go", "2")
		r.begin("i", "flow", "")
		want(r, "result", r.result("i"), "1 2")
	})
}

// TestSlowCodeHoldsNothingBack: a start, an event and the outcome of an activity are committed alone if
// the code that they run does not return in time. The instance stalls as ever.
func TestSlowCodeHoldsNothingBack(t *testing.T) {
	inBubble(t, func(r *rig) {
		release := make(chan struct{})
		blocks := func(c *replay.Context, in []byte) replay.Outcome {
			switch string(in) {
			case "activity":
				c.Wait(c.Activity("echo", nil, history.Activity{}))
			case "event":
				receive(c, "go")
			}
			<-release
			return done("")
		}
		ran := 0
		r.act("echo", func(ctx context.Context, task *Task) ([]byte, *history.Failure) {
			ran++
			return echo(ctx, task)
		})
		for _, kind := range []string{"start", "activity", "event"} {
			r.flow(kind, blocks)
		}
		r.serve()
		for _, kind := range []string{"start", "activity", "event"} {
			r.warm()
			began := time.Now()
			r.begin(kind, kind, kind)
			if kind == "event" {
				r.raise(kind, "go", "")
			}
			if took := time.Since(began); took > fuseWithin {
				r.Errorf("%s took %v, want %v at most", kind, took, fuseWithin)
			}
			want(r, "status of "+kind, r.until(kind, Stalled).Status, Stalled)
		}
		want(r, "runs of the activity", ran, 1)
		close(release)
		synctest.Wait()
	})
}

// TestCodeThatReturnsLate: an event that is put as a message because the code took too long is not
// taken as well when the code returns, although the message is not there yet.
func TestCodeThatReturnsLate(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("flow", func(c *replay.Context, _ []byte) replay.Outcome {
			got := receive(c, "go")
			<-time.After(2 * fuseWithin)
			return done(got + receive(c, "go"))
		})
		r.serve()
		r.warm()
		r.begin("i", "flow", "")
		r.tape.failing(func(tx *store.Tx) error {
			if len(tx.Put) > 0 && tx.Put[0].Key == (Ref{ID: "i"}.key()) {
				<-time.After(time.Second)
			}
			return nil
		})
		r.raise("i", "go", "1")
		r.pass(time.Second)
		want(r, "received", r.countKind("i", history.EventReceived), 1)
		r.raise("i", "go", "2")
		want(r, "result", r.result("i"), "12")
	})
}

// TestCodeElsewhereMayAnswerLater: an event waits longer for code of a worker elsewhere, whose answer has a
// way to go.
func TestCodeElsewhereMayAnswerLater(t *testing.T) {
	for _, elsewhere := range []*Worker{nil, {Host: "there"}} {
		t.Run(fmt.Sprint(elsewhere != nil), func(t *testing.T) {
			inBubble(t, func(r *rig) {
				r.flow("flow", func(c *replay.Context, _ []byte) replay.Outcome {
					got := receive(c, "go")
					<-time.After(3 * fuseWithin)
					return done(got)
				})
				r.serve(func(c *Config) { c.Elsewhere = elsewhere })
				r.warm()
				r.begin("i", "flow", "")
				before := r.Count().Fused.Load()
				r.raise("i", "go", "1")
				want(r, "result", r.result("i"), "1")
				want(r, "fused", r.Count().Fused.Load() > before, elsewhere != nil)
			})
		})
	}
}

// TestCodeThatMayTakeItsTime: code that returns within Config.FuseWithin runs once, also the first turn of an
// instance.
func TestCodeThatMayTakeItsTime(t *testing.T) {
	for _, within := range []time.Duration{0, time.Second} {
		t.Run(within.String(), func(t *testing.T) {
			inBubble(t, func(r *rig) {
				var runs atomic.Int32
				r.flow("flow", func(*replay.Context, []byte) replay.Outcome {
					runs.Add(1)
					<-time.After(2 * fuseElsewhere)
					return done("1")
				})
				r.serve(func(c *Config) { c.Elsewhere, c.FuseWithin = &Worker{Host: "there"}, within })
				r.warm()
				r.begin("i", "flow", "")
				want(r, "result", r.result("i"), "1")
				want(r, "ran once", runs.Load() == 1, within != 0)
			})
		})
	}
}

// TestSlowCommitHoldsNothingBack: an event that waits for the commit of another one for too long is put
// as a message, and is not held against the code.
func TestSlowCommitHoldsNothingBack(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("flow", collect(4))
		r.serve()
		r.warm()
		r.begin("i", "flow", "")
		const slow = 5 * fuseCommit
		r.tape.slowly(slow)
		first := make(chan struct{})
		go func() {
			defer close(first)
			r.raise("i", "go", "1")
		}()
		synctest.Wait()
		began := time.Now()
		r.raise("i", "go", "2")
		want(r, "the second took", time.Since(began), fuseCommit+slow)
		<-first
		r.tape.slowly(0)
		r.pass(time.Second)
		fused := r.Count().Fused.Load()
		r.raise("i", "go", "3")
		want(r, "the third is fused", r.Count().Fused.Load(), fused+1)
		r.raise("i", "go", "4")
		want(r, "result", r.result("i"), "1 2 3 4")
	})
}

// TestWhatComesDuringACommitIsOneTurn: events that come while a fused turn is committed are taken together
// by the next one.
func TestWhatComesDuringACommitIsOneTurn(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("flow", collect(5))
		r.serve()
		r.warm()
		r.begin("i", "flow", "")
		r.tape.slowly(2 * fuseWithin)
		before := r.Count().Fused.Load()
		var all sync.WaitGroup
		for i := range 5 {
			all.Go(func() { r.raise("i", "go", strconv.Itoa(i)) })
			synctest.Wait()
		}
		all.Wait()
		want(r, "fused turns", r.Count().Fused.Load()-before, 2)
		want(r, "result", r.result("i"), "0 1 2 3 4")
	})
}

// TestCodeThatEndsItsGoroutine leaves the instance to turns with a claim, and no runner behind.
func TestCodeThatEndsItsGoroutine(t *testing.T) {
	inBubble(t, func(r *rig) {
		once := true
		r.flow("flow", func(c *replay.Context, _ []byte) replay.Outcome {
			got := receive(c, "go")
			if once {
				once = false
				runtime.Goexit()
			}
			return done(got + receive(c, "go"))
		})
		r.serve()
		r.warm()
		r.begin("i", "flow", "")
		r.raise("i", "go", "1")
		r.pass(time.Minute)
		want(r, "a runner is left", r.fuser.running(Ref{ID: "i"}.key()), false)
		if r.info("i").Status == Stalled {
			r.must(r.Resume(r.Context(), Ref{ID: "i"}))
		}
		r.raise("i", "go", "2")
		want(r, "result", r.result("i"), "12")
	})
}

// TestSecondAttemptIsNotFused: if a fused turn has killed the process, the activity is run again, and
// then its outcome is a message whose deliveries are counted.
func TestSecondAttemptIsNotFused(t *testing.T) {
	inBubble(t, func(r *rig) {
		hold := make(chan struct{})
		r.act("hold", func(context.Context, *Task) ([]byte, *history.Failure) {
			<-hold
			return nil, nil
		})
		r.act("echo", echo)
		r.flow("holds", func(c *replay.Context, _ []byte) replay.Outcome {
			return outcome(c, c.Activity("hold", nil, history.Activity{}))
		})
		r.flow("flow", calls(1))
		r.serve(func(c *Config) { c.MaxActivities = 1 })
		r.warm()
		r.begin("h", "holds", "")
		r.pass(0)
		r.begin("i", "flow", "x")
		r.crash(QueueActivities, "echo", 1)
		close(hold)
		want(r, "result", r.result("i"), "ok")
		tx := r.commitWith("i", history.ExecutionStarted)
		want(r, "the start was fused", finishes(&tx, Ref{ID: "i"}.key()), false)
		tx = r.commitWith("i", history.ActivityCompleted)
		want(r, "the outcome had a message", finishes(&tx, Ref{ID: "i"}.key()), true)
	})
}

// TestNoStepWithoutAClaim: a step has effects, so it is not run by a turn that another process might
// take as well.
func TestNoStepWithoutAClaim(t *testing.T) {
	inBubble(t, func(r *rig) {
		ran := map[string]int{}
		step := func(c *replay.Context, name string) {
			c.Step(name, func(context.Context) ([]byte, *history.Failure) {
				ran[name]++
				return nil, nil
			})
		}
		r.flow("flow", func(c *replay.Context, _ []byte) replay.Outcome {
			step(c, "first")
			c.Wait(c.Activity("echo", nil, history.Activity{}))
			step(c, "second")
			receive(c, "go")
			step(c, "third")
			return done("ok")
		})
		r.act("echo", echo)
		r.serve()
		for i := range 3 {
			r.warm()
			id := fmt.Sprint(i)
			r.begin(id, "flow", "")
			r.pass(time.Second)
			r.raise(id, "go", "")
			want(r, "result", r.result(id), "ok")
		}
		for _, name := range []string{"first", "second", "third"} {
			want(r, name, ran[name], 3)
		}
		want(r, "fused", r.Count().Fused.Load(), 0)
	})
}

// TestOvertakenCache: a process whose cached instance is behind, because another process has taken a
// turn, loses no outcome. The cached instance does not know of the activity, so its outcome looks
// like one that comes too late.
func TestOvertakenCache(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("flow", func(c *replay.Context, _ []byte) replay.Outcome {
			receive(c, "go")
			return outcome(c, c.Activity("echo", []byte("x"), history.Activity{MaxAttempts: 1}))
		})
		r.act("echo", echo)
		first := r.serve()
		r.warm()
		r.begin("i", "flow", "")
		second := r.serve(func(c *Config) { c.Activities = nil })
		first.stopClaiming() // it keeps its instance
		first.loops.Wait()
		r.raise("i", "go", "")
		r.pass(time.Second)
		want(r, "scheduled", r.countKind("i", history.ActivityScheduled), 1)

		claims, err := r.tape.Claim(r.Context(), store.ClaimRequest{Queue: QueueActivities, Routes: []string{"echo"}, Max: 1, Lease: time.Minute})
		r.must(err)
		d := newDelivery(Ref{ID: "i"}, "late", &body{kind: bodyEvents, run: r.info("i").run, events: []history.Event{
			{Kind: history.ActivityCompleted, Ref: r.find("i", history.ActivityScheduled).ID},
		}})
		lease := claims[0].Lease()
		d.with.Finish = []store.Finish{{Lease: lease}}
		first.fuser.times.note(claims[0].Now, time.Now())
		err = first.fuser.turn(d.message.Key, []*delivery{d})
		want(r, "fused", errors.Is(err, errNotFused), true)
		lost, err := r.tape.Renew(r.Context(), time.Minute, []store.Lease{lease})
		r.must(err)
		want(r, "lost leases", len(lost), 0)
		r.stop(first)
		r.must(r.tape.Release(r.Context(), store.Release{Lease: lease, Uncounted: true}))
		r.stop(second)
		r.serve()
		want(r, "result", r.result("i"), "x")
	})
}

// TestFusedCommitWithoutAnAnswer: the outcome of an activity is taken once, whether or not the commit
// was applied whose answer was lost.
func TestFusedCommitWithoutAnAnswer(t *testing.T) {
	for _, applied := range []bool{true, false} {
		t.Run(fmt.Sprintf("applied=%t", applied), func(t *testing.T) {
			inBubble(t, func(r *rig) {
				ran := 0
				r.act("echo", func(ctx context.Context, task *Task) ([]byte, *history.Failure) {
					ran++
					return echo(ctx, task)
				})
				r.flow("flow", calls(2))
				r.serve()
				r.warm()
				once := true
				r.tape.failing(func(tx *store.Tx) error {
					if !once || len(tx.Finish) == 0 || len(tx.Append) == 0 {
						return nil
					}
					once = false
					if applied {
						r.must(r.tape.Store.Commit(r.Context(), tx))
					}
					return errDisk
				})
				r.begin("i", "flow", "x")
				want(r, "result", r.result("i"), "ok")
				want(r, "failed", once, false)
				want(r, "runs", ran, 2)
				want(r, "completed", r.countKind("i", history.ActivityCompleted), 2)
			})
		})
	}
}

// TestNoFusedTurnBesideAClaim: while another process has the instance, an outcome is put as a message.
func TestNoFusedTurnBesideAClaim(t *testing.T) {
	inBubble(t, func(r *rig) {
		hold := make(chan struct{})
		r.act("echo", func(ctx context.Context, task *Task) ([]byte, *history.Failure) {
			<-hold
			return echo(ctx, task)
		})
		r.flow("flow", calls(1))
		r.serve()
		r.warm()
		r.begin("i", "flow", "x")
		r.pass(0)
		key := Ref{ID: "i"}.key()
		r.must(r.tape.Commit(r.Context(), &store.Tx{Put: []store.Message{
			{Key: key, ID: "held", Route: "elsewhere", Body: (&body{kind: bodyWake}).encode()},
		}}))
		claims, err := r.tape.Claim(r.Context(), store.ClaimRequest{Queue: queueTurns, Routes: []string{"elsewhere"}, Max: 1, Lease: time.Hour})
		r.must(err)
		close(hold)
		r.pass(time.Second)
		want(r, "completed", r.countKind("i", history.ActivityCompleted), 0)
		want(r, "pending", len(r.pending(key)), 2)
		r.must(r.tape.Commit(r.Context(), &store.Tx{
			Finish: []store.Finish{{Lease: claims[0].Lease()}},
			Put:    []store.Message{{Key: key, ID: "back", Route: "flow", Body: (&body{kind: bodyWake}).encode()}},
		}))
		want(r, "result", r.result("i"), "ok")
	})
}

// TestFusedFanOut: outcomes that come while a turn is committed are taken together by the next one.
func TestFusedFanOut(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("flow", fanout(1000))
		r.act("echo", echo)
		r.tape.slowly(5 * time.Millisecond)
		r.serve()
		r.warm()
		r.begin("i", "flow", "")
		want(r, "result", r.result("i"), "1000")
		want(r, "completed", r.countKind("i", history.ActivityCompleted), 1000)
		if n := r.Count().Turns.Load(); n > 100 {
			r.Errorf("%d turns for 1000 activities", n)
		}
		if n := r.Count().Replays.Load(); n > 5 { // an outcome that was put as a message is in the way
			r.Errorf("%d replays", n)
		}
	})
}

// TestFusedTimes: an instance has not begun or ended before it was started, although the start has the
// time of the process and the turn that of the last claim.
func TestFusedTimes(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("flow", calls(0))
		r.serve()
		r.fuser.times.note(time.Now().Add(-time.Minute), time.Now())
		r.begin("i", "flow", "")
		info := r.info("i")
		want(r, "status", info.Status, Completed)
		want(r, "fused", r.Count().Fused.Load(), 1)
		for _, at := range []time.Time{info.BegunAt, info.EndedAt} {
			if at.Before(info.CreatedAt) {
				r.Errorf("begun at %v and ended at %v, started at %v", info.BegunAt, info.EndedAt, info.CreatedAt)
			}
		}
	})
}

// TestStoreTime is never ahead of the store, and is forgotten when no claim has told it for long.
func TestStoreTime(t *testing.T) {
	t.Parallel()
	at := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	var s storeTime
	if _, known := s.now(at); known {
		t.Error("known before any claim")
	}
	s.note(at.Add(-time.Hour), at) // the store is an hour behind
	s.note(at.Add(-time.Hour), at.Add(time.Second))
	got, known := s.now(at.Add(2*time.Second + 300*time.Microsecond))
	if want := at.Add(-time.Hour + 2*time.Second); !known || !got.Equal(want) {
		t.Errorf("now %v, %t, want %v: an answer that took longer tells less", got, known, want)
	}
	s.note(at.Add(-2*time.Hour), at.Add(10*time.Second)) // its clock was set back
	if got, _ := s.now(at.Add(10 * time.Second)); !got.Equal(at.Add(-2 * time.Hour)) {
		t.Errorf("now %v after the store's clock was set back", got)
	}
	if _, known := s.now(at.Add(time.Hour)); known {
		t.Error("known although no claim has told it for an hour")
	}
}
