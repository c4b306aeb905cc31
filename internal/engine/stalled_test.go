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

// stalling has an instance stall, checks its reason, lets it receive an event meanwhile, and
// resumes it after a fix.
func stalling(t *testing.T, cause, fix func(r *rig), reasons ...string) {
	t.Helper()
	inBubble(t, func(r *rig) {
		cause(r)
		info := r.until("i", Stalled)
		for _, words := range reasons {
			if !strings.Contains(info.Reason, words) {
				r.Errorf("the reason does not say %q: %s", words, info.Reason)
			}
		}
		want(r, "stalls", r.Count().Stalls.Load(), 1)
		before := r.kinds("i")
		r.raise("i", "go", "kept")
		r.pass(time.Hour)
		want(r, "status", r.info("i").Status, Stalled)
		want(r, "history", r.kinds("i"), before)
		fix(r)
		want(r, "status before it is resumed", r.info("i").Status, Stalled)
		r.must(r.Resume(r.Context(), Ref{ID: "i"}))
		want(r, "result", r.result("i"), "kept")
	})
}

func TestStalledByNondeterminism(t *testing.T) {
	flow := func(first string) replay.Code {
		return func(c *replay.Context, _ []byte) replay.Outcome {
			c.Wait(c.Activity(first, nil, history.Activity{}))
			return done(receive(c, "go"))
		}
	}
	stalling(t, func(r *rig) {
		r.act("old", func(context.Context, *Task) ([]byte, *history.Failure) {
			<-time.After(20 * time.Second)
			return nil, nil
		})
		r.act("new", echo)
		r.flow("flow", flow("old"))
		r.serve()
		r.begin("i", "flow", "")
		r.pass(0)
		r.flow("flow", flow("new"))
		r.again()
	}, func(r *rig) {
		r.flow("flow", flow("old"))
		r.again()
	}, "nondeterminism", `history has [3 ActivityScheduled "old"]`, `the code did [3 ActivityScheduled "new"]`, "stalled_test.go:")
}

func TestStalledByPanic(t *testing.T) {
	stalling(t, func(r *rig) {
		r.flow("flow", func(*replay.Context, []byte) replay.Outcome { panic("oh dear") })
		r.serve()
		r.begin("i", "flow", "")
	}, func(r *rig) {
		r.flow("flow", waiter)
		r.again()
	}, "panic: oh dear", "stalled_test.go:")
}

func TestStalledByPanicInACoroutine(t *testing.T) {
	stalling(t, func(r *rig) {
		r.flow("flow", func(c *replay.Context, _ []byte) replay.Outcome {
			c.Go(func(*replay.Context) { panic("oh no") })
			return done(receive(c, "go"))
		})
		r.serve()
		r.begin("i", "flow", "")
	}, func(r *rig) {
		r.flow("flow", waiter)
		r.again()
	}, "panic: oh no", "stalled_test.go:")
}

// TestStalledByUndecodableHistory: the fix here is a store that was damaged and put right.
func TestStalledByUndecodableHistory(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("flow", waiter)
		r.serve()
		r.begin("i", "flow", "")
		r.pass(0)
		r.shut()
		length := len(r.events("i"))
		r.must(r.tape.Commit(r.Context(), &store.Tx{Append: []store.Append{{Key: Ref{ID: "i"}.key(), At: length, Entries: [][]byte{{0xff}}}}}))
		r.serve()
		r.raise("i", "go", "x")
		info := r.until("i", Stalled)
		if !strings.Contains(info.Reason, fmt.Sprintf("undecodable history: event %d", length+1)) {
			r.Errorf("reason: %s", info.Reason)
		}
		want(r, "pending: the event, and what parks it", len(r.pending(Ref{ID: "i"}.key())), 2)
	})
}

// TestTerminateReadsWhatItCanOfAnUndecodableHistory: what can be read of the history is taken back, and
// its children are told.
func TestTerminateReadsWhatItCanOfAnUndecodableHistory(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("leaf", func(c *replay.Context, _ []byte) replay.Outcome { return failed(sleep(c, 24*time.Hour)) })
		r.flow("parent", func(c *replay.Context, _ []byte) replay.Outcome {
			c.Child("leaf", "terminate", nil, history.Child{OnClose: history.TerminateChild})
			cancelled := c.Child("leaf", "cancelled", nil, history.Child{OnClose: history.AbandonChild})
			c.Child("leaf", "abandon", nil, history.Child{OnClose: history.AbandonChild})
			c.Timer("", c.Now().Add(12*time.Hour))
			c.Cancel(cancelled)
			return done(receive(c, "go"))
		})
		r.serve()
		r.begin("p", "parent", "")
		r.pass(time.Second)
		r.shut()
		length := len(r.events("p"))
		r.must(r.tape.Commit(r.Context(), &store.Tx{Append: []store.Append{{Key: Ref{ID: "p"}.key(), At: length, Entries: [][]byte{{0xff}}}}}))
		r.serve()
		r.raise("p", "go", "x")
		r.until("p", Stalled)
		r.must(r.Terminate(r.Context(), Ref{ID: "p"}, "why"))
		r.until("p", Terminated)
		want(r, "reason", r.until("terminate", Terminated).Reason, "its parent p has ended")
		r.pass(time.Second)
		want(r, "parent of the one that goes on", r.info("abandon").Parent, "")
		want(r, "pending for the parent: its expiry", len(r.pending(Ref{ID: "p"}.key())), 1)
		r.until("cancelled", Cancelled)
	})
}

