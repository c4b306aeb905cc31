package durabletaskgo

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/microsoft/durabletask-go/api"
	"github.com/microsoft/durabletask-go/task"

	"github.com/abidehq/abide/test/durabletask-go/serve"
)

func greet(c task.ActivityContext) (any, error) {
	var name string
	if err := c.GetInput(&name); err != nil {
		return nil, err
	}
	return "Hello, " + name + "!", nil
}

func hello(c *task.OrchestrationContext) (any, error) {
	var name, out string
	if err := c.GetInput(&name); err != nil {
		return nil, err
	}
	err := c.CallActivity("greet", task.WithActivityInput(name)).Await(&out)
	return out, err
}

// waiting is an orchestration that returns the payload of an event.
func waiting(c *task.OrchestrationContext) (any, error) {
	var got string
	err := c.WaitForSingleEvent("go", -1).Await(&got)
	return got, err
}

// sleeping is one that waits for long.
func sleeping(c *task.OrchestrationContext) (any, error) {
	return nil, c.CreateTimer(time.Hour).Await(nil)
}

func TestEmpty(t *testing.T) {
	t.Parallel()
	h := open(t, flows{"empty": func(*task.OrchestrationContext) (any, error) { return nil, nil }}, nil)
	h.end(h.start("empty"), api.RUNTIME_STATUS_COMPLETED)
}

func TestHello(t *testing.T) {
	t.Parallel()
	h := open(t, flows{"hello": hello}, action{"greet": greet})
	id := h.start("hello", api.WithInput("世界"), api.WithInstanceID("one"))
	equal(t, "ID", id, "one")
	m, err := h.WaitForOrchestrationStart(h.ctx, id)
	ok(t, err)
	equal(t, "name", m.Name, "hello")
	h.result(id, `"Hello, 世界!"`)
}

func TestSequence(t *testing.T) {
	t.Parallel()
	h := open(t, flows{"sequence": func(c *task.OrchestrationContext) (any, error) {
		n := 0
		for range 10 {
			if err := c.CallActivity("next", task.WithActivityInput(n)).Await(&n); err != nil {
				return nil, err
			}
		}
		return n, nil
	}}, action{"next": func(c task.ActivityContext) (any, error) {
		var n int
		err := c.GetInput(&n)
		return n + 1, err
	}})
	h.result(h.start("sequence"), "10")
}

func TestFanOut(t *testing.T) {
	t.Parallel()
	h := open(t, flows{"fan-out": func(c *task.OrchestrationContext) (any, error) {
		var tasks []task.Task
		for i := range 20 {
			tasks = append(tasks, c.CallActivity("greet", task.WithActivityInput(fmt.Sprint(i))))
		}
		var all []string
		for _, one := range tasks {
			var out string
			if err := one.Await(&out); err != nil {
				return nil, err
			}
			all = append(all, out[len("Hello, "):len(out)-1])
		}
		return strings.Join(all, " "), nil
	}}, action{"greet": greet})
	h.result(h.start("fan-out"), `"0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19"`)
}

func TestTimer(t *testing.T) {
	t.Parallel()
	h := open(t, flows{"timer": func(c *task.OrchestrationContext) (any, error) {
		from := c.CurrentTimeUtc
		err := c.CreateTimer(300 * time.Millisecond).Await(nil)
		return c.CurrentTimeUtc.Sub(from) >= 300*time.Millisecond, err
	}}, nil)
	h.result(h.start("timer"), "true")
}

func TestConcurrentTimers(t *testing.T) {
	t.Parallel()
	h := open(t, flows{"timers": func(c *task.OrchestrationContext) (any, error) {
		var tasks []task.Task
		for i := range 5 {
			tasks = append(tasks, c.CreateTimer(time.Duration(5-i)*50*time.Millisecond))
		}
		for _, one := range tasks {
			if err := one.Await(nil); err != nil {
				return nil, err
			}
		}
		return len(tasks), nil
	}}, nil)
	h.result(h.start("timers"), "5")
}

