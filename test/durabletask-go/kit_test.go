package durabletaskgo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/microsoft/durabletask-go/api"
	"github.com/microsoft/durabletask-go/client"
	"github.com/microsoft/durabletask-go/task"

	"github.com/abidehq/abide/test/durabletask-go/serve"
)

// patient is how long a test waits for what should come soon.
const patient = 30 * time.Second

var program, addr string

func TestMain(m *testing.M) { os.Exit(run(m)) }

// run runs the tests against one server.
func run(m *testing.M) int {
	folder, err := os.MkdirTemp("", "durabletask-go")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(folder)
	if program, err = serve.Build(folder); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	server, err := serve.Start(program, folder+"/store", "127.0.0.1:0")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer server.Stop()
	addr = server.Addr
	return m.Run()
}

// silent is a logger that writes nothing.
type silent struct{}

func (silent) Debug(...any)          {}
func (silent) Debugf(string, ...any) {}
func (silent) Info(...any)           {}
func (silent) Infof(string, ...any)  {}
func (silent) Warn(...any)           {}
func (silent) Warnf(string, ...any)  {}
func (silent) Error(...any)          {}
func (silent) Errorf(string, ...any) {}

// code is what a worker runs, by name.
type (
	flows  map[string]task.Orchestrator
	action map[string]task.Activity
)

// hub is a task hub of a test.
type hub struct {
	*client.TaskHubGrpcClient
	t    *testing.T
	ctx  context.Context
	name string
}

// open returns a task hub of its own, with a worker.
func open(t *testing.T, f flows, a action) *hub {
	t.Helper()
	h := &hub{TaskHubGrpcClient: dial(t, addr, hubOf(t)), t: t, ctx: soon(t), name: hubOf(t)}
	h.work(f, a)
	return h
}

func hubOf(t *testing.T) string { return strings.ToLower(strings.ReplaceAll(t.Name(), "/", "-")) }

func dial(t *testing.T, addr, hub string) *client.TaskHubGrpcClient {
	t.Helper()
	conn, err := serve.Dial(addr, hub)
	ok(t, err)
	t.Cleanup(func() { ok(t, conn.Close()) })
	return client.NewTaskHubGrpcClient(conn, silent{})
}

func soon(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patient)
	t.Cleanup(cancel)
	return ctx
}

// work starts a worker, and returns what stops it.
func (h *hub) work(f flows, a action) context.CancelFunc {
	h.t.Helper()
	r := task.NewTaskRegistry()
	for name, code := range f {
		ok(h.t, r.AddOrchestratorN(name, code))
	}
	for name, code := range a {
		ok(h.t, r.AddActivityN(name, code))
	}
	ctx, cancel := context.WithCancel(context.Background())
	h.t.Cleanup(cancel)
	ok(h.t, h.StartWorkItemListener(ctx, r))
	return cancel
}

// start starts an instance.
func (h *hub) start(name string, opts ...api.NewOrchestrationOptions) api.InstanceID {
	h.t.Helper()
	id, err := h.ScheduleNewOrchestration(h.ctx, name, opts...)
	ok(h.t, err)
	return id
}

// end waits until an instance has ended with a status.
func (h *hub) end(id api.InstanceID, want api.OrchestrationStatus) *api.OrchestrationMetadata {
	h.t.Helper()
	m, err := h.WaitForOrchestrationCompletion(h.ctx, id, api.WithFetchPayloads(true))
	ok(h.t, err)
	equal(h.t, "status", m.RuntimeStatus, want)
	return m
}

// result waits until an instance has completed with an output.
func (h *hub) result(id api.InstanceID, want string) {
	h.t.Helper()
	equal(h.t, "output", h.end(id, api.RUNTIME_STATUS_COMPLETED).SerializedOutput, want)
}

// reaches waits until an instance has a status.
func (h *hub) reaches(id api.InstanceID, want api.OrchestrationStatus) {
	h.t.Helper()
	for {
		m, err := h.FetchOrchestrationMetadata(h.ctx, id)
		ok(h.t, err)
		if m.RuntimeStatus == want {
			return
		}
	}
}

// is fails the test unless an error is another one.
func is(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("the error is %v, want %v", err, want)
	}
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func equal[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Fatalf("%s: got %v, want %v", what, got, want)
	}
}
