package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/internal/replay"
)

// stubborn registers an orchestration that recovers from every panic and goes on.
func (r *rig) stubborn(name string) {
	r.flow(name, func(c *replay.Context, _ []byte) replay.Outcome {
		for {
			func() {
				defer func() { _ = recover() }()
				c.Wait(c.Receive("never"))
			}()
		}
	})
}

// TestEvictedCodeThatRecovers does not keep the instance waiting that takes its place in the
// cache.
func TestEvictedCodeThatRecovers(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.stubborn("stubborn")
		r.flow("flow", waiter)
		r.serve(func(c *Config) { c.CacheSize = 1 })
		for i := range 5 {
			r.begin(fmt.Sprint("stubborn", i), "stubborn", "")
			r.pass(time.Second)
			r.begin(fmt.Sprint("flow", i), "flow", "")
			r.pass(time.Second)
			r.raise(fmt.Sprint("flow", i), "go", "x")
			want(r, "result", r.result(fmt.Sprint("flow", i)), "x")
		}
		want(r, "abandoned", r.turning.count(), 0)
	})
}

// TestEvictedCodeThatBlocks: deferred functions of an instance that leaves the cache keep no
// other instance waiting. Those that do not return are counted, and Close does not wait for
// them beyond its context.
func TestEvictedCodeThatBlocks(t *testing.T) {
	inBubble(t, func(r *rig) {
		release := make(chan struct{})
		r.flow("blocks", func(c *replay.Context, _ []byte) replay.Outcome {
			defer func() { <-release }()
			c.Wait(c.Receive("never"))
			return done("")
		})
		r.flow("flow", waiter)
		r.serve(func(c *Config) { c.CacheSize = 1 })
		r.begin("blocks", "blocks", "")
		r.pass(time.Second)
		r.begin("flow", "flow", "")
		r.pass(time.Second)
		r.raise("flow", "go", "x")
		want(r, "result", r.result("flow"), "x")
		want(r, "abandoned", r.turning.count(), 0)
		r.pass(returnWithin)
		want(r, "abandoned", r.turning.count(), 1)
		ctx, cancel := context.WithTimeout(r.Context(), time.Second)
		defer cancel()
		began := time.Now()
		err := r.Close(ctx)
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "deferred functions") {
			r.Errorf("Close returned %v, want that deferred functions were still running", err)
		}
		want(r, "Close took", time.Since(began), 2*time.Second)
		close(release)
		synctest.Wait()
		want(r, "abandoned", r.turning.count(), 0)
	})
}

// TestCloseEndsWithItsContext also if code in the cache does not end.
func TestCloseEndsWithItsContext(t *testing.T) {
	inBubble(t, func(r *rig) {
		release := make(chan struct{})
		r.stubborn("stubborn")
		r.flow("blocks", func(c *replay.Context, _ []byte) replay.Outcome {
			defer func() { <-release }()
			c.Wait(c.Receive("never"))
			return done("")
		})
		r.serve()
		r.begin("s", "stubborn", "")
		r.begin("b", "blocks", "")
		r.pass(time.Second)
		ctx, cancel := context.WithTimeout(r.Context(), time.Second)
		defer cancel()
		began := time.Now()
		if err := r.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
			r.Errorf("Close returned %v, want the error of its context", err)
		}
		want(r, "Close took", time.Since(began), 2*time.Second)
		close(release)
		synctest.Wait()
	})
}

// TestBlockedCodeGivesItsSlotBack: orchestrations that block, one for each slot, stall and
// keep no other waiting.
func TestBlockedCodeGivesItsSlotBack(t *testing.T) {
	inBubble(t, func(r *rig) {
		release := make(chan struct{})
		r.flow("blocks", func(*replay.Context, []byte) replay.Outcome {
			<-release
			return done("")
		})
		r.flow("flow", waiter)
		r.serve(func(c *Config) { c.MaxTurns = 2 })
		r.begin("a", "blocks", "")
		r.begin("b", "blocks", "")
		r.begin("flow", "flow", "")
		r.raise("flow", "go", "x")
		want(r, "result", r.result("flow"), "x")
		want(r, "status", r.until("a", Stalled).Status, Stalled)
		want(r, "status", r.until("b", Stalled).Status, Stalled)
		want(r, "abandoned", r.turning.count(), 2)
		want(r, "running", r.turning.running.Load(), 0)
		close(release)
		synctest.Wait()
		want(r, "abandoned", r.turning.count(), 0)
		want(r, "running", r.turning.running.Load(), 0)
	})
}

