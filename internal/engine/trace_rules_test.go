package engine

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/internal/replay"
	"github.com/abidehq/abide/store"
)

// TestAnInstanceHasATraceOfItsOwn if nobody's: it begins with its first turn, and goes on in
// another process.
func TestAnInstanceHasATraceOfItsOwn(t *testing.T) {
	inBubble(t, func(r *rig) {
		s := newTraces(r)
		r.flow("nap", func(c *replay.Context, _ []byte) replay.Outcome {
			sleep(c, time.Hour)
			sleep(c, time.Hour)
			return done("")
		})
		r.serve(s.configure)
		r.begin("a", "nap", "")
		r.pass(90 * time.Minute)
		first := s.out.GetSpans()[0].SpanContext
		info := r.info("a")
		want(r, "trace of the instance", info.TraceParent(), "00-"+first.TraceID().String()+"-"+first.SpanID().String()+"-01")
		r.again(s.configure)
		r.result("a")
		s.wantStory(
			"#1 turn nap a default nap 1 3 +0s for 0s under nothing",
			"#2 turn nap a default nap 1 3 +1h0m0s for 0s under #1 after #1",
			"#3 turn nap a default nap 1 3 completed +2h0m0s for 0s under #1 after #2",
		)
		s.wantInHistory("a")
	})
}

// TestWithoutATracerThereIsNoTrace: nothing is emitted, and nothing more is written.
func TestWithoutATracerThereIsNoTrace(t *testing.T) {
	inBubble(t, func(r *rig) {
		var seen []trace.SpanContext
		r.flow("call", func(c *replay.Context, in []byte) replay.Outcome {
			c.Step("look", func(ctx context.Context) ([]byte, *history.Failure) {
				seen = append(seen, trace.SpanContextFromContext(ctx))
				return nil, nil
			})
			return caller(c, in)
		})
		r.act("look", func(ctx context.Context, _ *Task) ([]byte, *history.Failure) {
			seen = append(seen, trace.SpanContextFromContext(ctx))
			return nil, nil
		})
		r.serve()
		r.begin("a", "call", "look")
		r.result("a")
		info := r.info("a")
		want(r, "trace of the instance", info.TraceParent(), "")
		for _, e := range r.events("a") {
			want(r, "span of "+e.String(), e.Span, 0)
		}
		for _, sc := range seen {
			want(r, "there is a span", sc.IsValid(), false)
		}

		// What is started within a trace hands it on all the same.
		seen = nil
		r.call("b", "call", "", "look")
		r.result("b")
		want(r, "looks", len(seen), 2)
		for _, sc := range seen {
			want(r, "trace", sc.TraceID(), caller1.TraceID())
			want(r, "span", sc.SpanID(), caller1.SpanID())
			want(r, "sampled", sc.IsSampled(), true)
		}
		for _, e := range r.events("b") {
			want(r, "span of "+e.String(), e.Span, 0)
		}
	})
}

// TestSpansOfUsersAreBelow those of the turn and the attempt in whose context they are
// begun, and their state goes along.
func TestSpansOfUsersAreBelow(t *testing.T) {
	inBubble(t, func(r *rig) {
		s := newTraces(r)
		span := func(ctx context.Context) ([]byte, *history.Failure) {
			_, span := s.provider.Tracer("users").Start(ctx, "theirs")
			<-time.After(time.Second)
			span.End()
			return nil, nil
		}
		r.flow("call", func(c *replay.Context, in []byte) replay.Outcome {
			c.Step("pay", span)
			return caller(c, in)
		})
		r.act("pay", func(ctx context.Context, _ *Task) ([]byte, *history.Failure) { return span(ctx) })
		r.serve(s.configure)
		state, err := trace.ParseTraceState("vendor=1")
		r.must(err)
		_, err = r.client().Start(trace.ContextWithSpanContext(r.Context(), caller1.WithTraceState(state)),
			Start{Ref: Ref{ID: "a"}, Name: "call", Input: []byte("pay")})
		r.must(err)
		r.result("a")
		s.wantStory(
			"#1 turn call a default call 1 4 +0s for 1s under caller",
			"#2 theirs +0s for 1s under #1",
			"#3 turn call a default call 1 2 +1s for 0s under caller after #1",
			"#4 activity pay a default call 1 pay 1 +1s for 1s under #3",
			"#5 theirs +1s for 1s under #4",
			"#6 turn call a default call 1 3 completed +2s for 0s under caller after #3",
		)
		for _, p := range s.spans() {
			want(r, "state of "+p.Name, p.SpanContext.TraceState().String(), "vendor=1")
		}
	})
}

