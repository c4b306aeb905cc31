package engine

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/internal/replay"
	"github.com/abidehq/abide/store"
)

// collect receives n events and returns them.
func collect(n int) replay.Code {
	return func(c *replay.Context, _ []byte) replay.Outcome {
		var got []string
		for range n {
			got = append(got, receive(c, "go"))
		}
		return done(strings.Join(got, " "))
	}
}

// TestSuspendedInstanceWithManyMessagesResumes: the messages that wait may be more than
// one claim delivers, and the one that resumes comes last.
func TestSuspendedInstanceWithManyMessagesResumes(t *testing.T) {
	inBubble(t, func(r *rig) {
		const n = 1500
		r.flow("flow", collect(n))
		r.serve()
		r.begin("i", "flow", "")
		r.pass(0)
		r.must(r.Suspend(r.Context(), Ref{ID: "i"}, ""))
		r.until("i", Suspended)
		var words []string
		for i := range n {
			words = append(words, fmt.Sprint(i))
			r.raise("i", "go", fmt.Sprint(i))
		}
		r.must(r.Resume(r.Context(), Ref{ID: "i"}))
		r.pass(time.Hour)
		if got := r.result("i"); got != strings.Join(words, " ") {
			r.Errorf("events are out of order: %.200s", got)
		}
	})
}

// TestTerminateAmongManyMessages: also if nobody serves the orchestration, and more
// messages wait than one claim delivers.
func TestTerminateAmongManyMessages(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.serve()
		r.begin("i", "flow", "")
		for i := range 1200 {
			r.raise("i", "go", fmt.Sprint(i))
		}
		r.must(r.Terminate(r.Context(), Ref{ID: "i"}, "why"))
		r.pass(time.Hour)
		r.until("i", Terminated)
	})
}

// TestTerminateWithUndecodableHistory: what cannot be read must be possible to end.
func TestTerminateWithUndecodableHistory(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("flow", waiter)
		r.serve()
		r.begin("i", "flow", "")
		r.pass(0)
		r.shut()
		r.must(r.tape.Commit(r.Context(), &store.Tx{Append: []store.Append{{
			Key: Ref{ID: "i"}.key(), At: len(r.events("i")), Entries: [][]byte{{0xff, 0xff, 0xff}},
		}}}))
		r.serve()
		r.raise("i", "go", "x")
		r.until("i", Stalled)
		r.must(r.Terminate(r.Context(), Ref{ID: "i"}, "why"))
		r.pass(time.Minute)
		want(r, "status", r.info("i").Status, Terminated)
	})
}

// TestClosedEngineGivesBackWhatDoesNotStop: at once, and without counting an attempt.
func TestClosedEngineGivesBackWhatDoesNotStop(t *testing.T) {
	inBubble(t, func(r *rig) {
		release := make(chan struct{})
		attempts := make(chan int, 10)
		r.flow("flow", caller)
		r.act("deaf", func(context.Context, *Task) ([]byte, *history.Failure) {
			<-release
			return nil, failure("late")
		})
		r.serve()
		r.begin("i", "flow", "deaf")
		r.pass(0)
		ctx, cancel := context.WithTimeout(r.Context(), time.Second)
		defer cancel()
		if err := r.Close(ctx); err == nil {
			r.Error("Close says that all has ended")
		}
		r.act("deaf", func(_ context.Context, t *Task) ([]byte, *history.Failure) {
			attempts <- t.Attempt
			return []byte("done"), nil
		})
		r.serve()
		r.pass(time.Second)
		select {
		case n := <-attempts:
			want(r, "attempt", n, 1)
		default:
			r.Error("the task was not given back")
		}
		close(release)
		want(r, "result", r.result("i"), "done")
	})
}

// TestBlockedCoroutineNamesItsPlace: code that blocks may be in a coroutine.
func TestBlockedCoroutineNamesItsPlace(t *testing.T) {
	inBubble(t, func(r *rig) {
		release := make(chan struct{})
		r.flow("flow", func(c *replay.Context, _ []byte) replay.Outcome {
			c.Go(func(*replay.Context) { <-release })
			sleep(c, time.Hour)
			return done("")
		})
		r.serve()
		r.begin("i", "flow", "")
		info := r.until("i", Stalled)
		if !strings.Contains(info.Reason, "regression_test.go") {
			r.Errorf("the reason does not say where: %s", info.Reason)
		}
		close(release)
		r.pass(0)
	})
}

// TestBlockedReplayStalls: code may block when it is replayed, and not before.
func TestBlockedReplayStalls(t *testing.T) {
	inBubble(t, func(r *rig) {
		release := make(chan struct{})
		close(release)
		r.flow("flow", func(c *replay.Context, _ []byte) replay.Outcome {
			<-release
			return done(receive(c, "go"))
		})
		r.serve()
		r.begin("i", "flow", "")
		r.pass(0)
		release = make(chan struct{})
		r.again()
		r.raise("i", "go", "x")
		r.pass(time.Minute)
		if got := r.info("i").Status; got != Stalled {
			r.Errorf("it is %s", got)
		}
		close(release)
		r.pass(0)
	})
}

