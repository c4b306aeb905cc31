package workers_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/internal/testenv"
	"github.com/abidehq/abide/internal/workerlink"
	"github.com/abidehq/abide/internal/workerpb"
	"github.com/abidehq/abide/server/workers"
	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/store/memstore"
)

// record keeps what is logged.
type record struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (r *record) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.Write(p)
}

func (r *record) count(text string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Count(r.text.String(), text)
}

// TestServerLooksForItsWorkers: what an orchestration of a worker schedules and no worker serves is logged once,
// by the server's engine, however many workers there are.
func TestServerLooksForItsWorkers(t *testing.T) {
	t.Parallel()
	st := memstore.New(memstore.Options{})
	t.Cleanup(func() { check.OK(t, st.Close()) })
	log := &record{}
	e, err := abide.New(st, abide.Config{Logger: slog.New(slog.NewTextHandler(log, nil)), Unlisted: true})
	check.OK(t, err)
	t.Cleanup(func() { check.OK(t, e.Close()) })
	h := startHost(t, st, func(c *workers.Config) { c.Engine, c.Logger = e, slog.New(slog.NewTextHandler(log, nil)) })
	calls := abide.NewOrchestration("calls", func(ctx abide.Context, name string) (int, error) {
		return abide.ActivityNamed[int, int](name).Call(ctx, 1)
	})
	var worker *abide.Engine
	for range 3 {
		worker = h.work(nil, calls)
	}
	for _, name := range []string{"none", "neither"} { // the second is found by a look that the worker has asked for
		for range 6 {
			_, err := calls.Start(soon(t), worker, name)
			check.OK(t, err)
		}
		line := `msg="no live worker serves it, its work waits" activity=` + name
		check.Eventually(t, "it is logged", func() bool { return log.count(line) > 0 })
		check.Equal(t, "how often it is logged", log.count(line), 1)
	}
}

// TestWorkersThatVanish: workers that connect, ask for something and vanish leave nothing behind: no goroutine,
// no session and no record. No other test runs meanwhile, so that goroutines can be counted.
func TestWorkersThatVanish(t *testing.T) { //nolint:paralleltest // see above
	st := memstore.New(memstore.Options{})
	t.Cleanup(func() { check.OK(t, st.Close()) })
	h := startHost(t, st, nil)
	listed := func() int {
		ws, err := h.engine.Workers(t.Context())
		check.OK(t, err)
		return len(ws)
	}
	vanish := func(from, to int) {
		t.Helper()
		var all sync.WaitGroup
		most := make(chan struct{}, 10)
		for i := from; i < to; i++ {
			most <- struct{}{}
			all.Go(func() {
				defer func() { <-most }()
				h.vanish(i)
			})
		}
		all.Wait()
		check.Eventually(t, "all are forgotten", func() bool { return listed() == 0 })
	}
	before := runtime.NumGoroutine()
	vanish(0, rounds(300, 10_000))
	const few = 10 // of the runtime, and of what runs once in a while
	check.Eventually(t, "their goroutines have ended", func() bool { return runtime.NumGoroutine() <= before+few })
	page, err := st.List(t.Context(), store.Query{Kind: "worker"})
	check.OK(t, err)
	check.Equal(t, "records of workers", len(page.Records), 0)
}

// rounds returns how often something is done.
func rounds(short, long int) int {
	if testenv.Long() {
		return long
	}
	return short
}

// vanish has a worker connect, make a request and lose its connection without a word.
func (h *host) vanish(i int) {
	conn, err := grpc.NewClient(h.addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	check.OK(h.t, err)
	defer conn.Close()
	ctx, cancel := context.WithCancel(soon(h.t))
	defer cancel()
	stream, err := workerpb.NewWorkersClient(conn).Work(ctx)
	check.OK(h.t, err)
	check.OK(h.t, stream.Send(&workerpb.FromWorker{Hello: &workerpb.Hello{
		Protocol: workerlink.Protocol, Name: fmt.Sprint("vanishes-", i), Orchestrations: []string{"o"}, Activities: []string{"a"},
	}}))
	_, err = stream.Recv()
	check.OK(h.t, err)
	request := &workerpb.Request{Id: 1, Wait: &workerpb.Wait{Id: "never"}}
	if i%2 == 0 {
		request = &workerpb.Request{Id: 1, Starts: []*workerpb.Start{{Id: fmt.Sprint("i-", i), Name: "unserved", Unchecked: true}}}
	}
	check.OK(h.t, stream.Send(&workerpb.FromWorker{Requests: []*workerpb.Request{request}}))
	if i%2 == 0 { // these hear the answer
		_, err = stream.Recv()
		check.OK(h.t, err)
	}
}