// TestReplay: code runs again from its beginning in each turn, and knows which part is new.
func TestReplay(t *testing.T) {
	t.Parallel()
	h := open(t, flows{"replay": func(c *task.OrchestrationContext) (any, error) {
		list := []bool{c.IsReplaying}
		for range 2 {
			if err := c.CallActivity("nothing").Await(nil); err != nil {
				return nil, err
			}
			list = append(list, c.IsReplaying)
		}
		return list, nil
	}}, action{"nothing": func(task.ActivityContext) (any, error) { return nil, nil }})
	h.result(h.start("replay"), "[true,true,false]")
}

func TestEventBeforeAndAfter(t *testing.T) {
	t.Parallel()
	h := open(t, flows{"waiting": waiting, "late": func(c *task.OrchestrationContext) (any, error) {
		if err := c.CreateTimer(200 * time.Millisecond).Await(nil); err != nil {
			return nil, err
		}
		return waiting(c)
	}}, nil)
	for _, name := range []string{"waiting", "late"} {
		id := h.start(name)
		_, err := h.WaitForOrchestrationStart(h.ctx, id)
		ok(t, err)
		ok(t, h.RaiseEvent(h.ctx, id, "GO", api.WithEventPayload("now"))) // the SDK does not care about case
		h.result(id, `"now"`)
	}
}

// TestManyEvents: none is lost, and they come in order.
func TestManyEvents(t *testing.T) {
	t.Parallel()
	const n = 50
	h := open(t, flows{"events": func(c *task.OrchestrationContext) (any, error) {
		for want := range n {
			var got int
			if err := c.WaitForSingleEvent("number", -1).Await(&got); err != nil || got != want {
				return nil, fmt.Errorf("got %d, want %d: %w", got, want, err)
			}
		}
		return n, nil
	}}, nil)
	id := h.start("events")
	for i := range n {
		ok(t, h.RaiseEvent(h.ctx, id, "number", api.WithEventPayload(i)))
	}
	h.result(id, "50")
}

func TestEventTimeout(t *testing.T) {
	t.Parallel()
	h := open(t, flows{"timeout": func(c *task.OrchestrationContext) (any, error) {
		err := c.WaitForSingleEvent("never", 100*time.Millisecond).Await(nil)
		return errors.Is(err, task.ErrTaskCanceled), nil
	}}, nil)
	h.result(h.start("timeout"), "true")
}

func TestSubOrchestration(t *testing.T) {
	t.Parallel()
	h := open(t, flows{"hello": hello, "parent": func(c *task.OrchestrationContext) (any, error) {
		var one, two string
		first := c.CallSubOrchestrator("hello", task.WithSubOrchestratorInput("a"))
		second := c.CallSubOrchestrator("hello", task.WithSubOrchestratorInput("b"), task.WithSubOrchestrationInstanceID(string(c.ID)+"-child"))
		if err := errors.Join(first.Await(&one), second.Await(&two)); err != nil {
			return nil, err
		}
		return one + " " + two, nil
	}}, action{"greet": greet})
	id := h.start("parent")
	h.result(id, `"Hello, a! Hello, b!"`)
	h.result(id+"-child", `"Hello, b!"`)
}

func TestSubOrchestrationFails(t *testing.T) {
	t.Parallel()
	h := open(t, flows{
		"fails": func(*task.OrchestrationContext) (any, error) { return nil, errors.New("no luck") },
		"parent": func(c *task.OrchestrationContext) (any, error) {
			err := c.CallSubOrchestrator("fails").Await(nil)
			return err != nil && strings.Contains(err.Error(), "no luck"), nil
		},
	}, nil)
	h.end(h.start("fails"), api.RUNTIME_STATUS_FAILED)
	h.result(h.start("parent"), "true")
}

func TestActivityFails(t *testing.T) {
	t.Parallel()
	fails := func(c *task.OrchestrationContext) error { return c.CallActivity("fails").Await(nil) }
	h := open(t, flows{
		"flow": func(c *task.OrchestrationContext) (any, error) { return nil, fails(c) },
		"survives": func(c *task.OrchestrationContext) (any, error) {
			err := fails(c)
			return err != nil && strings.Contains(err.Error(), "no luck"), nil
		},
	}, action{"fails": func(task.ActivityContext) (any, error) { return nil, errors.New("no luck") }})
	h.end(h.start("flow"), api.RUNTIME_STATUS_FAILED)
	h.result(h.start("survives"), "true")
}

