package roster

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"runtime/debug"
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

	// Busy returns how many turns, and how many activities or actions, are under way.
	Busy func() (turns, running int)
}

// Publisher keeps the record of a worker.
type Publisher struct {
	cfg    Config
	time   *base.Remote
	worker Worker
	cancel context.CancelFunc
	done   chan struct{}
}

// Publish puts the record of a worker, and renews it until it is stopped.
func Publish(cfg Config) *Publisher {
	p := &Publisher{cfg: cfg, worker: cfg.Worker, done: make(chan struct{})}
	if !cfg.Elsewhere {
		p.worker.here(cfg.Logger)
	}
	p.time = base.NewRemote(cfg.Clock, cfg.Logger, func(ctx context.Context) (time.Time, error) {
		stats, err := cfg.Store.Stats(ctx)
		return stats.Now, err
	})
	ctx, cancel := context.WithCancel(context.Background())
	p.cancel = cancel
	go p.run(ctx)
	return p
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
	for ctx.Err() == nil {
		if err := p.renew(ctx); errors.Is(err, store.ErrFailed) {
			return
		}
		_ = base.Sleep(ctx, p.cfg.Clock, Every)
	}
}

// renew puts the record, with the store's time.
func (p *Publisher) renew(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, Every)
	defer cancel()
	w := &p.worker
	w.SeenAt = p.time.Now(ctx)
	if w.StartedAt.IsZero() {
		w.StartedAt = w.SeenAt
	}
	w.Turns, w.Running = p.cfg.Busy()
	return p.cfg.Store.Commit(ctx, &store.Tx{PutRecords: []store.PutRecord{w.Put()}})
}

// Stop removes the record. If it cannot, the worker counts as alive until [Alive] is over. Stop
// of a nil publisher does nothing.
func (p *Publisher) Stop() {
	if p == nil {
		return
	}
	p.cancel()
	<-p.done
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

// forget removes the records of workers that are long gone. If that fails, the next call tries
// again.
func forget(ctx context.Context, s store.Store, now time.Time) error {
	page, err := s.List(ctx, store.Query{Kind: Kind, Tenant: new(""), To: now.Add(-Gone), Limit: Page})
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
