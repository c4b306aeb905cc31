package workers_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/internal/check"
)

var (
	approved = abide.NewEvent[string]("approved")
	stage    = abide.NewValue[string]("stage")

	pay = abide.NewActivity("pay", func(ctx context.Context, amount int) (string, error) {
		info, _ := abide.ActivityOf(ctx)
		if info.Attempt == 1 {
			return "", errors.Join(errors.New("declined"), abide.Heartbeat(ctx, "half"))
		}
		half, ok, err := abide.LastHeartbeat[string](ctx)
		if err != nil || !ok {
			return "", abide.Final(fmt.Errorf("no details of the attempt before: %t, %w", ok, err))
		}
		return fmt.Sprintf("paid %d after %s", amount, half), nil
	}, abide.Retry(3).Backoff(time.Millisecond, 1, time.Millisecond))

	child = abide.NewOrchestration("child", func(ctx abide.Context, text string) (string, error) {
		return abide.Step(ctx, "stamp", func(context.Context) (string, error) { return "<" + text + ">", nil })
	})

	order = abide.NewOrchestration("order", func(ctx abide.Context, amount int) (string, error) {
		stage.Set(ctx, "paying")
		receipt, err := pay.Call(ctx, amount)
		if err != nil {
			return "", err
		}
		stamped, err := child.Call(ctx, receipt)
		if err != nil {
			return "", err
		}
		if err := abide.Sleep(ctx, 10*time.Millisecond); err != nil {
			return "", err
		}
		who, err := approved.Wait(ctx)
		return stamped + " approved by " + who, err
	})
)

// TestProgramOfAWorker: a program does the same at the end of a connection as on a store: activities with
// retries and heartbeats, steps, children, timers, events and values; and its engine is a full client.
func TestProgramOfAWorker(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	e := h.work(nil, order, child, pay)
	ctx := soon(t)
	run, err := order.Start(ctx, e, 42, abide.ID("o-1"), abide.Tag("kind", "test"))
	check.OK(t, err)
	check.OK(t, approved.Raise(ctx, e, run.ID(), "an operator"))
	result, err := run.Result(ctx)
	check.OK(t, err)
	check.Equal(t, "result", result, "<paid 42 after half> approved by an operator")

	info, err := e.Get(ctx, run.Ref())
	check.OK(t, err)
	check.Equal(t, "status", info.Status, abide.Completed)
	value, _, err := stage.Get(info)
	check.OK(t, err)
	check.Equal(t, "value", value, "paying")
	page, err := e.List(ctx, abide.Filter{Tags: map[string]string{"kind": "test"}})
	check.OK(t, err)
	check.Equal(t, "listed", len(page.Instances), 1)
	_, err = order.Start(ctx, e, 1, abide.ID("o-1"), abide.RejectExisting())
	check.Error(t, err, abide.ErrExists)
	_, err = order.Start(ctx, e, 1, abide.ID("o-1"), abide.ReplaceIf(abide.Running))
	check.Error(t, err, abide.ErrExists)
	run, err = order.Start(ctx, e, 43, abide.ID("o-1"), abide.ReplaceIf(abide.Running, abide.Completed))
	check.OK(t, err)
	check.OK(t, approved.Raise(ctx, e, run.ID(), "another"))
	result, err = run.Result(ctx)
	check.OK(t, err)
	check.Equal(t, "result of the start that replaced it", result, "<paid 43 after half> approved by another")
	_, err = e.Get(ctx, abide.Ref{ID: "none"})
	check.Error(t, err, abide.ErrNotFound)
	ws, err := e.Workers(ctx)
	check.OK(t, err)
	if len(ws) != 1 || len(ws[0].Orchestrations) != 2 || len(ws[0].Activities) != 1 || ws[0].PID == 0 {
		t.Errorf("workers are %+v", ws)
	}
	if e.Store() != nil {
		t.Error("the worker has a store")
	}
}

// TestClientWithoutCode: an engine that registers nothing is a client.
func TestClientWithoutCode(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.work(nil, child)
	client := h.work(nil)
	var run *abide.Instance[string]
	check.Eventually(t, "the server knows what the worker runs", func() bool {
		var err error
		run, err = child.Start(soon(t), client, "a")
		if !errors.Is(err, abide.ErrUnserved) {
			check.OK(t, err)
		}
		return err == nil
	})
	result, err := run.Result(soon(t))
	check.OK(t, err)
	check.Equal(t, "result", result, "<a>")
}

// TestChangesOfAWorker: the stream of changes comes over the connection as well.
func TestChangesOfAWorker(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	e := h.work(nil, child)
	ctx, cancel := context.WithCancel(soon(t))
	defer cancel()
	seen := make(chan abide.Change, 100)
	begun := make(chan struct{})
	go func() {
		close(begun)
		for c, err := range e.Changes(ctx, "") {
			if err != nil {
				return
			}
			seen <- c
		}
	}()
	<-begun
	check.Eventually(t, "a change is seen", func() bool {
		_, err := child.Start(ctx, e, "a")
		check.OK(t, err)
		return len(seen) > 0
	})
}

// TestStallOfAWorker: code that differs from its history stalls, and the reason tells the difference.
func TestStallOfAWorker(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	wait := func(name string) *abide.Orchestration[int, string] {
		return abide.NewOrchestration("waits", func(ctx abide.Context, _ int) (string, error) {
			if _, err := abide.Step(ctx, name, func(context.Context) (int, error) { return 1, nil }); err != nil {
				return "", err
			}
			return approved.Wait(ctx)
		})
	}
	old := wait("old")
	first := h.work(nil, old)
	ctx := soon(t)
	run, err := old.Start(ctx, first, 1)
	check.OK(t, err)
	check.Eventually(t, "it waits", func() bool {
		info, err := h.engine.Get(ctx, run.Ref())
		return err == nil && len(info.Awaited) == 1
	})
	check.OK(t, first.Close())
	second := h.work(nil, wait("new"))
	check.OK(t, approved.Raise(ctx, second, run.ID(), "x"))
	check.Eventually(t, "it stalls", func() bool {
		info, err := second.Get(ctx, run.Ref())
		check.OK(t, err)
		return info.Status == abide.Stalled
	})
	info, err := second.Get(ctx, run.Ref())
	check.OK(t, err)
	for _, text := range []string{"nondeterminism", "old", "new", "program_test.go"} {
		if !strings.Contains(info.Reason, text) {
			t.Errorf("the reason does not say %q: %s", text, info.Reason)
		}
	}
}
