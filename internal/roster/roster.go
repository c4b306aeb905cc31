package roster

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/internal/pages"
	"github.com/abidehq/abide/store"
)

// How a worker is known to be alive, by the store's clock.
const (
	// Every is how often a worker renews its record.
	Every = 20 * time.Second

	// Alive is how long after that it counts as alive: it may fail to renew it twice.
	Alive = 60 * time.Second

	// Gone is how long after that its record is removed.
	Gone = time.Hour
)

// Page is how many workers are read at a time, and how many records of those that are gone are
// removed at most.
const Page = 1_000

// Config says what to publish, and where.
type Config struct {
	// Store logs its outages by itself, as one of internal/outage does.
	Store  store.Store
	Clock  base.Clock
	Logger *slog.Logger

	// ID, Name, Routes, Activities and Targets of the worker. Host, PID and version are those
	// of the process, unless Elsewhere is set: then they are those of another one.
	Worker    Worker
	Elsewhere bool

	// Busy returns how many turns, and how many activities or actions, are under way, and how many
	// instances are in memory.
	Busy func() (turns, running, cached int)

	// Names returns the routes, activities and entities that the worker serves now, if they are not always
	// those of Worker.
	Names func() (routes, activities, entities []string)

	// Drain is called when an operator has asked the worker to claim nothing more, once. It must not
	// block. The channel is closed when what is under way has ended. Nil means that the worker cannot be
	// drained.
	Drain func() (ended <-chan struct{})
}

// Publisher keeps the record of a worker.
//
// A request to drain the worker is a change of its record, by any process: see [Drain]. The publisher puts the
// record at the version that it knows, so that it learns of the request by a conflict, and a report that finds
// none costs no more than one commit.
type Publisher struct {
	cfg    Config
	time   *base.Remote
	cancel context.CancelFunc
	done   chan struct{}
	wake   chan struct{} // capacity 1: report now
	first  chan struct{} // closed after the first report, whether or not it was possible

	draining atomic.Bool

	// Of the goroutine that reports.
	worker  Worker
	version int64 // of the record

	ended   <-chan struct{} // of a worker that was drained: closed when it has nothing under way
	drained bool            // it was closed

	recalled bool // it is known whether the process was asked to drain
}

// here has the publishers of this process by the ID of the worker: a request that is made in the same process
// is heeded at once.
var here sync.Map

// Publish puts the record of a worker, and renews it until it is stopped.
func Publish(cfg Config) *Publisher {
	p := &Publisher{cfg: cfg, worker: cfg.Worker, done: make(chan struct{}), wake: make(chan struct{}, 1), first: make(chan struct{})}
	if !cfg.Elsewhere {
		p.worker.here(cfg.Logger)
	}
	p.time = base.NewRemote(cfg.Clock, cfg.Logger, func(ctx context.Context) (time.Time, error) {
		stats, err := cfg.Store.Stats(ctx)
		return stats.Now, err
	})
	ctx, cancel := context.WithCancel(context.Background())
	p.cancel = cancel
	p.draining.Store(cfg.Worker.State == Draining)
	here.Store(p.worker.ID, p)
	go p.run(ctx)
	return p
}

// First is closed after the first report: other processes know what the worker serves, unless the store
// could not be reached. First of a nil publisher is closed.
func (p *Publisher) First() <-chan struct{} {
	if p == nil {
		return closed
	}
	return p.first
}

var closed = func() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// Draining has the record say from now on that the worker claims nothing more. Draining of a nil publisher
// does nothing.
func (p *Publisher) Draining() {
	if p != nil && !p.draining.Swap(true) {
		p.Report()
	}
}

// Report has the record renewed soon.
func (p *Publisher) Report() {
	if p == nil {
		return
	}
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// here fills in which process it is.
func (w *Worker) here(log *slog.Logger) {
	var err error
	if w.Host, err = os.Hostname(); err != nil {
		log.Warn("host name unknown, worker shows none", "error", err)
	}
	w.PID = os.Getpid()
	if info, ok := debug.ReadBuildInfo(); ok {
		w.Version = info.Main.Version
	}
}

// run renews the record until ctx ends.
func (p *Publisher) run(ctx context.Context) {
	defer close(p.done)
	first := sync.OnceFunc(func() { close(p.first) })
	defer first()
	for ctx.Err() == nil {
		p.recall(ctx)
		if err := p.renew(ctx); errors.Is(err, store.ErrFailed) {
			return
		}
		first()
		p.pause(ctx)
	}
}

// pause waits until the next report.
func (p *Publisher) pause(ctx context.Context) {
	due := make(chan struct{})
	stop := p.cfg.Clock.AfterFunc(Every, func() { close(due) })
	defer stop()
	select {
	case <-ctx.Done():
	case <-due:
	case <-p.wake:
	case <-p.ended:
		p.ended, p.drained = nil, true
	}
}

// renew puts the record, with the store's time. If the record is another one than the last that was put, it
// has been changed by a request, was removed, or the outcome of a commit was not known.
func (p *Publisher) renew(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, Every)
	defer cancel()
	w := &p.worker
	w.SeenAt = p.time.Now(ctx)
	if w.StartedAt.IsZero() {
		w.StartedAt = w.SeenAt
	}
	err := p.put(ctx)
	for tries := 0; errors.Is(err, store.ErrConflict) && tries < conflicts; tries++ {
		if err = p.reread(ctx); err == nil {
			err = p.put(ctx)
		}
	}
	return err
}

