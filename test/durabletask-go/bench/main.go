// Command bench measures an orchestration with one activity through the client and worker of durabletask-go, on abide
// serve and on that project's own SQLite backend in a file, in turn.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/microsoft/durabletask-go/api"
	"github.com/microsoft/durabletask-go/backend"
	"github.com/microsoft/durabletask-go/backend/sqlite"
	"github.com/microsoft/durabletask-go/client"
	"github.com/microsoft/durabletask-go/task"

	"github.com/abidehq/abide/test/durabletask-go/serve"
)

var (
	inFlight = flag.Int("in-flight", 64, "how many instances run at a time")
	duration = flag.Duration("duration", 10*time.Second, "how long each backend is measured, and how often it is its turn: three times")
	storeURL = flag.String("store", "", "the store of abide serve; a new embedded one unless given")
	program  = flag.String("abide", "", "the program; built from this repository unless given")
)

func main() {
	flag.Parse()
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// rounds is how often it is the turn of each backend.
const rounds = 3

func run() error {
	folder, err := os.MkdirTemp(".", ".bench.")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	if folder, err = filepath.Abs(folder); err != nil {
		return err
	}
	if *program == "" {
		if *program, err = serve.Build(folder); err != nil {
			return err
		}
	}
	for round := range rounds {
		on := *storeURL
		if on == "" {
			on = filepath.Join(folder, fmt.Sprint("store", round))
		}
		abide, err := onAbide(on)
		if err != nil {
			return err
		}
		own, err := onSQLite(filepath.Join(folder, fmt.Sprint("own", round, ".db")))
		if err != nil {
			return err
		}
		fmt.Printf("abide serve %.0f/s, SQLite backend %.0f/s, ratio %.1f\n", abide, own, abide/own)
	}
	return nil
}

// ends says when the code of instances has come to its end: to wait for one by the client would measure how often
// that asks.
type ends struct{ waiting sync.Map }

// of returns a channel that is closed at the end of an instance.
func (e *ends) of(id api.InstanceID) <-chan struct{} {
	c, _ := e.waiting.LoadOrStore(id, make(chan struct{}))
	return c.(chan struct{})
}

func (e *ends) note(id api.InstanceID) {
	if c, ok := e.waiting.LoadAndDelete(id); ok {
		close(c.(chan struct{}))
	}
}

// registry has the code.
func registry(e *ends) (*task.TaskRegistry, error) {
	r := task.NewTaskRegistry()
	err := r.AddOrchestratorN("hello", func(c *task.OrchestrationContext) (any, error) {
		var out string
		err := c.CallActivity("greet", task.WithActivityInput("you")).Await(&out)
		e.note(c.ID)
		return out, err
	})
	if err != nil {
		return nil, err
	}
	return r, r.AddActivityN("greet", func(c task.ActivityContext) (any, error) {
		var name string
		err := c.GetInput(&name)
		return "Hello, " + name + "!", err
	})
}

func onAbide(store string) (perSecond float64, err error) {
	server, err := serve.Start(*program, store, "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer server.Stop()
	conn, err := serve.Dial(server.Addr, "default")
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	e := &ends{}
	r, err := registry(e)
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	c := client.NewTaskHubGrpcClient(conn, silent{})
	if err := c.StartWorkItemListener(ctx, r); err != nil {
		return 0, err
	}
	return measure(ctx, e, func(id api.InstanceID) error {
		_, err := c.ScheduleNewOrchestration(ctx, "hello", api.WithInstanceID(id))
		return err
	}, func(id api.InstanceID) error {
		m, err := c.WaitForOrchestrationCompletion(ctx, id)
		return completed(m, err)
	})
}

// onSQLite measures the backend of durabletask-go in this process, as its samples have it, but in a file.
func onSQLite(file string) (perSecond float64, err error) {
	e := &ends{}
	r, err := registry(e)
	if err != nil {
		return 0, err
	}
	ctx := context.Background()
	be := sqlite.NewSqliteBackend(sqlite.NewSqliteOptions(file), silent{})
	executor := task.NewTaskExecutor(r)
	worker := backend.NewTaskHubWorker(be, backend.NewOrchestrationWorker(be, executor, silent{}), backend.NewActivityTaskWorker(be, executor, silent{}), silent{})
	if err := worker.Start(ctx); err != nil {
		return 0, err
	}
	defer worker.Shutdown(ctx)
	c := backend.NewTaskHubClient(be)
	return measure(ctx, e, func(id api.InstanceID) error {
		_, err := c.ScheduleNewOrchestration(ctx, "hello", api.WithInstanceID(id))
		return err
	}, func(id api.InstanceID) error {
		m, err := c.WaitForOrchestrationCompletion(ctx, id)
		return completed(m, err)
	})
}

func completed(m *api.OrchestrationMetadata, err error) error {
	if err != nil {
		return err
	}
	if m.RuntimeStatus != api.RUNTIME_STATUS_COMPLETED || m.SerializedOutput != `"Hello, you!"` {
		return fmt.Errorf("instance %s: status %v, output %s", m.InstanceID, m.RuntimeStatus, m.SerializedOutput)
	}
	return nil
}

// last numbers instances.
var last atomic.Int64

// measure starts instances, some at a time, and returns how many came to their end per second. The last ones are
// waited for, and an error ends it.
func measure(ctx context.Context, e *ends, start, wait func(api.InstanceID) error) (perSecond float64, err error) {
	var n atomic.Int64
	failed := make(chan error, *inFlight)
	ctx, cancel := context.WithTimeout(ctx, *duration)
	defer cancel()
	var all sync.WaitGroup
	begun := time.Now()
	lasts := make([]api.InstanceID, *inFlight)
	for i := range *inFlight {
		all.Go(func() {
			for ctx.Err() == nil {
				id := api.InstanceID(fmt.Sprintf("i%d-%d", begun.UnixNano(), last.Add(1)))
				ended := e.of(id)
				if err := start(id); err != nil {
					failed <- err
					return
				}
				lasts[i] = id
				select {
				case <-ended:
					n.Add(1)
				case <-ctx.Done():
				}
			}
		})
	}
	all.Wait()
	perSecond = float64(n.Load()) / time.Since(begun).Seconds()
	for _, id := range lasts {
		if len(failed) == 0 {
			err = errors.Join(err, wait(id))
		}
	}
	if len(failed) > 0 {
		return 0, <-failed
	}
	return perSecond, err
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
