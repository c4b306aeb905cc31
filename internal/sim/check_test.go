package sim

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/action"
	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/timer"
)

// check compares what happened with what clients were told, when all should have ended.
func (g *program) check() {
	g.checkInstances()
	g.checkTimers()
	g.checkActions()
	g.checkEntities()
}

// all returns all instances.
func (g *program) all() []abide.Info {
	direct := abide.NewClient(g.store, nil)
	var all []abide.Info
	for info, err := range direct.All(context.Background(), abide.Filter{}) {
		if err != nil {
			g.problem("list: %v", err)
			return nil
		}
		all = append(all, info)
	}
	return all
}

// ended reports whether all instances, timers and actions have ended.
func (g *program) ended() bool {
	for _, info := range g.all() {
		if !info.Status.Ended() {
			return false
		}
	}
	for _, a := range g.allActions() {
		if !a.Status.Ended() {
			return false
		}
	}
	stats, err := g.store.Stats(context.Background())
	return err == nil && stats.Leases == 0 && g.leftover(stats) == ""
}

// leftover returns which queues have messages.
func (*program) leftover(stats store.Stats) string {
	var left []string
	for _, r := range stats.Routes {
		if r.Pending > 0 {
			left = append(left, fmt.Sprintf("%d of %s %s", r.Pending, r.Queue, r.Route))
		}
	}
	return strings.Join(left, ", ")
}