// conflicts is how often a report is tried again that conflicts with a request.
const conflicts = 3

// put puts the record at the version that is known.
func (p *Publisher) put(ctx context.Context) error {
	w := &p.worker
	w.Turns, w.Running, w.Cached = p.cfg.Busy()
	if p.cfg.Names != nil {
		w.Routes, w.Activities, w.Entities = p.cfg.Names()
	}
	switch {
	case p.drained:
		w.State = Drained
	case p.draining.Load():
		w.State = Draining
	}
	record := w.Put()
	record.Expect = p.version
	err := p.cfg.Store.Commit(ctx, &store.Tx{PutRecords: []store.PutRecord{record}})
	if err == nil {
		p.version++
	}
	return err
}

// reread learns of the version of the record, and of a request to drain the worker.
func (p *Publisher) reread(ctx context.Context) error {
	r, err := p.cfg.Store.Get(ctx, key(p.worker.ID))
	if errors.Is(err, store.ErrNotFound) {
		p.version = 0
		return nil
	}
	if err != nil {
		return err
	}
	p.version = r.Version
	if Parse(r).State != Serving {
		p.heed()
	}
	return nil
}

// recall drains a worker whose process was asked to under the ID of another connection. It reads the request
// once.
func (p *Publisher) recall(ctx context.Context) {
	if p.recalled || p.worker.Run == "" || p.draining.Load() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, Every)
	defer cancel()
	_, err := p.cfg.Store.Get(ctx, drainKey(p.worker.Run))
	if p.recalled = err == nil || errors.Is(err, store.ErrNotFound); err == nil {
		p.heed()
	}
}

// heed drains the worker.
func (p *Publisher) heed() {
	if p.cfg.Drain != nil && !p.draining.Swap(true) {
		p.ended = p.cfg.Drain()
	}
}

// Stop removes the record. If it cannot, the worker counts as alive until [Alive] is over. Stop
// of a nil publisher does nothing.
func (p *Publisher) Stop() {
	if p == nil {
		return
	}
	p.cancel()
	<-p.done
	here.Delete(p.worker.ID)
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	err := p.cfg.Store.Commit(ctx, &store.Tx{DeleteRecords: []store.DeleteRecord{{Key: key(p.worker.ID), Expect: store.AnyVersion}}})
	if err != nil {
		p.cfg.Logger.Warn("worker record not removed, it expires", "worker", p.worker.Name, "error", err)
	}
}

// Live returns the workers that are alive at now, which is the store's time, in the order in
// which they were seen. It removes the records of those that are long gone.
func Live(ctx context.Context, s store.Store, now time.Time) ([]Worker, error) {
	var workers []Worker
	seen := map[string]int{} // a worker may be seen anew while the pages are read
	q := store.Query{Kind: Kind, Tenant: new(""), From: now.Add(-Alive), Limit: Page}
	for r, err := range pages.Records(ctx, s, q) {
		if err != nil {
			return nil, err
		}
		w := Parse(r)
		if i, there := seen[w.ID]; there {
			workers[i] = w
			continue
		}
		seen[w.ID] = len(workers)
		workers = append(workers, w)
	}
	return workers, forget(ctx, s, now)
}

// LiveServing is [Live] without the workers that claim nothing any more.
func LiveServing(ctx context.Context, s store.Store, now time.Time) ([]Worker, error) {
	workers, err := Live(ctx, s, now)
	return slices.DeleteFunc(workers, func(w Worker) bool { return w.Drains() }), err
}

// forget removes the records of workers that are long gone, and of old requests. If that fails, the next
// call tries again.
func forget(ctx context.Context, s store.Store, now time.Time) error {
	for _, kind := range []string{Kind, KindDrain} {
		if err := forgetKind(ctx, s, kind, now); err != nil {
			return err
		}
	}
	return nil
}

func forgetKind(ctx context.Context, s store.Store, kind string, now time.Time) error {
	page, err := s.List(ctx, store.Query{Kind: kind, Tenant: new(""), To: now.Add(-Gone), Limit: Page})
	if err != nil {
		return err
	}
	var tx store.Tx
	for i := range page.Records {
		r := &page.Records[i]
		tx.DeleteRecords = append(tx.DeleteRecords, store.DeleteRecord{Key: r.Key, Expect: r.Version})
	}
	if tx.Empty() {
		return nil
	}
	if err := s.Commit(ctx, &tx); errors.Is(err, store.ErrClosed) || ctx.Err() != nil {
		return err
	}
	return nil
}
