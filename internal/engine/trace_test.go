package engine

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/internal/replay"
	"github.com/abidehq/abide/store/storetest"
)

// traces collects the spans of engines.
type traces struct {
	*rig
	begun    time.Time
	out      *tracetest.InMemoryExporter
	provider *sdk.TracerProvider
}

func newTraces(r *rig, opts ...sdk.TracerProviderOption) *traces {
	out := tracetest.NewInMemoryExporter()
	return &traces{rig: r, begun: time.Now(), out: out, provider: sdk.NewTracerProvider(append(opts, sdk.WithSyncer(out))...)}
}

func (s *traces) configure(c *Config) { c.TracerProvider = s.provider }

// caller1 is the span in whose context instances are started.
var caller1 = trace.NewSpanContext(trace.SpanContextConfig{
	TraceID: trace.TraceID{1, 2, 3}, SpanID: trace.SpanID{4, 5, 6}, TraceFlags: trace.FlagsSampled,
})

// call starts an instance in the context of a span that is somebody else's.
func (r *rig) call(id, name, version, input string) {
	r.Helper()
	ctx := trace.ContextWithSpanContext(r.Context(), caller1)
	_, err := r.client().Start(ctx, Start{Ref: Ref{ID: id}, Name: name, Version: version, Input: []byte(input)})
	r.must(err)
}

// spans returns what was emitted, in the order in which it began, and what came of
// something after it.
func (s *traces) spans() tracetest.SpanStubs {
	spans := s.out.GetSpans()
	byID := map[trace.SpanID]tracetest.SpanStub{}
	for i := range spans {
		byID[spans[i].SpanContext.SpanID()] = spans[i]
	}
	var depth func(id trace.SpanID) int
	depth = func(id trace.SpanID) int {
		p, there := byID[id]
		if !there {
			return 0
		}
		n := depth(p.Parent.SpanID())
		for _, link := range p.Links {
			n = max(n, depth(link.SpanContext.SpanID()))
		}
		return n + 1
	}
	slices.SortStableFunc(spans, func(a, b tracetest.SpanStub) int {
		return cmp.Or(a.StartTime.Compare(b.StartTime),
			cmp.Compare(depth(a.SpanContext.SpanID()), depth(b.SpanContext.SpanID())), cmp.Compare(a.Name, b.Name))
	})
	return spans
}

// story returns the spans in words: name, attributes, when and for how long, what it is
// under, what it is linked to, and how it ended. All are of one trace.
func (s *traces) story() []string {
	s.Helper()
	spans := s.spans()
	names := map[trace.SpanID]string{caller1.SpanID(): "caller"}
	for i := range spans {
		id := spans[i].SpanContext.SpanID()
		if names[id] != "" {
			s.Errorf("two spans have the ID %v", id)
		}
		names[id] = fmt.Sprintf("#%d", i+1)
	}
	of := func(sc trace.SpanContext) string {
		switch {
		case !sc.IsValid():
			return "nothing"
		case sc.TraceID() != spans[0].SpanContext.TraceID():
			return "another trace"
		case names[sc.SpanID()] == "":
			return "a span that is not there"
		}
		return names[sc.SpanID()]
	}
	lines := make([]string, len(spans))
	for i := range spans {
		p := &spans[i]
		line := fmt.Sprintf("%s %s", of(p.SpanContext), p.Name)
		for _, kv := range p.Attributes {
			line += " " + kv.Value.String()
		}
		line += fmt.Sprintf(" +%v for %v under %s", p.StartTime.Sub(s.begun).Round(time.Second), p.EndTime.Sub(p.StartTime), of(p.Parent))
		for _, link := range p.Links {
			line += " after " + of(link.SpanContext)
		}
		if p.Status.Code != codes.Unset {
			first, _, _ := strings.Cut(p.Status.Description, "\n")
			line += fmt.Sprintf(" %v: %s", p.Status.Code, first)
		}
		lines[i] = line
	}
	return lines
}

