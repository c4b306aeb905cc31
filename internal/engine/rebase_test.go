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

// held is a step that waits until it is released, and counts how often it is run.
type held struct {
	ran     atomic.Int32
	release chan struct{}
}

func newHeld() *held { return &held{release: make(chan struct{})} }

func (h *held) step(c *replay.Context) string {
	data, _ := c.Step("held", func(ctx context.Context) ([]byte, *history.Failure) {
		h.ran.Add(1)
		select {
		case <-h.release:
			return []byte("kept"), nil
		case <-ctx.Done():
			return nil, failure("the context has ended: %v", context.Cause(ctx))
		}
	})
	return string(data)
}

// TestStepIsKeptWhenItsInstanceIsSuspended: the turn is committed all the same, with event
// IDs behind what was appended meanwhile, and then the instance waits.
func TestStepIsKeptWhenItsInstanceIsSuspended(t *testing.T) {
	for _, resumed := range []bool{false, true} {
		t.Run(fmt.Sprintf("resumed before the step ends: %v", resumed), func(t *testing.T) {
			inBubble(t, func(r *rig) {
				h := newHeld()
				r.act("echo", echo)
				r.flow("child", waiter)
				r.flow("flow", func(c *replay.Context, _ []byte) replay.Outcome {
					a := c.Activity("echo", []byte("a"), history.Activity{MaxAttempts: 1})
					said := h.step(c)
					given := c.Activity("echo", []byte("given up"), history.Activity{MaxAttempts: 1})
					c.Cancel(given)
					b := c.Activity("echo", []byte("b"), history.Activity{MaxAttempts: 1, ScheduleToClose: time.Hour})
					timer := c.Timer("t", c.Now().Add(time.Minute))
					child := c.Child("child", "c", nil, history.Child{})
					c.Wait(a, b, timer, child)
					out := []string{said}
					for _, f := range []*replay.Future{a, b, child} {
						data, _ := f.Result()
						out = append(out, string(data))
					}
					return done(strings.Join(out, " "))
				})
				r.serve()
				r.begin("i", "flow", "")
				r.pass(time.Second)
				r.must(r.Suspend(r.Context(), Ref{ID: "i"}, "wait"))
				r.pass(time.Second)
				want(r, "status", r.info("i").Status, Suspended)
				if resumed {
					r.must(r.Resume(r.Context(), Ref{ID: "i"}))
					r.pass(time.Second)
				}
				close(h.release)
				r.pass(time.Second)
				if !resumed {
					info := r.info("i")
					want(r, "status", info.Status, Suspended)
					want(r, "reason", info.Reason, "wait")
					want(r, "status before", info.Before, Running)
					want(r, "steps in history", r.countKind("i", history.StepCompleted), 1)
					r.pass(time.Hour)
					want(r, "completions in history", r.countKind("i", history.ActivityCompleted), 0)
					r.must(r.Resume(r.Context(), Ref{ID: "i"}))
				}
				r.raise("c", "go", "child")
				want(r, "result", r.result("i"), "kept a b child")
				want(r, "runs of the step", h.ran.Load(), 1)
				for i, e := range r.events("i") {
					want(r, "event ID", e.ID, int32(i+1))
				}
			})
		})
	}
}

// TestTurnThatEndsWhileItsInstanceIsSuspended: it has ended.
func TestTurnThatEndsWhileItsInstanceIsSuspended(t *testing.T) {
	inBubble(t, func(r *rig) {
		h := newHeld()
		r.flow("flow", func(c *replay.Context, _ []byte) replay.Outcome { return done(h.step(c)) })
		r.serve(func(c *Config) { c.StepCommitInterval = time.Hour })
		r.begin("i", "flow", "")
		r.pass(time.Second)
		r.must(r.Suspend(r.Context(), Ref{ID: "i"}, "wait"))
		r.pass(time.Second)
		close(h.release)
		want(r, "result", r.result("i"), "kept")
		want(r, "runs of the step", h.ran.Load(), 1)
		r.pass(DefaultRetention + time.Hour)
		_, err := r.Get(r.Context(), Ref{ID: "i"})
		r.wantErr(err, ErrNotFound)
	})
}

