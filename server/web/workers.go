package web

import (
	"slices"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/internal/roster"
	"github.com/abidehq/abide/store"
)

func (s *site) addWorkers() {
	s.section("workers", "/workers", "Workers")
	s.page("GET /workers", s.workers)
	s.page("GET /workers/{id}", s.worker)
	s.verb(s.drainVerb())
}

// workersData is what the page of workers shows.
type workersData struct {
	Workers  []workerRow
	Gone     []roster.Worker // in the last hour
	Leases   []leaseRow      // of those that are gone, or silent
	Unserved []abide.Unserved
}

// workerRow is a worker.
type workerRow struct {
	abide.Worker
	Silent bool   // it has not been heard of for a while
	Path   string // of its page
}

// leaseRow is a lease that no live worker renews.
type leaseRow struct {
	Queue  string
	Name   string    // of the key
	Ref    abide.Ref // of the instance, if it is the lease of a turn
	Route  string
	Worker string // what people call it
	SeenAt time.Time
	Until  time.Time
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
		d.Workers = append(d.Workers, s.workerRow(r, workers[i]))
	}
	if d.Gone, err = s.goneWorkers(r); err != nil {
		return view{}, err
	}
	if d.Leases, err = s.leftLeases(r, &d); err != nil {
		return view{}, err
	}
	if d.Unserved, err = s.engine.Unserved(r.ctx()); err != nil {
		return view{}, err
	}
	return view{template: "workers", title: "Workers", section: "workers", live: "kinds=tick", data: &d}, nil
}

// silent reports whether a worker that was seen at a time has not been heard of for a while. One that
// is not listed has no such time.
func (s *site) silent(seenAt time.Time) bool {
	return !seenAt.IsZero() && s.clock.Now().Sub(seenAt) > silentAfter
}

// leftLeases returns the leases of workers that are silent or gone, those that end first. Leases that
// are renewed end last, so that those which are not are among the first.
func (s *site) leftLeases(r *request, d *workersData) ([]leaseRow, error) {
	var left []roster.Worker
	for i := range d.Workers {
		if w := &d.Workers[i]; w.Silent {
			left = append(left, roster.Worker{ID: w.ID, Host: w.Host, PID: w.PID, SeenAt: w.SeenAt})
		}
	}
	left = append(left, d.Gone...)
	if len(left) == 0 {
		return nil, nil
	}
	leases, err := s.cfg.Store.Leases(r.ctx(), store.LeaseQuery{Limit: leasesRead})
	if err != nil {
		return nil, err
	}
	var list []leaseRow
	for i := range leases {
		l := &leases[i]
		at := slices.IndexFunc(left, func(w roster.Worker) bool { return w.Owns(l.Owner) })
		if at < 0 || len(list) == rows {
			continue
		}
		name, _ := roster.ParseOwner(l.Owner)
		row := leaseRow{Queue: l.Key.Queue, Name: l.Key.Name, Route: l.Route, Worker: name, SeenAt: left[at].SeenAt, Until: l.Until}
		if l.Key.Queue == queueTurns {
			row.Ref = abide.Ref{Tenant: tenantName(l.Key.Tenant), ID: l.Key.Name}
		}
		list = append(list, row)
	}
	return list, nil
}

// queueTurns is the queue of turns, whose keys are instances. leasesRead is how many leases the page of
// workers reads.
const (
	queueTurns = "turns"
	leasesRead = 1_000
)

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