// TestWhatIsNotCommittedIsNoSpan, and what is repeated is one.
func TestWhatIsNotCommittedIsNoSpan(t *testing.T) {
	inBubble(t, func(r *rig) {
		s := newTraces(r)
		r.flow("call", func(c *replay.Context, in []byte) replay.Outcome {
			return outcome(c, c.Activity(string(in), nil, history.Activity{MaxAttempts: 3}))
		})
		r.act("echo", echo)
		r.serve(s.configure, unfused)
		failures := map[string][]error{
			queueTurns:      {store.ErrConflict, errors.New("broken"), store.ErrClaimLost},
			QueueActivities: {store.ErrClaimLost},
		}
		r.tape.failing(func(tx *store.Tx) error {
			if len(tx.Finish) == 0 {
				return nil
			}
			queue := tx.Finish[0].Lease.Key.Queue
			if list := failures[queue]; len(list) > 0 {
				failures[queue] = list[1:]
				return list[0]
			}
			return nil
		})
		r.call("a", "call", "", "echo")
		r.result("a")
		s.wantStory(
			"#1 turn call a default call 1 3 +32s for 0s under caller",
			"#2 activity echo a default call 1 echo 2 +1m2s for 0s under #1",
			"#3 turn call a default call 1 3 completed +1m2s for 0s under caller after #1",
		)
	})
}

// TestAStallIsASpanThatFailed, and the turn after it comes after it.
func TestAStallIsASpanThatFailed(t *testing.T) {
	inBubble(t, func(r *rig) {
		s := newTraces(r)
		broken := true
		r.flow("fragile", func(*replay.Context, []byte) replay.Outcome {
			if broken {
				panic("oh dear")
			}
			return done("")
		})
		r.serve(s.configure)
		r.begin("a", "fragile", "")
		r.until("a", Stalled)
		broken = false
		r.must(r.Resume(r.Context(), Ref{ID: "a"}))
		r.result("a")
		s.wantStory(
			"#1 turn fragile a default fragile 1 2 stalled +0s for 0s under nothing Error: panic: oh dear",
			"#2 turn fragile a default fragile 1 3 completed +0s for 0s under #1 after #1",
		)
		s.wantInHistory("a")
	})
}

// TestCodeThatIsBlockedIsASpanThatFailed, as soon as its instance is stalled.
func TestCodeThatIsBlockedIsASpanThatFailed(t *testing.T) {
	inBubble(t, func(r *rig) {
		s := newTraces(r)
		release := make(chan struct{})
		r.flow("stuck", func(*replay.Context, []byte) replay.Outcome {
			<-release
			return done("")
		})
		r.serve(s.configure)
		r.call("a", "stuck", "", "")
		r.until("a", Stalled)
		close(release)
		r.pass(time.Second)
		got := s.story()
		if len(got) != 1 || !strings.HasPrefix(got[0], "#1 turn stuck a default stuck 1 2 stalled +0s for 11s under caller Error: blocked: its code has waited for 10s") {
			r.Errorf("the spans are %q", got)
		}
		s.wantInHistory("a")
	})
}

// TestAnAttemptThatTookItsProcessDownIsASpan when it is noted.
func TestAnAttemptThatTookItsProcessDownIsASpan(t *testing.T) {
	inBubble(t, func(r *rig) {
		s, m := newTraces(r), newMeasured(r)
		r.flow("call", caller)
		r.serve(s.configure)
		r.begin("a", "call", "echo")
		r.pass(time.Second)
		r.crash(QueueActivities, "echo", 1)
		r.act("echo", echo)
		r.again(s.configure, m.configure)
		r.until("a", Failed)
		s.wantStory(
			"#1 turn call a default call 1 3 +0s for 0s under nothing",
			"#2 activity echo a default call 1 echo 1 +1s for 0s under #1 Error: attempt 1 of 1 did not come to an end: its process was lost",
			"#3 turn call a default call 1 3 failed +1s for 0s under #1 after #1 Error: attempt 1 of 1 did not come to an end: its process was lost",
		)
		got := m.read()
		want(r, "attempts that failed", got["activity.failures{activity=echo}"], 1)
		want(r, "attempts that took some time here", got["activity.duration{activity=echo}"], 0)
	})
}

// TestAForkHasATraceOfItsOwn, and names no span of the other one's.
func TestAForkHasATraceOfItsOwn(t *testing.T) {
	inBubble(t, func(r *rig) {
		s := newTraces(r)
		r.flow("wait", waiter)
		r.flow("call", caller)
		r.act("echo", echo)
		r.serve(s.configure)
		r.call("a", "wait", "", "")
		r.pass(time.Second)
		r.must(r.Fork(r.Context(), Ref{ID: "a"}, 2, "b"))
		r.pass(time.Second)
		r.again(s.configure)
		r.raise("b", "go", "1")
		r.result("b")
		if info := r.info("b"); info.TraceParent() == "" || strings.Contains(info.TraceParent(), caller1.TraceID().String()) {
			r.Errorf("the fork is of the trace %q", info.TraceParent())
		}
		spans := s.spans()
		want(r, "spans", len(spans), 2)
		s.out.Reset()
		r.must(s.out.ExportSpans(r.Context(), spans[1:].Snapshots()))
		s.wantStory("#1 turn wait b default wait 1 3 completed +2s for 0s under nothing")

		// One that does something at once, within a trace.
		r.call("c", "call", "", "echo")
		r.result("c")
		s.out.Reset()
		r.must(r.Fork(trace.ContextWithSpanContext(r.Context(), caller1), Ref{ID: "c"}, 2, "d"))
		r.result("d")
		s.wantStory(
			"#1 turn call d default call 1 1 +2s for 0s under caller",
			"#2 activity echo d default call 1 echo 1 +2s for 0s under #1",
			"#3 turn call d default call 1 3 completed +2s for 0s under caller after #1",
		)
	})
}

