package engine

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/internal/replay"
	"github.com/abidehq/abide/store"
	_ "github.com/abidehq/abide/store/pebblestore" // pebble: URLs
)

// fanout asks for n activities in one turn, and waits for them.
func fanout(n int) replay.Code {
	return func(c *replay.Context, _ []byte) replay.Outcome {
		all := make([]*replay.Future, n)
		for i := range all {
			all[i] = c.Activity("echo", []byte("x"), history.Activity{MaxAttempts: 1})
		}
		c.Wait(all...)
		return done(fmt.Sprint(n))
	}
}

// TestFanOutStaysLinear: what is done for each activity does not grow with their number.
// Bytes that are allocated are the measure, which no busy machine can change.
func TestFanOutStaysLinear(t *testing.T) {
	each := map[int]uint64{}
	for _, n := range []int{2_000, 10_000} {
		s, err := store.Open(t.Context(), "pebble://"+t.TempDir()) // the store in memory looks at every key
		if err != nil {
			t.Fatal(err)
		}
		e, err := New(Config{
			Store: s, Logger: slog.New(slog.DiscardHandler), Routes: []string{"flow"},
			Executor:   Code{"flow": func(Ref) replay.Code { return fanout(n) }},
			Activities: map[string]Activity{"echo": echo},
		})
		if err != nil {
			t.Fatal(err)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if _, err := e.Start(t.Context(), Start{Ref: Ref{ID: "i"}, Name: "flow"}); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		info, err := e.Wait(ctx, Ref{ID: "i"})
		cancel()
		runtime.ReadMemStats(&after)
		if err != nil || string(info.Result) != fmt.Sprint(n) {
			t.Fatalf("%s %s %s: %v", info.Status, info.Result, info.Reason, err)
		}
		each[n] = (after.TotalAlloc - before.TotalAlloc) / uint64(n)
		t.Logf("%d activities: %d bytes each, %d turns, %d replays", n, each[n], e.Count().Turns.Load(), e.Count().Replays.Load())
		if err := e.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	if each[10_000] > 3*each[2_000] {
		t.Errorf("each of 10,000 activities costs %d bytes, each of 2,000 only %d", each[10_000], each[2_000])
	}
}

// TestCloseLeavesNoGoroutine: a bubble whose goroutines do not end fails its test. So do
// those of instances that wait in the cache, and of ones that are suspended or stalled.
func TestCloseLeavesNoGoroutine(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("waits", func(c *replay.Context, _ []byte) replay.Outcome {
			for range 3 {
				c.Go(func(c *replay.Context) { receive(c, "never") })
			}
			return done(receive(c, "go"))
		})
		r.flow("stalls", func(c *replay.Context, _ []byte) replay.Outcome {
			c.Go(func(c *replay.Context) { receive(c, "never") })
			sleep(c, time.Second)
			panic("oh dear")
		})
		r.flow("fails", func(c *replay.Context, _ []byte) replay.Outcome {
			c.Go(func(c *replay.Context) { receive(c, "never") })
			sleep(c, time.Second)
			return failed(failure("no"))
		})
		r.flow("continues", func(c *replay.Context, in []byte) replay.Outcome {
			c.Go(func(c *replay.Context) { receive(c, "never") })
			sleep(c, time.Second)
			return replay.Outcome{Continue: &replay.Continue{Name: "continues", Input: in}}
		})
		r.serve(func(c *Config) { c.CacheSize = 2 })
		for _, name := range []string{"waits", "stalls", "fails", "continues"} {
			for i := range 5 {
				r.begin(fmt.Sprint(name, i), name, "")
			}
		}
		r.pass(time.Minute)
		r.must(r.Suspend(r.Context(), Ref{ID: "waits0"}, ""))
		r.must(r.Terminate(r.Context(), Ref{ID: "waits1"}, ""))
		r.pass(time.Minute)
		want(r, "status", r.info("stalls0").Status, Stalled)
		r.shut()
		r.Engine = nil
		synctest.Wait()
	})
}

// TestCloseLeavesOnlyWhatIsBlocked: code that is blocked outside of Abide cannot be ended, and
// ends as soon as it is not.
func TestCloseLeavesOnlyWhatIsBlocked(t *testing.T) {
	inBubble(t, func(r *rig) {
		release := make(chan struct{})
		ended := 0
		r.flow("flow", func(*replay.Context, []byte) replay.Outcome {
			<-release
			ended++
			return done("")
		})
		r.serve()
		r.begin("i", "flow", "")
		r.until("i", Stalled)
		ctx, cancel := context.WithTimeout(r.Context(), time.Second)
		defer cancel()
		if err := r.Close(ctx); err == nil {
			r.Error("Close says that all has ended")
		}
		close(release)
		synctest.Wait()
		want(r, "ended", ended, 1)
		want(r, "status", r.info("i").Status, Stalled)
	})
}