// TestStalledByPoison: a message that takes its process down again and again.
func TestStalledByPoison(t *testing.T) {
	stalling(t, func(r *rig) {
		r.flow("flow", waiter)
		r.begin("i", "flow", "")
		r.crash(queueTurns, "flow", DefaultTurnAttempts)
		r.serve()
	}, func(*rig) {}, "poison", fmt.Sprintf("delivered %d times", DefaultTurnAttempts+1))
}

func TestNotPoisonBelowTheLimit(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("flow", waiter)
		r.begin("i", "flow", "")
		r.crash(queueTurns, "flow", DefaultTurnAttempts-1)
		r.serve()
		r.raise("i", "go", "x")
		want(r, "result", r.result("i"), "x")
	})
}

func TestStalledByLengthOfHistory(t *testing.T) {
	flow := func(c *replay.Context, _ []byte) replay.Outcome {
		for range 20 {
			sleep(c, time.Second)
		}
		return done(receive(c, "go"))
	}
	stalling(t, func(r *rig) {
		r.flow("flow", flow)
		r.serve(func(c *Config) { c.MaxHistory = 40 })
		r.begin("i", "flow", "")
	}, func(r *rig) {
		r.again(func(c *Config) { c.MaxHistory = 400 })
	}, "limit: its history has 42 events, at most 40 are allowed")
}

func TestStalledByOpenWork(t *testing.T) {
	flow := func(c *replay.Context, _ []byte) replay.Outcome {
		for range 20 {
			c.Activity("nobody", nil, history.Activity{})
		}
		return done(receive(c, "go"))
	}
	stalling(t, func(r *rig) {
		r.flow("flow", flow)
		r.serve(func(c *Config) { c.MaxOpen = 10 })
		r.begin("i", "flow", "")
		r.pass(0)
		r.raise("i", "other", "")
	}, func(r *rig) {
		r.again(func(c *Config) { c.MaxOpen = 100 })
	}, "limit: it waits for 20 activities, timers and children, at most 10 are allowed")
}

func TestStalledByWhatTheCodeSays(t *testing.T) {
	stalling(t, func(r *rig) {
		r.flow("flow", func(c *replay.Context, _ []byte) replay.Outcome {
			c.Activity("echo", nil, history.Activity{}) // counts for nothing
			c.Stall(fmt.Errorf("no such currency"))
			return done("")
		})
		r.act("echo", echo)
		r.serve()
		r.begin("i", "flow", "")
	}, func(r *rig) {
		want(r, "events of a turn that stalled", r.countKind("i", history.ActivityScheduled), 0)
		r.flow("flow", waiter)
		r.again()
	}, "no such currency")
}

// TestStalledAgainIfNothingWasFixed, with a fresh reason, and all messages.
func TestStalledAgainIfNothingWasFixed(t *testing.T) {
	inBubble(t, func(r *rig) {
		n := 0
		r.flow("flow", func(*replay.Context, []byte) replay.Outcome {
			n++
			panic(fmt.Sprint("number ", n))
		})
		r.serve()
		r.begin("i", "flow", "")
		for i := 1; i < 20; i++ { // more often than a message may be delivered
			info := r.until("i", Stalled)
			if words := fmt.Sprint("panic: number ", i); !strings.HasPrefix(info.Reason, words) {
				r.Fatalf("reason: %.80s, want %s", info.Reason, words)
			}
			r.wantErr(r.Resume(r.Context(), Ref{ID: "i"}), ErrStalled, fmt.Sprint("stalled again: panic: number ", i+1))
			r.pass(time.Second)
		}
		r.flow("flow", waiter)
		r.again()
		r.must(r.Resume(r.Context(), Ref{ID: "i"}))
		r.raise("i", "go", "x")
		want(r, "result", r.result("i"), "x")
	})
}

