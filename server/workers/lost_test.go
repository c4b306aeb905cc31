package workers_test

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/server/workers"
	"github.com/abidehq/abide/store/memstore"
)

// wire passes bytes on between a worker and its server, until it is cut.
type wire struct {
	l     net.Listener
	to    string
	mu    sync.Mutex
	conns []net.Conn
	moved atomic.Int64 // bytes, both ways
}

// newWire returns a wire to a server.
func newWire(t *testing.T, to string) *wire {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check.OK(t, err)
	w := &wire{l: l, to: to}
	t.Cleanup(func() {
		_ = l.Close()
		w.cut()
	})
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			other, err := net.Dial("tcp", w.to)
			if err != nil {
				_ = c.Close()
				continue
			}
			w.mu.Lock()
			w.conns = append(w.conns, c, other)
			w.mu.Unlock()
			go w.pass(c, other)
			go w.pass(other, c)
		}
	}()
	return w
}

func (w *wire) url() string { return "abide://" + w.l.Addr().String() }

func (w *wire) pass(from, to net.Conn) {
	_, _ = io.Copy(counted{to, &w.moved}, from)
	_ = to.Close()
}

// counted counts the bytes that are written.
type counted struct {
	io.Writer
	n *atomic.Int64
}

func (c counted) Write(p []byte) (int, error) {
	c.n.Add(int64(len(p)))
	return c.Writer.Write(p)
}

// end ends all connections, and there are no others.
func (w *wire) end() {
	_ = w.l.Close()
	w.cut()
}

// cut ends all connections.
func (w *wire) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.conns {
		_ = c.Close()
	}
	w.conns = nil
}

// through has a worker connect by a wire.
func through(w *wire) func(*abide.Config) {
	return func(c *abide.Config) { c.Store = w.url() }
}

// TestWorkerLostInATurn: an instance whose worker is lost in the middle of a turn goes on elsewhere, at
// once, and its delivery does not count as an attempt.
func TestWorkerLostInATurn(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	w := newWire(t, h.addr)
	begun := make(chan struct{}, 100)
	var lost atomic.Int32
	const losses = 15 // more than a message may be delivered
	stuck := abide.NewOrchestration("stuck", func(ctx abide.Context, _ int) (string, error) {
		return abide.Step(ctx, "step", func(ctx context.Context) (string, error) {
			if lost.Load() >= losses {
				return "done", nil
			}
			begun <- struct{}{}
			<-ctx.Done()
			return "", context.Cause(ctx)
		})
	})
	e := h.work(through(w), stuck)
	ctx := soon(t)
	run, err := stuck.Start(ctx, e, 1)
	check.OK(t, err)
	for range losses {
		receive(t, "the step begins", begun)
		lost.Add(1)
		w.cut()
	}
	result, err := run.Result(ctx)
	check.OK(t, err)
	check.Equal(t, "result", result, "done")
}

// TestWorkerLostInAnActivity: an attempt whose worker is lost counts, and the activity runs again at once,
// elsewhere.
func TestWorkerLostInAnActivity(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	w := newWire(t, h.addr)
	begun, ended := make(chan struct{}, 1), make(chan error, 1)
	call := func(act *abide.Activity[int, int]) *abide.Orchestration[int, int] {
		return abide.NewOrchestration("calls", func(ctx abide.Context, _ int) (int, error) { return act.Call(ctx, 1) })
	}
	slow := abide.NewActivity("act", func(ctx context.Context, _ int) (int, error) {
		begun <- struct{}{}
		<-ctx.Done()
		ended <- context.Cause(ctx)
		return 0, ctx.Err()
	})
	calls := call(slow)
	e := h.work(func(c *abide.Config) { through(w)(c); c.LeaseDuration = time.Hour }, calls, slow)
	ctx := soon(t)
	run, err := calls.Start(ctx, e, 1)
	check.OK(t, err)
	receive(t, "the activity begins", begun)
	w.end()
	if cause := receive(t, "the activity ends", ended); !errors.Is(cause, abide.ErrLost) {
		t.Errorf("the context of the activity ended with %v", cause)
	}
	quick := abide.NewActivity("act", func(ctx context.Context, _ int) (int, error) {
		info, _ := abide.ActivityOf(ctx)
		return info.Attempt, nil
	})
	second := h.work(nil, call(quick), quick)
	info, err := second.WaitChange(ctx, run.Ref(), 0)
	for err == nil && !info.Status.Ended() {
		info, err = second.WaitChange(ctx, run.Ref(), info.Revision)
	}
	check.OK(t, err)
	attempt, err := abide.ResultOf[int](info)
	check.OK(t, err)
	check.Equal(t, "attempt", attempt, 2)
}

