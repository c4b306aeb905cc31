package abide_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/internal/teststore"
)

func id[T any](_ abide.Context, in T) (T, error) { return in, nil }

// TestRegistrationErrorsAreReturned: all of them, with the names, and never a panic.
func TestRegistrationErrorsAreReturned(t *testing.T) {
	t.Parallel()
	act := func(context.Context, int) (int, error) { return 0, nil }
	long := strings.Repeat("x", 129)
	var nilFlow *abide.Orchestration[int, int]
	var nilAct *abide.Activity[int, int]
	tests := []struct {
		name  string
		serve []abide.Definition
		words []string
	}{
		{"orchestration twice", []abide.Definition{abide.NewOrchestration("a", id[int]), abide.NewOrchestration("a", id[string])}, []string{`"a"`, "twice"}},
		{"version twice", []abide.Definition{abide.NewOrchestration("a", id[int], abide.Version("1")), abide.NewOrchestration("a", id[int], abide.Version("1"))}, []string{"a@1", "twice"}},
		{"activity twice", []abide.Definition{abide.NewActivity("a", act), abide.NewActivity("a", act)}, []string{`activity "a"`, "twice"}},
		{"empty name", []abide.Definition{abide.NewOrchestration("", id[int])}, []string{"orchestration", "empty"}},
		{"long name", []abide.Definition{abide.NewActivity(long, act)}, []string{"activity", "129", "128"}},
		{"bad character", []abide.Definition{abide.NewActivity("a@b", act)}, []string{"activity", "@"}},
		{"dot", []abide.Definition{abide.NewOrchestration(".control", id[int])}, []string{"dot"}},
		{"bad version", []abide.Definition{abide.NewOrchestration("a", id[int], abide.Version(strings.Repeat("1", 65)))}, []string{`"a"`, "version", "65", "64"}},
		{"no function", []abide.Definition{abide.OrchestrationNamed[int, int]("a")}, []string{`"a"`, "no function"}},
		{"no function of an activity", []abide.Definition{abide.ActivityNamed[int, int]("a")}, []string{`"a"`, "no function"}},
		{"nil", []abide.Definition{nil}, []string{"definition 0", "nil"}},
		{"nil orchestration", []abide.Definition{nilFlow}, []string{"nil"}},
		{"nil activity", []abide.Definition{nilAct}, []string{"nil"}},
		{"several", []abide.Definition{abide.NewOrchestration("", id[int]), abide.ActivityNamed[int, int]("a")}, []string{"empty", "no function"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			defer func() {
				if v := recover(); v != nil {
					t.Errorf("panic: %v", v)
				}
			}()
			_, err := abide.Open(t.Context(), abide.Config{Store: "memory:", Register: tt.serve})
			refuses(t, err, abide.ErrInvalid, tt.words...)
			s := teststore.New(t)
			defer s.Close()
			_, err = abide.New(s, abide.Config{Register: tt.serve})
			refuses(t, err, abide.ErrInvalid, tt.words...)
		})
	}
}

func TestBadConfigurationsAreRefused(t *testing.T) {
	t.Parallel()
	for word, cfg := range map[string]abide.Config{
		"MaxTurns":        {MaxTurns: -1},
		"MaxActivities":   {MaxActivities: -1},
		"CacheSize":       {CacheSize: -1},
		"MaxHistory":      {MaxHistory: -1},
		"MaxHistoryBytes": {MaxHistoryBytes: -1},
		"LeaseDuration":   {LeaseDuration: time.Millisecond},
		"DrainTimeout":    {DrainTimeout: -1},
	} {
		cfg.Store = "memory:"
		_, err := abide.Open(t.Context(), cfg)
		refuses(t, err, abide.ErrInvalid, word)
	}
	for _, url := range []string{"nonsense", "nonsense://x", "memory://host", "memory:?x=1"} {
		if e, err := abide.Open(t.Context(), abide.Config{Store: url}); err == nil {
			t.Errorf("%s is opened", url)
			_ = e.Close()
		}
	}
}

