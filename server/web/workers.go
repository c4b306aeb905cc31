package web

import (
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/internal/roster"
	"github.com/abidehq/abide/store"
)

func (s *site) addWorkers() {
	s.section("workers", "/workers", "Workers")
	s.page("GET /workers", s.workers)
}

// workersData is what the page of workers shows.
type workersData struct {
	Workers  []workerRow
	Gone     []roster.Worker // in the last hour
	Unserved []abide.Unserved
}

// workerRow is a worker.
type workerRow struct {
	abide.Worker
	Silent bool // it has not been heard of for a while
}

// silentAfter is how long a worker may go without being heard of.
const silentAfter = 45 * time.Second

func (s *site) workers(r *request) (view, error) {
	if err := r.onlyEverything(); err != nil {
		return view{}, err
	}
	var d workersData
	workers, err := s.engine.Workers(r.ctx())
	if err != nil {
		return view{}, err
	}
	for i := range workers {
		d.Workers = append(d.Workers, workerRow{Worker: workers[i], Silent: r.now().Sub(workers[i].SeenAt) > silentAfter})
	}
	if d.Gone, err = s.goneWorkers(r); err != nil {
		return view{}, err
	}
	if d.Unserved, err = s.engine.Unserved(r.ctx()); err != nil {
		return view{}, err
	}
	return view{template: "workers", title: "Workers", section: "workers", live: "kinds=tick", data: &d}, nil
}

// goneWorkers returns the workers that stopped reporting without saying goodbye, as long as the
// roster keeps their records, the latest first.
func (s *site) goneWorkers(r *request) ([]roster.Worker, error) {
	stats, err := s.cfg.Store.Stats(r.ctx())
	if err != nil {
		return nil, err
	}
	page, err := s.cfg.Store.List(r.ctx(), store.Query{
		Kind: roster.Kind, From: stats.Now.Add(-roster.Gone), To: stats.Now.Add(-roster.Alive), Descending: true, Limit: rows,
	})
	if err != nil {
		return nil, err
	}
	list := make([]roster.Worker, len(page.Records))
	for i, rec := range page.Records {
		list[i] = roster.Parse(rec)
	}
	return list, nil
}