// TestStepThatIgnoresItsContext gives its slot back a while after its instance was terminated.
func TestStepThatIgnoresItsContext(t *testing.T) {
	inBubble(t, func(r *rig) {
		release := make(chan struct{})
		r.flow("deaf", func(c *replay.Context, _ []byte) replay.Outcome {
			c.Step("deaf", func(context.Context) ([]byte, *history.Failure) {
				<-release
				return nil, nil
			})
			return done("")
		})
		r.flow("flow", waiter)
		r.serve(func(c *Config) { c.MaxTurns = 1 })
		r.begin("d", "deaf", "")
		r.pass(time.Second)
		r.begin("i", "flow", "")
		r.raise("i", "go", "x")
		r.must(r.Terminate(r.Context(), Ref{ID: "d"}, ""))
		r.until("d", Terminated)
		began := time.Now()
		want(r, "result", r.result("i"), "x")
		want(r, "slot free after", time.Since(began), returnWithin)
		want(r, "abandoned", r.turning.count(), 1)
		close(release)
		synctest.Wait()
		want(r, "abandoned", r.turning.count(), 0)
	})
}

// TestAbandonedCodeIsLogged once, when there are a tenth as many goroutines as slots.
func TestAbandonedCodeIsLogged(t *testing.T) {
	inBubble(t, func(r *rig) {
		release := make(chan struct{})
		r.flow("blocks", func(*replay.Context, []byte) replay.Outcome {
			<-release
			return done("")
		})
		var text bytes.Buffer
		lines := func() int { return strings.Count(text.String(), "code does not return") }
		r.serve(func(c *Config) {
			c.MaxTurns = 20
			c.Logger = slog.New(slog.NewTextHandler(&text, nil))
		})
		r.begin("a", "blocks", "")
		r.until("a", Stalled)
		want(r, "lines for one goroutine of 20 slots", lines(), 0)
		for _, id := range []string{"b", "c", "d"} {
			r.begin(id, "blocks", "")
			r.until(id, Stalled)
		}
		want(r, "lines for four", lines(), 1)
		close(release)
	})
}

// TestActivityThatIgnoresItsContext gives its slot back a while after its time is up.
func TestActivityThatIgnoresItsContext(t *testing.T) {
	inBubble(t, func(r *rig) {
		release := make(chan struct{})
		r.act("deaf", func(context.Context, *Task) ([]byte, *history.Failure) {
			<-release
			return nil, nil
		})
		r.act("echo", echo)
		r.flow("deaf", func(c *replay.Context, _ []byte) replay.Outcome {
			f := c.Activity("deaf", nil, history.Activity{StartToClose: time.Minute, MaxAttempts: 1})
			c.Wait(f)
			_, failure := f.Result()
			return replay.Outcome{Failure: failure}
		})
		r.flow("echo", func(c *replay.Context, _ []byte) replay.Outcome {
			f := c.Activity("echo", []byte("x"), history.Activity{})
			c.Wait(f)
			data, failure := f.Result()
			return replay.Outcome{Data: data, Failure: failure}
		})
		r.serve(func(c *Config) { c.MaxActivities = 1 })
		began := time.Now()
		r.begin("d", "deaf", "")
		r.pass(time.Second)
		r.begin("e", "echo", "")
		info := r.until("d", Failed)
		want(r, "failure", info.Failure.Type, TypeTimeout)
		want(r, "failed after", time.Since(began), time.Minute)
		want(r, "result", r.result("e"), "x")
		want(r, "slot free after", time.Since(began), time.Minute+returnWithin)
		want(r, "abandoned", r.acting.count(), 1)

		// As many as there are slots give them back; the next one keeps its slot.
		r.begin("d2", "deaf", "")
		r.pass(time.Second)
		r.begin("e2", "echo", "")
		r.until("d2", Failed)
		r.pass(time.Hour)
		want(r, "abandoned", r.acting.count(), 2)
		want(r, "status", r.info("e2").Status, Running)
		close(release)
		want(r, "result", r.result("e2"), "x")
		want(r, "abandoned", r.acting.count(), 0)
	})
}
