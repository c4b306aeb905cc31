package engine

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/internal/replay"
	"github.com/abidehq/abide/store"
)

// minutes is a flow of steps of a minute each, and counts those that have begun.
func minutes(n int, begun *atomic.Int32, ended *atomic.Value) replay.Code {
	return func(c *replay.Context, _ []byte) replay.Outcome {
		for i := range n {
			_, bad := c.Step(fmt.Sprintf("step-%d", i), func(ctx context.Context) ([]byte, *history.Failure) {
				begun.Add(1)
				select {
				case <-time.After(time.Minute):
					return nil, nil
				case <-ctx.Done():
					ended.Store(context.Cause(ctx))
					return nil, failure("%v", ctx.Err())
				}
			})
			if bad != nil {
				return failed(bad)
			}
		}
		return done("all")
	}
}

// noControl is a store whose control queue somebody else serves.
type noControl struct{ store.Store }

func (s noControl) Claim(ctx context.Context, req store.ClaimRequest) ([]store.Claim, error) {
	if req.Queue == queueControl {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return s.Store.Claim(ctx, req)
}

// TestCancelAndTerminateEndSteps: the step that runs ends at once if this process does what
// was asked, and within the keeper's period otherwise; no other one is begun.
func TestCancelAndTerminateEndSteps(t *testing.T) {
	for _, tt := range []struct {
		name      string
		elsewhere bool
		ask       func(r *rig) error
		want      Status
		cause     error
		within    time.Duration
	}{
		{"cancel", false, func(r *rig) error { return r.Cancel(r.Context(), Ref{ID: "i"}, "enough") }, Cancelled, ErrCancelRequested, 0},
		{"cancel elsewhere", true, func(r *rig) error { return r.Cancel(r.Context(), Ref{ID: "i"}, "enough") }, Cancelled, ErrCancelRequested, maxTick},
		{"terminate", false, func(r *rig) error { return r.Terminate(r.Context(), Ref{ID: "i"}, "enough") }, Terminated, ErrLost, 0},
		{"terminate elsewhere", true, func(r *rig) error { return r.Terminate(r.Context(), Ref{ID: "i"}, "enough") }, Terminated, ErrLost, maxTick},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				var begun atomic.Int32
				var cause atomic.Value
				r.flow("flow", minutes(1_000, &begun, &cause))
				here := r.serve(func(c *Config) {
					if tt.elsewhere {
						c.Store = noControl{c.Store}
					}
				})
				if tt.elsewhere {
					r.serve(func(c *Config) { c.Routes, c.Executor = nil, Code{} })
					defer r.stop(here)
				}
				r.begin("i", "flow", "")
				r.pass(10*time.Minute + 30*time.Second)
				want(r, "steps begun", begun.Load(), 11)
				r.must(tt.ask(r))
				r.pass(tt.within)
				if got, _ := cause.Load().(error); !errors.Is(got, tt.cause) {
					r.Errorf("the context of the step has ended with %v, want %v", got, tt.cause)
				}
				r.until("i", tt.want)
				r.pass(time.Hour)
				want(r, "steps begun", begun.Load(), 11)
			})
		})
	}
}

// TestShieldedStepIsNotEndedByCancel, nor is it kept from running afterwards.
func TestShieldedStepIsNotEndedByCancel(t *testing.T) {
	inBubble(t, func(r *rig) {
		h := newHeld()
		r.flow("flow", func(c *replay.Context, _ []byte) replay.Outcome {
			said := h.step(c.Shield())
			if bad := sleep(c, time.Hour); bad == nil {
				return done("not cancelled")
			}
			if _, bad := c.Step("more", func(context.Context) ([]byte, *history.Failure) { return nil, nil }); bad == nil {
				return done("a step has run in a cancelled scope")
			}
			data, _ := c.Shield().Step("clean", func(ctx context.Context) ([]byte, *history.Failure) {
				if ctx.Err() != nil {
					return nil, failure("%v", ctx.Err())
				}
				return []byte("cleaned"), nil
			})
			return done(said + " and " + string(data))
		})
		r.serve()
		r.begin("i", "flow", "")
		r.pass(time.Second)
		r.must(r.Cancel(r.Context(), Ref{ID: "i"}, "enough"))
		r.pass(time.Minute)
		close(h.release)
		want(r, "result", r.result("i"), "kept and cleaned")
		want(r, "runs of the step", h.ran.Load(), 1)
	})
}

// TestStepThatSucceedsInSpiteOfCancelIsKept.
func TestStepThatSucceedsInSpiteOfCancelIsKept(t *testing.T) {
	inBubble(t, func(r *rig) {
		var ran atomic.Int32
		r.flow("flow", func(c *replay.Context, _ []byte) replay.Outcome {
			for {
				_, bad := c.Step("stubborn", func(ctx context.Context) ([]byte, *history.Failure) {
					ran.Add(1)
					<-ctx.Done()
					return []byte("done"), nil
				})
				if bad != nil {
					return failed(bad)
				}
			}
		})
		r.serve()
		r.begin("i", "flow", "")
		r.pass(time.Second)
		r.must(r.Cancel(r.Context(), Ref{ID: "i"}, "enough"))
		r.until("i", Cancelled)
		want(r, "runs", ran.Load(), 1)
		want(r, "completions", r.countKind("i", history.StepCompleted), 1)
	})
}