// TestTurnThatContinuesAsNewWhileItsInstanceIsSuspended: the next execution waits.
func TestTurnThatContinuesAsNewWhileItsInstanceIsSuspended(t *testing.T) {
	inBubble(t, func(r *rig) {
		h := newHeld()
		r.flow("flow", func(c *replay.Context, in []byte) replay.Outcome {
			if string(in) == "second" {
				return done(receive(c, "go"))
			}
			h.step(c)
			return replay.Outcome{Continue: &replay.Continue{Name: "flow", Input: []byte("second")}}
		})
		r.serve(func(c *Config) { c.StepCommitInterval = time.Hour })
		r.begin("i", "flow", "")
		r.pass(time.Second)
		r.must(r.Suspend(r.Context(), Ref{ID: "i"}, "wait"))
		r.raise("i", "go", "x")
		r.pass(time.Second)
		close(h.release)
		r.pass(time.Hour)
		info := r.info("i")
		want(r, "status", info.Status, Suspended)
		want(r, "execution", info.Execution, 2)
		r.must(r.Resume(r.Context(), Ref{ID: "i"}))
		want(r, "result", r.result("i"), "x")
		want(r, "runs of the step", h.ran.Load(), 1)
	})
}

// TestStepIsKeptWhenItsParentEnds, whatever becomes of the child then.
func TestStepIsKeptWhenItsParentEnds(t *testing.T) {
	for name, policy := range map[string]history.ClosePolicy{"abandon": history.AbandonChild, "cancel": history.CancelChild} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				h := newHeld()
				r.flow("child", func(c *replay.Context, _ []byte) replay.Outcome {
					said := h.step(c)
					if bad := sleep(c, time.Second); bad != nil {
						return failed(bad)
					}
					return done(said)
				})
				r.flow("parent", func(c *replay.Context, _ []byte) replay.Outcome {
					c.Child("child", "c", nil, history.Child{OnClose: policy})
					receive(c, "go")
					return done("")
				})
				r.serve()
				r.begin("p", "parent", "")
				r.pass(time.Second)
				r.raise("p", "go", "")
				r.until("p", Completed)
				r.pass(time.Second)
				close(h.release)
				if policy == history.AbandonChild {
					want(r, "result", r.result("c"), "kept")
				} else {
					r.until("c", Cancelled)
				}
				want(r, "runs of the step", h.ran.Load(), 1)
				want(r, "parent", r.info("c").Parent, "")
			})
		})
	}
}

// TestRebasedTurnIsForgottenIfItsInstanceIsTerminated: nothing of it counts.
func TestRebasedTurnIsForgottenIfItsInstanceIsTerminated(t *testing.T) {
	inBubble(t, func(r *rig) {
		h := newHeld()
		r.flow("flow", func(c *replay.Context, _ []byte) replay.Outcome { return done(h.step(c)) })
		r.serve()
		r.begin("i", "flow", "")
		r.pass(time.Second)
		r.must(r.Suspend(r.Context(), Ref{ID: "i"}, "wait"))
		r.must(r.Terminate(r.Context(), Ref{ID: "i"}, "stop"))
		r.pass(time.Second)
		close(h.release)
		r.until("i", Terminated)
		want(r, "steps in history", r.countKind("i", history.StepCompleted), 0)
	})
}

// busy has an instance with a long history that calls activities without end.
func busy(r *rig, events int) {
	r.act("echo", echo)
	r.flow("busy", func(c *replay.Context, _ []byte) replay.Outcome {
		for range events {
			c.SetStatus("x")
		}
		for {
			c.Wait(c.Activity("echo", nil, history.Activity{MaxAttempts: 1}))
		}
	})
	r.serve()
	r.begin("i", "busy", "")
}

