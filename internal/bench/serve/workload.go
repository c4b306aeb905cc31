package serve

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/spf13/pflag"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/internal/bench"
	"github.com/abidehq/abide/timer"
)

const (
	tenant = bench.Name

	// tenants is how many tenants the instances and timers belong to that are loaded.
	tenants = 10

	// year is how long instances sleep at least that are loaded.
	year = 365 * 24 * time.Hour
)

// workload is the options of a run.
type workload struct {
	clients   int
	duration  time.Duration
	instances int
	timers    int
	pages     int
	lists     int
	streams   int
	changes   int
	rate      int

	run    *bench.Run
	server *stack
	client *http.Client
}

var _ bench.Workload = (*workload)(nil)

// Spec describes the workload.
func Spec() bench.Spec {
	return bench.Spec{
		Name:  "serve",
		Short: "Measure the server: starts, pages and lists over HTTP, idling, and streams",
		Long: `Measure the server: starts, pages and lists over HTTP, idling, and streams.

A server with all of its parts, page and audit log included, listens on a port of this
machine, and its clients are in the same process. There are four parts, each of which can
be left out:

  --duration   Clients start one instance after another: what is answered is durable. The
               instances, with one activity each, run meanwhile.
  --instances  The store is loaded with instances that sleep and timers that are armed.
               Then pages and lists are read, one at a time, to the last byte.
  --idle       The CPU of the process is measured while nothing happens.
  --streams    Clients follow changes while instances are started. The time is from the
               commit of a change until it has reached the last of them.

Answers are checked: an error, a list without what it must have and a change that does not
reach a stream end the run.

Without --store the embedded store is measured, in a folder of the working directory that
is removed afterwards. A store that is given keeps the instances and timers, of tenants
whose names begin with abide-bench; what it holds besides is not touched, except that all
timers and schedules that are due fire too: do not give the store of a program.`,
		Example: `  abide bench serve
  abide bench serve --duration 20s --instances 0 --idle 0 --streams 0 --json
  abide bench serve --duration 0 --streams 0 --instances 100000 --timers 1000000
  abide bench serve --duration 0 --instances 0 --idle 0 --streams 5000`,
		New: newWorkload,
	}
}

func newWorkload(f *pflag.FlagSet, c *bench.Config) bench.Workload {
	w := &workload{}
	f.IntVar(&w.clients, "clients", 64, "clients that start one instance after another")
	f.DurationVar(&w.duration, "duration", 10*time.Second, "how long they do; 0 leaves that out")
	f.IntVar(&w.instances, "instances", 100_000, "instances that sleep while pages and lists are measured; 0 leaves these out")
	f.IntVar(&w.timers, "timers", 1_000_000, "timers that are armed then")
	f.IntVar(&w.pages, "pages", 50, "how often each page is read")
	f.IntVar(&w.lists, "lists", 500, "how many lists are read")
	c.IdleFlag(f, 10*time.Second, "measure the CPU for so long while nothing happens; 0 leaves that out")
	f.IntVar(&w.streams, "streams", 1000, "clients that follow changes; 0 leaves them out")
	f.IntVar(&w.changes, "changes", 50, "instances that are started while they do")
	f.IntVar(&w.rate, "rate", 5, "how many of these in a second")
	c.WarmupFlag(f)
	return w
}

// Name implements [bench.Workload].
func (w *workload) Name() string { return "serve" }

// Validate implements [bench.Workload].
func (w *workload) Validate(c *bench.Config) error {
	err := cmp.Or(
		bench.Within("clients", w.clients, 1, bench.MaxClients),
		bench.Within("instances", w.instances, 0, bench.MaxDue),
		bench.Within("timers", w.timers, 0, bench.MaxLoad),
		bench.Within("pages", w.pages, 1, 100_000),
		bench.Within("lists", w.lists, 1, 10_000_000),
		bench.Within("streams", w.streams, 0, 9000), // a server has room for 10,000
		bench.Within("changes", w.changes, 1, 1_000_000),
		bench.Within("rate", w.rate, 1, 1000),
		bench.NotNegative("duration", w.duration),
	)
	if err == nil && w.duration == 0 && w.instances == 0 && c.Idle == 0 && w.streams == 0 {
		err = bench.Invalid("nothing is to be measured: --duration, --instances, --idle and --streams are all 0")
	}
	return err
}