func (g *program) checkInstances() {
	found := map[string]abide.Info{}
	for _, info := range g.all() {
		found[info.Ref.ID] = info
		if !info.Status.Ended() {
			g.problem("%s is %s: %s", info.Ref.ID, info.Status, info.Reason)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(g.instances)) {
		t := g.instances[id]
		info, there := found[id]
		switch {
		case !there && t.deleted:
		case !there:
			g.problem("%s is lost", id)
		case t.touched || !info.Status.Ended():
		case info.Status != abide.Completed:
			g.problem("%s is %s: %v", id, info.Status, info.Err)
		default:
			g.checkResult(id, t, info)
		}
	}
}

// checkResult checks what an instance has returned that was left alone.
func (g *program) checkResult(id string, t *told, info abide.Info) {
	switch t.kind {
	case "collector":
		got, err := abide.ResultOf[[]int](info)
		if err != nil {
			g.problem("%s: %v", id, err)
		}
		g.checkEvents(id, t, got)
	case "worker":
		out, err := abide.ResultOf[workDone](info)
		if err != nil || out.Sum != t.n*(t.n+1)/2 {
			g.problem("%s returned %+v, %v", id, out, err)
		}
		done := map[int]bool{}
		for _, e := range g.effects {
			if e.in.ID != id {
				continue
			}
			if e.in.Nonce != out.Nonce {
				g.problem("%s: an effect saw the step's result %d, which is %d: it was not durable", id, e.in.Nonce, out.Nonce)
			}
			done[e.in.I] = done[e.in.I] || e.done
		}
		for i := range t.n {
			if !done[i] {
				g.problem("%s: effect %d was never done", id, i)
			}
		}
	case "sleeper":
		if out, err := abide.ResultOf[string](info); err != nil || out != "slept" {
			g.problem("%s returned %q, %v", id, out, err)
		}
	case "parent":
		want := "left"
		if t.n%2 == 1 {
			want = "slept slept slept"
			if t.n%3 == 0 {
				want = "slept failed slept"
			}
		}
		if out, err := abide.ResultOf[string](info); err != nil || out != want {
			g.problem("%s returned %q, %v, want %q", id, out, err, want)
		}
	case "deployed":
		if out, err := abide.ResultOf[string](info); err != nil || out != "deployed" {
			g.problem("%s returned %q, %v", id, out, err)
		}
	case "mover":
		var err error
		if t.moved, err = abide.ResultOf[int](info); err != nil || t.moved == 0 {
			g.problem("%s returned %d, %v", id, t.moved, err)
		}
	case "racer":
		out, err := abide.ResultOf[string](info)
		var v int
		if n, _ := fmt.Sscanf(out, "event %d", &v); err != nil || (n == 0 && out != "timeout") {
			g.problem("%s returned %q, %v", id, out, err)
		} else if n == 1 && !slices.Contains(t.raised, v) && !slices.Contains(t.maybe, v) {
			g.problem("%s got the event %d, which nobody raised", id, v)
		}
	}
}

// checkEvents checks that a collector got each event once, in order.
func (g *program) checkEvents(id string, t *told, got []int) {
	seen := map[int]bool{}
	var sure []int
	for _, v := range got {
		if seen[v] {
			g.problem("%s got the event %d twice: %v", id, v, got)
		}
		seen[v] = true
		switch {
		case slices.Contains(t.raised, v):
			sure = append(sure, v)
		case !slices.Contains(t.maybe, v):
			g.problem("%s got the event %d, which nobody raised", id, v)
		}
	}
	if !slices.Equal(sure, t.raised) {
		g.problem("%s got the events %v, and %v were raised", id, sure, t.raised)
	}
}

// checkTimers checks the envelopes of tenant timers against the calls about them.
func (g *program) checkTimers() {
	ids := map[int]string{}         // of envelopes, by call
	got := map[int]map[string]int{} // by call and sink
	calls := map[int]*timerCall{}   // by number
	owner := map[int]string{}       // by call
	for name, list := range g.timers {
		for _, c := range list {
			if c.verb == "schedule" {
				calls[c.number], owner[c.number] = c, name
			}
		}
	}
	for _, sink := range slices.Sorted(maps.Keys(g.arrivals)) {
		for _, a := range g.arrivals[sink] {
			name := a.TenantID + "/" + a.event.ServiceCallID
			c := calls[a.call]
			switch {
			case c == nil || owner[a.call] != name:
				g.problem("sink %s got an envelope of timer %s that nobody scheduled: call %d", sink, name, a.call)
				continue
			case !a.event.DueAt.Equal(c.due):
				g.problem("timer %s was scheduled for %v, and its envelope says %v", name, c.due, a.event.DueAt)
			case a.at.Before(c.due) || a.event.FiredAt.Before(c.due):
				g.problem("timer %s was due at %v, fired at %v, and its envelope came at %v", name, c.due, a.event.FiredAt, a.at)
			case !slices.Contains(sinksOf(a.TenantID), sink):
				g.problem("sink %s got an envelope of tenant %s", sink, a.TenantID)
			}
			if id, other := ids[a.call]; other && id != a.ID {
				g.problem("timer %s: two envelopes for one call: %s and %s", name, id, a.ID)
			}
			ids[a.call] = a.ID
			if got[a.call] == nil {
				got[a.call] = map[string]int{}
			}
			got[a.call][sink]++
		}
	}
	for _, name := range slices.Sorted(maps.Keys(g.timers)) {
		g.checkTimer(name, g.timers[name], got)
	}
}

// checkTimer checks the outcome of the calls about one timer.
func (g *program) checkTimer(name string, calls []*timerCall, got map[int]map[string]int) {
	tenant, key, _ := strings.Cut(name, "/")
	for i, c := range calls {
		if c.verb == "cancel" && c.err == nil && c.status == timer.Cancelled && i > 0 && calls[i-1].verb == "schedule" && calls[i-1].err == nil {
			if n := len(got[calls[i-1].number]); n > 0 {
				g.problem("timer %s was cancelled, and %d sinks got the envelope of call %d", name, n, calls[i-1].number)
			}
		}
	}
	last := calls[len(calls)-1]
	if last.verb == "schedule" && last.err == nil {
		for _, sink := range sinksOf(tenant) {
			if got[last.number][sink] == 0 {
				g.problem("timer %s: sink %s never got the envelope of call %d", name, sink, last.number)
			}
		}
	}
	direct, err := timer.New(timer.Config{Store: g.store})
	if err != nil {
		g.problem("%v", err)
		return
	}
	if t, err := direct.Get(context.Background(), tenant, key); err == nil && t.Status == timer.Armed {
		g.problem("timer %s is still armed, for %v", name, t.DueAt)
	} else if err != nil && !errors.Is(err, timer.ErrNotFound) {
		g.problem("timer %s: %v", name, err)
	}
}

// allActions returns all actions.
func (g *program) allActions() []action.Action {
	direct, err := action.New(action.Config{Store: g.store})
	if err != nil {
		g.problem("%v", err)
		return nil
	}
	var all []action.Action
	for a, err := range direct.All(context.Background(), action.Filter{Limit: action.MaxPage}) {
		if err != nil {
			g.problem("list actions: %v", err)
			return nil
		}
		all = append(all, a)
	}
	return all
}

func (g *program) checkActions() {
	found := map[string]bool{}
	for _, a := range g.allActions() {
		found[a.ID] = true
		asked := g.actions[a.ID]
		if asked == nil {
			g.problem("action %s was never added", a.ID)
			continue
		}
		runs, succeeded := 0, 0
		for _, r := range g.runs {
			if r.id == a.ID {
				runs++
				if r.over && r.err == nil {
					succeeded++
				}
			}
		}
		most := 1
		if a.Target == "again" {
			most = actionTries
		}
		story := fmt.Sprintf("action %s is %s %q after %d runs, %d of which succeeded, %d cancels, %d retries", a.ID, a.Status, a.Reason, runs, succeeded, asked.cancels, asked.retries)
		switch {
		case !a.Status.Ended():
			g.problem("%s: it has not ended", story)
		case a.Status == action.Completed && succeeded == 0:
			g.problem("%s: it was not done", story)
		case a.Status == action.Cancelled && asked.cancels == 0:
			g.problem("%s: nobody cancelled it", story)
		case !a.Idempotent && runs > most*(1+asked.retries):
			g.problem("%s: it ran too often", story)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(g.actions)) {
		if !found[id] {
			g.problem("action %s is lost", id)
		}
	}
}

// checkEmpty deletes all instances, and checks that nothing is left of them.
func (g *program) checkEmpty() {
	ctx := context.Background()
	direct := abide.NewClient(g.store, nil)
	for _, info := range g.all() {
		if err := direct.Delete(ctx, info.Ref); err != nil {
			g.problem("delete %s: %v", info.Ref.ID, err)
		}
	}
	stats, err := g.store.Stats(ctx)
	if err != nil {
		g.problem("stats: %v", err)
	}
	if left := g.leftover(stats); left != "" {
		g.problem("messages are left: %s", left)
	}
	page, err := g.store.List(ctx, store.Query{Kind: store.KindQuarantine, Limit: 10})
	if err != nil {
		g.problem("list quarantine: %v", err)
	}
	for i := range page.Records {
		g.problem("%v is in quarantine: %s", page.Records[i].Key, page.Records[i].Status)
	}
}
