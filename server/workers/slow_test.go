package workers_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/internal/testenv"
	"github.com/abidehq/abide/internal/workerlink"
	"github.com/abidehq/abide/internal/workerpb"
	"github.com/abidehq/abide/server/workers"
	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/store/memstore"
)

// ends waits until an instance has completed.
func ends(t *testing.T, h *host, ref abide.Ref) abide.Info {
	t.Helper()
	ctx := soon(t)
	info, err := h.engine.WaitChange(ctx, ref, 0)
	for err == nil && !info.Status.Ended() {
		info, err = h.engine.WaitChange(ctx, ref, info.Revision)
	}
	check.OK(t, err)
	return info
}

// TestHalfOpen: both ends of a connection that swallows what is sent notice it by themselves. What the worker ran
// runs elsewhere, the worker ends it, and works again when the network does.
func TestHalfOpen(t *testing.T) {
	t.Parallel()
	st := memstore.New(memstore.Options{})
	t.Cleanup(func() { check.OK(t, st.Close()) })
	h := startHost(t, st, func(c *workers.Config) { c.KeepAlive = time.Second })
	network := testenv.Proxy(t, h.addr)
	begun, ended := make(chan struct{}, 1), make(chan error, 1)
	slow := abide.NewActivity("act", func(ctx context.Context, _ int) (int, error) {
		begun <- struct{}{}
		<-ctx.Done()
		ended <- context.Cause(ctx)
		return 0, ctx.Err()
	})
	calls := abide.NewOrchestration("calls", func(ctx abide.Context, n int) (int, error) {
		return abide.ActivityNamed[int, int]("act").Call(ctx, n)
	})
	cut := h.work(func(c *abide.Config) {
		c.Store, c.LeaseDuration, c.WorkerName = "abide://"+network.Addr(), time.Hour, "cut"
	}, calls, slow)
	run, err := calls.Start(soon(t), cut, 1)
	check.OK(t, err)
	receive(t, "the activity begins", begun)
	network.Stall()
	var runs atomic.Int32
	quick := abide.NewActivity("act", func(context.Context, int) (int, error) { return int(runs.Add(1)), nil })
	h.work(func(c *abide.Config) { c.WorkerName = "whole" }, calls, quick)
	info := ends(t, h, run.Ref())
	check.Equal(t, "status", info.Status, abide.Completed)
	if runs.Load() == 0 { // on a busy machine the other worker may be lost for a moment, too
		t.Error("it did not run elsewhere")
	}
	if cause := receive(t, "the activity ends", ended); !errors.Is(cause, abide.ErrLost) {
		t.Errorf("the context of the activity ended with %v", cause)
	}
	network.Resume()
	check.Eventually(t, "the worker is there again", func() bool {
		ws, err := h.engine.Workers(t.Context())
		check.OK(t, err)
		return len(ws) == 2
	})
}

// hello is what a liar says that runs activities.
func helloOf(slots int32, activities ...string) *workerpb.Hello {
	return &workerpb.Hello{Protocol: workerlink.Protocol, Name: "liar", Activities: activities, ActivitySlots: slots, Unlisted: true}
}

// TestSlowReader: a worker that does not read what it is sent harms neither the server nor other workers, and
// what it was sent runs elsewhere when it is gone.
func TestSlowReader(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	const many = 40
	act := abide.NewActivity("act", func(_ context.Context, text string) (int, error) { return len(text), nil })
	calls := abide.NewOrchestration("calls", func(ctx abide.Context, size int) (int, error) { return act.Call(ctx, strings.Repeat("x", size)) })
	conn, stream := h.dialLiar(helloOf(many, "act"))
	e := h.work(nil, calls, child)
	var runs []abide.Ref
	for range many {
		run, err := calls.Start(soon(t), e, 256<<10)
		check.OK(t, err)
		runs = append(runs, run.Ref())
	}
	check.Eventually(t, "the slow one has all activities", func() bool {
		stats, err := h.store.Stats(t.Context())
		check.OK(t, err)
		return stats.Leases >= many
	})
	for range 20 {
		run, err := child.Start(soon(t), e, "a")
		check.OK(t, err)
		_, err = run.Result(soon(t))
		check.OK(t, err)
	}
	check.OK(t, stream.Context().Err())
	check.OK(t, conn.Close())
	h.work(nil, act)
	for _, ref := range runs {
		info := ends(t, h, ref)
		check.Equal(t, "status", info.Status, abide.Completed)
	}
}