func TestStartPoliciesOfTheAPI(t *testing.T) {
	flow := abide.NewOrchestration("flow", id[int])
	other := abide.NewOrchestration("other", id[int])
	onStage(t, []abide.Definition{flow, other}, func(s *stage) {
		i, err := flow.Start(s.Context(), s.Engine, 1, abide.ID("i"))
		s.check(err)
		same(s, "existed", i.Existed(), false)
		got, err := i.Result(s.month())
		s.check(err)
		same(s, "result", got, 1)
		i, err = flow.Start(s.Context(), s.Engine, 2, abide.ID("i"))
		s.check(err)
		same(s, "existed", i.Existed(), true)
		got, err = i.Result(s.month())
		s.check(err)
		same(s, "result", got, 1)
		_, err = flow.Start(s.Context(), s.Engine, 3, abide.ID("i"), abide.RejectExisting())
		refuses(s.T, err, abide.ErrExists, `"i"`)
		_, err = other.Start(s.Context(), s.Engine, 3, abide.ID("i"))
		refuses(s.T, err, abide.ErrExists, "flow", "other")
		i, err = flow.Start(s.Context(), s.Engine, 4, abide.ID("i"), abide.ReplaceEnded())
		s.check(err)
		got, err = i.Result(s.month())
		s.check(err)
		same(s, "result", got, 4)
		// Without an ID each one is another.
		a, err := flow.Start(s.Context(), s.Engine, 1)
		s.check(err)
		b, err := flow.Start(s.Context(), s.Engine, 1)
		s.check(err)
		same(s, "the same ID", a.ID() == b.ID(), false)
		// A handle needs no start.
		got, err = flow.Instance(s.Engine, "i").Result(s.month())
		s.check(err)
		same(s, "result", got, 4)
		_, err = flow.Instance(s.Engine, "nobody").Result(s.month())
		refuses(s.T, err, abide.ErrNotFound, "nobody")
	})
}

func TestBatchOfTheAPI(t *testing.T) {
	flow := abide.NewOrchestration("flow", id[int])
	onStage(t, []abide.Definition{flow}, func(s *stage) {
		request := func(id string, opts ...abide.StartOption) abide.StartRequest {
			r, err := flow.Prepare(s.Engine, 1, append(opts, abide.ID(id))...)
			s.check(err)
			return r
		}
		_, err := s.Start(s.Context(), request("a"))
		s.check(err)
		_, err = s.Start(s.Context(), request("b"), request("a", abide.RejectExisting()))
		refuses(s.T, err, abide.ErrExists)
		_, err = s.Get(s.Context(), abide.Ref{ID: "b"})
		refuses(s.T, err, abide.ErrNotFound)
		started, err := s.Start(s.Context(), request("b"), request("a"), request("c", abide.StartAfter(time.Hour), abide.Tenant("acme"), abide.Tag("color", "red"), abide.Tag("size", "xl")))
		s.check(err)
		same(s, "existed", fmt.Sprint(started[0].Existed, started[1].Existed, started[2].Existed), "false true false")
		s.wait(time.Minute)
		page, err := s.List(s.Context(), abide.Filter{Statuses: []abide.Status{abide.Pending}})
		s.check(err)
		same(s, "pending", fmt.Sprint(len(page.Instances), page.Instances[0].Ref, len(page.Instances[0].Tags)), `1 "acme/c" 2`)
		requests := make([]abide.StartRequest, 1001)
		for i := range requests {
			requests[i] = request(fmt.Sprint(i))
		}
		_, err = s.Start(s.Context(), requests...)
		refuses(s.T, err, abide.ErrInvalid, "1001", "1000")
	})
}