// TestUnknownNames: what a worker without filters does not know fails, as the SDK has it.
func TestUnknownNames(t *testing.T) {
	t.Parallel()
	h := open(t, flows{"flow": func(c *task.OrchestrationContext) (any, error) { return nil, c.CallActivity("unheard of").Await(nil) }}, nil)
	for _, name := range []string{"flow", "unknown"} {
		h.end(h.start(name), api.RUNTIME_STATUS_FAILED)
	}
}

func TestActivityRetries(t *testing.T) {
	t.Parallel()
	var tries atomic.Int32
	h := open(t, flows{"flow": func(c *task.OrchestrationContext) (any, error) {
		policy := &task.RetryPolicy{MaxAttempts: 4, InitialRetryInterval: 10 * time.Millisecond}
		return "done", c.CallActivity("flaky", task.WithActivityRetryPolicy(policy)).Await(nil)
	}}, action{"flaky": func(task.ActivityContext) (any, error) {
		if tries.Add(1) < 3 {
			return nil, errors.New("not yet")
		}
		return nil, nil
	}})
	h.result(h.start("flow"), `"done"`)
	equal(t, "tries", tries.Load(), 3)
}

func TestSubOrchestrationRetries(t *testing.T) {
	t.Parallel()
	var tries atomic.Int32
	h := open(t, flows{
		"flow": func(c *task.OrchestrationContext) (any, error) {
			policy := &task.RetryPolicy{MaxAttempts: 3, InitialRetryInterval: 10 * time.Millisecond}
			return nil, c.CallSubOrchestrator("fails", task.WithSubOrchestrationRetryPolicy(policy)).Await(nil)
		},
		"fails": func(*task.OrchestrationContext) (any, error) {
			tries.Add(1)
			return nil, errors.New("no luck")
		},
	}, nil)
	h.end(h.start("flow"), api.RUNTIME_STATUS_FAILED)
	equal(t, "tries", tries.Load(), 3)
}

func TestContinueAsNew(t *testing.T) {
	t.Parallel()
	h := open(t, flows{"loop": func(c *task.OrchestrationContext) (any, error) {
		var n int
		if err := c.GetInput(&n); err != nil {
			return nil, err
		}
		if n < 10 {
			if err := c.CreateTimer(time.Millisecond).Await(nil); err != nil {
				return nil, err
			}
			c.ContinueAsNew(n + 1)
		}
		return n, nil
	}}, nil)
	h.result(h.start("loop", api.WithInput(0)), "10")
}

// TestContinueAsNewWithEvents: each execution receives one event, and hands the others on.
func TestContinueAsNewWithEvents(t *testing.T) {
	t.Parallel()
	const n = 10
	h := open(t, flows{"loop": func(c *task.OrchestrationContext) (any, error) {
		var had int
		if err := c.GetInput(&had); err != nil {
			return nil, err
		}
		if had == n {
			return had, nil
		}
		if err := c.WaitForSingleEvent("more", -1).Await(nil); err != nil {
			return nil, err
		}
		c.ContinueAsNew(had+1, task.WithKeepUnprocessedEvents())
		return nil, nil
	}}, nil)
	id := h.start("loop", api.WithInput(0))
	for range n {
		ok(t, h.RaiseEvent(h.ctx, id, "more"))
	}
	h.result(id, "10")
}

func TestCustomStatus(t *testing.T) {
	t.Parallel()
	h := open(t, flows{"flow": func(c *task.OrchestrationContext) (any, error) {
		c.SetCustomStatus("half way")
		return waiting(c)
	}}, nil)
	id := h.start("flow")
	for {
		m, err := h.FetchOrchestrationMetadata(h.ctx, id)
		ok(t, err)
		if m.SerializedCustomStatus == "half way" {
			break
		}
	}
	ok(t, h.RaiseEvent(h.ctx, id, "go", api.WithEventPayload("on")))
	equal(t, "custom status at the end", h.end(id, api.RUNTIME_STATUS_COMPLETED).SerializedCustomStatus, "half way")
}