// TestMessagesThatComeTooLateAreNoSpan, and begin no trace.
func TestMessagesThatComeTooLateAreNoSpan(t *testing.T) {
	inBubble(t, func(r *rig) {
		s := newTraces(r)
		r.flow("wait", waiter)
		r.serve()
		r.begin("a", "wait", "")
		r.pass(time.Second)
		r.again(s.configure)
		r.must2(r.client().Raise(r.Context(), Raise{Ref: Ref{ID: "a"}, Name: "other", Awaited: true}))
		r.pass(time.Second)
		want(r, "spans", len(s.out.GetSpans()), 0)
		r.raise("a", "go", "1")
		r.result("a")
		s.wantStory("#1 turn wait a default wait 1 3 completed +2s for 0s under nothing")
	})
}

// TestASpanThatIsNotSampledIsNoSpan: neither are those below it, and history names none.
func TestASpanThatIsNotSampledIsNoSpan(t *testing.T) {
	inBubble(t, func(r *rig) {
		s := newTraces(r, sdk.WithSampler(sdk.ParentBased(sdk.NeverSample())))
		var seen trace.SpanContext
		r.flow("call", caller)
		r.act("look", func(ctx context.Context, _ *Task) ([]byte, *history.Failure) {
			seen = trace.SpanContextFromContext(ctx)
			return nil, nil
		})
		r.serve(s.configure)
		r.begin("a", "call", "look")
		r.result("a")
		want(r, "spans", len(s.out.GetSpans()), 0)
		info := r.info("a")
		want(r, "trace of the instance", strings.HasPrefix(info.TraceParent(), "00-"+seen.TraceID().String()), true)
		want(r, "sampled", seen.IsSampled(), false)
		for _, e := range r.events("a") {
			want(r, "span of "+e.String(), e.Span, 0)
		}
	})
}

// TestATracerThatDoesNothing is as good as none.
func TestATracerThatDoesNothing(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("call", caller)
		r.act("echo", echo)
		r.serve(func(c *Config) { c.TracerProvider = noop.NewTracerProvider() })
		r.begin("a", "call", "echo")
		r.call("b", "call", "", "echo")
		r.result("a")
		r.result("b")
		info := r.info("a")
		want(r, "trace of the instance", info.TraceParent(), "")
		for _, e := range append(r.events("a"), r.events("b")...) {
			want(r, "span of "+e.String(), e.Span, 0)
		}
	})
}

// watcher notes how many spans were begun, and how many of them are gone.
type watcher struct{ begun, gone, ended atomic.Int64 }

func (w *watcher) OnStart(_ context.Context, s sdk.ReadWriteSpan) {
	w.begun.Add(1)
	runtime.SetFinalizer(s, func(sdk.ReadWriteSpan) { w.gone.Add(1) })
}
func (w *watcher) OnEnd(sdk.ReadOnlySpan)         { w.ended.Add(1) }
func (*watcher) Shutdown(context.Context) error   { return nil }
func (*watcher) ForceFlush(context.Context) error { return nil }

// TestASpanThatIsAbandonedIsCollected: it is never ended, and nobody holds it.
func TestASpanThatIsAbandonedIsCollected(t *testing.T) {
	var w watcher
	inBubble(t, func(r *rig) {
		s := newTraces(r, sdk.WithSpanProcessor(&w))
		r.flow("wait", waiter)
		r.serve(s.configure)
		left := 5
		r.tape.failing(func(tx *store.Tx) error {
			if len(tx.Finish) == 0 || left == 0 {
				return nil
			}
			left--
			return store.ErrConflict
		})
		r.begin("a", "wait", "")
		r.raise("a", "go", "")
		r.result("a")
	})
	if begun, ended := w.begun.Load(), w.ended.Load(); begun-ended != 5 {
		t.Fatalf("%d of %d spans were ended", ended, begun)
	}
	for range 1000 {
		runtime.GC()
		if w.gone.Load() >= w.begun.Load()-w.ended.Load() {
			return
		}
	}
	t.Errorf("of %d spans that were begun, %d were ended, and %d are gone", w.begun.Load(), w.ended.Load(), w.gone.Load())
}
