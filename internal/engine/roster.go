package engine

import (
	"context"
	"errors"
	"maps"
	"os"
	"runtime/debug"
	"slices"
	"time"

	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/internal/wire"
	"github.com/abidehq/abide/store"
)

// How a worker is known to be alive, by the store's clock.
const (
	// WorkerEvery is how often a worker says that it is there.
	WorkerEvery = 20 * time.Second

	// WorkerAlive is how long after that it counts as alive: it may fail to say so
	// twice.
	WorkerAlive = 60 * time.Second

	// WorkerGone is how long after that its record is of no use to anybody.
	WorkerGone = time.Hour
)

// kindWorker is the kind of the records of workers.
const kindWorker = "worker"

// maxWorkers is how many workers are read at a time, and how many records of those that
// are gone are removed at most.
const maxWorkers = 1_000

// Worker is a process that serves orchestrations and activities.
type Worker struct {
	// ID is another one each time that the process is started.
	ID string

	// Name is given to it; Host, PID and Version are those of the process.
	Name    string
	Host    string
	PID     int
	Version string

	// StartedAt and SeenAt are by the store's clock.
	StartedAt time.Time
	SeenAt    time.Time

	// Routes are those of orchestrations.
	Routes     []string
	Activities []string

	// Turns and Running are how many turns and activities were under way when it was
	// seen.
	Turns   int
	Running int

	// Build identifies the program; empty if it is not known.
	Build string
}

// workerFormat is the first byte of the record of a worker.
const workerFormat = 1

func (w *Worker) putRecord() store.PutRecord {
	return store.PutRecord{
		Expect: store.AnyVersion,
		Record: store.Record{Key: workerKey(w.ID), Name: w.Name, Time: w.SeenAt, Body: w.encode()},
	}
}

func workerKey(id string) store.RecordKey { return store.RecordKey{Kind: kindWorker, ID: id} }

func (w *Worker) encode() []byte {
	out := []byte{workerFormat}
	out = wire.AppendString(out, w.Host)
	out = wire.AppendNumber(out, uint64(w.PID))
	out = wire.AppendString(out, w.Version)
	out = wire.AppendTime(out, w.StartedAt)
	out = wire.AppendNumber(out, uint64(w.Turns))
	out = wire.AppendNumber(out, uint64(w.Running))
	for _, names := range [][]string{w.Routes, w.Activities} {
		out = wire.AppendNumber(out, uint64(len(names)))
		for _, name := range names {
			out = wire.AppendString(out, name)
		}
	}
	return wire.AppendString(out, w.Build)
}

// workerOf reads a record. One that was written by another release may say more, or say
// it in another way: then what is known is that there is such a worker.
func workerOf(r store.Record) Worker {
	d := wire.Reader{Data: r.Body}
	d.Format(workerFormat)
	w := Worker{
		ID: r.Key.ID, Name: r.Name, SeenAt: r.Time,
		Host: d.String(), PID: int(d.Int32()), Version: d.String(), StartedAt: d.Time(),
		Turns: int(d.Int32()), Running: int(d.Int32()),
	}
	for _, names := range []*[]string{&w.Routes, &w.Activities} {
		for n := d.Number(); n > 0 && d.Err == nil; n-- {
			*names = append(*names, d.String())
		}
	}
	if len(d.Data) > 0 { // one of an earlier release does not say
		w.Build = d.String()
	}
	if d.Err != nil {
		return Worker{ID: w.ID, Name: w.Name, SeenAt: w.SeenAt}
	}
	return w
}

// roster keeps the record of this process among those of the workers.
type roster struct {
	e      *Engine
	time   *base.Remote
	worker Worker
	cancel context.CancelFunc
	done   chan struct{}
	failed bool // the last try
}

// newRoster returns nil if the process is not to be seen.
func newRoster(e *Engine) *roster {
	if e.cfg.Worker == "" {
		return nil
	}
	host, err := os.Hostname()
	if err != nil {
		e.log.Warn("the name of this host is not known, its worker shows none", "error", err)
	}
	r := &roster{e: e, done: make(chan struct{}), worker: Worker{
		ID: unique(), Name: e.cfg.Worker, Build: e.cfg.Build, Host: host, PID: os.Getpid(),
		Routes: slices.Sorted(slices.Values(e.cfg.Routes)), Activities: slices.Sorted(maps.Keys(e.cfg.Activities)),
	}}
	if info, ok := debug.ReadBuildInfo(); ok {
		r.worker.Version = info.Main.Version
	}
	r.time = base.NewRemote(e.clock, e.log, func(ctx context.Context) (time.Time, error) {
		stats, err := e.store.Stats(ctx)
		return stats.Now, err
	})
	ctx, cancel := context.WithCancel(context.Background())
	r.cancel = cancel
	go r.run(ctx)
	return r
}

