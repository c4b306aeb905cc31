package web

import (
	"time"

	"github.com/abidehq/abide"
)

func (s *site) addWorkers() {
	s.section("workers", "/workers", "Workers")
	s.page("GET /workers", s.workers)
}

// workersData is what the page of workers shows.
type workersData struct {
	Workers  []workerRow
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
	if d.Unserved, err = s.engine.Unserved(r.ctx()); err != nil {
		return view{}, err
	}
	return view{template: "workers", title: "Workers", section: "workers", live: "kinds=tick", data: &d}, nil
}