// TestParentDoesNotTouchAnInstanceThatIsNotItsChild: an ID that it wanted for a child
// and that belongs to somebody else.
func TestParentDoesNotTouchAnInstanceThatIsNotItsChild(t *testing.T) {
	for name, how := range map[string]history.ClosePolicy{"cancel": history.CancelChild, "terminate": history.TerminateChild} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				r.flow("other", waiter)
				r.flow("parent", func(c *replay.Context, _ []byte) replay.Outcome {
					c.Child("other", "innocent", nil, history.Child{OnClose: how})
					return done("")
				})
				r.serve()
				r.begin("innocent", "other", "")
				r.pass(0)
				r.begin("p", "parent", "")
				r.result("p")
				r.pass(time.Minute)
				r.raise("innocent", "go", "alive")
				want(r, "result", r.result("innocent"), "alive")
			})
		})
	}
	t.Run("abandon", func(t *testing.T) {
		inBubble(t, func(r *rig) {
			r.flow("other", waiter)
			r.flow("father", func(c *replay.Context, _ []byte) replay.Outcome {
				return outcome(c, c.Child("other", "innocent", nil, history.Child{}))
			})
			r.flow("parent", func(c *replay.Context, _ []byte) replay.Outcome {
				c.Child("other", "innocent", nil, history.Child{OnClose: history.AbandonChild})
				return done("")
			})
			r.serve()
			r.begin("f", "father", "")
			r.pass(0)
			r.begin("p", "parent", "")
			r.result("p")
			r.pass(time.Minute)
			r.raise("innocent", "go", "alive")
			want(r, "result", r.result("f"), "alive")
		})
	})
}

// TestCancelOfAChildThatCouldNotBeStarted does not cancel whose ID it is.
func TestCancelOfAChildThatCouldNotBeStarted(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("other", waiter)
		r.flow("parent", func(c *replay.Context, _ []byte) replay.Outcome {
			c.Cancel(c.Child("other", "innocent", nil, history.Child{}))
			sleep(c, time.Hour)
			return done("")
		})
		r.serve()
		r.begin("innocent", "other", "")
		r.pass(0)
		r.begin("p", "parent", "")
		r.result("p")
		r.raise("innocent", "go", "alive")
		want(r, "result", r.result("innocent"), "alive")
	})
}

// TestTurnsThatCommitAreNotPoison: events that are kept for the next execution, again and
// again, were never delivered in vain.
func TestTurnsThatCommitAreNotPoison(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("flow", func(c *replay.Context, in []byte) replay.Outcome {
			if len(in) < 30 {
				return replay.Outcome{Continue: &replay.Continue{Name: "flow", Input: append(in, '.')}}
			}
			return done(receive(c, "go"))
		})
		r.begin("i", "flow", "")
		for range 30 {
			r.must2(r.client().Raise(r.Context(), Raise{Ref: Ref{ID: "i"}, Name: "x", Awaited: true}))
		}
		r.raise("i", "go", "x")
		r.serve()
		r.pass(time.Hour)
		want(r, "result", r.result("i"), "x")
	})
}

// TestMoveTimerToATimeThatCannotBe is refused, and the instance is not harmed.
func TestMoveTimerToATimeThatCannotBe(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("flow", func(c *replay.Context, _ []byte) replay.Outcome {
			return outcome(c, c.Timer("nap", c.Now().Add(time.Hour)))
		})
		r.serve()
		r.begin("i", "flow", "")
		r.pass(0)
		r.wantErr(r.MoveTimer(r.Context(), Ref{ID: "i"}, "nap", time.Date(20000, 1, 1, 0, 0, 0, 0, time.UTC)), ErrInvalid, "9000")
		r.pass(2 * time.Hour)
		r.until("i", Completed)
	})
}

// TestHugeErrorOfAnActivity: it has failed, whatever it has to say.
func TestHugeErrorOfAnActivity(t *testing.T) {
	inBubble(t, func(r *rig) {
		runs := 0
		r.flow("flow", caller)
		r.act("bad", func(context.Context, *Task) ([]byte, *history.Failure) {
			runs++
			return nil, failure("%s", strings.Repeat("x", 5<<20))
		})
		r.serve()
		r.begin("i", "flow", "bad")
		r.pass(24 * time.Hour)
		info := r.until("i", Failed)
		want(r, "runs", runs, 1)
		if info.Failure.Type == TypeCrashed {
			r.Errorf("it failed in another way: %.200s", info.Failure.Message)
		}
	})
}

// TestHugeErrorOfAnOrchestration: the same for what it returns.
func TestHugeErrorOfAnOrchestration(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("flow", func(*replay.Context, []byte) replay.Outcome {
			return failed(failure("%s", strings.Repeat("x", 5<<20)))
		})
		r.serve()
		r.begin("i", "flow", "bad")
		r.pass(time.Hour)
		want(r, "status", r.info("i").Status, Failed)
	})
}