func TestStalledCanBeTerminatedAndDeleted(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("flow", func(*replay.Context, []byte) replay.Outcome { panic("oh dear") })
		r.serve()
		r.begin("i", "flow", "")
		r.until("i", Stalled)
		r.wantErr(r.Delete(r.Context(), Ref{ID: "i"}), ErrState, "stalled")
		r.must(r.Terminate(r.Context(), Ref{ID: "i"}, "hopeless"))
		info := r.until("i", Terminated)
		want(r, "reason", info.Reason, "hopeless")
		r.must(r.Delete(r.Context(), Ref{ID: "i"}))
		_, err := r.Get(r.Context(), Ref{ID: "i"})
		r.wantErr(err, ErrNotFound)
		want(r, "pending", len(r.pending(Ref{ID: "i"}.key())), 0)
	})
}

func TestBlockedCodeStallsAndSaysWhere(t *testing.T) {
	inBubble(t, func(r *rig) {
		release := make(chan struct{})
		r.flow("flow", func(c *replay.Context, _ []byte) replay.Outcome {
			c.Activity("echo", nil, history.Activity{})
			<-release
			return done("late")
		})
		r.act("echo", echo)
		r.serve()
		started := time.Now()
		r.begin("i", "flow", "")
		info := r.until("i", Stalled)
		if took := time.Since(started); took < DefaultBlocked || took > 2*DefaultBlocked {
			r.Errorf("it stalled after %v", took)
		}
		for _, words := range []string{"blocked", "10s", "stalled_test.go:", "TestBlockedCodeStallsAndSaysWhere"} {
			if !strings.Contains(info.Reason, words) {
				r.Errorf("the reason does not say %q: %s", words, info.Reason)
			}
		}
		close(release) // the code comes back, and counts for nothing
		r.pass(time.Minute)
		want(r, "status", r.info("i").Status, Stalled)
		want(r, "events of code that was blocked", r.countKind("i", history.ActivityScheduled), 0)
		r.flow("flow", waiter)
		r.again()
		r.must(r.Resume(r.Context(), Ref{ID: "i"}))
		r.raise("i", "go", "x")
		want(r, "result", r.result("i"), "x")
	})
}

// TestBlockedInstanceCanGoOnElsewhere while its old code is still blocked.
func TestBlockedInstanceCanGoOnElsewhere(t *testing.T) {
	inBubble(t, func(r *rig) {
		release := make(chan struct{})
		first := true
		r.flow("flow", func(*replay.Context, []byte) replay.Outcome {
			if first {
				first = false
				<-release
			}
			return done("second")
		})
		r.serve()
		r.begin("i", "flow", "")
		r.until("i", Stalled)
		r.must(r.Resume(r.Context(), Ref{ID: "i"}))
		want(r, "result", r.result("i"), "second")
		close(release)
	})
}

func TestStepMayTakeLong(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("flow", func(c *replay.Context, _ []byte) replay.Outcome {
			data, bad := c.Step("long", func(ctx context.Context) ([]byte, *history.Failure) {
				select {
				case <-time.After(5 * time.Hour):
				case <-ctx.Done():
				}
				return []byte("x"), nil
			})
			return replay.Outcome{Data: data, Failure: bad}
		})
		r.serve()
		r.begin("i", "flow", "")
		want(r, "result", r.result("i"), "x")
		want(r, "turns lost", r.Count().Lost.Load(), 0)
	})
}

func TestBlockedForEverIfTold(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("flow", func(*replay.Context, []byte) replay.Outcome {
			<-time.After(time.Hour)
			return done("x")
		})
		r.serve(func(c *Config) { c.DeadlockTimeout = -1 })
		r.begin("i", "flow", "")
		want(r, "result", r.result("i"), "x")
	})
}

// TestAStallIsCountedAlthoughItsLeaseEndsMeanwhile: a renewal that runs beside the commit of a
// stall finds its lease finished, and ends the context of the turn. The stall is reported all the
// same.
func TestAStallIsCountedAlthoughItsLeaseEndsMeanwhile(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("flow", func(*replay.Context, []byte) replay.Outcome { panic("oops") })
		r.serve()
		r.tape.mu.Lock()
		r.tape.fail = func(tx *store.Tx) error {
			for _, put := range tx.PutRecords {
				if put.Record.Status == string(Stalled) {
					r.Engine.keeper.Lose(Ref{ID: "i"}.key())
				}
			}
			return nil
		}
		r.tape.mu.Unlock()
		r.begin("i", "flow", "")
		r.pass(time.Minute)
		want(r, "status", r.info("i").Status, Stalled)
		want(r, "stalls", r.Count().Stalls.Load(), 1)
	})
}