// Open implements [bench.Workload].
func (w *workload) Open(ctx context.Context, r *bench.Run) (stop func() error, err error) {
	w.run = r
	if w.server, err = openStack(ctx, r.Store, r.Logger, r.Fail); err != nil {
		return nil, err
	}
	w.client = &http.Client{Transport: newTransport(w.clients), Timeout: max(r.Patience, 30*time.Second)}
	return func() error {
		w.client.CloseIdleConnections()
		return w.server.close()
	}, nil
}

// Measure implements [bench.Workload].
func (w *workload) Measure(ctx context.Context, r *bench.Run) error {
	idle := func(ctx context.Context) error { return r.MeasureIdle(ctx, nil) }
	for _, step := range []func(context.Context) error{w.measureStarts, w.measureReads, idle, w.measureStreams} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// measureReads reads pages and lists while the store is full.
func (w *workload) measureReads(ctx context.Context) error {
	if w.instances == 0 {
		return nil
	}
	for _, step := range []func(context.Context) error{w.load, w.measurePages, w.measureLists} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// tenantOf returns the tenant of an instance or a timer that is loaded.
func tenantOf(i int) string { return bench.TenantOf(i, tenants) }

// load brings the store to what the options ask for.
func (w *workload) load(ctx context.Context) error {
	instances, err := w.loadPart(ctx, "instances", w.instances, func(_, route string) bool { return route == sleeper.Name() }, w.startBatch)
	if err != nil {
		return err
	}
	var left atomic.Int64
	err = w.run.Await(ctx, func() string { return fmt.Sprintf("%d instances are to fall asleep", left.Load()) }, func() (done bool, pulse int64, err error) {
		done, pulse, err = w.asleep(ctx)
		left.Store(pulse)
		return done, pulse, err
	})
	if err != nil {
		return err
	}
	timers, err := w.loadPart(ctx, "timers", w.timers, func(queue, _ string) bool { return queue == "timers" }, w.scheduleBatch)
	w.run.Report.Add("instances", instances)
	w.run.Report.Add("timers", timers)
	return err
}

// asleep reports whether all instances that were started are asleep, and how many may not be.
func (w *workload) asleep(ctx context.Context) (done bool, left int64, err error) {
	_, ready, err := w.run.Messages(ctx, func(_, route string) bool { return route == sleeper.Name() })
	if err != nil || ready > 0 {
		return false, int64(ready), err
	}
	// The statistics of a store may not have what was put a moment ago.
	page, err := w.server.engine.List(ctx, abide.Filter{Orchestrations: []string{sleeper.Name()}, Statuses: []abide.Status{abide.Pending}})
	return len(page.Instances) == 0, int64(len(page.Instances)), err
}

// loadPart loads what is missing, and returns how much there is then.
func (w *workload) loadPart(ctx context.Context, what string, want int, match func(queue, route string) bool,
	load func(ctx context.Context, from, to int) error,
) (int, error) {
	there, _, err := w.run.Messages(ctx, match)
	if err != nil || there >= want {
		return there, err
	}
	s, err := bench.Timed(int64(want-there), func() error {
		return w.run.Batches(ctx, bench.Loading{Doing: "loading", Unit: what, From: there, To: want}, load)
	})
	w.run.Report.Add(what+"_loaded_per_s", s.Rate())
	return want, err
}

// startBatch starts instances that sleep.
func (w *workload) startBatch(ctx context.Context, from, to int) error {
	until := time.Now().Add(year)
	requests := make([]abide.StartRequest, 0, to-from)
	for i := from; i < to; i++ {
		req, err := sleeper.Prepare(w.server.engine, bench.Far(until, i), abide.Tenant(tenantOf(i)), abide.ID(w.run.Key(int64(i))))
		if err != nil {
			return err
		}
		requests = append(requests, req)
	}
	_, err := w.server.engine.Start(ctx, requests...)
	return err
}

// scheduleBatch schedules timers.
func (w *workload) scheduleBatch(ctx context.Context, from, to int) error {
	now := time.Now()
	requests := make([]timer.Request, 0, to-from)
	for i := from; i < to; i++ {
		requests = append(requests, timer.Request{Tenant: tenantOf(i), Key: w.run.Key(int64(i)), DueAt: bench.Far(now, i)})
	}
	_, err := w.server.timers.ScheduleAll(ctx, requests)
	return err
}
