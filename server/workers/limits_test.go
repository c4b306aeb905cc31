package workers_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/internal/engine"
	"github.com/abidehq/abide/internal/replay"
	"github.com/abidehq/abide/internal/workerlink"
	"github.com/abidehq/abide/internal/workerpb"
	"github.com/abidehq/abide/store"
)

// TestLimitsOfWorkers: an engine at a server starts instances under limits, from its own code and from operations of
// entities, and shows and changes limits.
func TestLimitsOfWorkers(t *testing.T) {
	t.Parallel()
	one := abide.NewLimit("one", abide.Concurrency(1))
	perUser := abide.NewLimit("per-user", abide.Rate(100, time.Second), abide.PerKey())
	waits := abide.NewOrchestration("waits", func(ctx abide.Context, _ string) (string, error) { return approved.Wait(ctx) })
	desk := abide.NewEntity[int]("desk")
	open := abide.NewOperation(desk, "open", func(ctx abide.EntityContext, _ *int, id string) (string, error) {
		return waits.StartFrom(ctx, "", abide.ID(id), abide.Under(one), abide.Priority(9))
	})
	asks := abide.NewOrchestration("asks", func(ctx abide.Context, id string) (string, error) { return open.Call(ctx, "a", id) })
	h := newHost(t)
	e, ctx := h.work(nil, waits, desk, asks), soon(t)

	first, err := waits.Start(ctx, e, "", abide.ID("first"), abide.UnderKey(perUser, "ann"), abide.Under(one), abide.Priority(-3))
	check.OK(t, err)
	info, err := e.Get(ctx, first.Ref())
	check.OK(t, err)
	check.Equal(t, "limits", info.Limits, []history.Limit{{Name: "per-user", Keyed: true, Key: "ann", Rate: 100, Per: time.Second, Burst: 10}, {Name: "one", Concurrency: 1}})
	check.Equal(t, "priority", info.Priority, -3)
	check.Eventually(t, "the first is admitted", func() bool {
		info, err := e.Get(ctx, first.Ref())
		check.OK(t, err)
		return info.Admitted && info.Status == abide.Running
	})

	asked, err := asks.Start(ctx, e, "second")
	check.OK(t, err)
	_, err = asked.Result(ctx)
	check.OK(t, err)
	second := abide.Ref{ID: "second"}
	check.Eventually(t, "what the entity has started waits", func() bool {
		list, err := e.Waits(ctx, second)
		check.OK(t, err)
		return len(list) == 1 && list[0].Limit != nil && list[0].Limit.Limit == "one" && list[0].Limit.Ahead == 0
	})
	info, err = e.Get(ctx, second)
	check.OK(t, err)
	if info.Admitted || info.Priority != 9 || info.Status != abide.Pending {
		t.Errorf("the second: %+v", info)
	}

	list, err := e.Limits(ctx, "")
	check.OK(t, err)
	if len(list) != 2 || list[0].Name != "one" || list[0].InUse != 1 || list[0].Waiting != 1 || list[0].Rule().Concurrency != 1 || !list[1].PerKey {
		t.Errorf("limits: %+v", list)
	}
	changed, err := e.ChangeLimit(ctx, "", "one", abide.LimitChange{Set: &abide.LimitRule{Concurrency: 2}, Revision: list[0].Revision})
	check.OK(t, err)
	check.Equal(t, "rule that counts", changed.Rule(), abide.LimitRule{Concurrency: 2})
	_, err = e.ChangeLimit(ctx, "", "one", abide.LimitChange{Unset: true, Revision: list[0].Revision})
	if !errors.Is(err, abide.ErrConflict) {
		t.Errorf("a change of what has changed: %v", err)
	}
	_, err = e.Limit(ctx, "", "none")
	if !errors.Is(err, abide.ErrNotFound) {
		t.Errorf("a limit that is not there: %v", err)
	}
	check.OK(t, approved.Raise(ctx, e, "second", "yes"))
	result, err := waits.Instance(e, "second").Result(ctx)
	check.OK(t, err)
	check.Equal(t, "result of the second", result, "yes")
}

// TestMaxInFlightOfWorkers: a worker is sent no more of an activity than it says, and what it is not sent takes no
// slot of another one.
func TestMaxInFlightOfWorkers(t *testing.T) {
	t.Parallel()
	begun, release := make(chan int, 10), make(chan struct{})
	slow := waiting(begun, release)
	quick := abide.NewActivity("quick", func(_ context.Context, n int) (int, error) { return n, nil })
	slowFlow := abide.NewOrchestration("slow-flow", func(ctx abide.Context, n int) (int, error) { return slow.Call(ctx, n) })
	quickFlow := abide.NewOrchestration("quick-flow", func(ctx abide.Context, n int) (int, error) { return quick.Call(ctx, n) })
	h := newHost(t)
	e := h.work(func(c *abide.Config) { c.MaxActivities, c.MaxInFlight = 3, map[string]int{"act": 2} }, slow, quick, slowFlow, quickFlow)
	var all []*abide.Instance[int]
	for n := range 10 {
		i, err := slowFlow.Start(soon(t), e, n)
		check.OK(t, err)
		all = append(all, i)
	}
	for range 2 {
		receive(t, "the slow activity", begun)
	}
	for n := range 20 {
		i, err := quickFlow.Start(soon(t), e, n)
		check.OK(t, err)
		got, err := i.Result(soon(t))
		check.OK(t, err)
		check.Equal(t, "result of the quick one", got, n)
	}
	check.Equal(t, "attempts beyond the cap", len(begun), 0)
	leases, err := h.store.Leases(soon(t), store.LeaseQuery{Queue: engine.QueueActivities})
	check.OK(t, err)
	check.Equal(t, "tasks that are leased", len(leases), 2)
	close(release)
	for n, i := range all {
		got, err := i.Result(soon(t))
		check.OK(t, err)
		check.Equal(t, "result of the slow one", got, n)
	}
}