// TestLimitsWithinAnOrchestration stall it, with what is too much and how much is allowed.
func TestLimitsWithinAnOrchestration(t *testing.T) {
	const payload = 2 << 20
	text := func(n int) string { return strings.Repeat("x", n) }
	act := abide.NewActivity("act", func(_ context.Context, in string) (string, error) { return in, nil })
	child := abide.NewOrchestration("child", id[string])
	event := abide.NewEvent[string]("e")
	far := time.Date(9001, 1, 1, 0, 0, 0, 0, time.UTC)
	tests := []struct {
		name  string
		good  func(ctx abide.Context)
		bad   func(ctx abide.Context)
		words []string
	}{
		{"status text", func(ctx abide.Context) { abide.SetStatus(ctx, text(1024)) }, func(ctx abide.Context) { abide.SetStatus(ctx, text(1025)) }, []string{"status text", "1025", "1024"}},
		{"value", func(ctx abide.Context) { abide.NewValue[string]("v").Set(ctx, text(4094)) }, func(ctx abide.Context) { abide.NewValue[string]("v").Set(ctx, text(4095)) }, []string{`value "v"`, "4097", "4096"}},
		{"value's name", func(ctx abide.Context) { abide.NewValue[int](text(128)).Set(ctx, 1) }, func(ctx abide.Context) { abide.NewValue[int](text(129)).Set(ctx, 1) }, []string{"value", "129", "128"}},
		{"activity's input", func(ctx abide.Context) { act.Go(ctx, text(payload-2)) }, func(ctx abide.Context) { act.Go(ctx, text(payload-1)) }, []string{`activity "act"`, fmt.Sprint(payload + 1), fmt.Sprint(payload)}},
		{"child's input", func(ctx abide.Context) { child.Go(ctx, text(payload-2)) }, func(ctx abide.Context) { child.Go(ctx, text(payload-1)) }, []string{`child`, fmt.Sprint(payload + 1), fmt.Sprint(payload)}},
		{"child's ID", func(ctx abide.Context) { child.Go(ctx, "", abide.ID(text(512))) }, func(ctx abide.Context) { child.Go(ctx, "", abide.ID(text(513))) }, []string{"ID", "513", "512"}},
		{"event", func(ctx abide.Context) { event.Send(ctx, text(512), "") }, func(ctx abide.Context) { event.Send(ctx, text(513), "") }, []string{"ID", "513", "512"}},
		{"event without an instance", func(abide.Context) {}, func(ctx abide.Context) { event.Send(ctx, "", "") }, []string{"ID", "empty"}},
		{"change", func(ctx abide.Context) { abide.Changed(ctx, text(128)) }, func(ctx abide.Context) { abide.Changed(ctx, text(129)) }, []string{"change", "129", "128"}},
		{"timer's name", func(ctx abide.Context) { abide.NewTimer(ctx, 1, abide.Named(text(128))) }, func(ctx abide.Context) { abide.NewTimer(ctx, 1, abide.Named(text(129))) }, []string{"timer", "129", "128"}},
		{"timer's time", func(ctx abide.Context) { abide.NewTimerAt(ctx, far.AddDate(-1, 0, 0)) }, func(ctx abide.Context) { abide.NewTimerAt(ctx, far) }, []string{"timer", "9001", "9000"}},
		{"timer's move", func(abide.Context) {}, func(ctx abide.Context) { abide.NewTimer(ctx, time.Hour).Move(ctx, far) }, []string{"timer", "9001", "9000"}},
		{"step's name", func(abide.Context) {}, func(ctx abide.Context) {
			_, _ = abide.Step(ctx, "", func(context.Context) (int, error) { return 0, nil })
		}, []string{"step", "empty"}},
		{"what has no JSON", func(abide.Context) {}, func(ctx abide.Context) { abide.NewValue[func()]("v").Set(ctx, func() {}) }, []string{`value "v"`, "encoded"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			good := abide.NewOrchestration("good", func(ctx abide.Context, _ abide.None) (bool, error) {
				tt.good(ctx)
				return true, nil
			})
			bad := abide.NewOrchestration("bad", func(ctx abide.Context, _ abide.None) (bool, error) {
				tt.bad(ctx)
				return true, nil
			})
			onStage(t, []abide.Definition{good, bad, act, child}, func(s *stage) {
				expect(s, good, abide.None{}, true)
				i, err := bad.Start(s.Context(), s.Engine, abide.None{})
				s.check(err)
				s.stalled(i.Ref(), tt.words...)
			})
		})
	}
}