// TestControlIsHandedToABusyInstance: if turns always come first, the next turn does what
// was asked.
func TestControlIsHandedToABusyInstance(t *testing.T) {
	for name, tt := range map[string]struct {
		ask  func(r *rig) error
		want Status
	}{
		"terminate": {func(r *rig) error { return r.Terminate(r.Context(), Ref{ID: "i"}, "stop") }, Terminated},
		"suspend":   {func(r *rig) error { return r.Suspend(r.Context(), Ref{ID: "i"}, "wait") }, Suspended},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				key, handed := (Ref{ID: "i"}).key(), -1
				r.tape.failing(func(tx *store.Tx) error {
					control := len(tx.Finish) == 1 && tx.Finish[0].Lease.Key.Queue == queueControl
					if control && len(tx.Append) > 0 {
						return store.ErrConflict // a turn was faster
					}
					return nil
				})
				busy(r, 20_000)
				r.must(tt.ask(r))
				r.until("i", tt.want)
				r.tape.failing(nil)
				turns := 0
				for _, tx := range r.tape.commits() {
					switch {
					case len(tx.Finish) == 0 && len(puts(&tx, key)) == 1 && strings.HasPrefix(puts(&tx, key)[0].ID, prefixHanded):
						handed = turns
					case finishes(&tx, key):
						turns++
					}
					if slices.ContainsFunc(tx.PutRecords, func(p store.PutRecord) bool {
						return p.Record.Key == Ref{ID: "i"}.record() && p.Record.Status == string(tt.want)
					}) {
						break // what comes later acknowledges what is left
					}
				}
				if handed < 0 || turns > handed+2 {
					r.Errorf("handed over after %d turns, done after %d", handed, turns)
				}
				r.pass(time.Minute)
				want(r, "control messages", len(r.pending(Ref{ID: "i"}.control())), 0)
				if tt.want == Suspended {
					r.must(r.Resume(r.Context(), Ref{ID: "i"}))
					r.until("i", Running)
					r.must(r.Terminate(r.Context(), Ref{ID: "i"}, "stop"))
					r.until("i", Terminated)
				}
			})
		})
	}
}

// TestTerminateOfABusyInstanceWithALongHistory, with nothing in its way but the turns.
func TestTerminateOfABusyInstanceWithALongHistory(t *testing.T) {
	inBubble(t, func(r *rig) {
		busy(r, 20_000)
		r.until("i", Running)
		r.must(r.Terminate(r.Context(), Ref{ID: "i"}, "stop"))
		r.until("i", Terminated)
	})
}

// TestSuspendReadsNoHistory, however long it is.
func TestSuspendReadsNoHistory(t *testing.T) {
	inBubble(t, func(r *rig) {
		reads := &entryCounter{Store: r.tape}
		r.flow("flow", func(c *replay.Context, _ []byte) replay.Outcome {
			for range 1_000 {
				c.SetStatus("x")
			}
			return done(receive(c, "go"))
		})
		r.serve(func(c *Config) { c.Store = reads })
		r.begin("i", "flow", "")
		r.pass(time.Second)
		r.must(r.Suspend(r.Context(), Ref{ID: "i"}, "wait"))
		r.until("i", Suspended)
		want(r, "entries read", reads.n.Load(), 0)
		r.must(r.Resume(r.Context(), Ref{ID: "i"}))
		r.raise("i", "go", "x")
		want(r, "result", r.result("i"), "x")
	})
}

// entryCounter counts the entries that are read.
type entryCounter struct {
	store.Store
	n atomic.Int64
}

func (s *entryCounter) ReadLog(ctx context.Context, key store.Key, from int) (store.LogPage, error) {
	page, err := s.Store.ReadLog(ctx, key, from)
	s.n.Add(int64(len(page.Entries)))
	return page, err
}