// beforeLimits has the server be of a release that knows no limits.
var beforeLimits = wires{down: down(func(m *workerpb.ToWorker) {
	if w := m.GetWelcome(); w != nil {
		w.Revision = workerlink.RevisionLimits - 1
	}
})}

// TestStartsAtAServerBeforeLimits: what the server would ignore is refused.
func TestStartsAtAServerBeforeLimits(t *testing.T) {
	inBubble(t, nil, func(b *bubble) {
		limits := []history.Limit{{Name: "one", Concurrency: 1}}
		old, now := b.join(whole(), beforeLimits), b.join(whole(), wires{})
		for name, s := range map[string]engine.Start{
			"limits":   {Limits: limits},
			"priority": {Priority: 1},
			"neither":  {},
		} {
			s.Ref, s.Name, s.Unchecked = engine.Ref{ID: name}, "plain", true
			starts := func() *workerpb.Request {
				return &workerpb.Request{Starts: []*workerpb.Start{workerlink.EncodeStart(&s)}}
			}
			if name == "neither" {
				reply, err := old.Request(b.Context(), starts())
				check.OK(b.T, err)
				check.Equal(b.T, "problem", string(reply.GetProblem()), "")
				continue
			}
			_, err := old.Request(b.Context(), starts())
			if !errors.Is(err, engine.ErrOutdated) || !strings.Contains(err.Error(), "knows no limits and priorities") {
				b.Errorf("%s: %v", name, err)
			}
			_, err = b.client.Get(b.Context(), engine.Ref{ID: name})
			if !errors.Is(err, engine.ErrNotFound) {
				b.Errorf("%s: it was started: %v", name, err)
			}
			reply, err := now.Request(b.Context(), starts())
			check.OK(b.T, err)
			check.Equal(b.T, "problem", string(reply.GetProblem()), "")
			check.Equal(b.T, "result", b.result(name), "plain")
		}
	})
}

// TestCodeAtAServerBeforeLimits: a turn that schedules under a limit, and an operation that starts under one, are left
// to a server that knows limits, and the server says why.
func TestCodeAtAServerBeforeLimits(t *testing.T) {
	limited := history.Activity{Limits: []history.Limit{{Name: "one", Concurrency: 1}}}
	for name, code := range map[string]func(c *replay.Context, in []byte) ([]byte, *history.Failure){
		"activity": func(c *replay.Context, in []byte) ([]byte, *history.Failure) {
			f := c.Activity("act", in, limited)
			c.Wait(f)
			return f.Result()
		},
		"child": func(c *replay.Context, in []byte) ([]byte, *history.Failure) {
			f := c.Child("plain", "", in, history.Child{Limits: limited.Limits})
			c.Wait(f)
			return f.Result()
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, nil, func(b *bubble) {
				p := whole()
				p.code["limited"] = flow(code)
				p.acts["act"] = plainAct
				old := b.join(p, beforeLimits)
				b.begin("i", "limited", "")
				b.pass(time.Minute)
				check.Equal(b.T, "status", b.info("i").Status, engine.Pending)
				check.Equal(b.T, "lines of the log", len(b.lines.with("claim left to a later release", "knows no limits and priorities")), 1)
				old.connected()
				b.join(p, wires{})
				check.Equal(b.T, "result", b.result("i"), "plain")
			})
		})
	}
	t.Run("operation", func(t *testing.T) {
		inBubble(t, nil, func(b *bubble) {
			p := whole()
			p.entities["counter"] = startsLimited
			old := b.join(p, beforeLimits)
			b.begin("i", "asks", "")
			b.pass(time.Minute)
			_, err := b.client.Get(b.Context(), engine.Ref{ID: "from-entity"})
			if !errors.Is(err, engine.ErrNotFound) {
				b.Errorf("it was started: %v", err)
			}
			if len(b.lines.with("executor unavailable", "knows no limits and priorities")) == 0 {
				b.Error("the log does not say why")
			}
			old.connected()
			old.gone()
			b.join(p, wires{})
			check.Equal(b.T, "result", b.result("i"), "started")
			check.Equal(b.T, "priority", b.info("from-entity").Priority, 5)
			check.Equal(b.T, "result of what it has started", b.result("from-entity"), "plain")
		})
	})
}

// plainAct is an activity that does nothing.
func plainAct(context.Context, *engine.Task) ([]byte, *history.Failure) { return []byte("plain"), nil }

// startsLimited is an entity whose operations start an instance under a limit.
func startsLimited(_ context.Context, b *engine.EntityBatch) (*engine.EntityOutcome, error) {
	out := &engine.EntityOutcome{Starts: []engine.Start{{
		Ref: engine.Ref{ID: "from-entity"}, Name: "plain", Limits: []history.Limit{{Name: "one", Concurrency: 1}}, Priority: 5,
	}}}
	for range b.Operations {
		out.Results = append(out.Results, engine.EntityResult{Failure: &history.Failure{Message: "started"}})
	}
	return out, nil
}