// run says that the process is there until ctx ends.
func (r *roster) run(ctx context.Context) {
	defer close(r.done)
	for ctx.Err() == nil {
		err := r.renew(ctx)
		if err != nil && !r.failed && ctx.Err() == nil {
			r.e.log.Warn("the store does not learn that this worker is there, it goes on", "worker", r.worker.Name, "error", err)
		}
		if err == nil && r.failed {
			r.e.log.Info("the store has learned again that this worker is there", "worker", r.worker.Name)
		}
		r.failed = err != nil
		_ = base.Sleep(ctx, r.e.clock, WorkerEvery)
	}
}

// renew puts the record, with the store's time.
func (r *roster) renew(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, WorkerEvery)
	defer cancel()
	w := &r.worker
	w.SeenAt = r.time.Now(ctx)
	if w.StartedAt.IsZero() {
		w.StartedAt = w.SeenAt
	}
	w.Turns, w.Running = r.e.keeper.busy()
	return r.e.store.Commit(ctx, &store.Tx{PutRecords: []store.PutRecord{w.putRecord()}})
}

// stop removes the record. If it cannot, the worker is not seen any more when it is known
// no longer to be alive.
func (r *roster) stop() {
	if r == nil {
		return
	}
	r.cancel()
	<-r.done
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	err := r.e.store.Commit(ctx, &store.Tx{DeleteRecords: []store.DeleteRecord{{Key: workerKey(r.worker.ID), Expect: store.AnyVersion}}})
	if err != nil {
		r.e.log.Warn("this worker is shown as alive for a while although it ends", "worker", r.worker.Name, "error", err)
	}
}

// busy returns how many turns and activities are under way.
func (k *keeper) busy() (turns, activities int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for key := range k.holds {
		switch key.Queue {
		case queueTurns:
			turns++
		case QueueActivities:
			activities++
		}
	}
	return turns, activities
}

// Workers returns the workers that are alive, in the order in which they were seen, and
// removes the records of those that have long gone.
func (c *Client) Workers(ctx context.Context) ([]Worker, error) {
	stats, err := c.store.Stats(ctx)
	if err != nil {
		return nil, wrap("workers", err)
	}
	return c.workers(ctx, stats.Now)
}

func (c *Client) workers(ctx context.Context, now time.Time) ([]Worker, error) {
	var workers []Worker
	seen := map[string]int{} // a worker may be seen anew while the pages are read
	q := store.Query{Kind: kindWorker, From: now.Add(-WorkerAlive), Limit: maxWorkers}
	for more := true; more; more = q.Cursor != "" {
		page, err := c.store.List(ctx, q)
		if err != nil {
			return nil, wrap("workers", err)
		}
		for _, r := range page.Records {
			w := workerOf(r)
			if i, there := seen[w.ID]; there {
				workers[i] = w
				continue
			}
			seen[w.ID] = len(workers)
			workers = append(workers, w)
		}
		q.Cursor = page.Next
	}
	return workers, c.forget(ctx, now)
}

// forget removes the records of workers that have long gone. Whether that works is not
// what anybody has asked for.
func (c *Client) forget(ctx context.Context, now time.Time) error {
	page, err := c.store.List(ctx, store.Query{Kind: kindWorker, To: now.Add(-WorkerGone), Limit: maxWorkers})
	if err != nil {
		return wrap("workers", err)
	}
	var tx store.Tx
	for i := range page.Records {
		r := &page.Records[i]
		tx.DeleteRecords = append(tx.DeleteRecords, store.DeleteRecord{Key: r.Key, Expect: r.Version})
	}
	if tx.Empty() {
		return nil
	}
	if err := c.store.Commit(ctx, &tx); errors.Is(err, store.ErrClosed) || ctx.Err() != nil {
		return wrap("workers", err)
	}
	return nil // somebody else has removed them, or the next one will
}

// Unserved returns what waits for somebody who serves it: routes of orchestrations and
// activities that no worker serves that is alive, with what waits there. The caller
// serves the routes and activities that it names.
func (c *Client) Unserved(ctx context.Context, routes, activities []string) ([]store.RouteStats, error) {
	stats, err := c.store.Stats(ctx)
	if err != nil {
		return nil, wrap("unserved", err)
	}
	workers, err := c.workers(ctx, stats.Now)
	if err != nil {
		return nil, err
	}
	workers = append(workers, Worker{Routes: routes, Activities: activities})
	served := map[[2]string]bool{{queueTurns, routeParked}: true, {queueTurns, routeEnded}: true, {queueTurns, ""}: true}
	for i := range workers {
		for _, route := range workers[i].Routes {
			served[[2]string{queueTurns, route}] = true
		}
		for _, name := range workers[i].Activities {
			served[[2]string{QueueActivities, name}] = true
		}
	}
	var unserved []store.RouteStats
	for _, r := range stats.Routes {
		ours := r.Queue == queueTurns || r.Queue == QueueActivities
		if ours && !served[[2]string{r.Queue, r.Route}] {
			unserved = append(unserved, r)
		}
	}
	return unserved, nil
}

// Unserved returns what no worker serves that is alive, and not this engine either.
func (e *Engine) Unserved(ctx context.Context) ([]store.RouteStats, error) {
	return e.Client.Unserved(ctx, e.cfg.Routes, slices.Collect(maps.Keys(e.cfg.Activities)))
}
