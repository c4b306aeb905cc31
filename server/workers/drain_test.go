package workers_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/internal/roster"
	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/store/memstore"
)

// onlyWorker returns the worker that is listed.
func (h *host) onlyWorker() abide.Worker {
	h.t.Helper()
	ws, err := h.engine.Workers(soon(h.t))
	check.OK(h.t, err)
	if len(ws) != 1 {
		h.t.Fatalf("workers: %+v", ws)
	}
	return ws[0]
}

// TestDrainWorker: a worker that is drained by another server than its own finishes what is under way, gets
// nothing new, also on a new connection, and is still a client.
func TestDrainWorker(t *testing.T) {
	t.Parallel()
	st := memstore.New(memstore.Options{})
	t.Cleanup(func() { check.OK(t, st.Close()) })
	first, second := startHost(t, st, nil), startHost(t, st, nil)
	wire := newWire(t, first.addr)
	begun, release := make(chan int, 10), make(chan struct{})
	act := waiting(begun, release)
	calls := abide.NewOrchestration("calls", func(ctx abide.Context, n int) (int, error) { return act.Call(ctx, n) })
	e := first.work(through(wire), calls, act)
	ctx := soon(t)
	one, err := calls.Start(ctx, e, 1)
	check.OK(t, err)
	receive(t, "the activity begins", begun)

	w := second.onlyWorker()
	held, err := second.engine.Held(ctx, w.ID)
	check.OK(t, err)
	if len(held) != 1 || !held[0].Activity || held[0].Route != "act" || held[0].Ref != one.Ref() {
		t.Errorf("the worker holds %+v", held)
	}
	check.OK(t, second.engine.DrainWorker(ctx, w.ID))
	check.Eventually(t, "the worker drains", func() bool { w = second.onlyWorker(); return w.Draining })
	select {
	case <-e.Drained():
		t.Error("the worker counts as drained while an activity is under way")
	default:
	}
	close(release)
	receive(t, "the worker is drained", e.Drained())
	two, err := calls.Start(ctx, second.engine, 2, abide.Unchecked())
	check.OK(t, err)
	unserved(t, second, "act", false)
	unserved(t, second, "calls", true)

	// It stays drained when it connects again, and is still a client.
	wire.cut()
	check.Eventually(t, "the worker connects again", func() bool {
		ws, err := second.engine.Workers(ctx)
		check.OK(t, err)
		return len(ws) == 1 && ws[0].ID != w.ID && ws[0].Draining
	})
	info, err := e.Get(ctx, two.Ref())
	check.OK(t, err)
	check.Equal(t, "status of what was started after", info.Status, abide.Pending)

	// A worker that is started anew serves it.
	second.work(nil, calls, act)
	for _, run := range []*abide.Instance[int]{one, two} {
		info, err := second.engine.WaitChange(ctx, run.Ref(), 0)
		for err == nil && !info.Status.Ended() {
			info, err = second.engine.WaitChange(ctx, run.Ref(), info.Revision)
		}
		check.OK(t, err)
		check.Equal(t, "status", info.Status, abide.Completed)
	}
}

// unserved fails unless a name is among those that nobody serves, or is not.
func unserved(t *testing.T, h *host, route string, want bool) {
	t.Helper()
	list, err := h.engine.Unserved(soon(t))
	check.OK(t, err)
	got := false
	for _, u := range list {
		got = got || u.Route == route
	}
	check.Equal(t, "nobody serves "+route, got, want)
}

// TestDrainLostWorker: a request outlives the connection on which the worker would have heard of it.
func TestDrainLostWorker(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	wire := newWire(t, h.addr)
	e := h.work(through(wire), child)
	ctx := soon(t)
	w := h.onlyWorker()
	// As a server does that is not the worker's, which hears of it later.
	r, err := h.store.Get(ctx, store.RecordKey{Kind: roster.Kind, ID: w.ID})
	check.OK(t, err)
	run := roster.Parse(r).Run
	check.OK(t, h.store.Commit(ctx, &store.Tx{PutRecords: []store.PutRecord{{
		Expect: store.AnyVersion, Record: store.Record{Key: store.RecordKey{Kind: roster.KindDrain, ID: run}, Time: r.Time},
	}}}))
	wire.cut()
	receive(t, "the worker is drained", e.Drained())
}

// TestDrainUnknownWorker: only a worker that is there can be drained.
func TestDrainUnknownWorker(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	if err := h.engine.DrainWorker(soon(t), "nobody"); !errors.Is(err, abide.ErrNotFound) {
		t.Errorf("the error is %v", err)
	}
}

// slowNames is a store on which workers and signatures take a while to be known.
type slowNames struct {
	store.Store
	clock func(d time.Duration) <-chan time.Time
}

func (s *slowNames) Commit(ctx context.Context, tx *store.Tx) error {
	for i := range tx.PutRecords {
		if kind := tx.PutRecords[i].Record.Key.Kind; kind == roster.Kind || kind == "signature" {
			<-s.clock(200 * time.Millisecond)
			break
		}
	}
	return s.Store.Commit(ctx, tx)
}

// TestNamesAreKnownAfterOpen: what a worker serves can be started by others as soon as it is open, and is not
// taken for something that nobody serves.
func TestNamesAreKnownAfterOpen(t *testing.T) {
	t.Parallel()
	st := memstore.New(memstore.Options{})
	t.Cleanup(func() { check.OK(t, st.Close()) })
	h := startHost(t, &slowNames{Store: st, clock: time.After}, nil)
	h.work(nil, child)
	ctx := soon(t)
	client := abide.NewClient(st, nil)
	run, err := child.Start(ctx, client, "x")
	check.OK(t, err)
	started, err := client.Get(ctx, run.Ref())
	check.OK(t, err)
	check.Equal(t, "orchestration", started.Orchestration, child.Name())
	h.onlyWorker()
	unserved(t, h, child.Name(), false)
}
