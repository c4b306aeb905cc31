package serve

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/internal/bench"
	"github.com/abidehq/abide/server/api"
	"github.com/abidehq/abide/timer"
)

const (
	timersPath = "/api/v1/timers"

	// listRows is how many things there are on a page of a list, unless it is asked for
	// another number.
	listRows = 100
)

// listed is an instance or a timer in a list.
type listed struct {
	tenant, name, orchestration, status string
	at                                  time.Time // by which the list is ordered
}

// listQuery is a list that is asked for, and what it must be.
type listQuery struct {
	name  string
	path  string
	query url.Values
	least int             // of rows
	match listed          // what is not empty here, all rows have
	other map[string]bool // names that no row has
}

// queries returns the lists that are asked for.
func (w *workload) queries(ctx context.Context) ([]*listQuery, error) {
	instances, timers := min(listRows, w.instances), min(listRows, w.timers)
	ofTenant := min(listRows, w.instances/tenants)
	all := &listQuery{name: "instances", path: instancesPath, query: url.Values{}, least: instances}
	allTimers := &listQuery{name: "timers", path: timersPath, query: url.Values{}, least: timers}
	list := []*listQuery{
		all, allTimers,
		all.with("of a tenant", url.Values{"tenant": {tenantOf(0)}}, ofTenant, listed{tenant: tenantOf(0)}),
		all.with("with a status", url.Values{"status": {string(abide.Running)}}, instances, listed{status: string(abide.Running)}),
		all.with("with a status that is rare", url.Values{"status": {string(abide.Failed)}}, 0, listed{status: string(abide.Failed)}),
		all.with("of an orchestration", url.Values{"orchestration": {sleeper.Name()}}, instances, listed{orchestration: sleeper.Name()}),
		all.with("of another orchestration, latest", url.Values{"orchestration": {hello.Name()}, "latest": {"true"}}, 0, listed{orchestration: hello.Name()}),
		all.with("of a tenant with a status", url.Values{"tenant": {tenantOf(1)}, "status": {string(abide.Running)}}, min(ofTenant, 1),
			listed{tenant: tenantOf(1), status: string(abide.Running)}),
		all.with("latest", url.Values{"latest": {"true"}}, instances, listed{}),
		allTimers.with("of a tenant", url.Values{"tenant": {tenantOf(0)}}, min(listRows, w.timers/tenants), listed{tenant: tenantOf(0)}),
		allTimers.with("armed, latest", url.Values{"status": {string(timer.Armed)}, "latest": {"true"}}, timers, listed{status: string(timer.Armed)}),
	}
	for _, first := range []*listQuery{all, allTimers} {
		second, err := w.second(ctx, first)
		if err != nil {
			return nil, err
		}
		if second != nil {
			list = append(list, second)
		}
	}
	return list, nil
}

// with returns a query that asks for less.
func (q *listQuery) with(name string, query url.Values, least int, match listed) *listQuery {
	return &listQuery{name: q.name + " " + name, path: q.path, query: query, least: least, match: match}
}

// second returns the query for the page after the first one, or nil if there is none.
func (w *workload) second(ctx context.Context, first *listQuery) (*listQuery, error) {
	answer, _, err := w.get(ctx, first.url())
	if err != nil {
		return nil, err
	}
	rows, next, err := first.parse(answer)
	if err != nil || next == "" {
		return nil, err
	}
	q := first.with("on the second page", url.Values{"page_token": {next}}, 1, listed{})
	q.other = map[string]bool{}
	for _, row := range rows {
		q.other[row.tenant+"/"+row.name] = true
	}
	return q, nil
}

func (q *listQuery) url() string { return q.path + "?" + q.query.Encode() }