// TestSuspendAndResume: what reaches a suspended instance waits.
func TestSuspendAndResume(t *testing.T) {
	t.Parallel()
	h := open(t, flows{"waiting": waiting}, nil)
	id := h.start("waiting")
	_, err := h.WaitForOrchestrationStart(h.ctx, id)
	ok(t, err)
	ok(t, h.SuspendOrchestration(h.ctx, id, "for a while"))
	h.reaches(id, api.RUNTIME_STATUS_SUSPENDED)
	ok(t, h.RaiseEvent(h.ctx, id, "go", api.WithEventPayload("on")))
	m, err := h.FetchOrchestrationMetadata(h.ctx, id)
	ok(t, err)
	equal(t, "status after an event", m.RuntimeStatus, api.RUNTIME_STATUS_SUSPENDED)
	ok(t, h.ResumeOrchestration(h.ctx, id, "again"))
	h.result(id, `"on"`)
}

func TestTerminate(t *testing.T) {
	t.Parallel()
	h := open(t, flows{"sleeping": sleeping}, nil)
	id := h.start("sleeping")
	_, err := h.WaitForOrchestrationStart(h.ctx, id)
	ok(t, err)
	ok(t, h.TerminateOrchestration(h.ctx, id, api.WithOutput("enough")))
	equal(t, "output", h.end(id, api.RUNTIME_STATUS_TERMINATED).SerializedOutput, `"enough"`)
}

// TestTerminateChildren: those of a terminated instance end with it if the client says so, and go on otherwise.
func TestTerminateChildren(t *testing.T) {
	t.Parallel()
	h := open(t, flows{"waiting": waiting, "parent": func(c *task.OrchestrationContext) (any, error) {
		return nil, c.CallSubOrchestrator("waiting", task.WithSubOrchestrationInstanceID(string(c.ID)+"-child")).Await(nil)
	}}, nil)
	for _, recursive := range []bool{true, false} {
		id := h.start("parent")
		child := id + "-child"
		for {
			if m, err := h.FetchOrchestrationMetadata(h.ctx, child); err == nil && m.RuntimeStatus == api.RUNTIME_STATUS_RUNNING {
				break
			}
		}
		ok(t, h.TerminateOrchestration(h.ctx, id, api.WithRecursiveTerminate(recursive)))
		h.end(id, api.RUNTIME_STATUS_TERMINATED)
		if recursive {
			h.end(child, api.RUNTIME_STATUS_TERMINATED)
			continue
		}
		ok(t, h.RaiseEvent(h.ctx, child, "go", api.WithEventPayload("on")))
		h.result(child, `"on"`)
	}
}

func TestPurge(t *testing.T) {
	t.Parallel()
	h := open(t, flows{"hello": hello}, action{"greet": greet})
	id := h.start("hello", api.WithInput("x"))
	h.result(id, `"Hello, x!"`)
	ok(t, h.PurgeOrchestrationState(h.ctx, id))
	_, err := h.FetchOrchestrationMetadata(h.ctx, id)
	is(t, err, api.ErrInstanceNotFound)
	is(t, h.PurgeOrchestrationState(h.ctx, id), api.ErrInstanceNotFound)
}

func TestPurgeChildren(t *testing.T) {
	t.Parallel()
	h := open(t, flows{"hello": hello, "parent": func(c *task.OrchestrationContext) (any, error) {
		return nil, c.CallSubOrchestrator("hello", task.WithSubOrchestratorInput("x"), task.WithSubOrchestrationInstanceID(string(c.ID)+"-child")).Await(nil)
	}}, action{"greet": greet})
	id := h.start("parent")
	h.end(id, api.RUNTIME_STATUS_COMPLETED)
	ok(t, h.PurgeOrchestrationState(h.ctx, id, api.WithRecursivePurge(true)))
	_, err := h.FetchOrchestrationMetadata(h.ctx, id+"-child")
	is(t, err, api.ErrInstanceNotFound)
}

