package web

import (
	"slices"
	"time"

	"github.com/abidehq/abide/bus/outbox"
	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/timer"
)

func (s *site) addSinks() {
	s.section("sinks", "/sinks", "Sinks")
	s.page("GET /sinks", s.sinks)
}

// sinkRow is a sink, and what waits for it.
type sinkRow struct {
	Name    string
	Here    bool // this process publishes to it
	Pending int
	Ready   int
	Oldest  time.Time
	Behind  bool // what waits should have gone by now
}

// delivery is an envelope at a sink.
type delivery struct {
	timer.Delivery
	Timer timer.Timer
	Again string // the address of the form that delivers it again
}

// sinksData is what the page of sinks shows.
type sinksData struct {
	Scope       scope
	Sinks       []sinkRow
	All         bool // what waits for the sinks is shown
	State       string
	States      []outbox.State
	Deliveries  []delivery
	First, Next string
}

func (s *site) sinks(r *request) (view, error) {
	sc, err := r.scope()
	if err != nil {
		return view{}, err
	}
	d := sinksData{
		Scope: sc, All: r.everything(), State: r.value("state"),
		States: []outbox.State{outbox.Pending, outbox.Retrying, outbox.Failed, outbox.Published},
	}
	if d.All {
		if d.Sinks, err = s.sinkRows(r); err != nil {
			return view{}, err
		}
	}
	page, err := s.cfg.Timers.List(r.ctx(), timer.Filter{Tenant: sc.Asked, Statuses: []timer.Status{timer.Fired}, Descending: true, Limit: rows, Cursor: r.value("cursor")})
	if err != nil {
		return view{}, err
	}
	for i := range page.Timers {
		t := &page.Timers[i]
		for j := range t.Deliveries {
			row := delivery{Delivery: t.Deliveries[j], Timer: *t}
			if d.State != "" && string(row.State) != d.State {
				continue
			}
			if r.can && row.State != outbox.Pending {
				row.Again = s.with(timerPath(t.Tenant, t.Key)+"/redeliver", "sink", row.Sink)
			}
			d.Deliveries = append(d.Deliveries, row)
		}
	}
	pairs := []string{"tenant", sc.Asked, "state", d.State}
	if r.value("cursor") != "" {
		d.First = s.with("/sinks", pairs...)
	}
	if page.Next != "" {
		d.Next = s.with("/sinks", append(pairs, "cursor", page.Next)...)
	}
	return view{template: "sinks", title: "Sinks", section: "sinks", live: "kinds=tick", data: &d}, nil
}

// sinkRows returns the sinks of this process, and those that something waits for.
func (s *site) sinkRows(r *request) ([]sinkRow, error) {
	stats, err := s.cfg.Store.Stats(r.ctx())
	if err != nil {
		return nil, err
	}
	var list []sinkRow
	for _, name := range s.cfg.Timers.Sinks() {
		list = append(list, sinkRow{Name: name, Here: true})
	}
	for _, route := range stats.Routes {
		if route.Queue != outbox.Queue || route.Route == "" {
			continue
		}
		i := slices.IndexFunc(list, func(row sinkRow) bool { return row.Name == route.Route })
		if i < 0 {
			i = len(list)
			list = append(list, sinkRow{Name: route.Route})
		}
		list[i].Pending, list[i].Ready, list[i].Oldest = route.Pending, route.Ready, route.Oldest
		list[i].Behind = route.Ready > 0 && stats.Now.Sub(route.Oldest) > behindAfter
	}
	return list, nil
}

// behindAfter is the age from which on what waits is late.
const behindAfter = 30 * time.Second

// quarantineQuery is what lists quarantined messages of a tenant, or of all.
func quarantineQuery(tenant string) store.Query {
	q := store.Query{Kind: store.KindQuarantine, Descending: true, Limit: rows}
	if tenant != "" {
		q.Tenant = &tenant
	}
	return q
}