// measureLists asks for lists, one at a time, each query in its turn.
func (w *workload) measureLists(ctx context.Context) error {
	queries, err := w.queries(ctx)
	if err != nil {
		return err
	}
	each := make([]bench.Histogram, len(queries))
	_, err = w.run.Loop(ctx, bench.Loop{
		Doing: "reading", Unit: "lists", Workers: 1, N: int64(w.lists),
		Do: func(ctx context.Context, op *bench.Op) error {
			i := int(op.I) % len(queries)
			return w.list(ctx, queries[i], &each[i])
		},
	})
	if err != nil {
		return err
	}
	all, slowest := &bench.Histogram{}, 0
	for i := range each {
		all.Merge(&each[i])
		w.run.Progress.Say("list of %s: p50 %v, p99 %v", queries[i].name, each[i].Quantile(0.50), each[i].Quantile(0.99))
		if each[i].Quantile(0.99) > each[slowest].Quantile(0.99) {
			slowest = i
		}
	}
	w.run.Report.Add("lists", w.lists)
	w.run.Report.Quantiles("list", "ms", all)
	w.run.Report.Add("list_slowest", queries[slowest].name)
	return nil
}

// list asks for a list, and for more pages of it as long as they are short: a page ends
// early if much was passed over on the way to it. Each page is a request that is measured.
func (w *workload) list(ctx context.Context, q *listQuery, took *bench.Histogram) error {
	page := *q
	var rows []listed
	for pages := 1; ; pages++ {
		answer, t, err := w.get(ctx, page.url())
		if err != nil {
			return err
		}
		took.Record(t)
		more, next, err := q.parse(answer)
		if err != nil {
			return err
		}
		rows = append(rows, more...)
		if next == "" || len(rows) >= q.least {
			return q.check(rows, pages)
		}
		page.query = maps.Clone(q.query)
		page.query.Set("page_token", next)
	}
}

// parse reads a list.
func (q *listQuery) parse(answer []byte) (rows []listed, next string, err error) {
	if q.path == timersPath {
		var list api.TimerList
		err = json.Unmarshal(answer, &list)
		for i := range list.Timers {
			t := &list.Timers[i]
			row := listed{tenant: t.Tenant, name: t.Key, status: t.Status, at: t.DueAt}
			switch timer.Status(t.Status) {
			case timer.Fired:
				row.at = t.FiredAt
			case timer.Cancelled:
				row.at = t.CancelledAt
			}
			rows = append(rows, row)
		}
		next = list.NextPageToken
	} else {
		var list api.InstanceList
		err = json.Unmarshal(answer, &list)
		for i := range list.Instances {
			in := &list.Instances[i]
			rows = append(rows, listed{tenant: in.Tenant, name: in.ID, orchestration: in.Orchestration, status: in.Status, at: in.StartedAt})
		}
		next = list.NextPageToken
	}
	if err != nil {
		return nil, "", fmt.Errorf("bench: read the list of %s: %w", q.name, err)
	}
	return rows, next, nil
}

// check returns an error unless pages of a list have what they must have, in order, and
// nothing else.
func (q *listQuery) check(rows []listed, pages int) error {
	if most := pages * listRows; len(rows) < q.least || len(rows) > most {
		return fmt.Errorf("bench: the list of %s has %d rows, want %d to %d", q.name, len(rows), q.least, most)
	}
	latest := q.query.Get("latest") != ""
	for i, row := range rows {
		if !q.match.covers(row) || q.other[row.tenant+"/"+row.name] {
			return fmt.Errorf("bench: the list of %s has %+v in it", q.name, row)
		}
		if i > 0 && row.at.Compare(rows[i-1].at) == order(latest) {
			return fmt.Errorf("bench: the list of %s is not in order: %v comes after %v", q.name, row.at, rows[i-1].at)
		}
	}
	return nil
}

// order is how a row must not compare to the one before.
func order(latest bool) int {
	if latest {
		return 1
	}
	return -1
}

// covers reports whether a row has what is not empty in l.
func (l *listed) covers(row listed) bool {
	return (l.tenant == "" || l.tenant == row.tenant) && (l.orchestration == "" || l.orchestration == row.orchestration) &&
		(l.status == "" || l.status == row.status)
}