// TestSameID: an ID that is taken is an error, unless the client says what is done then.
func TestSameID(t *testing.T) {
	t.Parallel()
	h := open(t, flows{"waiting": waiting}, nil)
	id := h.start("waiting", api.WithInstanceID("one"), api.WithInput(1))
	_, err := h.WaitForOrchestrationStart(h.ctx, id)
	ok(t, err)
	_, err = h.ScheduleNewOrchestration(h.ctx, "waiting", api.WithInstanceID(id))
	if err == nil || !strings.Contains(err.Error(), api.ErrDuplicateInstance.Error()) {
		t.Errorf("the error is %v, want %v", err, api.ErrDuplicateInstance)
	}
	policy := &api.OrchestrationIdReusePolicy{OperationStatus: []api.OrchestrationStatus{api.RUNTIME_STATUS_RUNNING, api.RUNTIME_STATUS_PENDING}}
	for _, then := range []struct {
		action api.CreateOrchestrationAction
		input  string
	}{{api.REUSE_ID_ACTION_IGNORE, "1"}, {api.REUSE_ID_ACTION_TERMINATE, "2"}} {
		policy.Action = then.action
		h.start("waiting", api.WithInstanceID(id), api.WithInput(2), api.WithOrchestrationIdReusePolicy(policy))
		m, err := h.FetchOrchestrationMetadata(h.ctx, id)
		ok(t, err)
		equal(t, "input", m.SerializedInput, then.input)
	}
	ok(t, h.RaiseEvent(h.ctx, id, "go", api.WithEventPayload("on")))
	h.result(id, `"on"`)
	policy.Action = api.REUSE_ID_ACTION_IGNORE
	if _, err := h.ScheduleNewOrchestration(h.ctx, "waiting", api.WithInstanceID(id), api.WithOrchestrationIdReusePolicy(policy)); err == nil {
		t.Error("an instance was ignored whose status the policy does not name")
	}
}

func TestStartTime(t *testing.T) {
	t.Parallel()
	h := open(t, flows{"empty": func(*task.OrchestrationContext) (any, error) { return 1, nil }}, nil)
	at := time.Now().Add(500 * time.Millisecond)
	id := h.start("empty", api.WithStartTime(at))
	m, err := h.FetchOrchestrationMetadata(h.ctx, id)
	ok(t, err)
	equal(t, "status before", m.RuntimeStatus, api.RUNTIME_STATUS_PENDING)
	h.result(id, "1")
	if time.Now().Before(at) {
		t.Error("it has run before its time")
	}
}

func TestNoInstance(t *testing.T) {
	t.Parallel()
	h := open(t, nil, nil)
	_, err := h.FetchOrchestrationMetadata(h.ctx, "none")
	is(t, err, api.ErrInstanceNotFound)
}

// TestWorkerStops: the turn of a worker that has ended its stream is run by the next one at once.
func TestWorkerStops(t *testing.T) {
	t.Parallel()
	var once sync.Once // the turn may be delivered again
	begun, stop := make(chan struct{}), make(chan struct{})
	h := &hub{TaskHubGrpcClient: dial(t, addr, hubOf(t)), t: t, ctx: soon(t), name: hubOf(t)}
	cancel := h.work(flows{"flow": func(*task.OrchestrationContext) (any, error) {
		once.Do(func() { close(begun) })
		<-stop
		return "first", nil
	}}, nil)
	id := h.start("flow")
	<-begun
	cancel()
	h.work(flows{"flow": func(*task.OrchestrationContext) (any, error) { return "second", nil }}, nil)
	h.result(id, `"second"`)
	close(stop)
}

// TestServerIsKilled: a server that is killed and started again goes on, and its workers connect again.
func TestServerIsKilled(t *testing.T) {
	t.Parallel()
	store := t.TempDir() + "/store"
	server, err := serve.Start(program, store, "127.0.0.1:0")
	ok(t, err)
	where := server.Addr
	h := &hub{TaskHubGrpcClient: dial(t, where, "hub"), t: t, ctx: soon(t), name: "hub"}
	h.work(flows{"flow": func(c *task.OrchestrationContext) (any, error) {
		if err := c.WaitForSingleEvent("go", -1).Await(nil); err != nil {
			return nil, err
		}
		var out string
		err := c.CallActivity("greet", task.WithActivityInput("x")).Await(&out)
		return out, err
	}}, action{"greet": greet})
	id := h.start("flow")
	_, err = h.WaitForOrchestrationStart(h.ctx, id)
	ok(t, err)
	server.Kill()
	server, err = serve.Start(program, store, where)
	ok(t, err)
	t.Cleanup(server.Stop)
	for h.RaiseEvent(h.ctx, id, "go") != nil {
		ok(t, h.ctx.Err())
	}
	h.result(id, `"Hello, x!"`)
}