func (s *traces) wantStory(want ...string) {
	s.Helper()
	if got := s.story(); !slices.Equal(got, want) {
		s.Errorf("the spans are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// wantInHistory checks that the spans of turns are those that the histories name, each
// once.
func (s *traces) wantInHistory(ids ...string) {
	s.Helper()
	noted := map[uint64]int{}
	for _, id := range ids {
		for execution := s.info(id).Execution; execution > 0; execution-- {
			_, events, err := s.client().History(s.Context(), Ref{ID: id}, execution)
			s.must(err)
			for i := range events {
				if events[i].Span != 0 {
					noted[events[i].Span]++
				}
			}
		}
	}
	for _, p := range s.spans() {
		if !strings.HasPrefix(p.Name, "turn ") {
			continue
		}
		id := p.SpanContext.SpanID()
		number := binary.BigEndian.Uint64(id[:])
		if noted[number] != 1 {
			s.Errorf("the span of %s at %v is noted %d times", p.Name, p.StartTime, noted[number])
		}
		delete(noted, number)
	}
	if len(noted) > 0 {
		s.Errorf("%d turns are noted that have no span", len(noted))
	}
}

// register registers a flow that goes through all there is: two activities, of which one
// is tried again, a timer, a child, and another execution.
func (r *rig) register() {
	mail := func(c *replay.Context, in []byte) { c.Wait(c.Activity("mail", in, history.Activity{MaxAttempts: 3})) }
	r.flow("order@2", func(c *replay.Context, in []byte) replay.Outcome {
		charge := c.Activity("charge", in, history.Activity{MaxAttempts: 5, Backoff: time.Second})
		mail(c, in)
		c.Wait(charge)
		sleep(c, time.Hour)
		c.Wait(c.Child("parcel", "parcel-1", in, history.Child{}))
		return replay.Outcome{Continue: &replay.Continue{Name: "last", Input: []byte("x")}}
	})
	r.flow("parcel", func(c *replay.Context, in []byte) replay.Outcome {
		mail(c, in)
		return done("ok")
	})
	r.flow("last", func(c *replay.Context, in []byte) replay.Outcome {
		mail(c, in)
		return failed(failure("nobody is at home"))
	})
	r.act("charge", func(_ context.Context, t *Task) ([]byte, *history.Failure) {
		<-time.After(3 * time.Second)
		if t.Attempt == 1 {
			return nil, failure("no money")
		}
		return t.Input, nil
	})
	r.act("mail", func(_ context.Context, t *Task) ([]byte, *history.Failure) {
		<-time.After(10 * time.Second)
		return t.Input, nil
	})
}

// TestATurnAndAnAttemptAreASpan, each under what asked for it, and after the turn before.
func TestATurnAndAnAttemptAreASpan(t *testing.T) {
	inBubble(t, func(r *rig) {
		s := newTraces(r)
		s.register()
		s.serve(s.configure)
		s.call("order-1", "order", "2", "x")
		s.until("order-1", Failed)
		s.wantStory(
			"#1 turn order order-1 default order@2 1 4 +0s for 0s under caller",
			"#2 activity charge order-1 default order@2 1 charge 1 +0s for 3s under #1 Error: no money",
			"#3 activity mail order-1 default order@2 1 mail 1 +0s for 10s under #1",
			"#4 activity charge order-1 default order@2 1 charge 2 +4s for 3s under #1",
			"#5 turn order order-1 default order@2 1 2 +7s for 0s under caller after #1",
			"#6 turn order order-1 default order@2 1 3 +10s for 0s under caller after #5",
			"#7 turn order order-1 default order@2 1 3 +1h0m10s for 0s under caller after #6",
			"#8 turn parcel parcel-1 default parcel 1 3 +1h0m10s for 0s under #7",
			"#9 activity mail parcel-1 default parcel 1 mail 1 +1h0m10s for 10s under #8",
			"#10 turn order order-1 default order@2 1 3 +1h0m20s for 0s under caller after #7",
			"#11 turn last order-1 default last 2 3 +1h0m20s for 0s under caller after #10",
			"#12 turn parcel parcel-1 default parcel 1 3 completed +1h0m20s for 0s under #7 after #8",
			"#13 activity mail order-1 default last 2 mail 1 +1h0m20s for 10s under #11",
			"#14 turn last order-1 default last 2 3 failed +1h0m30s for 0s under caller after #11 Error: nobody is at home",
		)
		s.wantInHistory("order-1", "parcel-1")
		first := s.spans()[0]
		want(r, "kind", first.SpanKind, trace.SpanKindConsumer)
		var keys []string
		for _, kv := range first.Attributes {
			keys = append(keys, string(kv.Key))
		}
		want(r, "attributes of a turn", strings.Join(keys, " "),
			"abide.instance.id abide.tenant abide.orchestration abide.execution abide.events.added")
		info := s.info("order-1")
		want(r, "trace of the instance", info.TraceParent(), "00-01020300000000000000000000000000-0405060000000000-01")
	})
}

// TestAProcessThatIsLostLeavesNoSpanBehind: what it had begun is a span of the process that
// does it, and nothing that is replayed there is one once more.
func TestAProcessThatIsLostLeavesNoSpanBehind(t *testing.T) {
	inBubble(t, func(r *rig) {
		s := newTraces(r)
		s.register()
		faulty := storetest.NewFaulty(r.tape, nil)
		lost := s.serve(s.configure, func(c *Config) { c.Store = faulty })
		s.call("order-1", "order", "2", "x")
		s.pass(4500 * time.Millisecond) // the second attempt at charge is under way, and mail
		faulty.Kill()
		s.serve(s.configure)
		s.pass(100 * time.Second)
		stop, cancel := context.WithCancel(s.Context())
		cancel()
		_ = lost.Close(stop)
		s.until("order-1", Failed)
		s.wantStory(
			"#1 turn order order-1 default order@2 1 4 +0s for 0s under caller",
			"#2 activity charge order-1 default order@2 1 charge 1 +0s for 3s under #1 Error: no money",
			"#3 activity charge order-1 default order@2 1 charge 3 +34s for 3s under #1",
			"#4 activity mail order-1 default order@2 1 mail 2 +34s for 10s under #1",
			"#5 turn order order-1 default order@2 1 2 +37s for 0s under caller after #1",
			"#6 turn order order-1 default order@2 1 3 +44s for 0s under caller after #5",
			"#7 turn order order-1 default order@2 1 3 +1h0m44s for 0s under caller after #6",
			"#8 turn parcel parcel-1 default parcel 1 3 +1h0m44s for 0s under #7",
			"#9 activity mail parcel-1 default parcel 1 mail 1 +1h0m44s for 10s under #8",
			"#10 turn order order-1 default order@2 1 3 +1h0m54s for 0s under caller after #7",
			"#11 turn last order-1 default last 2 3 +1h0m54s for 0s under caller after #10",
			"#12 turn parcel parcel-1 default parcel 1 3 completed +1h0m54s for 0s under #7 after #8",
			"#13 activity mail order-1 default last 2 mail 1 +1h0m54s for 10s under #11",
			"#14 turn last order-1 default last 2 3 failed +1h1m4s for 0s under caller after #11 Error: nobody is at home",
		)
		s.wantInHistory("order-1", "parcel-1")
		want(r, "replays", r.Count().Replays.Load(), 1)
	})
}