// TestCancelReachesAnActivity: an activity of an instance that is terminated learns of it by a message, long
// before its lease is renewed.
func TestCancelReachesAnActivity(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	begun, ended := make(chan struct{}, 1), make(chan error, 1)
	slow := abide.NewActivity("act", func(ctx context.Context, _ int) (int, error) {
		begun <- struct{}{}
		<-ctx.Done()
		ended <- context.Cause(ctx)
		return 0, ctx.Err()
	})
	calls := abide.NewOrchestration("calls", func(ctx abide.Context, _ int) (int, error) { return slow.Call(ctx, 1) })
	e := h.work(nil, calls, slow)
	ctx := soon(t)
	run, err := calls.Start(ctx, e, 1)
	check.OK(t, err)
	receive(t, "the activity begins", begun)
	check.OK(t, run.Cancel(ctx, "enough"))
	if cause := receive(t, "the activity ends", ended); !errors.Is(cause, abide.ErrLost) {
		t.Errorf("the context of the activity ended with %v", cause)
	}
}

// TestDrainOfAServer: a server that stops lets its workers finish what they run, and they go on with another
// server.
func TestDrainOfAServer(t *testing.T) {
	t.Parallel()
	st := memstore.New(memstore.Options{})
	t.Cleanup(func() { check.OK(t, st.Close()) })
	first, second := startHost(t, st, nil), startHost(t, st, nil)
	begun, release := make(chan int, 10), make(chan struct{})
	act := waiting(begun, release)
	calls := abide.NewOrchestration("calls", func(ctx abide.Context, n int) (int, error) { return act.Call(ctx, n) })
	e := first.work(func(c *abide.Config) { c.Store = first.url + "," + second.addr }, calls, act)
	ctx := soon(t)
	one, err := calls.Start(ctx, e, 1)
	check.OK(t, err)
	receive(t, "the first begins", begun)
	stopped := make(chan struct{})
	go func() {
		first.stop()
		close(stopped)
	}()
	two, err := calls.Start(ctx, second.engine, 2)
	check.OK(t, err)
	check.Equal(t, "begun by the session with the second server", receive(t, "the second begins", begun), 2)
	close(release)
	receive(t, "the first server stops", stopped)
	for _, run := range []*abide.Instance[int]{one, two} {
		info, err := second.engine.WaitChange(ctx, run.Ref(), 0)
		for err == nil && !info.Status.Ended() {
			info, err = second.engine.WaitChange(ctx, run.Ref(), info.Revision)
		}
		check.OK(t, err)
		check.Equal(t, "status", info.Status, abide.Completed)
	}
}

// TestWorkerLeaves: a worker that is closed finishes what it runs, after the server has heard that it leaves, and
// the list of workers forgets it.
func TestWorkerLeaves(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	begun, release := make(chan struct{}, 1), make(chan struct{})
	var runs atomic.Int32
	act := abide.NewActivity("act", func(ctx context.Context, n int) (int, error) {
		runs.Add(1)
		begun <- struct{}{}
		select {
		case <-release:
			return n, nil
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
	})
	calls := abide.NewOrchestration("calls", func(ctx abide.Context, n int) (int, error) { return act.Call(ctx, n) })
	e := h.work(nil, calls, act)
	ctx := soon(t)
	run, err := calls.Start(ctx, e, 1)
	check.OK(t, err)
	receive(t, "the activity begins", begun)
	closed := make(chan error, 1)
	go func() { closed <- e.Close() }()
	check.Eventually(t, "the server has heard that the worker leaves", func() bool {
		ws, err := h.engine.Workers(ctx)
		check.OK(t, err)
		return len(ws) == 1 && ws[0].Draining
	})
	close(release)
	check.OK(t, receive(t, "the worker is closed", closed))
	check.Eventually(t, "the worker is forgotten", func() bool {
		ws, err := h.engine.Workers(ctx)
		check.OK(t, err)
		return len(ws) == 0
	})
	h.work(nil, calls, act)
	info, err := h.engine.WaitChange(ctx, run.Ref(), 0)
	for err == nil && !info.Status.Ended() {
		info, err = h.engine.WaitChange(ctx, run.Ref(), info.Revision)
	}
	check.OK(t, err)
	check.Equal(t, "status", info.Status, abide.Completed)
	check.Equal(t, "runs of the activity", runs.Load(), 1)
}

// TestTooManyWorkers: beyond the limit a worker is refused.
func TestTooManyWorkers(t *testing.T) {
	t.Parallel()
	st := memstore.New(memstore.Options{})
	t.Cleanup(func() { check.OK(t, st.Close()) })
	h := startHost(t, st, func(c *workers.Config) { c.MaxWorkers = 1 })
	h.work(nil, child)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, err := abide.Open(ctx, abide.Config{Store: h.url, Register: []abide.Definition{child}, Logger: quiet()})
	if err == nil || !strings.Contains(err.Error(), "no connection") {
		t.Errorf("the error is %v", err)
	}
}