// TestOversizedAnswers: an answer that is no message ends the session of the worker, and what it ran runs elsewhere.
// A worker that is asked for one by its code fails the activity instead, and keeps the session.
func TestOversizedAnswers(t *testing.T) {
	t.Parallel()
	st, log := memstore.New(memstore.Options{}), &lines{}
	t.Cleanup(func() { check.OK(t, st.Close()) })
	h := startHost(t, st, func(c *workers.Config) { c.Logger = slog.New(slog.NewTextHandler(log, nil)) })
	called := abide.ActivityNamed[int, int]("act")
	calls := abide.NewOrchestration("calls", func(ctx abide.Context, n int) (int, error) { return called.Call(ctx, n) })
	h.work(nil, calls)
	run, err := calls.Start(soon(t), h.engine, 1, abide.Unchecked())
	check.OK(t, err)
	l := h.lie(helloOf(1, "act"))
	id := l.activity().GetId()
	l.send(&workerpb.FromWorker{Activities: []*workerpb.ActivityResult{{Id: id, Result: make([]byte, workerlink.MaxMessage)}}})
	l.refused(codes.ResourceExhausted, "larger than max")
	check.Eventually(t, "the refusal is logged", func() bool {
		return len(log.with("worker refused", "worker=liar", "remote=127.0.0.1:", "received message larger than max")) == 1
	})

	begun, release := make(chan int, 10), make(chan struct{})
	big := abide.NewActivity("big", func(context.Context, int) (string, error) {
		return strings.Repeat("x", workerlink.MaxMessage), nil
	})
	act := waiting(begun, release)
	bigger := abide.NewOrchestration("bigger", func(ctx abide.Context, n int) (int, error) {
		text, err := big.Call(ctx, n)
		return len(text), err
	})
	e := h.work(nil, big, act, bigger)
	receive(t, "the activity of the liar begins again", begun)
	other, err := bigger.Start(soon(t), e, 1)
	check.OK(t, err)
	if _, err = other.Result(soon(t)); err == nil || !strings.Contains(err.Error(), "its result has 67108866 bytes, at most 2097152 are allowed") {
		t.Errorf("the error is %v", err)
	}
	_, err = bigger.Start(soon(t), e, 1, abide.ID(strings.Repeat("x", 10)))
	check.OK(t, err)
	close(release)
	check.Equal(t, "status", ends(t, h, run.Ref()).Status, abide.Completed)
	check.Equal(t, "the activity began once more", len(begun), 0)
}

// TestManyLargeActivities: what a worker answers at a time, and is sent, may be more than one message can hold.
func TestManyLargeActivities(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	const many, size = 66, 1 << 20
	var waiting atomic.Int32
	all := make(chan struct{})
	echo := abide.NewActivity("echo", func(ctx context.Context, size int) (string, error) {
		if waiting.Add(1) == many {
			close(all)
		}
		select {
		case <-all: // so that the results are ready together
		case <-ctx.Done():
		}
		return strings.Repeat("x", size), ctx.Err()
	})
	calls := abide.NewOrchestration("calls", func(ctx abide.Context, size int) (int, error) {
		text, err := echo.Call(ctx, size)
		return len(text), err
	})
	e := h.work(nil, calls, echo)
	ctx, cancel := context.WithTimeout(t.Context(), 5*patient) // it is much
	defer cancel()
	var runs []*abide.Instance[int]
	for range many {
		run, err := calls.Start(ctx, e, size)
		check.OK(t, err)
		runs = append(runs, run)
	}
	for _, run := range runs {
		got, err := run.Result(ctx)
		check.OK(t, err)
		check.Equal(t, "result", got, size)
	}
	check.Equal(t, "attempts", waiting.Load(), many)
}

// TestStartThatIsTooLarge: a start whose input cannot be a message is refused where it is made.
func TestStartThatIsTooLarge(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	e := h.work(nil, child)
	_, err := child.Start(soon(t), e, strings.Repeat("x", workerlink.MaxMessage))
	check.Error(t, err, abide.ErrInvalid)
	run, err := child.Start(soon(t), e, "a")
	check.OK(t, err)
	_, err = run.Result(soon(t))
	check.OK(t, err)
}

