package web

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/store"
)

// childrenOf returns the children that a part of a history tells of.
func childrenOf(d *instanceData, w *window, told *narration) children {
	c := children{Part: !w.whole()}
	count := map[string]int{}
	for i := range w.part.Events {
		e := &w.part.Events[i]
		if e.Kind != history.ChildStarted && e.Kind != history.DetachedStarted {
			continue
		}
		one := child{
			Ref: abide.Ref{Tenant: d.Info.Ref.Tenant, ID: e.Target}, Orchestration: e.Name, State: told.state(e.ID), Why: told.whys[e.ID],
		}
		count[one.State]++
		if d.Show == "" || d.Show == one.State {
			c.Rows = append(c.Rows, one)
		}
	}
	slices.SortStableFunc(c.Rows, func(a, b child) int { return rank(a.State) - rank(b.State) })
	c.More = max(0, len(c.Rows)-maxChildren)
	c.Rows = c.Rows[:len(c.Rows)-c.More]
	c.sum(count, d.Show)
	return c
}

// sum fills in what the numbers of children of each state say.
func (c *children) sum(count map[string]int, show string) {
	var parts []string
	for _, state := range slices.SortedFunc(maps.Keys(count), func(a, b string) int {
		return cmp.Or(cmp.Compare(count[b], count[a]), cmp.Compare(a, b))
	}) {
		c.Total += count[state]
		parts = append(parts, number(count[state])+" "+state)
	}
	c.Words = plural(c.Total, "child", "children") + ": " + strings.Join(parts, ", ")
	c.Chips = stateChips(c.Total, count, show)
}

// childStatuses are the statuses of children in the order in which they are listed.
var childStatuses = [][]abide.Status{
	{abide.Running, abide.Suspended, abide.Stalled, abide.Pending}, {abide.Failed}, {abide.Completed, abide.Cancelled, abide.Terminated},
}

// listChildren returns the children of an instance by the list of instances, countCap of a status
// at most. It is for instances whose history is read in part.
func (s *site) listChildren(r *request, d *instanceData) (children, error) {
	var c children
	parent := d.Info.Ref
	query := store.Query{Kind: kindInstance, Tenant: &tenantsOf(kindInstance, tenantName(parent.Tenant))[0], Tags: base.WithParent(nil, parent.ID)}
	count, shown := map[string]int{}, 0
	for _, statuses := range childStatuses {
		var listed []abide.Status
		for _, status := range statuses {
			query.Statuses = []string{string(status)}
			n, err := s.cfg.Store.Count(r.ctx(), query, countCap)
			if err != nil {
				return c, err
			}
			if n == 0 {
				continue
			}
			count[string(status)] = n
			if d.Show == "" || d.Show == string(status) {
				listed, shown = append(listed, status), shown+n
			}
		}
		if len(listed) == 0 || len(c.Rows) == maxChildren {
			continue
		}
		page, err := s.engine.List(r.ctx(), abide.Filter{Tenant: &parent.Tenant, Parent: parent.ID, Statuses: listed, Limit: maxChildren - len(c.Rows)})
		if err != nil {
			return c, err
		}
		for i := range page.Instances {
			info := &page.Instances[i]
			c.Rows = append(c.Rows, child{Ref: info.Ref, Orchestration: info.Orchestration, State: string(info.Status), Why: reasonOf(info)})
		}
	}
	c.More = max(0, shown-len(c.Rows))
	c.sum(count, d.Show)
	return c, nil
}