func TestBadInputOfCalls(t *testing.T) {
	flow := abide.NewOrchestration("flow", id[any])
	event := abide.NewEvent[any]("e")
	onStage(t, []abide.Definition{flow}, func(s *stage) {
		_, err := flow.Start(s.Context(), s.Engine, func() {})
		refuses(s.T, err, abide.ErrInvalid, "flow", "input")
		refuses(s.T, event.Raise(s.Context(), s.Engine, "i", func() {}), abide.ErrInvalid, "e")
		refuses(s.T, event.Raise(s.Context(), s.Engine, "", 1), abide.ErrInvalid, "ID")
		_, err = flow.Start(s.Context(), s.Engine, strings.Repeat("x", 2<<20))
		refuses(s.T, err, abide.ErrInvalid, fmt.Sprint(2<<20))
		_, err = flow.Start(s.Context(), s.Engine, 1, abide.StartAfter(-time.Second))
		refuses(s.T, err, abide.ErrInvalid, "negative")
		_, err = flow.Start(s.Context(), s.Engine, 1, abide.StartAt(time.Date(10001, 1, 1, 0, 0, 0, 0, time.UTC)))
		refuses(s.T, err, abide.ErrInvalid)
		_, err = flow.Start(s.Context(), s.Engine, 1, abide.Tag("", "x"))
		if err != nil {
			refuses(s.T, err, abide.ErrInvalid)
		}
		_, err = s.Get(s.Context(), abide.Ref{})
		refuses(s.T, err, abide.ErrInvalid, "ID")
		_, err = s.List(s.Context(), abide.Filter{Limit: -1})
		refuses(s.T, err, abide.ErrInvalid)
		_, err = s.List(s.Context(), abide.Filter{Statuses: []abide.Status{"asleep"}})
		refuses(s.T, err, abide.ErrInvalid, "asleep")
		_, err = s.List(s.Context(), abide.Filter{Cursor: "nonsense"})
		refuses(s.T, err, abide.ErrInvalid)
		for name, err := range map[string]error{
			"cancel": s.Cancel(s.Context(), abide.Ref{}, ""), "terminate": s.Terminate(s.Context(), abide.Ref{}, ""),
			"suspend": s.Suspend(s.Context(), abide.Ref{}, ""), "resume": s.Resume(s.Context(), abide.Ref{}),
			"restart": s.Restart(s.Context(), abide.Ref{}), "delete": s.Delete(s.Context(), abide.Ref{}),
			"move": s.MoveTimer(s.Context(), abide.Ref{}, "t", time.Now()),
		} {
			if !errors.Is(err, abide.ErrInvalid) {
				s.Errorf("%s: %v", name, err)
			}
		}
	})
}

func TestValuesOfTheAPI(t *testing.T) {
	type progress struct{ Done, Of int }
	published, cleared := abide.NewValue[progress]("progress"), abide.NewValue[string]("cleared")
	flow := abide.NewOrchestration("flow", func(ctx abide.Context, _ abide.None) (abide.None, error) {
		abide.SetStatus(ctx, "packing")
		published.Set(ctx, progress{1, 2})
		cleared.Set(ctx, "soon gone")
		cleared.Clear(ctx)
		return abide.None{}, abide.Sleep(ctx, time.Hour)
	})
	onStage(t, []abide.Definition{flow}, func(s *stage) {
		i, err := flow.Start(s.Context(), s.Engine, abide.None{})
		s.check(err)
		s.wait(time.Minute)
		info, err := i.Info(s.Context())
		s.check(err)
		p, ok, err := published.Get(info)
		s.check(err)
		same(s, "value", fmt.Sprint(ok, p, info.StatusText), "true {1 2}packing")
		_, ok, err = cleared.Get(info)
		s.check(err)
		same(s, "there is one", ok, false)
		_, _, err = abide.NewValue[string](published.Name()).Get(info)
		same(s, "into another type", err != nil, true)
		_, err = abide.ResultOf[abide.None](info)
		refuses(s.T, err, abide.ErrState, "running")
	})
}