// TestReplayedAnswer: an answer is taken once, in the session in which it was asked for.
func TestReplayedAnswer(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	called := abide.ActivityNamed[int, int]("act")
	calls := abide.NewOrchestration("calls", func(ctx abide.Context, n int) (int, error) { return called.Call(ctx, n) })
	h.work(nil, calls)
	run, err := calls.Start(soon(t), h.engine, 1, abide.Unchecked())
	check.OK(t, err)
	l := h.lie(helloOf(1, "act"))
	answer := &workerpb.FromWorker{Activities: []*workerpb.ActivityResult{{Id: l.activity().GetId(), Result: []byte("7")}}}
	l.send(answer)
	info := ends(t, h, run.Ref())
	result, err := abide.ResultOf[int](info)
	check.OK(t, err)
	check.Equal(t, "result", result, 7)
	l.send(answer)
	l.refused(codes.Aborted, "which it was not sent or has answered")
	l = h.lie(helloOf(1, "act"))
	l.send(answer)
	l.refused(codes.Aborted, "which it was not sent or has answered")
	again, err := h.engine.Get(t.Context(), run.Ref())
	check.OK(t, err)
	check.Equal(t, "revision", again.Revision, info.Revision)
}

// reads counts how often logs are read.
type reads struct {
	store.Store
	n atomic.Int32
}

func (r *reads) ReadLog(ctx context.Context, key store.Key, from int) (store.LogPage, error) {
	r.n.Add(1)
	return r.Store.ReadLog(ctx, key, from)
}

// TestTurnOfALongHistory: a turn of an instance that its worker has in memory takes as many bytes of the connection
// after 10,000 events as after ten, and reads no history.
func TestTurnOfALongHistory(t *testing.T) {
	t.Parallel()
	m := memstore.New(memstore.Options{})
	t.Cleanup(func() { check.OK(t, m.Close()) })
	st := &reads{Store: m}
	h := startHost(t, st, nil)
	w := newWire(t, h.addr)
	more, done := abide.NewEvent[int]("more"), abide.NewValue[int]("done")
	long := abide.NewOrchestration("long", func(ctx abide.Context, _ int) (int, error) {
		for total := 0; ; {
			n, err := more.Wait(ctx)
			if err != nil || n == 0 {
				return total, err
			}
			for range n {
				if _, err := abide.Step(ctx, "step", func(context.Context) (int, error) { return 1, nil }); err != nil {
					return 0, err
				}
			}
			total += n
			done.Set(ctx, total)
		}
	})
	e := h.work(func(c *abide.Config) { through(w)(c); c.StepCommitInterval = time.Hour }, long)
	raise := func(id string, n, total int) {
		t.Helper()
		check.OK(t, more.Raise(soon(t), h.engine, id, n))
		check.Eventually(t, "the steps are done", func() bool {
			info, err := h.engine.Get(t.Context(), abide.Ref{ID: id})
			check.OK(t, err)
			value, _, err := done.Get(info)
			check.OK(t, err)
			return value == total
		})
	}
	cost := func(id string, before int) int64 {
		t.Helper()
		_, err := long.Start(soon(t), e, 1, abide.ID(id))
		check.OK(t, err)
		raise(id, before-1, before-1)
		raise(id, 1, before) // by now it is known that the code runs steps, and events are not fused with turns
		bytes, read := w.moved.Load(), st.n.Load()
		for i := range 20 {
			raise(id, 1, before+i+1)
		}
		check.Equal(t, "reads of history", st.n.Load()-read, 0)
		return w.moved.Load() - bytes
	}
	short, full := cost("short", 5), cost("full", 10_000)
	info, err := h.engine.Get(t.Context(), abide.Ref{ID: "full"})
	check.OK(t, err)
	t.Logf("20 turns take %d bytes, and %d after a history of 10,000 steps (revision %d)", short, full, info.Revision)
	if full > short*3/2 {
		t.Errorf("20 turns take %d bytes after a short history, and %d after a long one", short, full)
	}
}