// TestBackoffHasItsLimitFromTheFirst on.
func TestBackoffHasItsLimitFromTheFirst(t *testing.T) {
	t.Parallel()
	how := &history.Activity{Backoff: 10 * time.Second, BackoffMax: 5 * time.Second, Factor: 2}
	for attempt := 1; attempt < 4; attempt++ {
		if got := Backoff(how).Longest(attempt); got != 5*time.Second {
			t.Errorf("after attempt %d: %v", attempt, got)
		}
		if got := Backoff(how).Delay("task", attempt); got > 5*time.Second || got < 4*time.Second {
			t.Errorf("after attempt %d, with jitter: %v", attempt, got)
		}
	}
}

// TestMadeUpIDsOfChildrenKeepTheLimit: a child that nobody can talk to is none.
func TestMadeUpIDsOfChildrenKeepTheLimit(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("leaf", waiter)
		r.flow("parent", func(c *replay.Context, _ []byte) replay.Outcome {
			return outcome(c, c.Child("leaf", "", nil, history.Child{}))
		})
		r.serve()
		id := strings.Repeat("p", MaxID)
		r.begin(id, "parent", "")
		r.pass(0)
		infos, _, err := r.List(r.Context(), Query{})
		r.must(err)
		for _, info := range infos {
			if _, err := r.Get(r.Context(), info.Ref); err != nil {
				r.Errorf("an instance that is there cannot be had: %v", err)
			}
		}
	})
}

// TestForkKeepsWhatItSaid: status text and values that were set before the event.
func TestForkKeepsWhatItSaid(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("flow", func(c *replay.Context, _ []byte) replay.Outcome {
			c.SetStatus("working")
			c.SetValue("n", []byte("1"))
			return done(receive(c, "go"))
		})
		r.serve()
		r.begin("i", "flow", "")
		r.pass(0)
		r.must(r.Fork(r.Context(), Ref{ID: "i"}, 4, "f"))
		r.pass(0)
		want(r, "text", r.info("f").Text, "working")
		want(r, "value", string(r.info("f").Values["n"]), "1")
	})
}

// TestSuspendedInstanceWithLargeMessagesResumes: what a claim delivers, and what Pending
// returns, is also bounded in bytes.
func TestSuspendedInstanceWithLargeMessagesResumes(t *testing.T) {
	inBubble(t, func(r *rig) {
		const n = 12
		r.flow("flow", func(c *replay.Context, _ []byte) replay.Outcome {
			for range n {
				receive(c, "go")
			}
			return done("")
		})
		r.serve()
		r.begin("i", "flow", "")
		r.pass(0)
		r.must(r.Suspend(r.Context(), Ref{ID: "i"}, ""))
		r.until("i", Suspended)
		for range n {
			r.raise("i", "go", strings.Repeat("x", MaxPayload))
		}
		r.must(r.Resume(r.Context(), Ref{ID: "i"}))
		r.pass(time.Hour)
		want(r, "status", r.info("i").Status, Completed)
	})
}

// TestHugePanicStalls: whatever it has to say, it must not go round in circles.
func TestHugePanicStalls(t *testing.T) {
	inBubble(t, func(r *rig) {
		runs := 0
		r.flow("flow", func(*replay.Context, []byte) replay.Outcome {
			runs++
			panic(strings.Repeat("x", 9<<20))
		})
		r.serve()
		r.begin("i", "flow", "")
		r.pass(time.Minute)
		want(r, "status", r.info("i").Status, Stalled)
		want(r, "runs", runs, 1)
	})
}

// TestHugeReasonsAreRefused: of people as well.
func TestHugeReasonsAreRefused(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("flow", func(c *replay.Context, _ []byte) replay.Outcome { return failed(sleep(c, time.Hour)) })
		r.serve()
		why := strings.Repeat("x", 3<<20)
		for name, f := range map[string]func(Ref) error{
			"cancel":    func(ref Ref) error { return r.Cancel(r.Context(), ref, why) },
			"suspend":   func(ref Ref) error { return r.Suspend(r.Context(), ref, why) },
			"terminate": func(ref Ref) error { return r.Terminate(r.Context(), ref, why) },
		} {
			r.begin(name, "flow", "")
			r.pass(0)
			err := f(Ref{ID: name})
			if err == nil {
				r.Errorf("%s takes a reason of %d bytes", name, len(why))
			}
			r.pass(time.Minute)
			want(r, name, r.info(name).Status, Running)
		}
	})
}

// TestBusyInstanceIsNotReplayed: its next turn is claimed as soon as the last one is durable,
// which may be before the last one has put the code into the cache.
func TestBusyInstanceIsNotReplayed(t *testing.T) {
	inBubble(t, func(r *rig) {
		const n = 20
		r.flow("flow", collect(n))
		r.serve()
		r.tape.slowly(time.Millisecond)
		r.begin("i", "flow", "")
		for i := range n {
			r.raise("i", "go", fmt.Sprint(i))
		}
		r.until("i", Completed)
		want(r, "replays", r.Count().Replays.Load(), 0)
	})
}
